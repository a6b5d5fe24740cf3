"""The server's own account of its speculation, in one vocabulary.

Keys: `source`; `drafted` and `accepted` tokens; `steps` (verification steps); `tokens` (of the answer, its first token
left out); `acceptance_length` (these tokens per step, plain steps included); `draft_length`; `acceptance_by_position`
(probability that the token at a draft position is accepted when all before it were) and `tried_by_position` (how often
that was decided). What the server does not tell, and what does not follow from it, is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise, zip_longest
from typing import Any, Final

from .said import Json, name, number, rows, table, whole

_LONGEST_DRAFT: Final = 256
"""Positions that are looked at; no engine drafts so far ahead."""


def llamacpp(timings: Json) -> Json | None:
    """From the `timings` object of llama.cpp; None when it does not mention drafts.

    >>> llamacpp({"predicted_n": 700, "draft_n": 703, "draft_n_accepted": 523})["acceptance_length"]
    3.971590909090909
    """
    drafted, accepted = whole(timings.get("draft_n")), whole(timings.get("draft_n_accepted"))
    if drafted is None or accepted is None:
        return None
    return made("llama.cpp timings", drafted, accepted, total=whole(timings.get("predicted_n")))


def vllm(metrics: Json, total: int | None) -> Json | None:
    """From the `metrics` object of vLLM and the answer's `total` tokens; None when it does not mention drafts."""
    said = table(metrics.get("speculative_decoding"))
    drafted, accepted = whole(said.get("num_draft_tokens")), whole(said.get("num_accepted_draft_tokens"))
    if drafted is None or accepted is None:
        return None
    steps, longest = whole(said.get("num_spec_steps")), whole(said.get("num_spec_tokens"))
    by_step = _tried(_counts(said.get("per_step_accepted")), _counts(said.get("per_step_drafted")))
    return made(
        "vLLM metrics.speculative_decoding",
        drafted,
        accepted,
        total=total,
        steps=steps,
        draft_length=longest,
        tried=by_step or from_histogram(_counts(said.get("acceptance_histogram")), drafted, steps),
    )


def sglang(info: Json, total: int | None) -> Json | None:
    """From `meta_info` of SGLang's own route, or `spec_tokens_details` of the other; None without drafts in it."""
    steps = whole(info.get("spec_verify_ct"))
    if steps is None or (steps == 0 and not info.get("spec_num_proposed_drafts")):
        return None
    drafted = _first(info, "spec_num_proposed_drafts", "spec_draft_token_num")
    accepted = _first(info, "spec_num_correct_drafts", "spec_accept_token_num")
    histogram = _counts(info.get("spec_correct_drafts_histogram", info.get("spec_accept_histogram")))
    if accepted is None and total is not None:
        accepted = max(total - 1 - steps, 0)
    tried = from_histogram(histogram, drafted, steps)
    return made("SGLang meta_info", drafted, accepted, total=total, steps=steps, tried=tried)


def trtllm(per_step: object, total: int | None) -> Json | None:
    """From TensorRT-LLM's tokens per iteration so far and the tokens so far; None where it is not said."""
    mean = number(per_step)
    if mean is None or mean < 1 or not total:
        return None
    steps = round(total / mean)
    accepted = max(total - 1 - steps, 0)
    return made("TensorRT-LLM avg_decoded_tokens_per_iter", None, accepted, total=total, steps=steps)


def made(
    source: str,
    drafted: int | None,
    accepted: int | None,
    *,
    total: int | None = None,
    steps: int | None = None,
    draft_length: int | None = None,
    tried: Sequence[tuple[int, int]] | None = None,
    answers: int = 1,
) -> dict[str, Any]:
    """A report; `tried`: how often each draft position was tried and accepted, `answers`: how many `total` covers."""
    tokens = None if total is None else max(total - answers, 0)
    if draft_length is None and drafted and steps and drafted % steps == 0:
        draft_length = drafted // steps
    rates = [accepted_here / n for n, accepted_here in tried or () if n]
    return {
        "source": source,
        "drafted": drafted,
        "accepted": accepted,
        "steps": steps,
        "tokens": tokens,
        "acceptance_length": _length(tokens, accepted, steps),
        "draft_length": draft_length,
        "acceptance_by_position": rates or None,
        "tried_by_position": [n for n, _ in tried or () if n] or None,
    }


def _length(tokens: int | None, accepted: int | None, steps: int | None) -> float | None:
    if accepted is None:
        return None
    if steps is not None:
        # A step counts the tokens it accepted past the end of the answer too, so plain steps are what is left over.
        plain = max(0, tokens - accepted - steps) if tokens is not None else 0
        return (accepted + steps + plain) / (steps + plain) if steps + plain else None
    return tokens / (tokens - accepted) if tokens is not None and tokens > accepted else None


def pooled(reports: Sequence[Json]) -> Json | None:
    """One report for several answers of one service; None without any. What one of them lacks, the whole lacks."""
    if len(reports) < 2:
        return reports[0] if reports else None
    sources = list(dict.fromkeys(name(r.get("source")) or "" for r in reports))
    sums = {key: _sum([whole(r.get(key)) for r in reports]) for key in ("drafted", "accepted", "steps", "tokens")}
    lengths = {whole(r.get("draft_length")) for r in reports}
    pairs = [_pairs(r) for r in reports]
    each = [[pair for pair in position if pair] for position in zip_longest(*pairs)]
    tried = [(sum(n for n, _ in position), sum(a for _, a in position)) for position in each]
    report = made(
        " and ".join(sources), sums["drafted"], sums["accepted"], total=sums["tokens"], steps=sums["steps"],
        draft_length=lengths.pop() if len(lengths) == 1 else None, tried=tried if all(pairs) else None, answers=0,
    )  # fmt: skip
    return {**report, "acceptance_length": _mean_length(reports) or report["acceptance_length"]}


def _mean_length(reports: Sequence[Json]) -> float | None:
    """Tokens over steps of all reports, each with the acceptance length and the tokens that it says."""
    told = [(whole(r.get("tokens")), number(r.get("acceptance_length"))) for r in reports]
    known = [(n, length) for n, length in told if n and length]
    if len(known) < len(told):
        return None
    return sum(n for n, _ in known) / sum(n / length for n, length in known)


def _pairs(report: Json) -> list[tuple[int, int]]:
    tried, rates = rows(report.get("tried_by_position")), rows(report.get("acceptance_by_position"))
    return [(n, round(n * rate)) for n, rate in zip(tried, rates, strict=False)]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _first(said: Json, *keys: str) -> int | None:
    return next((n for key in keys if (n := whole(said.get(key))) is not None), None)


def _counts(value: object) -> list[int]:
    counts = [whole(v) for v in rows(value)]
    known = [c for c in counts if c is not None]
    return known if len(known) == len(counts) else []


def _tried(accepted: list[int], drafted: list[int]) -> list[tuple[int, int]] | None:
    """Tries and acceptances of each position from per-step counts; ends before the first that no draft reached."""
    if not accepted or len(accepted) != len(drafted):
        return None
    steps = Counter((min(a, _LONGEST_DRAFT), min(d, _LONGEST_DRAFT)) for a, d in zip(accepted, drafted, strict=True))
    positions = []
    for position in range(max(d for _, d in steps)):
        tried: Counter[int] = Counter()
        for (a, d), n in steps.items():
            if a >= position and d > position:
                tried[a] += n
        if not tried:
            break
        positions.append((tried.total(), tried.total() - tried[position]))
    return positions


def from_histogram(steps_by_accepted: Sequence[int], drafted: int | None, steps: int | None) -> list[tuple[int, int]]:
    """The same from the number of steps that accepted 0, 1, 2... tokens, where all drafts were as long as that list."""
    if not steps or len(steps_by_accepted) < 2 or drafted != steps * (len(steps_by_accepted) - 1):
        return []
    reached = list(accumulate(reversed(steps_by_accepted[:_LONGEST_DRAFT])))[::-1]
    return [(n, a) for n, a in pairwise(reached) if n]
