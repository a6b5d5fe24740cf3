"""The sweep's bookkeeping, with an analysis that costs nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from specsonar import sweep
from specsonar.fingerprint import Estimate
from specsonar.render import json as render_json
from specsonar.stats.baseline import analyse


@pytest.fixture
def seen(monkeypatch, sample):
    """Both methods answer with the baseline's figures, and note what they were shown."""
    shown = []

    def fingerprint(trace, *, method, seed):
        shown.append((trace, method, seed))
        fit = analyse(trace.streams[0].t_ns * 1e-9)
        values = {"max_burst": fit.max_burst, "acceptance_rate": fit.alpha, "step_ms": fit.step_s * 1e3}
        return replace(sample, **{k: Estimate(float(v), float(v), float(v), 0.95, "") for k, v in values.items()})

    monkeypatch.setattr(sweep, "fingerprint", fingerprint)
    return shown


def test_the_article_preset_is_the_article():
    cells = sweep.article()
    assert [c.service.token_delay.scale_ms for c in cells] == [0, 1, 2, 3, 4, 5, 6, 1]
    assert [c.service.burst for c in cells] == [4] * 7 + [8]
    assert not any(c.service.bonus for c in cells)
    assert {c.tokens for c in cells} == {600}
    assert [c.published.max_burst for c in cells] == ["4", None, None, "rises", "rises", "rises", "8", "6"]


def test_both_methods_see_the_same_stream_without_its_truth_and_without_prefill(seen):
    sweep.run(reps=1)
    assert len(seen) == 16
    for (a, first, _), (b, second, _) in zip(seen[::2], seen[1::2], strict=True):
        assert (first, second) == sweep.METHODS
        assert a is b
        assert a.streams[0].truth is None
        assert len(a.streams[0]) == 600


def test_a_clean_stream_is_read_exactly_by_the_baseline(seen):
    clean = sweep.run(reps=3).rows[0].baseline
    assert (clean.max_burst, clean.exact, clean.answered) == (4.0, 1.0, 3)
    assert clean.step_rmse_ms < 1e-6
    assert clean.alpha == pytest.approx(0.8, abs=0.05)


def test_every_repetition_has_a_seed_of_its_own_and_runs_repeat(seen):
    first = sweep.run(reps=2, seed=5)
    assert len({seed for _, _, seed in seen}) == 16
    assert sweep.run(reps=2, seed=5) == first
    assert sweep.run(reps=2, seed=6) != first


def test_any_executor_gives_the_same_table(seen):
    with ThreadPoolExecutor(2) as pool:
        assert sweep.run(reps=2, executor=pool) == sweep.run(reps=2)


def test_progress_grows_to_one(seen):
    said = []
    sweep.run(reps=2, progress=lambda done, message: said.append((done, message)))
    shares = [done for done, _ in said]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert said[0][1] == "0 ms"


def test_what_was_not_answered_is_missing_not_zero(monkeypatch, bare):
    monkeypatch.setattr(sweep, "fingerprint", lambda trace, **_: bare)
    row = sweep.run(reps=1).rows[0]
    assert row.likelihood.answered == 0
    assert row.likelihood.exact == 0.0
    assert np.isnan(row.likelihood.max_burst)
    plain = json.loads(render_json.dumps(sweep.run(reps=1).to_dict()))
    assert plain["rows"][0]["likelihood"]["max_burst"] is None


def test_flat_has_a_name_for_every_value(seen):
    names, table = sweep.run(reps=1).flat()
    assert len(set(names)) == len(names)
    assert {len(row) for row in table} == {len(names)}
    assert {"published_alpha", "baseline_exact", "likelihood_step_ms", "tokens"} <= set(names)
