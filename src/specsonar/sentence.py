"""The answer as one plain sentence: of one fingerprint, and of two side by side."""

from __future__ import annotations

from dataclasses import replace

from .fingerprint import (
    AUTOREGRESSIVE,
    BUFFERED,
    CHANGED,
    EQUIVALENT,
    FIXED_CHUNKS,
    PACED,
    SPECULATIVE,
    UNDETERMINED,
    Change,
    Comparison,
    Estimate,
    Fingerprint,
)


def completed(answer: Fingerprint) -> Fingerprint:
    """`answer` with its sentence."""
    return replace(answer, sentence=_sentence(answer))


def _sentence(answer: Fingerprint) -> str:
    if answer.verdict == SPECULATIVE:
        return _speculative(answer)
    rate = f", {answer.tokens_per_s.value:.1f} tokens/s" if answer.tokens_per_s else ""
    if answer.verdict == AUTOREGRESSIVE:
        step = f" every {answer.step_ms.value:.1f} ms" if answer.step_ms else ""
        return f"No speculative decoding to be seen: one token{step}{rate}."
    if answer.verdict == FIXED_CHUNKS:
        return f"Fixed chunks of {answer.chunk_tokens} tokens{rate}: not speculation, which would vary."
    if answer.verdict == BUFFERED:
        flush = f", flushed every {answer.flush_ms:.1f} ms" if answer.flush_ms else ""
        return f"The path buffers{flush}{rate}: what the decoder does behind it cannot be seen."
    if answer.verdict == PACED:
        return f"The output is paced evenly{rate}: what the decoder does behind it cannot be seen."
    reason = next((f.message for f in reversed(answer.findings) if f.code in _REASONS), "the data cannot say")
    return f"Undetermined: {reason}."


_REASONS = ("Q001", "Q006", "Q007", "V004", "V005")


def _speculative(answer: Fingerprint) -> str:
    said = ["Speculative decoding is on"]
    details = []
    burst, length, rate = answer.max_burst, answer.acceptance_length, answer.acceptance_rate
    if burst is not None:
        known = "up to" if burst.high is not None else "up to at least"
        details.append(f"{known} {burst.value:.0f} tokens a step")
    if length is not None:
        details.append(f"{length.value:.1f} on average" if burst is not None else f"{length.value:.2f} tokens a step")
    if rate is not None and rate.high is not None:
        details.append(f"acceptance {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}]")
    if answer.step_ms is not None:
        details.append(f"a step every {answer.step_ms.value:.1f} ms")
    return f"{said[0]}: {', '.join(details)}." if details else f"{said[0]}."


def of_comparison(found: Comparison) -> str:
    """What changed between two recordings: the rate first, then which of its two factors did it."""
    rate, length, step = found.tokens_per_s, found.acceptance_length, found.step_ms
    head = "Tokens/s cannot be compared" if rate is None else f"Tokens/s {_moved(rate)}"
    if length is None or step is None:
        hidden = next((f.message for f in found.findings if f.code == "C002"), "the steps of one side are not seen")
        return f"{head}; whether by acceptance or by the step cannot be told: {hidden}."
    parts = (_named(length), _named(step))
    if found.verdict == EQUIVALENT:
        return f"Equivalent within {found.margin * 100:.3g}%: {parts[0]}, {parts[1]}; tokens/s {percent(rate)}."
    if found.verdict == UNDETERMINED:
        needed = ""
        if found.needed_streams is not None:
            needed = f" About {found.needed_streams:,} streams a side ({found.needed_tokens:,} tokens) are needed."
        said = [_unchanged(one, found.margin, did="changed", did_not="did not change") for one in (length, step)]
        return f"Undetermined: {said[0]}, {said[1]}.{needed}"
    drafts = f" {note[0].upper()}{note[1:]}." if (note := otherwise(found.base, found.candidate)) else ""
    if found.verdict == "both":
        return f"{head}: {parts[0]} and {parts[1]} both changed.{drafts}"
    changed, other = (length, step) if found.verdict == "acceptance" else (step, length)
    return f"{head}: {_named(changed)} changed, {_unchanged(other, found.margin)}.{drafts}"


def otherwise(base: Fingerprint, candidate: Fingerprint) -> str:
    """That the drafts are others: speculation is switched on or off, or the largest step has changed; "" if not."""
    verdicts = (base.verdict, candidate.verdict)
    if verdicts == (SPECULATIVE, AUTOREGRESSIVE):
        return "speculation is off in the candidate"
    if verdicts == (AUTOREGRESSIVE, SPECULATIVE):
        return "speculation is on in the candidate only"
    a, b = base.max_burst, candidate.max_burst
    if a is None or b is None or verdicts != (SPECULATIVE, SPECULATIVE):
        return ""
    if (a.high is None or b.low <= a.high) and (b.high is None or a.low <= b.high):
        return ""
    drafts = ""
    if a.high is not None and b.high is not None:
        drafts = f" (drafts of {a.value - 1:.0f} -> {b.value - 1:.0f}, if there is a bonus token)"
    return f"the largest step gives {_least(a)} -> {_least(b)} tokens{drafts}"


def _least(burst: Estimate) -> str:
    return f"{burst.value:.0f}" if burst.high is not None else f"at least {burst.value:.0f}"


def percent(change: Change | None) -> str:
    """The change with its interval: "-17% [-19, -14]"; digits by the interval's width."""
    if change is None:
        return "unknown"
    value, low, high = change.percent
    places = 0 if high - low > 2 else 1 if high - low > 0.2 else 2
    value, low, high = (round(x, places) + 0.0 for x in (value, low, high))  # never "-0"
    return f"{value:+.{places}f}% [{low:+.{places}f}, {high:+.{places}f}]"


def _moved(rate: Change) -> str:
    """ "fell 16% [14, 18]", or the signed change where its direction is open."""
    if rate.verdict != CHANGED:
        stayed = "stayed alike" if rate.verdict == EQUIVALENT else "may have changed"
        return f"{stayed}, {percent(rate)}"
    size = sorted(abs(x) for x in rate.percent)
    places = 0 if size[2] - size[0] > 2 else 1
    verb = "rose" if rate.ratio > 1 else "fell"
    return f"{verb} {size[1]:.{places}f}% [{size[0]:.{places}f}, {size[2]:.{places}f}]"


_SPOKEN = {"acceptance_length": ("acceptance length", "", 2), "step_ms": ("the step", " ms", 1)}


def _values(change: Change) -> str:
    _, unit, places = _SPOKEN[change.quantity]
    return f"{change.base:.{places}f} -> {change.candidate:.{places}f}{unit}"


def _named(change: Change) -> str:
    """ "acceptance length 3.19 -> 2.66 (-17% [-19, -14])"."""
    return f"{_SPOKEN[change.quantity][0]} {_values(change)} ({percent(change)})"


def _unchanged(change: Change, margin: float, *, did: str = "did", did_not: str = "did not") -> str:
    name = _SPOKEN[change.quantity][0]
    if change.verdict == EQUIVALENT:
        return f"{name} {did_not} ({_values(change)}, equivalent within {margin * 100:.3g}%)"
    return f"whether {name} {did} is open ({_values(change)}, {percent(change)})"
