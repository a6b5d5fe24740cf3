"""A plan in plain words: the sentence, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..planned import DataPlan, SpeedPlan


def completed(found: SpeedPlan, notes: Sequence[str]) -> SpeedPlan:
    """`found` with its sentence and its assumptions."""
    return replace(found, sentence=" ".join(_sentences(found)), assumptions=(*notes, *_assumed(found)))


def _sentences(found: SpeedPlan) -> Iterator[str]:
    service = found.service
    if service is not None and found.now is not None:
        draft = found.draft(found.now)
        yield (
            f"This service gives {draft.acceptance_length.value:.2f} of at most {_most(service)} tokens a step "
            f"(k = {found.now} {_convention(found.bonus)})."
        )
    if found.asked is not None and (service is None or found.asked != found.now):
        yield _asked(found, found.asked)
    yield from _best(found)


def _most(service: object) -> str:
    assert isinstance(service, dict)
    burst = service["max_burst"]
    return f"{burst['value']:.0f}" + ("" if burst["high"] is not None else " or more")


def _convention(bonus: bool) -> str:
    return "with a bonus token" if bonus else "without a bonus token"


def _asked(found: SpeedPlan, k: int) -> str:
    draft = found.draft(k)
    length = draft.acceptance_length
    at = " at this acceptance it would give" if found.service is not None else f" {_convention(found.bonus)} gives"
    text = f"{'With ' if found.service is not None else ''}k = {k}{at} {_value(length.value, length.low, length.high)} "
    text += f"of at most {draft.max_burst} tokens a step"
    if found.cost_known and len(draft.at) == 1:
        one = draft.at[0]
        text += f", {one.speedup.value:.2f} times the speed of plain decoding at a draft cost of {one.draft_cost:.3g}"
        if found.service is not None and one.against_now is not None:
            a = one.against_now
            text += f" and {_value(a.value, a.low, a.high)} times that of today"
    elif found.service is not None and found.now is not None:
        text += f"; {_faster(draft.even_cost, k, found.now)}"
    return text + "."


def _faster(even: float | None, k: int, now: int) -> str:
    """From or up to which draft cost another draft length is faster than the present one."""
    if even is None:
        return "slower than today at any draft cost"
    side = "more" if k < now else "less"
    return f"faster than today where drafting a token costs {side} than {even:.2g} of a plain step"


def _value(value: float, low: float, high: float | None) -> str:
    if low == high:
        return f"{value:.2f}"
    return f"{value:.2f} [{low:.2f}, {'open' if high is None else f'{high:.2f}'}]"


def _best(found: SpeedPlan) -> Iterator[str]:
    if len(found.best) == 1 and found.cost_known:
        k = found.best[0]
        cost = found.draft_costs[0]
        if k == 0:
            yield f"At a draft cost of {cost:.3g} no draft is worth it: plain decoding is the fastest."
            return
        speed = found.draft(k).at[0]
        rate = f", {speed.tokens_per_s.value:.4g} tokens/s" if speed.tokens_per_s is not None else ""
        yield f"The fastest is k = {k}{_edge(found, k)}, {speed.speedup.value:.2f} times plain decoding{rate}."
        return
    last = found.drafts[-1].k
    parts = [f"k = {r.k}{' or more' if r.k == last else ''}" if r.k else "no draft" for r in found.fastest]
    told = [
        f"{name} {'up to' if r.high is not None else 'from'} {(r.high if r.high is not None else r.low):.2g}"
        for name, r in zip(parts, found.fastest, strict=True)
    ]
    yield f"The fastest by the cost of a drafted token, in plain steps: {', '.join(told)}."


def _edge(found: SpeedPlan, k: int) -> str:
    """A best one at the end of the table may not be the best of all."""
    if k == found.drafts[-1].k:
        return " or more (the longest shown)"
    return " (if later drafts are accepted like the last known one)" if found.draft(k).assumed else ""


def _assumed(found: SpeedPlan) -> Iterator[str]:
    known = len(found.acceptance)
    if any(d.assumed for d in found.drafts):
        yield (
            f"the acceptance beyond position {known} is not known: it was taken to be that of position {known} "
            f"(marked *)"
        )
    verify = found.verify_cost
    widest = found.drafts[-1].max_burst
    if len(verify.widths) == 1:
        yield "a pass of the target takes as long for several tokens as for one"
    else:
        more = f", carried on beyond {verify.widths[-1]} tokens" if widest > verify.widths[-1] else ""
        yield f"cost of verification: {verify.source}{more}"
    if not found.cost_known:
        yield (
            "the draft cost cannot be seen from outside: these are examples. It follows from the time of a step "
            "without drafts (--plain-step), or is given with --draft-cost"
        )


def told(found: DataPlan, notes: Sequence[str]) -> DataPlan:
    """`found` with its sentence and its assumptions."""
    setting = found.setting
    layers = list(dict.fromkeys(n.layer for n in found.needs))
    parts = {layer: _most_of(found, layer) for layer in layers}
    alphas = sorted(set(setting.acceptance))
    accepted = f"{alphas[0]:.2g}" if len(alphas) == 1 else f"{alphas[0]:.2g} to {alphas[-1]:.2g}"
    service = f"M = {setting.max_burst}, acceptance {accepted}, steps of {setting.step_ms:.4g} ms"
    if setting.jitter_ms:
        service += f", jitter {setting.jitter_ms / setting.step_ms:.0%} of it"
    if len(set(parts.values())) == 1:
        said = f"takes {parts[layers[0]]}" + (", however they are observed" if len(layers) > 1 else "")
    else:
        said = "takes " + "; ".join(f"{layer}, {text}" for layer, text in parts.items())
    asked = {n.target for n in found.needs}
    what = found.needs[0].wanted if len(asked) == 1 else "all of this"
    return replace(found, sentence=f"To know {what} {said} ({service}).", assumptions=tuple(notes))


def _most_of(found: DataPlan, layer: str) -> str:
    """The most that any of the questions needs in one way of observing."""
    mine = [n for n in found.needs if n.layer == layer]
    if any(n.tokens is None for n in mine):
        return "more tokens than anybody records"
    most = max(mine, key=lambda n: n.tokens or 0)
    side = " a side" if most.target.endswith("_change") else ""
    return f"{most.tokens:,} tokens in {'one stream' if most.streams == 1 else f'{most.streams} streams'}{side}"
