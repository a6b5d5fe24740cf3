"""Events are on disk when they arrive, the end of an answer corrects them, and a file that fails keeps what it has."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from specsonar.errors import InputError, LimitError
from specsonar.findings import finding
from specsonar.importers import read
from specsonar.sources.keeper import MOST_FINDINGS, Keeper
from specsonar.trace import ASSUMED_ONE, COUNTED, NOT_SAID, stream
from specsonar.tracefile import Writer


@dataclass
class Event:
    choice: int
    t_ns: int
    read: int
    size: int
    tokens: int = -1


@dataclass
class Scripted:
    """An answer that says what a test tells it to say."""

    source: str = ASSUMED_ONE
    ended: bool = False
    events: list[Event] = field(default_factory=list)
    last: dict[int, list[int]] = field(default_factory=dict)
    findings: list = field(default_factory=list)
    question: bytes = b""
    _looked: int = 0

    def fresh(self):
        new, self._looked = self.events[self._looked :], len(self.events)
        return new

    def settled(self, choice):
        return self.last.get(choice) or [e.tokens for e in self.events if e.choice == choice]

    def streams(self, name=""):
        choices = sorted({e.choice for e in self.events}) or [0]
        made = []
        for choice in choices:
            mine = [e for e in self.events if e.choice == choice]
            rows = [(e, n) for e, n in zip(mine, self.settled(choice), strict=True) if n]
            made.append(
                stream(
                    [e.t_ns for e, _ in rows],
                    [n for _, n in rows],
                    read=[e.read for e, _ in rows],
                    size=[e.size for e, _ in rows],
                    name=name if len(choices) == 1 else f"{name}#{choice}",
                    count_source=self.source,
                    start_ns=1,
                    meta={"model": "m"},
                    total_tokens=9 if self.ended else None,
                )
            )
        return made, self.findings


class Wire:
    """A decoder whose bytes are the test's: each read is a function that changes the answers."""

    def __init__(self):
        self.answers = []
        self.findings = []

    def sent(self, t_ns, data):
        if data == b"too long":
            raise LimitError("a header of 9 MB", "none")

    def received(self, t_ns, data, read=None):
        if data == b"too long":
            raise LimitError("a line of 9 MB", "none")

    def closed(self, t_ns):
        for answer in self.answers:
            answer.ended = True


def columns(one):
    return [getattr(one, name).tolist() for name in ("t_ns", "tokens", "read", "size")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


def feed(tap, answer, *events, end=False):
    answer.events += events
    answer.ended = end
    tap.received(0, b"")


def test_every_event_is_on_disk_when_it_arrives_and_is_corrected_at_the_end(path: Path) -> None:
    answer, wire = Scripted(), Wire()
    with Keeper(Writer(path)) as keeper:
        tap = keeper.tap("a", {"stream_options": 1}, wire)
        wire.answers.append(answer)
        for k in range(3):
            feed(tap, answer, Event(0, 10 * k, k, 200 + k))
            assert columns(read(path).streams[0]) == columns(keeper.trace().streams[0])
            assert read(path).events == k + 1
        answer.last[0] = [0, 3, 2]
        answer.source = COUNTED
        feed(tap, answer, end=True)
        assert wire.answers == [] and tap.running == [], "an answer that has ended is let go of"
        kept = keeper.trace()
    whole = read(path)
    assert whole.findings == ()
    assert columns(whole.streams[0]) == columns(kept.streams[0]) == [[10, 20], [3, 2], [1, 2], [201, 202]]
    for one in (whole.streams[0], kept.streams[0]):
        assert (one.count_source, one.total_tokens, one.start_ns) == (COUNTED, 9, 1)
        assert dict(one.meta) == {"stream_options": 1, "model": "m"}


def test_streams_are_interleaved_and_choices_and_answers_have_names(path: Path) -> None:
    wires = Wire(), Wire()
    with Keeper(Writer(path)) as keeper:
        taps = [keeper.tap(name, decoder=wire) for name, wire in zip("ab", wires, strict=True)]
        first = [Scripted(), Scripted()]
        for wire, answer in zip(wires, first, strict=True):
            wire.answers.append(answer)
        for k in range(2):
            feed(taps[0], first[0], Event(0, k, k, 1), Event(1, k, k, 1))
            feed(taps[1], first[1], Event(0, k, k, 2))
        feed(taps[0], first[0], end=True)
        second = Scripted()
        wires[0].answers.append(second)
        feed(taps[0], second, Event(0, 5, 5, 1))
        assert (keeper.streams, keeper.events) == (4, 7)
    names = [(one.name, len(one)) for one in read(path).streams]
    assert names == [("a", 2), ("a#1", 2), ("b", 2), ("a:2", 1)]


def test_a_cut_file_says_when_counts_are_not_known(path: Path) -> None:
    answer, wire = Scripted(source=NOT_SAID), Wire()
    keeper = Keeper(Writer(path))
    wire.answers.append(answer)
    feed(keeper.tap("a", decoder=wire), answer, Event(0, 1, 1, 1))
    assert read(path).streams[0].count_source == NOT_SAID
    keeper.close(complete=False)
    assert [f.code for f in read(path).findings] == ["I001"]


def test_findings_of_answers_go_with_them_and_the_others_to_the_end(path: Path) -> None:
    wire = Wire()
    with Keeper(Writer(path)) as keeper:
        tap = keeper.tap("a", decoder=wire)
        good, silent = Scripted(findings=[finding("I007", "late")]), Scripted(findings=[finding("I007", "refused")])
        wire.answers += [good, silent]
        good.events.append(Event(0, 1, 1, 1))
        tap.closed(5)
        assert [f.message for f in keeper.findings] == ["late", "refused"]
    assert sorted(f.message for f in read(path).findings) == ["late", "refused"]
    assert len(read(path).streams) == 1, "an answer without an event makes no stream"


def test_findings_are_bounded() -> None:
    keeper = Keeper()
    for k in range(3 * MOST_FINDINGS):
        keeper.note([finding("I007", f"error {k // 2}")])
    assert len(keeper.findings) == MOST_FINDINGS


@pytest.mark.parametrize("way", ["sent", "received"])
def test_a_limit_ends_the_recording_of_one_connection_only(path: Path, way: str) -> None:
    wires = Wire(), Wire()
    with Keeper(Writer(path)) as keeper:
        bad, good = (keeper.tap(name, decoder=wire) for name, wire in zip("ab", wires, strict=True))
        answers = Scripted(), Scripted()
        for wire, answer, tap in zip(wires, answers, (bad, good), strict=True):
            wire.answers.append(answer)
            feed(tap, answer, Event(0, 1, 1, 1))
        getattr(bad, way)(2, b"too long")
        bad.received(3, b"too long")
        bad.closed(4)
        feed(good, answers[1], Event(0, 2, 2, 2))
    whole = read(path)
    assert [len(one) for one in whole.streams] == [1, 2]
    assert [f.code for f in whole.findings] == ["I008"]


def test_without_keep_ended_answers_are_forgotten(path: Path) -> None:
    wire = Wire()
    with Keeper(Writer(path), keep=False) as keeper:
        tap = keeper.tap("a", decoder=wire)
        for k in range(3):
            answer = Scripted()
            wire.answers.append(answer)
            feed(tap, answer, Event(0, k, k, 1), end=True)
            assert keeper.trace().streams == ()
    assert [one.name for one in read(path).streams] == ["a", "a:2", "a:3"]


def test_after_a_switch_running_answers_stay_whole_in_the_old_file(tmp_path: Path) -> None:
    wire = Wire()
    old, new = Scripted(), Scripted()
    with Keeper(Writer(tmp_path / "1.jsonl")) as keeper:
        tap = keeper.tap("a", decoder=wire)
        wire.answers.append(old)
        feed(tap, old, Event(0, 1, 1, 1))
        keeper.switch(Writer(tmp_path / "2.jsonl"))
        wire.answers.append(new)
        feed(tap, new, Event(0, 2, 2, 1))
        feed(tap, old, Event(0, 3, 3, 1))
        assert [f.code for f in read(tmp_path / "1.jsonl").findings] == ["I001"]
        feed(tap, old, end=True)
        assert read(tmp_path / "1.jsonl").findings == (), "closed with its last answer"
    assert [columns(read(tmp_path / f"{k}.jsonl").streams[0])[0] for k in (1, 2)] == [[1, 3], [2]]
    assert read(tmp_path / "2.jsonl").findings == ()


class Full(io.BytesIO):
    """A disk with room for so many bytes."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        fits = data[: max(0, self.room - self.tell())]
        super().write(fits)
        if len(fits) < len(data):
            raise OSError(28, "No space left on device")
        return len(data)


@pytest.mark.parametrize("room", [120, 150, 200, 230, 400])
def test_a_full_disk_is_told_once_and_what_was_written_loads(room: int) -> None:
    target, answer, wire = Full(room), Scripted(), Wire()
    keeper = Keeper(Writer(target))
    tap = keeper.tap("a", decoder=wire)
    wire.answers.append(answer)
    told = 0
    for k in range(50):
        try:
            feed(tap, answer, Event(0, k, k, 1))
        except InputError as error:
            assert "No space left" in error.message
            told += 1
    keeper.close()
    assert told == 1
    assert len(keeper.trace().streams[0]) == 50, "in memory nothing is lost"
    target.seek(0)
    kept = read(target)
    written = target.getvalue().count(b"\n[")
    assert sum(map(len, kept.streams)) in (written, written - 1)
    assert [f.code for f in kept.findings] == ["I001"]


def test_a_device_that_takes_nothing_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="No space left"):
        Writer("/dev/full")


KILLED = """
import sys
from specsonar.sources.keeper import Keeper
from specsonar.tracefile import Writer
sys.path.insert(0, sys.argv[2])
from test_keeper import Event, Scripted, Wire, feed
wire, answer = Wire(), Scripted()
keeper = Keeper(Writer(sys.argv[1]))
tap = keeper.tap("a", decoder=wire)
wire.answers.append(answer)
for k in range(10**9):
    feed(tap, answer, Event(0, 1000 * k, k, 1))
    print(k, flush=True)
"""


def test_kill_9_loses_at_most_the_event_in_flight(path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    for _ in range(40):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    told = 40 + child.stdout.read().count(b"\n")
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    trace = read(path)
    assert trace.events in (told, told + 1)
    assert [f.code for f in trace.findings] == ["I001"]


def test_an_answer_carries_the_name_of_what_was_asked(path: Path) -> None:
    wire = Wire()
    with Keeper(Writer(path), questions={b"one": "prose 1"}) as keeper:
        tap = keeper.tap("a", {}, wire)
        for question in (b"one", b"two"):
            wire.answers.append(Scripted(question=question))
            feed(tap, wire.answers[-1], Event(0, 1, 0, 1, 1), end=True)
    assert [one.meta.get("question") for one in read(path).streams] == ["prose 1", None]
