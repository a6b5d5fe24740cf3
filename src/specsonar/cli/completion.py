"""`specsonar completion SHELL`"""

from __future__ import annotations

import click

from .output import emit


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: specsonar completion bash >> ~/.bash_completion
    zsh:  specsonar completion zsh > "${fpath[1]}/_specsonar"
    fish: specsonar completion fish \\
              > ~/.config/fish/completions/specsonar.fish
    """
    from click.shell_completion import get_completion_class

    writer = get_completion_class(shell)
    assert writer is not None
    script = writer(context.find_root().command, {}, "specsonar", "_SPECSONAR_COMPLETE")
    emit(script.source_template % script.source_vars() + "\n", None)
