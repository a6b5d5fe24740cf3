"""Real engines: what their arrival times tell, beside what the engines counted, stream by stream.

    python benchmarks/recordings.py                    # every recording under tests/golden/recordings
    python benchmarks/recordings.py vllm llama-bin.f32 # those whose name begins so

Prints one Markdown table and exits 1 when an answer is wrong. specsonar reads the recording only; the `.truth.json`
beside it is read here, after the answer is there. How they were recorded: tests/golden/recordings/MAKING.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsonar.fingerprint import AUTOREGRESSIVE, SPECULATIVE, UNDETERMINED, Estimate, Fingerprint
from specsonar.fit import fingerprint
from specsonar.importers import read

RECORDINGS = Path(__file__).parents[1] / "tests" / "golden" / "recordings"
WITHIN = 0.02
"""Acceptance length and steps may differ from the engine's own by this share."""

# recordings without a list of steps: the verdicts that are right, M where it is known, and why
NO_STEPS: dict[str, tuple[tuple[str, ...], int | None, str]] = {
    "lcpy.lookup.k6": ((SPECULATIVE,), 7, "no counters in this server"),
    "lcpy.off": ((AUTOREGRESSIVE,), 1, ""),
    "node.draft.k4": ((SPECULATIVE, UNDETERMINED), None, "20 drafted tokens used in 600"),
    "node.lookup.k4": ((AUTOREGRESSIVE,), 1, "nothing was drafted"),
    "tfserve.off": ((AUTOREGRESSIVE,), 1, ""),
    "vllm.off": ((AUTOREGRESSIVE,), 1, ""),
}
# drafts without effect: what the stream shows is plain decoding
IN_VAIN = {
    "llama-bin.ngram-cache": "1 of 64 drafted tokens accepted",
    "vllm.ngram.k4": "no drafted token accepted",
}
# the engine counts tokens that a step accepted past the limit, and its total was cut: its list of steps is the truth
PAST_THE_LIMIT = "vllm.noise.k4.chat"


@dataclass(frozen=True, slots=True)
class Truth:
    """What the engine says of its own stream.

    verdicts : those that are right. max_burst : k + 1, or None where the draft has no cap or M cannot be seen.
    length, steps : acceptance length (plain steps included) and steps after the prefill, or None where not counted.
    """

    verdicts: tuple[str, ...]
    max_burst: int | None
    length: float | None
    steps: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison, as text, and whether it holds."""

    what: str
    found: str
    truth: str
    good: bool


def names() -> list[str]:
    """All recordings."""
    return sorted(p.name.removesuffix(".jsonl.zst") for p in RECORDINGS.glob("*.jsonl.zst"))


def truth_of(name: str, sidecar: Mapping[str, Any], tokens: int) -> Truth:
    """The truth of a recording of `tokens` tokens, from the file beside it."""
    if name in NO_STEPS:
        verdicts, most, note = NO_STEPS[name]
        return Truth(verdicts, most, 1.0 if most == 1 else None, tokens - 1 if most == 1 else None, note)
    rows: list[tuple[int, int | None]] = sidecar["steps"]
    if not rows:
        return Truth((AUTOREGRESSIVE,), 1, 1.0, tokens - 1)
    if name in IN_VAIN:
        steps = tokens - 1 - sum(a for a, _ in rows)
        return Truth((AUTOREGRESSIVE,), 1, (tokens - 1) / steps, steps, IN_VAIN[name])
    if "call" in sidecar.get("steps_are", ""):
        rows = rows[1:]  # the first call brings the prefill's token
    drafted = [d for _, d in rows if d is not None]
    most = max(drafted) + 1 if drafted else None
    note = "" if drafted else "no cap on the draft"
    if name == PAST_THE_LIMIT:
        return Truth((SPECULATIVE,), most, (tokens - 1) / len(rows), len(rows), "counters go past the limit: its steps")
    if name.endswith("plainusage"):
        most, note = None, "a total only: M is hidden"
    steps = tokens - 1 - sum(a for a, _ in rows)
    return Truth((SPECULATIVE,), most, (tokens - 1) / steps, steps, note)


def analysed(name: str) -> tuple[Fingerprint, Truth]:
    """The answer, then the truth."""
    trace = read(RECORDINGS / f"{name}.jsonl.zst")
    found = fingerprint(trace)
    tokens = trace.streams[0].known_tokens
    assert tokens is not None, f"{name} has no token count"
    return found, truth_of(name, json.loads((RECORDINGS / f"{name}.truth.json").read_text()), tokens)


def checks(found: Fingerprint, truth: Truth) -> list[Check]:
    """Verdict, M, acceptance length and steps against the truth, where there is one."""
    done = [Check("verdict", found.verdict, " or ".join(truth.verdicts), found.verdict in truth.verdicts)]
    if truth.max_burst is not None:
        done.append(Check("M", _burst(found.max_burst), str(truth.max_burst), _right(found.max_burst, truth.max_burst)))
    if truth.length is not None:
        value = found.acceptance_length.value if found.acceptance_length else float("nan")
        near = abs(value / truth.length - 1) <= WITHIN
        done.append(Check("length", f"{value:.3f}", f"{truth.length:.3f}", near))
    if truth.steps is not None:
        steps = found.steps if found.steps is not None else -1
        done.append(Check("steps", str(steps), str(truth.steps), abs(steps - truth.steps) <= WITHIN * truth.steps))
    return done


def _burst(m: Estimate | None) -> str:
    if m is None:
        return "null"
    return f"{m.value:.0f}" if m.high is not None else f">= {m.low:.0f}"


def _right(m: Estimate | None, most: int) -> bool:
    """k + 1 exactly; or, where full bursts are missing, a lower bound that does not exceed it."""
    if m is None:
        return False
    return m.value == most == m.high if m.high is not None else m.low <= most


def row(name: str, found: Fingerprint, truth: Truth) -> tuple[str, bool]:
    """A line of the table, and whether all of it holds."""
    cells = {c.what: c for c in checks(found, truth)}

    def cell(what: str, else_found: str) -> str:
        c = cells.get(what)
        if c is None:
            return f"{else_found} / -"
        return f"{c.found} / {c.truth} {'ok' if c.good else '**miss**'}"

    length = "-" if found.acceptance_length is None else f"{found.acceptance_length.value:.3f}"
    text = " | ".join(
        (
            name,
            cell("verdict", ""),
            found.layer or "-",
            cell("M", _burst(found.max_burst)),
            cell("length", length),
            cell("steps", "-" if found.steps is None else str(found.steps)),
            truth.note,
        )
    )
    return f"| {text} |", all(c.good for c in cells.values())


def main() -> int:
    """Print the table; exit 1 when an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="*", help="only recordings whose name begins so")
    wanted = tuple(parser.parse_args().prefix)
    chosen = [n for n in names() if not wanted or n.startswith(wanted)]
    if not chosen:
        print("no such recording", file=sys.stderr)
        return 2
    print("| recording | verdict / right | layer | M / k + 1 | acceptance length / counted | steps / counted | note |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for name in chosen:
        line, good = row(name, *analysed(name))
        missed += not good
        print(line, flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} recordings right; lengths and steps within {WITHIN:.0%}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
