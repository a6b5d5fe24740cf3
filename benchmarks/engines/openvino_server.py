"""OpenVINO GenAI behind a thin server (`openvino_sse.py`), since it has none of its own."""

from __future__ import annotations

from pathlib import Path

from engine import HERE, Case, sizes

PACKAGES = ("openvino-genai",)
DRAFT = 4


def cases(python: Path, models: Path) -> list[Case]:
    """Speculation off, and a draft model; greedy, since sampling with a draft model gives garbled text."""

    def case(name: str, k: int) -> Case:
        command = [python, HERE / "openvino_sse.py", models / "target", "PORT", "NOTES"]
        if k:
            command += [models / "draft", str(k)]
        return Case(f"OpenVINO GenAI, {name}", command, sizes, ask={"workloads": ("prose",)}, draft=k)

    return [case("off", 0), case("draft model", DRAFT)]
