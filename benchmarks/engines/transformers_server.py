"""`transformers serve` on a CPU, unchanged but for a note of its step sizes: it has no counters of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from engine import HERE, Case, sizes

PACKAGES = ("transformers", "torch")
DRAFT = 4


def cases(python: Path, models: Path) -> list[Case]:
    """Speculation off, and prompt lookup.

    A request can turn lookup on with a field of its own, `generation_config`; so can the model's generation defaults,
    which reach every client.
    """
    lookup = _with_lookup(models / "target", models / "lookup")

    def case(name: str, model: Path, k: int, workload: str, hidden: str = "") -> Case:
        command = [
            python, HERE / "transformers_notes.py", "serve", model, "--device", "cpu", "--dtype", "float32",
            "--host", "127.0.0.1", "--port", "PORT",
        ]  # fmt: skip
        # the server lists what lies in its cache of downloads (without one it fails), and not the model that it serves
        ask = {"dialect": "openai", "model": str(model), "workloads": (workload,)}
        return Case(f"transformers serve, {name}", command, sizes, {"HF_HUB_OFFLINE": "1"}, ask, k, hidden)

    return [
        case("off", models / "target", 0, "prose"),
        case("prompt lookup", lookup, DRAFT, "repeat", "it counts events instead of tokens"),
    ]


def _with_lookup(model: Path, to: Path) -> Path:
    """The same model, whose generation defaults ask for prompt lookup."""
    to.mkdir(exist_ok=True)
    for file in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if not (to / file).exists():
            (to / file).symlink_to((model / file).resolve())
    shutil.copy(model / "generation_config.json", to)
    defaults = json.loads((to / "generation_config.json").read_text())
    (to / "generation_config.json").write_text(json.dumps(defaults | {"prompt_lookup_num_tokens": DRAFT}))
    return to
