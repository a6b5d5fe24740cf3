"""The server's own account of its speculation, in one vocabulary.

Keys: `source`; `drafted` and `accepted` tokens; `steps` (verification steps, None where not told);
`acceptance_length` (tokens per step, plain steps included, the first token left out); `draft_length`;
`acceptance_by_position` (probability that the token at a draft position is accepted when all before it were).
"""

from __future__ import annotations

from typing import Any

from .said import Json, table, whole


def llamacpp(timings: Json) -> Json | None:
    """From the `timings` object of llama.cpp; None when it does not mention drafts.

    >>> llamacpp({"predicted_n": 700, "draft_n": 703, "draft_n_accepted": 523})["acceptance_length"]
    3.971590909090909
    """
    drafted, accepted = whole(timings.get("draft_n")), whole(timings.get("draft_n_accepted"))
    if drafted is None or accepted is None:
        return None
    return _report("llama.cpp timings", drafted, accepted, total=whole(timings.get("predicted_n")))


def vllm(metrics: Json, total: int | None) -> Json | None:
    """From the `metrics` object of vLLM and the answer's `total` tokens; None when it does not mention drafts."""
    said = table(metrics.get("speculative_decoding"))
    drafted, accepted = whole(said.get("num_draft_tokens")), whole(said.get("num_accepted_draft_tokens"))
    if drafted is None or accepted is None:
        return None
    return _report(
        "vLLM metrics.speculative_decoding",
        drafted,
        accepted,
        total=total,
        steps=whole(said.get("num_spec_steps")),
        draft_length=whole(said.get("num_spec_tokens")),
        by_position=_by_position(_counts(said.get("per_step_accepted")), _counts(said.get("per_step_drafted"))),
    )


def _report(
    source: str,
    drafted: int,
    accepted: int,
    *,
    total: int | None,
    steps: int | None = None,
    draft_length: int | None = None,
    by_position: list[float] | None = None,
) -> dict[str, Any]:
    length = None
    if total is not None and steps is not None:
        # A step counts the tokens it accepted past the end of the answer too, so plain steps are what is left over.
        plain = max(0, total - 1 - accepted - steps)
        length = (accepted + steps + plain) / (steps + plain) if steps + plain else None
    elif total is not None and total - 1 > accepted:
        length = (total - 1) / (total - 1 - accepted)
    return {
        "source": source,
        "drafted": drafted,
        "accepted": accepted,
        "steps": steps,
        "acceptance_length": length,
        "draft_length": draft_length,
        "acceptance_by_position": by_position,
    }


def _counts(value: object) -> list[int]:
    counts = [whole(v) for v in value] if isinstance(value, list) else []
    return [c for c in counts if c is not None] if None not in counts else []


def _by_position(accepted: list[int], drafted: list[int]) -> list[float] | None:
    """Conditional acceptance from per-step counts; ends before the first position that no draft reached."""
    if not accepted or len(accepted) != len(drafted):
        return None
    rates = []
    for position in range(max(drafted)):
        tried = [a for a, d in zip(accepted, drafted, strict=True) if a >= position and d > position]
        if not tried:
            break
        rates.append(sum(a > position for a in tried) / len(tried))
    return rates
