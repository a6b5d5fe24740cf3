"""Ask a real service, listen to when its tokens come, and tell how it decodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from .errors import InputError, UsageError
from .fingerprint import UNDETERMINED

if TYPE_CHECKING:
    from pathlib import Path

    from .errors import SpecsonarError
    from .fingerprint import Estimate, Fingerprint
    from .sources.dialing.dial import Way
    from .sources.dialing.find import Target
    from .sources.dialing.manner import Manner
    from .sources.dialing.routes import Question
    from .sources.dialing.session import Session
    from .sources.live import Capture
    from .trace import Trace

STREAMS: Final = 8
TOKENS: Final = 256
BUDGET: Final = 10_000
TIMEOUT_S: Final = 60.0

MOST_STREAMS: Final = 10_000
WARM_UP: Final = 24
"""Tokens of the first answer, which is not counted: it loads the model and shows which fields the server takes."""

DEFAULT_WORKLOADS: Final = ("prose", "code", "json", "repeat")

_SHOW_S: Final = 0.2
_LOOK_S: Final = 2.0
_SHARE: Final = 4.0
"""The estimate so far is made at most every two seconds, and takes at most a quarter of the time."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """How far a probe has come, for those who watch.

    Attributes
    ----------
    tokens, answers : received so far; events stand for tokens where those are not known.
    share : of the work, 0 to 1.
    tokens_per_s : since the first question.
    estimate : the last one, or None before the first.
    """

    tokens: int
    answers: int
    share: float
    tokens_per_s: float
    estimate: Fingerprint | None


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe found.

    Attributes
    ----------
    trace : what was recorded. No prompt, no text, no key.
    fingerprint : how the service decodes.
    ended : why it ended early: "budget", "interrupted", "failed", "enough"; "" when all questions were answered.
    errors : what went wrong on the way. With `ended` "failed" the last one is the reason.
    """

    trace: Trace
    fingerprint: Fingerprint
    ended: str = ""
    errors: tuple[SpecsonarError, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked of a service; see `probe` for the meaning of each."""

    model: str | None = None
    dialect: str | None = None
    workloads: Sequence[str] = ()
    prompts: Sequence[str] = ()
    streams: int | None = None
    tokens: int = TOKENS
    concurrency: int = 1
    temperature: float = 0.0
    seed: int | None = None
    until: float | None = None
    budget: int = BUDGET
    timeout: float = TIMEOUT_S
    key_env: str | None = None
    key_over_http: bool = False
    proxy: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def __post_init__(self) -> None:
        from .sources.dialing.workloads import prompts

        prompts(self.workloads or DEFAULT_WORKLOADS, 0)
        for name, low, high in (
            ("streams", 1, MOST_STREAMS), ("tokens", 2, 1_000_000), ("concurrency", 1, 1_000), ("budget", 2, 10**9),
            ("temperature", 0.0, 100.0), ("seed", 0, 2**63 - 1), ("until", 0.001, 1.0), ("timeout", 0.1, 86_400.0),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UsageError(f"{name} = {value!r} is out of range", f"allowed are values from {low:g} to {high:g}")


def probe(
    url: str,
    *,
    output: str | Path | None = None,
    level: float = 0.95,
    tell: Callable[[str], None] | None = None,
    watch: Callable[[SoFar], None] | None = None,
    **settings: Any,
) -> Probe:
    """Ask the service at `url` for a few streamed answers and tell from their times how it decodes.

    Parameters
    ----------
    url : of the service ("http://localhost:8000") or of one of its routes (".../v1/chat/completions").
    output : a trace file that is written while the answers come; `.gz` and `.zst` are packed.
    level : probability with which the intervals hold the truth.
    tell : called with a line of talk now and then; what will be spent is said before anything is asked.
    watch : called with the state of things a few times a second.
    settings :
        model : to ask; without it the server's only model, or its first.
        dialect : a name of `sources.dialing.routes.ROUTES`, where URL and server do not tell.
        workloads : prose, code, json, repeat; by default all of them in turns.
        prompts : texts to ask instead of these.
        streams : number of answers; 8, or with `until` as many as it takes.
        tokens : length of each answer.
        concurrency : answers at once.
        temperature : 0 by default. seed : of the server's sampling.
        until : stop when the intervals of acceptance length and step are within this share of their values.
        budget : tokens of all answers together.
        timeout : seconds of silence after which the server is given up.
        key_env : environment variable with the API key. By default that of the provider; for servers on this
            machine OPENAI_API_KEY, ANTHROPIC_API_KEY or HF_TOKEN by dialect.
        key_over_http : send a key unencrypted to another machine.
        proxy : URL of an HTTP proxy; by default those of the environment.
        environment : where keys come from.

    Returns
    -------
    Probe. An interrupt from the keyboard ends the recording and not the program: `ended` tells of it.

    Raises
    ------
    UsageError : a setting that cannot be.
    ConnectionFailed : nothing was received.
    InputError : the output cannot be written, or the times cannot be used.
    """
    return _Probing(url, Settings(**settings), output, level, tell or (lambda line: None), watch).run()


class _Probing:
    """One run of `probe`."""

    def __init__(
        self,
        url: str,
        settings: Settings,
        output: str | Path | None,
        level: float,
        tell: Callable[[str], None],
        watch: Callable[[SoFar], None] | None,
    ) -> None:
        from .sources.dialing import address

        self.settings = settings
        self.address = address.parse(url)
        self.output, self.level, self.tell, self.watch = output, level, tell, watch

    def run(self) -> Probe:
        """See `probe`."""
        from .sources.dialing import dial

        s = self.settings
        way, target = dial.meet(
            self.address, s.environment, dialect=s.dialect, model=s.model, key_env=s.key_env,
            key_over_http=s.key_over_http, proxy=s.proxy, timeout=s.timeout,
        )  # fmt: skip
        for note in (way.key.note, target.note):
            if note:
                self.tell(note)
        questions = self._questions(target)
        self._announce(target, questions)
        manner = dial.warm_up(way, target, replace(questions[0], tokens=min(WARM_UP, s.tokens)), self.tell)
        trace, session = self._record(way, target, manner, questions)
        if not trace.events:
            if session.ended == "interrupted":
                raise KeyboardInterrupt
            raise session.errors[-1] if session.errors else dial.nothing(target, trace, way.secrets)
        from .fit import fingerprint  # slow to import, and of no use before there is something to look at

        trace = dial.hidden(trace, way.secrets)
        try:
            answer = fingerprint(trace, level=self.level)
        except InputError as error:
            raise InputError(error.message, "the answers came all at once: are they cached, or held back?") from None
        return Probe(trace, answer, session.ended, tuple(session.errors))

    def _questions(self, target: Target) -> list[Question]:
        from .sources.dialing import workloads
        from .sources.dialing.routes import Question

        s = self.settings
        count = s.streams or (MOST_STREAMS if s.until else STREAMS)
        return [
            # one seed for all would make equal answers of equal prompts
            Question(text, s.tokens, target.model, s.temperature, None if s.seed is None else s.seed + number, name)
            for number, (name, text) in enumerate(workloads.named(s.workloads or DEFAULT_WORKLOADS, s.prompts, count))
        ]

    def _announce(self, target: Target, questions: Sequence[Question]) -> None:
        """What will be asked, before it is."""
        s = self.settings
        most = min(s.budget, len(questions) * s.tokens)
        what = f"asking {target.model or 'the model'} at {target.address.origin} ({target.route.name})"
        goal = f"answers of up to {s.tokens} tokens"
        if s.until is None or s.streams is not None:
            goal = f"{len(questions)} {goal}" if len(questions) > 1 else f"1 answer of up to {s.tokens} tokens"
        line = f"{what}: {goal}, temperature {s.temperature:g}"
        if not target.address.loopback:
            line += f"; at most {most + WARM_UP:,} tokens in all, which may cost money (--budget sets the limit)"
        self.tell(line)

    def _record(self, way: Way, target: Target, manner: Manner, questions: Sequence[Question]) -> tuple[Trace, Session]:
        import httpx2

        from .sources.dialing.counters import Counters
        from .sources.dialing.dial import headers
        from .sources.dialing.session import Session
        from .sources.keeper import Keeper
        from .sources.live import Capture
        from .sources.rollover import unix_offset_ns
        from .tracefile import Writer
        from .wire.request import digest

        s = self.settings
        meta = {
            "format": "specsonar probe", "clock": "monotonic", "service": target.address.origin,
            "workload": _asked(s), "concurrency": s.concurrency, "unix_offset_ns": unix_offset_ns(),
        }  # fmt: skip
        writer = None if self.output is None else Writer(self.output, meta=meta, hide=way.secrets.hide_bytes)
        names = {digest(q.prompt): q.name for q in questions}
        with Keeper(writer, questions=names) as keeper, httpx2.Client(**way.options) as other:
            counters = Counters(way.line(other, headers(target, way.key)))
            with Capture(keeper) as capture, capture.client(**way.options) as client:
                session = Session(
                    way.line(client, headers(target, way.key)), target.url, manner, questions,
                    concurrency=s.concurrency, budget=s.budget, capture=capture, keeper=keeper,
                )  # fmt: skip
                try:
                    session.run(_Watching(s, capture, self.level, self.watch).enough)
                except InputError as error:  # the file takes no more; what was received is here all the same
                    session.ended = "failed"
                    session.errors.append(error)
            keeper.note(capture.findings)
            told, note = counters.report(keeper.trace())
            if told is not None:
                keeper.meta["server_report"] = told
            if note:
                self.tell(note)
            trace = keeper.trace()
        return replace(trace, meta=meta | dict(trace.meta)), session


def _asked(settings: Settings) -> str:
    """Which prompts, so that two recordings can be told to be alike; of the user's own only a digest is kept."""
    if settings.prompts:
        return f"prompts {sha256(chr(0).join(settings.prompts).encode()).hexdigest()[:12]}"
    return " ".join(settings.workloads or DEFAULT_WORKLOADS)


class _Watching:
    """Looks at what has come so far: for whoever watches, and to see whether it is enough."""

    def __init__(
        self, settings: Settings, capture: Capture, level: float, watch: Callable[[SoFar], None] | None
    ) -> None:
        self._settings, self._capture, self._level, self._watch = settings, capture, level, watch
        self._estimate: Fingerprint | None = None
        self._began = self._fitted = self._shown = time.monotonic()
        self._took = 0.0
        self._seen = 0

    def enough(self, session: Session) -> bool:
        """Whether the intervals are as tight as was asked for."""
        if self._watch is None and self._settings.until is None:
            return False
        now = time.monotonic()
        fresh = now - self._fitted > max(_LOOK_S, _SHARE * self._took) and self._fit(session)
        if self._watch is not None and (fresh or now - self._shown > _SHOW_S):
            self._shown = now
            self._watch(self._so_far(session, now - self._began))
        return fresh and self._settings.until is not None and self._tight(session)

    def _fit(self, session: Session) -> bool:
        """Make a new estimate, unless there is nothing new."""
        from .sources.dialing.session import complete
        from .sources.live.capture import KERNEL

        if session.busy and self._capture.stamps != KERNEL:
            return False  # arithmetic in this thread could keep the reader's clock waiting
        trace = complete(session.trace())
        if trace.events <= self._seen:
            return False
        from .fit import fingerprint

        self._seen = trace.events
        self._fitted = time.monotonic()
        try:
            self._estimate = fingerprint(trace, level=self._level)
        except InputError:
            return False  # too little yet
        finally:
            self._took = time.monotonic() - self._fitted
            self._fitted += self._took
        return True

    def _tight(self, session: Session) -> bool:
        """Whether every workload was heard, and the intervals lie within the share of their values."""
        s = self._settings
        assert s.until is not None
        found = self._estimate
        turns = len(s.prompts) if s.prompts else len(s.workloads or DEFAULT_WORKLOADS)
        if found is None or found.verdict == UNDETERMINED or session.answered < turns:
            return False
        wanted = _wanted(found)
        return bool(wanted) and all(half_width(e) <= s.until for e in wanted)

    def _so_far(self, session: Session, seconds: float) -> SoFar:
        tokens, s = session.spent(), self._settings
        share = tokens / s.budget
        if s.until is not None and self._estimate is not None:
            # a width shrinks with the square root of the tokens
            widths = [half_width(e) for e in _wanted(self._estimate)]
            share = max(share, (s.until / max(*widths, s.until)) ** 2 if widths else 0.0)
        elif s.until is None:
            share = max(share, tokens / ((s.streams or STREAMS) * s.tokens))
        return SoFar(tokens, session.answered, min(share, 1.0), tokens / max(seconds, 1e-9), self._estimate)


def _wanted(found: Fingerprint) -> list[Estimate]:
    """The estimates that `until` is about: acceptance length and step; of buffers and pacers only the rate is known."""
    known = [e for e in (found.acceptance_length, found.step_ms) if e is not None]
    return known or [e for e in (found.tokens_per_s,) if e is not None]


def half_width(estimate: Estimate) -> float:
    """Half of the interval as a share of the value; infinite for a one-sided interval."""
    if estimate.high is None or estimate.value == 0:
        return float("inf")
    return (estimate.high - estimate.low) / 2 / abs(estimate.value)
