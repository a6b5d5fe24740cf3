"""What a worker does: simulate one repetition after the other, and ask one method about each."""

from __future__ import annotations

import time
from dataclasses import replace

from ..errors import InputError
from .cells import Task
from .methods import METHODS, Measured


def measure(task: Task) -> list[Measured]:
    """The answers of one method to the repetitions of a task, in their order.

    They depend on the task alone, apart from the seconds. Streams that a method refuses are an answer, too.
    """
    return [_one(task, repetition) for repetition in range(task.first, task.first + task.count)]


def _one(task: Task, repetition: int) -> Measured:
    seed = task.cell.seed(task.seed, repetition)
    trace = task.cell.trace(seed)
    begin = time.perf_counter()
    try:
        answer = METHODS[task.method].ask(trace, seed)
    except InputError as error:
        answer = Measured(refused=error.message)
    return replace(answer, seconds=time.perf_counter() - begin)
