"""Prompts: different from each other, in turns among the workloads."""

import pytest

from specsonar.errors import InputError, UsageError
from specsonar.sources.dialing.workloads import WORKLOADS, from_file, prompts


def test_no_prompt_is_asked_twice():
    made = prompts(tuple(WORKLOADS), 400)
    assert len({p.text for p in made}) == 400
    assert [p.workload for p in made[:5]] == ["prose", "code", "json", "repeat", "prose"]


def test_a_longer_run_begins_like_a_shorter_one():
    assert prompts(("code", "json"), 50)[:7] == prompts(("code", "json"), 7)


def test_unknown_workload():
    with pytest.raises(UsageError, match="no workload") as caught:
        prompts(("poetry",), 1)
    assert "prose" in caught.value.hint


def test_prompts_of_a_file(tmp_path):
    path = tmp_path / "p.txt"
    path.write_bytes(b"one\r\nmore of one\r\n\r\n\n\ntwo\n")
    assert from_file(path) == ["one\nmore of one", "two"]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_files_without_prompts(tmp_path, content):
    path = tmp_path / "p.txt"
    path.write_bytes(content)
    with pytest.raises(InputError):
        from_file(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        from_file(tmp_path / "none")
