"""Saved fingerprints come back as they were, and damaged ones are refused in one line."""

import gzip
import json

import pytest

from specsonar import fingerprint
from specsonar.errors import FormatError, InputError, UsageError
from specsonar.render import json as rendered
from specsonar.saved import is_saved, load, side
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS


@pytest.fixture(scope="module")
def real():
    return fingerprint(simulate(WORLDS["H0"].service, tokens=200, streams=8, seed=1).without_truth())


@pytest.fixture
def save(tmp_path):
    def write(text):
        path = tmp_path / "saved.json"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return str(path)

    return write


@pytest.fixture
def times(tmp_path):
    path = tmp_path / "times.txt"
    path.write_text("0.0\n0.02\n0.04\n")
    return path


def test_a_fingerprint_comes_back_as_it_was(real, save):
    assert load(save(rendered.render(real))) == real


def test_one_without_estimates_comes_back_too(bare, save):
    assert load(save(rendered.render(bare))) == bare


def test_packed_files_are_read(real, tmp_path):
    path = tmp_path / "saved.json.gz"
    path.write_bytes(gzip.compress(rendered.render(real).encode()))
    assert is_saved(str(path))
    assert side([str(path)]) == real


def test_keys_of_newer_versions_are_passed_over(real, save):
    assert load(save(real.to_dict() | {"from_the_future": 1})) == real


def test_recordings_are_no_saved_fingerprints(times):
    assert not is_saved(str(times))


def edited(record, path, value):
    *parents, last = path.split(".")
    place = record
    for key in parents:
        place = place[int(key) if key.isdigit() else key]
    place[last] = value
    return record


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "specsonar.comparison/1", "schema"),
        ("schema", "specsonar.fingerprint/2", "newer specsonar"),
        ("verdict", "splendid", "splendid"),
        ("streams", "many", r"\$.streams"),
        ("streams", -1, "below zero"),
        ("ceiling", 3, "ceiling"),
        ("max_burst.value", "4", r"\$.max_burst"),
        ("acceptance_length.low", 99.0, "acceptance_length"),
        ("step_ms.level", 1.5, "step_ms"),
        ("acceptance_by_position.0.low", 2.0, "position 1"),
        ("by_stream.0.steps", -3.0, "by_stream"),
        ("findings", [{"code": "Q001"}], "findings"),
    ],
)
def test_what_no_analysis_wrote_is_refused(real, save, path, value, said):
    with pytest.raises(FormatError, match=said) as refused:
        load(save(edited(json.loads(rendered.render(real)), path, value)))
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("cut", [5, 200, 3_000])
def test_a_cut_file_is_refused(real, save, cut):
    with pytest.raises(FormatError, match="no saved fingerprint"):
        load(save(rendered.render(real)[:cut]))


def test_numbers_beyond_all_bounds_are_refused(real, save):
    text = rendered.render(real).replace('"jitter_ms": {\n    "value": ', '"jitter_ms": {\n    "value": 1e999, "x": ')
    with pytest.raises(FormatError):
        load(save(text))


def test_nesting_without_end_is_refused(save):
    with pytest.raises(FormatError):
        load(save('{"schema": "specsonar.fingerprint/1", "a": ' + "[" * 100_000))


def test_a_saved_fingerprint_is_not_pooled(real, save, times):
    with pytest.raises(UsageError, match="pooled"):
        side([save(rendered.render(real)), str(times)])


def test_a_missing_file_is_said():
    with pytest.raises(InputError, match="nowhere"):
        side(["nowhere.json"])
