"""Real engines on a CPU: what `specsonar probe` tells of them, beside what they count themselves.

    python benchmarks/engines/run.py MODELS --vllm PYTHON --transformers PYTHON --openvino PYTHON
    python benchmarks/engines/run.py MODELS --vllm PYTHON --only n-gram --keep FOLDER

Prints one Markdown table and exits 1 when an answer is wrong. README.md, in this folder, says how to get there.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import openvino_server
import transformers_server
import vllm_server
from engine import Case, Counted, noted, running

from specsonar.fingerprint import AUTOREGRESSIVE, SPECULATIVE, UNDETERMINED, Estimate
from specsonar.probe import Probe, probe

ENGINES = {"vllm": vllm_server, "transformers": transformers_server, "openvino": openvino_server}

WITHIN = 0.02
"""Steps may differ from the engine's own by this share; so may the acceptance length, unless its interval holds it."""


def listen(case: Case, folder: Path, streams: int, tokens: int) -> tuple[Probe, list[Counted]]:
    """What the probe found, and what the engine counted of the same answers."""
    stem = case.name.replace(",", "").replace(" ", "-")
    notes = folder / f"{stem}.notes.jsonl"
    with running(case, notes) as url:
        found = probe(
            url, streams=streams, tokens=tokens, environment={}, timeout=300.0, output=folder / f"{stem}.jsonl.zst",
            tell=lambda line: print(line, file=sys.stderr, flush=True), **case.ask,
        )  # fmt: skip
    if found.errors:
        raise SystemExit(f"{case.name}: {found.errors[-1]}")
    return found, [case.counted(note) for note in noted(notes, len(found.trace.streams))]


def row(case: Case, found: Probe, counted: Sequence[Counted]) -> tuple[str, bool]:
    """A line of the table, and whether all of it holds. What the server hides has to stay open."""
    answer = found.fingerprint
    tokens, steps = sum(c.tokens for c in counted), sum(c.steps for c in counted)
    most = case.draft + 1 if max(c.largest for c in counted) > 1 else 1
    verdict = UNDETERMINED if case.hidden else SPECULATIVE if most > 1 else AUTOREGRESSIVE
    length = answer.acceptance_length
    checks = (
        (answer.verdict, verdict, answer.verdict == verdict),
        (_most(answer.max_burst), str(most), _holds(answer.max_burst, most)),
        (_shown(length and length.value, 3), f"{tokens / steps:.3f}", _length(length, tokens / steps)),
        (_shown(answer.steps, 0), str(steps), _near(answer.steps, steps)),
    )
    cells = [case.name, str(tokens)]
    good = True
    for shown, truth, right in checks:
        right = right or bool(case.hidden and shown == "-")
        good = good and right
        cells.append(f"{shown} / {truth} {'ok' if right else '**miss**'}")
    cells += [_shown(answer.step_ms and answer.step_ms.value, 0)]
    cells += [" ".join(sorted({f.code for f in answer.findings})), case.hidden]
    return f"| {' | '.join(cells)} |", good


def _shown(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _near(value: float | None, truth: float) -> bool:
    return value is not None and abs(value / truth - 1) <= WITHIN


def _length(estimate: Estimate | None, truth: float) -> bool:
    return estimate is not None and (_near(estimate.value, truth) or estimate.low <= truth <= (estimate.high or truth))


def _most(m: Estimate | None) -> str:
    if m is None:
        return "-"
    return f"{m.value:.0f}" if m.high is not None else f">= {m.low:.0f}"


def _holds(m: Estimate | None, most: int) -> bool:
    """Exactly so many; or, where full steps are too rare, a lower bound that does not exceed them."""
    return m is not None and (m.value == most == m.high if m.high is not None else m.low <= most)


def _versions(python: Path, packages: Sequence[str]) -> str:
    script = "import sys, importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
    return subprocess.check_output([python, "-c", script, *packages], text=True).strip()


def main() -> int:
    """Run, print, and say whether all was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, help="folder that models.py made")
    for name in ENGINES:
        parser.add_argument(f"--{name}", type=Path, metavar="PYTHON", help="of the environment with this engine")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="folder for recordings, notes and the servers' logs")
    args = parser.parse_args()
    chosen = [
        case
        for name, module in ENGINES.items()
        if (python := getattr(args, name)) is not None
        # absolute, and no link resolved: the link is what names the environment
        for case in module.cases(python.absolute(), args.models.absolute())
        if args.only in case.name
    ]
    if not chosen:
        parser.error("no case is chosen: name the Python of an engine")
    versions = [_versions(p, module.PACKAGES) for n, module in ENGINES.items() if (p := getattr(args, n)) is not None]
    system = platform.freedesktop_os_release()["PRETTY_NAME"] if sys.platform == "linux" else platform.platform()
    print(f"{date.today()}, {os.cpu_count()} cores, {system}; {'; '.join(versions)}. {args.streams} answers a line.\n")
    print("| engine | tokens | verdict / right | M / k + 1 | acceptance length / counted | steps / counted | step, ms "
          "| findings | note |\n|---|---|---|---|---|---|---|---|---|", flush=True)  # fmt: skip
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            line, good = row(case, *listen(case, folder, args.streams, args.tokens))
            wrong += not good
            print(line, flush=True)
    print(
        f"\n{len(chosen) - wrong} of {len(chosen)} right; steps within {WITHIN:.0%}, lengths too or inside the interval"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
