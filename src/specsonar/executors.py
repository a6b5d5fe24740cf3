"""Where work runs: this process, a process for each core, a Dask cluster, or any pool with `submit`.

Tasks go out a few at a time and results come back as they finish, so memory stays flat however many tasks there are. A
worker that dies takes no task with it: its tasks are handed out again. A task gives the same result wherever and
however often it runs, as long as it depends on nothing but its argument; that is what callers have to see to.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from . import __version__
from .errors import ConnectionFailed, InputError, SpecsonarError, UsageError
from .extras import need_cluster

Task = TypeVar("Task")
Result = TypeVar("Result")

PROCESSES: Final = "processes"
SERIAL: Final = "serial"
DASK: Final = "dask://"

LOSSES: Final = 3
"""A task whose worker died this often is given up: it is what kills them."""

AHEAD: Final = 4
"""Tasks handed out for each worker: enough that none waits, few enough that little is in memory."""

_LOST: Final = ("KilledWorker", "CommClosedError")
"""Errors of Dask that say that a task did not fail but was lost, by name: it comes with an extra."""

_PATIENCE_S: Final = 10.0
_REFRESH_S: Final = 5.0
_ALONE_S: Final = 30.0
"""How long a cluster may be without a worker: a nanny starts a new one in a few seconds."""


class Pool(Protocol):
    """The part of `concurrent.futures.Executor` that is used."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Start `fn(*args)` somewhere."""
        ...


@dataclass(frozen=True, slots=True)
class Done(Generic[Task, Result]):
    """What became of a task.

    Attributes
    ----------
    task : as it was handed in.
    value : what the function returned; None when it failed.
    error : one line that says why it failed; None when it did not.
    detail : the traceback of an error that nobody foresaw; else "".
    """

    task: Task
    value: Result | None = None
    error: str | None = None
    detail: str = ""


class Workers:
    """An executor that is ready again after a worker died. `opened` makes them."""

    def __init__(self, pool: Pool, width: int) -> None:
        self.pool = pool
        self._width = width

    @property
    def width(self) -> int:
        """Tasks that run at the same time."""
        return self._width

    def renew(self, broken: Pool) -> None:
        """Replace `broken` where that can be done, once for all the tasks it lost."""

    def check(self) -> None:
        """Called while nothing comes back, to see that something still can."""

    def close(self, *, at_once: bool) -> None:
        """Let go of what `opened` made; `at_once` ends running tasks, too."""


class _Serial:
    """One task after the other, in this process, when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args))
        return future


class _Processes(Workers):
    def __init__(self, jobs: int) -> None:
        self._made = _process_pool(jobs)
        super().__init__(self._made, jobs)

    def renew(self, broken: Pool) -> None:
        if broken is self.pool:
            self.close(at_once=True)
            self.pool = self._made = _process_pool(self._width)

    def close(self, *, at_once: bool) -> None:
        # a list: the pool forgets its processes as it shuts down. Python 3.14 calls this terminate_workers()
        running = list((self._made._processes or {}).values()) if at_once else []
        self._made.shutdown(wait=not at_once, cancel_futures=at_once)
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _process_pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """In each new process: Ctrl-C is for the parent, and nobody stays when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Cluster(Workers):
    """Workers of a Dask cluster; they come and go, so they are counted again now and then."""

    def __init__(self, address: str) -> None:
        need_cluster()
        distributed = importlib.import_module("distributed")
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the errors below say the same
        self._address = address
        try:
            self._client = distributed.Client(
                address.replace(DASK, "tcp://", 1), timeout=_PATIENCE_S, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise ConnectionFailed(f"no Dask scheduler answers at {address}: {_line(error)}", _CLUSTER) from None
        self._counted, self._manned = -_REFRESH_S, time.monotonic()
        try:
            self._greet()
        except BaseException:
            self._client.close()
            raise
        # a task that was lost has to run again, not to be looked up by its arguments
        super().__init__(self._client.get_executor(pure=False), 1)

    def _greet(self) -> None:
        """Wait for a worker, and see that all of them compute what this program would."""
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            raise ConnectionFailed(f"the Dask cluster at {self._address} has no workers", _CLUSTER) from None
        try:
            found = set(self._client.run(_version_here).values())
        except Exception as error:
            same = f"install specsonar {__version__} there"
            raise InputError(f"a worker of {self._address} cannot run specsonar: {_line(error)}", same) from None
        mine = _version_here()
        if other := sorted(found - {mine}):
            raise InputError(
                f"a worker of {self._address} has specsonar {other[0]}, and here is {mine}",
                "install the same everywhere",
            )

    @property
    def width(self) -> int:
        if time.monotonic() - self._counted >= _REFRESH_S:
            self._count()
        return max(self._width, 1)

    def _count(self) -> None:
        self._counted = time.monotonic()
        try:
            self._width = sum(self._client.nthreads().values())
        except OSError:  # the scheduler is away; the client tries to find it again
            self._width = 0
        if self._width:
            self._manned = self._counted

    def renew(self, broken: Pool) -> None:
        del broken
        self.check()

    def check(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise ConnectionFailed(f"the Dask cluster at {self._address} is gone", _CLUSTER)
        self._count()
        if self._counted - self._manned > _ALONE_S:
            raise ConnectionFailed(f"the Dask cluster at {self._address} has no workers left", _CLUSTER)

    def close(self, *, at_once: bool) -> None:
        del at_once  # tasks of a client that leaves are forgotten by the cluster
        self._client.close()


_CLUSTER: Final = "`dask scheduler` and `dask worker HOST:PORT` start one"


def _version_here() -> str:
    return __version__


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def opened(executor: str | Pool = PROCESSES, *, jobs: int | None = None) -> Iterator[Workers]:
    """Workers for `run`, let go of at the end; an executor that was handed in stays open.

    Parameters
    ----------
    executor : "processes" (one per usable core), "serial", "dask://HOST:PORT", or anything with the `submit` of
        `concurrent.futures`.
    jobs : number of processes; 1 means "serial".

    Raises
    ------
    UsageError : there is no such executor, or `jobs` goes with another one than "processes".
    InputError : the extra `cluster` is missing, or a worker has another version of this package.
    ConnectionFailed : no cluster answers.
    """
    workers = _open(executor, jobs)
    try:
        yield workers
    except BaseException:
        workers.close(at_once=True)
        raise
    workers.close(at_once=False)


def _open(executor: str | Pool, jobs: int | None) -> Workers:
    if jobs is not None and (executor != PROCESSES or jobs < 1):
        raise UsageError(f"jobs = {jobs} with executor {executor!r}", "jobs, from 1, are those of 'processes'")
    if not isinstance(executor, str):
        return Workers(executor, getattr(executor, "_max_workers", None) or cores())
    if executor.startswith(DASK) and len(executor) > len(DASK):
        return _Cluster(executor)
    if executor not in (PROCESSES, SERIAL):
        raise UsageError(f"no executor is called {executor!r}", f"use {PROCESSES}, {SERIAL} or {DASK}HOST:PORT")
    many = 1 if executor == SERIAL else jobs or cores()
    return Workers(_Serial(), 1) if many == 1 else _Processes(many)


@dataclass(slots=True)
class _Try(Generic[Task]):
    task: Task
    losses: int = 0


def run(workers: Workers, fn: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Done[Task, Result]]:
    """`fn` of every task, in the order in which they finish; tasks are taken from `tasks` only as there is room.

    A task that raises becomes a `Done` with an error. A task whose worker died runs again, from the second time on
    alone, so that it cannot take others with it; after `LOSSES` times it becomes a `Done` with an error, too.

    Parameters
    ----------
    fn : a function of a module, so that other processes find it.
    tasks : anything that can be pickled, for workers in other processes.

    Raises
    ------
    InputError : the executor accepts no work any more.
    ConnectionFailed : the cluster is gone.
    """
    source = iter(tasks)
    again: deque[_Try[Task]] = deque()
    alone: deque[_Try[Task]] = deque()
    flying: dict[Future[Any], tuple[_Try[Task], Pool]] = {}

    def start(one: _Try[Task]) -> None:
        future, pool = _submit(workers, fn, one.task)
        flying[future] = one, pool

    try:
        while True:
            if alone:
                if not flying:
                    start(alone.popleft())
            else:
                room = AHEAD * workers.width if workers.width > 1 else 1
                while len(flying) < room and (one := again.popleft() if again else _next(source)) is not None:
                    start(one)
            if not flying:
                return
            finished = wait(flying, _REFRESH_S, FIRST_COMPLETED).done
            if not finished:
                workers.check()
            for future in finished:
                one, pool = flying.pop(future)
                if not (error := _error(future)):
                    yield Done(one.task, *future.result())
                elif not _was_lost(error):
                    yield Done(one.task, None, _line(error))
                else:
                    workers.renew(pool)
                    one.losses += 1
                    if one.losses >= LOSSES:
                        yield Done(one.task, None, f"its worker died {one.losses} times: {_line(error)}")
                    else:
                        (again if one.losses == 1 else alone).append(one)
    finally:
        for future in flying:
            future.cancel()


def _next(source: Iterator[Task]) -> _Try[Task] | None:
    for task in source:
        return _Try(task)
    return None


def _submit(workers: Workers, fn: Callable[[Task], Result], task: Task) -> tuple[Future[Any], Pool]:
    """Hand out a task; a pool that broke a moment ago is replaced first."""
    for _ in range(LOSSES):
        pool = workers.pool
        try:
            return pool.submit(_guarded, fn, task), pool
        except BrokenExecutor:
            workers.renew(pool)
        except RuntimeError as error:
            raise InputError(f"the executor takes no more work: {_line(error)}", "hand in one that is open") from None
    raise InputError("the executor is broken", "a worker died; open a new one")


def _guarded(fn: Callable[[Task], Result], task: Task) -> tuple[Result | None, str | None, str]:
    """What `Done` holds besides the task. Errors travel as text: not every exception survives the way back."""
    try:
        return fn(task), None, ""
    except SpecsonarError as error:
        return None, error.message, ""
    except Exception as error:
        return None, f"{type(error).__name__}: {_line(error)}", traceback.format_exc()


def _error(future: Future[Any]) -> BaseException | None:
    """Why the executor did not run the task to its end; None when it did, and for a task that failed by itself."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _was_lost(error: BaseException) -> bool:
    return isinstance(error, BrokenExecutor | CancelledError) or type(error).__name__ in _LOST


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
