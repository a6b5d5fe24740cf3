"""Knobs from flags and files."""

import pytest

from specsonar.errors import InputError, UsageError
from specsonar.sweep import grid
from specsonar.sweep.presets import PRESETS, limit_law


def one(*fixed):
    (cell,) = grid.parse([], fixed).cells()
    return cell


def test_every_combination_the_last_knob_fastest():
    cells = grid.parse(["sigma=0:0.2:0.1", "tokens=150,600"], ["k=3", "layer=independent"]).cells()
    assert [(c.at["sigma"], c.tokens) for c in cells] == [(s, n) for s in (0.0, 0.1, 0.2) for n in (150, 600)]
    assert {c.service.burst for c in cells} == {4}
    assert cells[1].label == "sigma=0, tokens=600"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("alpha=0.5,.8", (0.5, 0.8)), ("sigma=0:0.3:0.1", (0.0, 0.1, 0.2, 0.3)), ("sigma=0:0.25:0.1", (0.0, 0.1, 0.2)),
        ("tokens=100:800:x2", (100, 200, 400, 800)), ("tokens=150", (150,)),
        ("acceptance=.9,.8;.9,.5", ((0.9, 0.8), (0.9, 0.5))),
        ("token_delay=gauss:2;lognormal:2,1", ("gauss:2", "lognormal:2,1")),
        ("stall_ms=1,2;3,4", ((1.0, 2.0), (3.0, 4.0))),
        ("bonus=yes,no", (True, False)), ("order=in-order,independent", ("in-order", "independent")),
        ("jitter=10%,3", ("10%", 3.0)), ("world=D,F", ("D", "F")),
    ],
)  # fmt: skip
def test_values_are_read_as_the_knob_needs_them(text, values):
    (found,) = grid.parse([text], []).varied.values()
    assert found == values


def test_jitter_is_a_spread_whatever_the_law_and_lies_where_the_layer_has_it():
    assert str(one("sigma=0.3", "step=30", "layer=independent").service.token_delay) == "gauss:9"
    assert str(one("jitter=10%", "step=30").service.step_delay) == "gauss:3"
    assert str(one("jitter=3", "law=exponential").service.step_delay) == "exponential:3"
    late = one("jitter=3", "law=lognormal", "shape=0.5").service.step_delay
    import numpy as np

    assert late.draw(np.random.default_rng(1), 200_000).std() == pytest.approx(3.0, rel=0.02)
    heavy = one("jitter=3", "law=pareto", "shape=5").service.step_delay
    assert heavy.draw(np.random.default_rng(1), 400_000).std() == pytest.approx(3.0, rel=0.05)


def test_layers():
    assert one("layer=counted").service.told == "each"
    assert one("layer=independent").service.order == "independent"
    assert one("layer=in-order", "world=A3").service.order == "in-order"


def test_short_names_and_worlds():
    cell = one("M=5", "alpha=.7", "step=30", "cv=.1", "streams=3")
    assert (cell.service.burst, cell.service.step_ms, cell.service.step_cv, cell.streams) == (5, 30.0, 0.1, 3)
    assert one("world=B35").tokens == 2_000
    assert one("world=B35", "tokens=100").tokens == 100


@pytest.mark.parametrize(
    ("vary", "fixed", "message", "hint"),
    [
        (["sgma=1"], [], "unknown knob 'sgma'", "sigma"), ([], ["stepms=3"], "unknown knob", "step_ms"),
        (["sigma"], [], "cannot read", "NAME=VALUE"), (["sigma=a"], [], "is not a number", ""),
        (["tokens=1.5"], [], "whole number", ""), (["sigma=1:0:0.1"], [], "does not grow", ""),
        (["sigma=0:1:x2"], [], "by a factor", "above zero"), (["sigma=0:1:0.0000001"], [], "values", ""),
        (["sigma=0,1"], ["jitter=3"], "two names for one thing", ""), ([], ["law=gauss"], "without a jitter", ""),
        (["k=2", "k=3"], [], "varied twice", ""), (["M=2"], ["max_burst=3"], "same knob", ""),
        ([], ["step=-1"], "out of range", ""), ([], ["world=Z"], "no world", ""),
        ([], ["bonus=maybe"], "yes or no", ""),
        ([], ["layer=upper"], "layer", "counted"), ([], ["tokens=0"], "out of range", ""),
        (["step_delay=gass:2"], [], "step_delay=gass:2: delay law", "gauss"),
        ([], ["jitter=3", "law=pareto", "shape=2"], "no spread", ""),
        (["sigma=0:1:0.001", "alpha=0:1:0.001"], [], "too many", ""),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_the_way_out(vary, fixed, message, hint):
    with pytest.raises(UsageError) as caught:
        grid.parse(vary, fixed).cells()
    assert message in caught.value.message
    assert hint in caught.value.hint


TOML = """
methods = ["likelihood", "logisi"]
reps = 20
[set]
k = 4
step_delay = "lognormal:2,1"
[vary]
tokens = [150, 600]
alpha = "0.5:0.9:0.2"
acceptance_after = [[0.1, 0.2, 0.3, 0.4]]
"""


def test_a_file_says_the_same(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(TOML)
    found = grid.read(path)
    assert (found.methods, found.reps, found.seed) == (("likelihood", "logisi"), 20, None)
    assert found.varied["alpha"] == (0.5, 0.7, 0.9)
    assert len(found.cells()) == 6 and found.cells()[0].service.acceptance_after == (0.1, 0.2, 0.3, 0.4)
    flags = grid.parse(["k=2,4"], ["tokens=300", "acceptance_after=0.5"])
    both = grid.merged(found, flags)
    assert list(both.varied) == ["alpha", "k"] and both.fixed["tokens"] == 300 and both.reps == 20
    assert len(both.cells()) == 6


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("[vary", InputError, "no TOML"), ("rep = 3", UsageError, "unknown key 'rep'"),
        ("reps = 0", UsageError, "reps"),
        ("vary = 3", UsageError, "no table"), ("[vary]\nsgma = [1]", UsageError, "unknown knob"),
        ("[vary]\nsigma = 1", UsageError, "in [vary]"), ("[set]\nbonus = 3", UsageError, "wrong kind"),
        ('methods = "hmm"', UsageError, "no list"), ("[set]\nstep = true", UsageError, "wrong kind"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_of(tmp_path, text, kind, message):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(kind) as caught:
        grid.read(path)
    assert message in caught.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        grid.read(tmp_path / "none.toml")


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_are_made_of_valid_cells_with_names_of_their_own(name):
    cells = PRESETS[name].cells()
    assert len({c.label for c in cells}) == len(cells) > 1


def test_the_law_of_the_comb():
    tokens = dict(limit_law([0.2, 0.25, 0.3, 0.35, 0.4]))
    assert [round(tokens[s]) for s in (0.2, 0.25, 0.3, 0.35)] == [73, 177, 524, 1890]
