"""The sweep's bookkeeping, with analyses that cost nothing."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from specsonar import sweep
from specsonar.errors import InputError, UsageError
from specsonar.fingerprint import SPECULATIVE
from specsonar.render import json as render_json
from specsonar.sources.service import Service
from specsonar.sources.worlds import NULLS
from specsonar.sweep import Cell, Measured, Task, Truth
from specsonar.sweep.methods import METHODS
from specsonar.sweep.running import CHUNK
from specsonar.sweep.score import mean, median, root_mean_square, score

FAST = ("baseline", "guidellm", "logisi")


def fast(preset="article", **options):
    return sweep.run(preset, methods=FAST, **options)


def figures(found):
    """All of a sweep but its times."""
    plain = found.to_dict()
    for row in plain["rows"]:
        for one in row["scores"].values():
            del one["seconds"]
    del plain["work"]
    return json.loads(render_json.dumps(plain))


def test_the_article_preset_is_the_article():
    cells = sweep.article()
    assert [c.service.token_delay.scale_ms for c in cells] == [0, 1, 2, 3, 4, 5, 6, 1]
    assert [c.service.burst for c in cells] == [4] * 7 + [8]
    assert not any(c.service.bonus for c in cells)
    assert {c.tokens for c in cells} == {600}
    assert [c.published.max_burst for c in cells] == ["4", None, None, "rises", "rises", "rises", "8", "6"]


def test_every_method_sees_the_same_streams_without_their_truth(monkeypatch):
    seen = []
    for name in FAST:
        spy = replace(METHODS[name], ask=lambda trace, seed, name=name: seen.append((name, trace, seed)) or Measured())
        monkeypatch.setitem(METHODS, name, spy)
    fast("figure1", reps=2)
    assert len(seen) == 12 and len({seed for _, _, seed in seen}) == 4
    for _, trace, seed in seen:
        assert trace.streams[0].truth is None
        assert len(trace.streams[0]) == 600  # the article's service has no prefill
        assert all(np.array_equal(trace.streams[0].t_ns, t.streams[0].t_ns) for _, t, s in seen if s == seed)


def test_a_clean_stream_is_read_exactly_by_the_baseline():
    clean = fast(reps=3).rows[0].scores["baseline"]
    assert (clean.mean("max_burst"), clean.exact.value, clean.repetitions) == (4.0, 1.0, 3)
    assert clean.quantities["step_ms"].rmse.value < 1e-6
    assert clean.mean("alpha") == pytest.approx(0.8, abs=0.05)
    assert clean.quantities["alpha"].coverage is None


def test_runs_repeat_and_the_seed_matters():
    assert figures(fast(reps=2, seed=5)) == figures(fast(reps=2, seed=5))
    assert figures(fast(reps=2, seed=5)) != figures(fast(reps=2, seed=6))


def test_a_repetition_depends_on_its_cell_and_not_on_the_grid_around_it():
    one, other = Cell("a", Service(step_ms=20)), Cell("b", Service(step_ms=20.0))
    assert one.seed(0, 1) == other.seed(0, 1)
    seeds = [one.seed(0, 1), one.seed(0, 2), one.seed(1, 1), replace(one, tokens=601).seed(0, 1),
             replace(one, streams=2).seed(0, 1), Cell("c", Service(step_ms=21)).seed(0, 1)]  # fmt: skip
    assert len(set(seeds)) == 6


def test_any_executor_gives_the_same_table():
    with ThreadPoolExecutor(2) as pool:
        assert figures(fast(reps=7, executor=pool)) == figures(fast(reps=7))


def test_progress_grows_to_one():
    said = []
    fast(reps=2, progress=lambda done, message: said.append((done, message)))
    shares = [done for done, _ in said]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert said[0][1].startswith("1/24 ")


def test_repetitions_are_done_in_pieces():
    tasks = sweep.planned("figure1", reps=12).tasks
    assert sorted((t.first, t.count) for t in tasks) == sorted([(0, 5), (5, 5), (10, 2)] * 4)
    assert CHUNK == 5


def test_what_was_not_answered_is_wrong_but_not_zero():
    found = score("baseline", Truth(SPECULATIVE, 4.0, 0.8, 2.95, 20.0), [Measured(), Measured(SPECULATIVE, 4.0)])
    assert (found.exact.value, found.right.value) == (0.5, 0.5)
    assert "alpha" not in found.quantities and found.quantities["max_burst"].bias.n == 1
    assert found.false_alarm is None


def test_a_method_is_not_blamed_for_what_it_does_not_give():
    found = score("guidellm", Truth(SPECULATIVE, 4.0, 0.8, 2.95, 20.0), [Measured(length=2.0)])
    assert found.exact is None and found.right is None
    assert found.quantities["length"].bias.value == pytest.approx(-0.95)


def test_yes_or_no_is_all_that_is_asked_of_a_method_that_knows_no_more():
    chunks = Truth("fixed-chunks")
    plain, loud = Measured("autoregressive"), Measured(SPECULATIVE)
    assert score("logisi", chunks, [plain]).right.value == 1.0
    assert score("likelihood", chunks, [plain]).right.value == 0.0
    assert score("logisi", chunks, [plain, loud]).false_alarm.value == 0.5
    assert score("logisi", chunks, [plain]).exact is None


def test_coverage_counts_open_intervals():
    told = [{"max_burst": (4.0, None)}, {"max_burst": (2.0, 3.0)}, {}]
    found = score("likelihood", Truth(SPECULATIVE, 4.0), [Measured(max_burst=4.0, intervals=i) for i in told])
    held = found.quantities["max_burst"].coverage
    assert (held.value, held.n) == (0.5, 2)
    assert 0 < held.low < 0.5 < held.high < 1


def test_intervals_of_means_errors_and_medians_hold_the_truth():
    rng = np.random.default_rng(1)
    hits = np.zeros(3)
    for _ in range(400):
        x = rng.normal(1.0, 2.0, 12)
        for i, (value, true) in enumerate(
            ((mean(x), 1.0), (root_mean_square(x), math.sqrt(5.0)), (median(x.tolist()), 1.0))
        ):
            hits[i] += value.low <= true <= value.high
    # 95% of 400 are 380; five standard errors are 22. The error's interval is approximate, the median's too wide
    assert 358 <= hits[0] <= 398 and 340 <= hits[1] <= 398 and 365 <= hits[2] <= 400
    assert math.isnan(median([1.0, 2.0, 3.0]).low) and math.isnan(mean(np.ones(1)).low)


def test_truth_is_told_only_where_the_stream_has_it():
    plain = Cell("", Service(max_burst=1)).truth()
    assert (plain.verdict, plain.max_burst, plain.length) == ("autoregressive", 1.0, 1.0) and math.isnan(plain.alpha)
    paced = Cell("", NULLS["J_paced"].service).truth()
    assert paced.verdict == "paced" and math.isnan(paced.max_burst) and math.isnan(paced.step_ms)
    uneven = Cell("", Service(max_burst=3, acceptance=(0.9, 0.5))).truth()
    assert uneven.length == pytest.approx(1 + 0.9 + 0.45) and 0.5 < uneven.alpha < 0.9


def test_a_refusal_is_an_answer(monkeypatch):
    def refuse(trace, seed):
        raise InputError("too few")

    monkeypatch.setitem(METHODS, "logisi", replace(METHODS["logisi"], ask=refuse))
    found = sweep.run("figure1", methods=["logisi"], reps=2).rows[0].scores["logisi"]
    assert (found.refused, found.failed, found.right.value) == (2, 0, 0.0)


def test_tables_have_a_line_for_each_cell_and_method():
    found = fast("figure1", reps=2)
    names, table = found.flat()
    assert len(set(names)) == len(names) and len(table) == 6
    assert {len(row) for row in table} == {len(names)}
    assert {"published_alpha", "exact_low", "step_ms_rmse_high", "jitter", "k", "method", "seconds"} <= set(names)
    frame = found.to_dataframe()
    assert len(frame) == 6


def test_totals_pool_the_trials():
    total = fast(reps=3).totals()["baseline"]
    exact = [row.scores["baseline"].exact for row in fast(reps=3).rows]
    assert total.exact.n == 24 and total.exact.value == pytest.approx(np.mean([e.value for e in exact]))
    assert total.false_alarm is None and total.coverage == {}


def test_peers_read_a_clean_stream():
    pytest.importorskip("hmmlearn")
    cell = Cell("", Service(max_burst=4, step_cv=0.05, in_burst_us=100.0, in_burst_cv=0.3))
    for name in ("logisi", "hmm"):
        found = METHODS[name].ask(cell.trace(1), 1)
        assert (found.verdict, found.max_burst) == (SPECULATIVE, 4.0), name
        assert found.length == pytest.approx(2.95, abs=0.3) and found.step_ms == pytest.approx(20.0, abs=0.5)
    counted = Cell("", Service(max_burst=4, events="step"))
    assert METHODS["guidellm"].ask(counted.trace(1), 1).length == pytest.approx(2.95, abs=0.3)
    assert METHODS["guidellm"].ask(cell.trace(1), 1).length == 1.0  # events that hold one token each


def test_log_isi_finds_no_bursts_in_plain_decoding():
    plain = Cell("", Service(max_burst=1, step_cv=0.1), 300)
    assert METHODS["logisi"].ask(plain.trace(1), 1).max_burst == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "nope"}, "no preset"), ({"methods": ["nope"]}, "no method"), ({"reps": 0}, "needs a cell"),
        ({"cells": []}, "needs a cell"), ({"preset": None}, "of a preset or of cells"),
    ],
)  # fmt: skip
def test_wrong_names_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        sweep.run(**{"methods": FAST, **options})


def test_a_task_is_named_by_its_content():
    cell = Cell("a", Service())
    base = Task(cell, "baseline", 0, 0, 5)
    same = Task(replace(cell, label="b", at={"k": 3}), "baseline", 0, 0, 5)
    others = [replace(base, method="hmm"), replace(base, seed=1), replace(base, first=5), replace(base, count=4)]
    assert base.key == same.key
    assert len({base.key, *(o.key for o in others)}) == 5
