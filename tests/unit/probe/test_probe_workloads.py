"""Prompts: different from each other, in turns among the workloads."""

from hashlib import sha256

import pytest

from specsonar.errors import InputError, UsageError
from specsonar.sources.dialing.workloads import WORKLOADS, from_file, named, prompts


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


def test_a_name_means_one_text_and_tells_nothing_of_the_users_own():
    few, more = named(["prose", "code"], (), 6), named(["prose", "code"], (), 40)
    assert more[:6] == few
    assert len({name for name, _ in more}) == len({text for _, text in more}) == 40
    own = named([], ("A secret.", "Another."), 3)
    assert own[0] == own[2] and own[0] != own[1]
    assert own[0][0] != named([], ("A secret.", "A third."), 1)[0][0]
    assert not any(sha256(text.encode()).hexdigest()[:6] in name for name, text in own)
