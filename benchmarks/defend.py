"""What hiding costs and what leaks all the same: the frontier, how much random delay is enough, and what sizes tell.

    python benchmarks/defend.py -o benchmarks/results/defend.md           # about five minutes on two quiet cores
    python benchmarks/defend.py --reps 4 --lengths 300 --only delay       # quicker and coarser
    python benchmarks/defend.py --public GPT4o.json --only public         # a published recording, see below

Seeds are fixed: the same version of the program prints the same tables. The published recording is
data/main/GPT4o.json of https://github.com/MatthewELucio/whisper_leak_data_privacy (MIT): 180 answers with the sizes of
TLS records and the chunks that were in them. It is not part of this repository.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from specsonar.defend import defend
from specsonar.defended import BASELINE, HIDDEN, INFORMED, OURS, Defended, Learnt
from specsonar.render.defences import enough_rows
from specsonar.sources.service import Service

PARTS = ("frontier", "counted", "delay", "public")
LENGTHS = (300, 600, 1200)


def main() -> None:
    """Print the parts that were asked for, and save them with -o."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    options.add_argument("--reps", type=int, default=6, help="trials a row")
    options.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of an answer, for the delays")
    options.add_argument("--jobs", type=int, help="processes")
    options.add_argument("--public", type=Path, help="the published recording")
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    lines: list[str] = []
    for line in report(given):
        lines.append(line)
        print(line, flush=True)
    if given.output:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def report(given: argparse.Namespace) -> Iterator[str]:
    """The report line by line."""
    begin = time.monotonic()
    yield "# What hiding costs"
    yield ""
    yield "Printed by `python benchmarks/defend.py`. A simulated service with M = 4, acceptance 0.8 and exact steps of"
    yield "20 ms, on a link without delays of its own, which is the best that an observer can have. Shares are of the"
    yield f"{given.reps} trials of a row."
    if "frontier" in given.only:
        yield from part("Every policy, 600 tokens, one event a token", defend(reps=given.reps, jobs=given.jobs))
    if "counted" in given.only:
        service = Service(events="step")
        policies = ("none", "pace=20ms", "batch=100ms", "scatter=uniform:40ms", "pad=512", "batch=100ms+pad=4096")
        found = defend(service, policies=policies, reps=given.reps, jobs=given.jobs)
        yield from part("One event a step that says how many tokens it holds, 600 tokens", found)
    if "delay" in given.only:
        found = defend(preset="delay", tokens=given.lengths, reps=given.reps, jobs=given.jobs)
        yield from enough(found)
        for tokens in given.lengths:
            yield from curve(found, tokens)
    if "public" in given.only and given.public:
        yield from public(given.public)
    yield ""
    yield f"{time.monotonic() - begin:.0f} s."


def part(title: str, found: Defended) -> Iterator[str]:
    """One row for each policy."""
    yield from ("", f"## {title}", "", found.sentence, "")
    yield from table(
        ("policy", "first, ms", "mean", "p99", "time", "bytes", "seen: ours", "falsely", "informed", "M: ours",
         "article", "informed", "alpha off: ours", "article", "step off: ours", "article", "r of sizes", "counts told"),
        (
            (row.policy, f"{row.price.first_ms:.1f}", f"{row.price.mean_ms:.1f}", f"{row.price.p99_ms:.1f}",
             f"{row.price.time_ratio:.3f}", f"{row.price.bytes_ratio:.2f}",
             *seen(row.by(OURS)), *seen(row.by(INFORMED))[:1],
             *(burst(row.by(name)) for name in (OURS, BASELINE, INFORMED)),
             *(error(row.by(name), "alpha_error", ".3f") for name in (OURS, BASELINE)),
             *(error(row.by(name), "step_error", ".1%") for name in (OURS, BASELINE)),
             "" if row.sizes.correlation is None else f"{row.sizes.correlation:.4f}", f"{row.sizes.told:.0%}")
            for row in found.rows
        ),
    )  # fmt: skip


def enough(found: Defended) -> Iterator[str]:
    """The founding article's open question."""
    yield from ("", "## How much random delay is enough", "")
    yield "Mean delay over the step from which on speculation (better than chance) or M is told in at most"
    yield f"{HIDDEN:.0%} of the {found.reps} trials; `more` where the longest that was tried, one step, is not enough."
    yield ""
    yield from table(*enough_rows(found))


def curve(found: Defended, tokens: int) -> Iterator[str]:
    """What is learnt over the delay, one row a strength."""
    rows = [row for row in found.rows if row.tokens == tokens]
    yield from ("", f"### {tokens:,} tokens", "")
    yield from table(
        ("delay", "mean, steps", "adds, ms", "seen: ours", "falsely", "M: ours", "M: article"),
        (
            (row.way, "" if row.strength != row.strength else f"{row.strength:.2g}", f"{row.price.mean_ms:.1f}",
             *seen(row.by(OURS)), burst(row.by(OURS)), burst(row.by(BASELINE)))
            for row in rows
        ),
    )  # fmt: skip


def public(path: Path) -> Iterator[str]:
    """Bytes of whole answers against their chunks, in the published recording."""
    answers = json.loads(path.read_text(encoding="utf-8"))
    size = np.array([sum(one["data_lengths"]) for one in answers], float)
    chunks = np.array([len(one["response_tokens"]) for one in answers], float)
    slope = np.polyfit(chunks, size, 1)[0]
    yield from ("", "## Sizes tell counts: a published recording", "")
    yield f"{len(answers)} answers, {chunks.sum():,.0f} chunks (data/main/GPT4o.json of"
    yield "https://github.com/MatthewELucio/whisper_leak_data_privacy, MIT; whether the service padded is not known):"
    yield f"{slope:.1f} bytes a chunk, r = {np.corrcoef(size, chunks)[0, 1]:.4f}."


def seen(learnt: Learnt | None) -> tuple[str, str]:
    """Speculation told where it is, and where it is not."""
    if learnt is None:
        return "", ""
    return f"{learnt.speculative.value:.0%}", "" if learnt.falsely is None else f"{learnt.falsely.value:.0%}"


def burst(learnt: Learnt | None) -> str:
    """M exact; nothing for an informed observer that never says one."""
    silent = learnt is None or (learnt.observer == INFORMED and learnt.step_error is None)
    return "" if silent or learnt is None else f"{learnt.max_burst.value:.0%}"


def error(learnt: Learnt | None, name: str, spec: str) -> str:
    """A median error."""
    value = None if learnt is None else getattr(learnt, name)
    return "" if value is None else format(value, spec)


def table(heads: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table."""
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    sys.exit(main())
