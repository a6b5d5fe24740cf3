"""The type of options that name a way to hide."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from ..errors import SpecsonarError
from .share import ParamType


class Defence(ParamType):
    """What a server does to hide, as `Policy.parse` reads it."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ..sources.defences import Policy

        try:
            return Policy.parse(value) if isinstance(value, str) else value
        except SpecsonarError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ..sources.defences import KINDS, PAD

        return [CompletionItem(kind) for kind in (*KINDS, PAD) if kind.startswith(incomplete)]
