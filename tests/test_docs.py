"""The documentation is executed: commands exit with 0, programs run, generated pages are current."""

import dataclasses
import doctest
import importlib
import importlib.util
import pkgutil
import re
import shutil
import sys
from pathlib import Path

import pytest

import specsonar
from specsonar import sweep
from specsonar.defended import Defended, Enough, Learnt, Price, Row, Share, Sizes
from specsonar.doctor import Checkup
from specsonar.doctor.machine import Clock, Local
from specsonar.doctor.service import Burst, Service
from specsonar.fingerprint import COMPARED, HELD, Change, Check, Comparison, StreamTotals
from specsonar.fleet.result import Drift, Fleet, Group, Skipped
from specsonar.planned import Trial

ROOT = Path(__file__).resolve().parent.parent

SETUP = (
    "python -m venv .venv && .venv/bin/pip install . && .venv/bin/specsonar demo",
    "bash .ci/run",
    "python -m venv .venv && .venv/bin/pip install -e '.[test]'",
)
"""All commands that a page may show without having them run here: they install or test the package itself."""


def load():
    sys.path.insert(0, str(ROOT / "tools"))  # as if it were run from there
    spec = importlib.util.spec_from_file_location("specsonar_docs", ROOT / "tools" / "docs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


docs = load()


def executed():
    """Pages whose blocks are run. Guides listen to services for a while, so they are for the second stage."""
    for page in docs.pages():
        if page != docs.CHINESE:  # its commands are those of README.md
            slow = [pytest.mark.slow] if page.parent.name == "guides" else []
            yield pytest.param(page, id=path_of(page), marks=slow)


def path_of(page):
    return str(page.relative_to(ROOT))


def commands(page):
    """The code of the blocks of a page, without comments, which may be translated, and without output."""
    code = [(block.kind, block.commands) for block in docs.blocks(page) if block.kind not in ("", "json", "text")]
    return [(kind, re.sub(r"(?m)^\s*#.*\n|\s+#.*$", "", text)) for kind, text in code]


def words(output):
    """How the output begins, without its numbers: what is said, not how much."""
    return re.sub(r"[\d.,\[\]%]+", "#", output).split()


def tables(path):
    """The rows of the first table below each title."""
    found = re.findall(r"^## (.+)\n(?:(?!## |\|).*\n)*((?:\|.*\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {title: rows.splitlines() for title, rows in found}


def test_the_figures_of_the_limits_are_those_that_were_printed():
    printed = tables(ROOT / "benchmarks/results/limits.md")
    assert printed and sum(map(len, printed.values())) > 20
    assert tables(ROOT / "docs/concepts/limits.md") == printed


@pytest.mark.parametrize("page", list(executed()))
def test_blocks_run(page, tmp_path):
    if shutil.which("curl") is None and any("curl -" in block.commands for block in docs.blocks(page)):
        pytest.skip("this machine has no curl")
    with docs.Shell(tmp_path) as shell:
        for block in docs.blocks(page):
            if block.kind in docs.RUN:
                done = shell.run(block)
                assert done.returncode == 0, f"{block.commands}\n{done.stderr}"
                if block.kind == "console":
                    first = 3 if shell.live else 12
                    assert words(shell.shown(done.stdout))[:first] == words(block.output)[:first], block.commands


@pytest.mark.parametrize("page", docs.pages(), ids=path_of)
def test_every_block_has_a_known_kind(page):
    assert {block.kind for block in docs.blocks(page)} <= {*docs.RUN, "sh setup", "json", "text", "pycon"}


@pytest.mark.parametrize("page", docs.pages(), ids=path_of)
def test_nothing_is_called_setup_to_escape_the_tests(page):
    for block in docs.blocks(page):
        if block.kind == "sh setup":
            assert set(block.text.splitlines()) <= set(SETUP)


def test_both_readmes_have_the_same_commands():
    english, chinese = (commands(ROOT / name) for name in ("README.md", "README.zh-CN.md"))
    assert english == chinese
    assert len(english) > 4


@pytest.mark.parametrize("page", docs.pages(), ids=path_of)
def test_links_inside_the_repository_lead_somewhere(page):
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        made_by_a_command = "benchmarks/results/" in target
        if not re.match(r"[a-z]+:", target) and not made_by_a_command:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(("path", "make"), list(docs.GENERATED.items()), ids=lambda value: getattr(value, "stem", ""))
def test_generated_pages_are_current(path, make):
    assert (ROOT / path).read_text(encoding="utf-8") == make(), "run `python tools/docs.py`"


def test_the_index_names_every_page():
    index = ROOT / "docs" / "README.md"
    named = {
        (index.parent / target).resolve()
        for target in re.findall(r"^- \[[^\]]+\]\(([^)#]+)\)", index.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named >= set((ROOT / "docs").rglob("*.md")) - {index}


@pytest.mark.parametrize("name", [m.name for m in pkgutil.walk_packages(specsonar.__path__, "specsonar.")])
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def flat(record, prefix=""):
    """Dotted keys of a nested dict, parents first."""
    for key, value in record.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from flat(value[0], f"{prefix}{key}[].")


ESTIMATE = {"value", "low", "high", "level", "method"}


def test_the_json_page_names_every_key(sample):
    """Keys of an estimate are explained once; keys of the server's report are the server's."""
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    full = dataclasses.replace(
        sample, server_report={}, by_stream=(StreamTotals(300.0, 100.0),), checks=(Check("k=3", HELD, "M = 4"),)
    )
    record = full.to_dict()
    keys = [k for k in flat(record) if k.rpartition(".")[2] not in ESTIMATE or "." not in k]
    assert [k for k in named if k not in ESTIMATE] == keys
    assert {k for k in named if k in ESTIMATE} == ESTIMATE


def test_the_page_of_comparisons_names_every_key(sample):
    page = (ROOT / "docs" / "reference" / "json-compare.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    change = Change("step_ms", 20.0, 22.0, 1.1, 1.05, 1.15, 0.95, "made up", "changed", 30)
    found = Comparison(
        verdict="step", sentence="", tokens_per_s=None, acceptance_length=None, step_ms=None, first_token_ms=None,
        jitter_ms=None, margin=0.03, needed_streams=30, needed_tokens=9_000, findings=(), base=sample, candidate=sample,
        checks=(Check("step_ms", "failed", "+10%"),),
    )  # fmt: skip
    keys = [k for k in flat(found.to_dict()) if not k.startswith(("base.", "candidate."))]
    assert named == keys + list(change.to_dict())


def test_the_page_of_checkups_names_every_key():
    page = (ROOT / "docs" / "reference" / "json-doctor.md").read_text(encoding="utf-8")
    spread = {"p50": 1.0, "p99": 2.0, "max": 3.0}
    lag = {"reads": 9, "p50_us": 1.0, "p99_us": 2.0, "max_us": 3.0}
    burst = Burst(3, 144, 0.9, 1.1, False, None, False, None, None, False)
    service = Service("http://127.0.0.1", "openai", None, "HTTP/1.1", None, {}, spread, 0.1, burst)
    found = Checkup(Clock(50, 90.0), Local("kernel", spread, lag, 1.0, ()), spread, service)
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(flat(found.to_dict()))


def test_the_page_of_fleets_names_every_key(sample):
    page = (ROOT / "docs" / "reference" / "json-fleet.md").read_text(encoding="utf-8")
    changes = dict.fromkeys(COMPARED)
    found = Fleet(
        ("model", "day"), (Group(("a", "b"), 1, 1, 1, 1, sample),),
        (Drift(("a",), "b", "c", "next", "step", "", changes),), (Skipped("a", "b"),), (), 1, 1, 1, 1, 0, 0.95, 0.03,
    )  # fmt: skip
    inner = ("groups[].fingerprint.", "groups[].key.", "drift[].series.")
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == [
        key for key in flat(found.to_dict()) if not key.startswith(inner)
    ]


def test_the_page_of_plans_names_every_key(sample):
    page = (ROOT / "docs" / "reference" / "json-plan.md").read_text(encoding="utf-8")
    record = specsonar.plan_speed(sample, draft_cost=0.1).to_dict() | {"service": None}
    keys = [k for k in flat(record) if k.rpartition(".")[2] not in ESTIMATE or "." not in k]
    speed, data = page.partition("## About speed")[2].split("\n## About data")
    assert re.findall(r"^\| `([^`]+)` \|", speed, re.MULTILINE) == keys
    sized = specsonar.plan_data(targets=["max_burst"], layers=["counted"])
    trial = Trial(1, 40, 40, 38, 0.95, 0.8, 0.99)
    keys = list(flat(dataclasses.replace(sized, needs=(dataclasses.replace(sized.needs[0], trial=trial),)).to_dict()))
    assert re.findall(r"^\| `([^`]+)` \|", data, re.MULTILINE) == keys


def test_the_page_of_sweeps_names_every_key():
    page = (ROOT / "docs" / "reference" / "json-sweep.md").read_text(encoding="utf-8")
    record = sweep.run("figure1", methods=["baseline"], reps=2).to_dict()
    whole = [re.sub(r"\bbaseline\b", "METHOD", key) for key in flat(record)]
    inner = re.compile(
        r"\.(service|at|published|METHOD\.(exact|right|false_alarm|seconds|max_burst|alpha|length|step_ms))\."
    )
    keys = [k for k in whole if not inner.search(k) and not k.endswith(".METHOD")]
    score = record["rows"][0]["scores"]["baseline"]
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == keys + list(score["alpha"]) + list(score["exact"])


def test_the_page_of_defences_names_every_key():
    page = (ROOT / "docs" / "reference" / "json-defend.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    share = Share(1, 2)
    learnt = Learnt("likelihood", share, share, share, share, share, 0.01, 0.01)
    row = Row("pace=8ms", "pace", 0.4, 600, (learnt,), Sizes(1.0, 4.0, 1.0, 0.5, 3.0), Price(0.0, 1.0, 2.0, 1.0, 1.0))
    enough = Enough("scatter=uniform", "likelihood", 600, "max_burst", 0.5)
    found = Defended("", "frontier", "simulated", 4, 0.8, 20.0, 2.95, 8, 1, 0, (row,), (enough,), ("",), {})
    keys = [k for k in flat(found.to_dict()) if k.rpartition(".")[2] not in share.to_dict()]
    assert [k for k in named if k not in share.to_dict()] == keys
    assert [k for k in named if k in share.to_dict()] == list(share.to_dict())
