"""The answer as one plain sentence."""

from __future__ import annotations

from dataclasses import replace

from .fingerprint import (
    AUTOREGRESSIVE,
    BUFFERED,
    FIXED_CHUNKS,
    PACED,
    SPECULATIVE,
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
        known = "up to" if burst.high is not None else "at least up to"
        details.append(f"{known} {burst.value:.0f} tokens a step")
    if length is not None:
        details.append(f"{length.value:.1f} on average" if burst is not None else f"{length.value:.2f} tokens a step")
    if rate is not None and rate.high is not None:
        details.append(f"acceptance {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}]")
    if answer.step_ms is not None:
        details.append(f"a step every {answer.step_ms.value:.1f} ms")
    return f"{said[0]}: {', '.join(details)}." if details else f"{said[0]}."
