"""Inputs that cannot be used: one clear line, the right exit code, no traceback, and no waiting."""

import gzip
import json
import os

import pytest
import zstandard

STEPS = "".join(f"{0.02 * (i // 3):.6f}\n" for i in range(900))


def numbers(values):
    return "".join(f"{value}\n" for value in values).encode()


def steps_of(seconds, count=300):
    return numbers(f"{seconds * (i // 3):.9f}" for i in range(count))


CASES = {
    "empty": (b"", (), "empty"),
    "blank": (b"\n \n# only a comment\n", (), None),
    "one token": (b"0.5\n", (), None),
    "all equal": (numbers([1.5] * 100), (), None),
    "nan": (b"0.1\nnan\n0.3\n", (), "not a finite number"),
    "infinite": (b"0.1\ninf\n0.3\n", (), "not a finite number"),
    "decreasing": (numbers(range(100, 0, -1)), (), "backwards"),
    "step of 20 us": (steps_of(20e-6), ("--unit", "s"), None),
    "plain step of 20 us": (numbers(f"{2e-5 * i:.9f}" for i in range(300)), ("--unit", "s"), "faster"),
    "step of 20 us by a wrong unit": (STEPS.encode(), ("--unit", "ms"), None),
    "step of 20 minutes": (steps_of(1200.0), ("--unit", "s"), None),
    "words": (b"hello\nworld\n", (), None),
    "half a line of words": (b"0.1\n0.2\nx\n0.4\n", (), "line 3"),
    "random bytes": (bytes((i * 7919 + (i * i) % 251) % 256 for i in range(5000)), (), "binary"),
    "zeros": (bytes(5000), (), "binary"),
    "a long line": (b"1" * (9 << 20), (), "longer than"),
    "numbers too large": (b"1e300\n2e300\n", ("--unit", "s"), None),
    "archive of nothing": (gzip.compress(b""), (), None),
    "archive cut in its head": (gzip.compress(STEPS.encode())[:9], (), None),
    "archive that is none": (b"\x1f\x8b" + b"x" * 200, (), None),
    "zstd archive that is none": (b"\x28\xb5\x2f\xfd" + b"x" * 200, (), None),
}

BOMB_BYTES = 64 << 20


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line_and_exit_3(run, tmp_path, case):
    content, options, said = CASES[case]
    path = tmp_path / "input"
    path.write_bytes(content)
    result = run("analyze", path, *options)
    check(result, said)


def check(result, said=None, code=3):
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    error, *hints = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert said is None or said in error
    assert all(line.startswith("hint: ") for line in hints)
    assert len(hints) <= 1
    assert "defect" not in error
    assert "Traceback" not in result.stderr
    assert len(error) < 300


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_decompression_bomb(run, tmp_path, pack):
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"1\n" * (BOMB_BYTES // 2)))
    check(run("analyze", path))


@pytest.mark.parametrize("tokens", [5, 39])
def test_too_few_tokens_are_no_error_and_the_number_needed_is_told(run, tmp_path, tokens):
    path = tmp_path / "short.txt"
    path.write_text("".join(STEPS.splitlines(keepends=True)[:tokens]))
    result = run("analyze", path, "--unit", "s", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["verdict"] == "undetermined"
    assert answer["needed_tokens"] == 150
    assert "about 150 tell speculation" in answer["sentence"]
    assert "Q001" in {f["code"] for f in answer["findings"]}


def test_a_directory(run, tmp_path):
    check(run("analyze", tmp_path), "directory")


def test_no_such_file(run, tmp_path):
    check(run("analyze", tmp_path / "none.txt"), "none.txt")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_no_permission(run, tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text(STEPS)
    path.chmod(0)
    check(run("analyze", path), "secret.txt")


def test_empty_stdin(run):
    check(run("analyze", "-", input=b""))


def test_one_bad_file_among_good_ones_is_named(run, tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text(STEPS)
    bad.write_text("0.1\nnan\n")
    check(run("analyze", good, bad), "bad.txt")


def test_a_truncated_archive_is_read_up_to_the_cut(run, tmp_path, fake_fit):
    """What was before the cut is good data, so the analysis goes on and a finding says what happened."""
    text = "".join(f"{0.02 * i + (i * i * 7919 % 1009) * 1e-6:.6f}\n" for i in range(4000))
    packed = gzip.compress(text.encode())
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert run("analyze", path).exit_code == 0
    trace = fake_fit[0][0]
    assert 100 < trace.events < 4000
    assert "I001" in {finding.code for finding in trace.findings}


def test_a_unit_that_is_none_is_wrong_usage(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(STEPS)
    assert run("analyze", path, "--unit", "minutes").exit_code == 2


@pytest.mark.parametrize("name", ["-rf", "a\nb", "a\x1b[2Jb", "\udcff"])
def test_odd_file_names(run, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"")
    result = run("analyze", path)
    check(result, "empty")
    assert "\x1b" not in result.stderr
