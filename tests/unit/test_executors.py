"""Every task once, in whatever order, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import work

from specsonar import executors
from specsonar.errors import InputError, UsageError
from specsonar.executors import Workers, opened, run


def done(executor, fn, tasks, **options):
    with opened(executor, **options) as workers:
        return list(run(workers, fn, tasks))


def test_processes_run_every_task_once():
    found = done("processes", work.square, range(40), jobs=2)
    assert sorted((d.task, d.value[0]) for d in found) == [(x, x * x) for x in range(40)]
    assert os.getpid() not in {d.value[1] for d in found}


@pytest.mark.parametrize("options", [{"executor": "serial"}, {"executor": "processes", "jobs": 1}])
def test_one_job_needs_no_other_process(options):
    found = done(fn=work.square, tasks=range(3), **options)
    assert [d.task for d in found] == [0, 1, 2]
    assert {d.value[1] for d in found} == {os.getpid()}


def test_any_pool_will_do_and_stays_open():
    with ThreadPoolExecutor(2) as pool:
        assert len(done(pool, work.square, range(9))) == 9
        assert pool.submit(abs, -1).result() == 1


def test_a_failure_is_a_result():
    found = {d.task: d for d in done("serial", work.picky, range(4))}
    assert [found[x].value for x in (0, 3)] == [0, 3]
    assert (found[1].error, found[1].detail) == ("one is too few", "")
    assert found[2].error == "ValueError: two lines"
    assert "in picky" in found[2].detail


def test_a_worker_that_dies_takes_no_task_with_it(tmp_path):
    tasks = [(x, str(tmp_path / "died")) for x in range(7)]
    found = done("processes", work.deadly, tasks, jobs=2)
    assert sorted(d.value for d in found) == [x * x for x in range(7)]


def test_a_task_that_kills_its_workers_is_given_up_and_no_other():
    found = {d.task[0]: d for d in done("processes", work.deadly, [(x, None) for x in range(12)], jobs=2)}
    assert found[7].error.startswith("its worker died 3 times")
    assert [x for x, d in found.items() if d.error] == [7]


def test_tasks_are_taken_only_as_there_is_room():
    taken = []

    def tasks():
        for x in range(1_000):
            taken.append(x)
            yield x

    with ThreadPoolExecutor(2) as pool, opened(pool) as workers:
        results = run(workers, work.square, tasks())
        for seen, _ in enumerate(results, 1):
            assert len(taken) <= seen + executors.AHEAD * 2
    assert len(taken) == 1_000


def test_leaving_early_cancels_the_rest():
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt), opened(pool) as workers:
            for _ in run(Workers(pool, 8), work.square, range(100)):
                raise KeyboardInterrupt
        assert workers.pool is pool
        assert pool.submit(abs, -1).result() == 1


def test_a_pool_that_was_shut_down_is_refused():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(InputError, match="takes no more work"):
        done(pool, work.square, [1])


@pytest.mark.parametrize("wrong", [{"executor": "slurm"}, {"executor": "dask://"}, {"executor": "serial", "jobs": 2}])
def test_an_unknown_executor_says_which_there_are(wrong):
    with pytest.raises(UsageError):
        done(fn=work.square, tasks=[1], **wrong)


def test_dask_without_the_extra(monkeypatch):
    monkeypatch.setattr("specsonar.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match="extra 'cluster'"):
        done("dask://127.0.0.1:1", work.square, [1])


_SWARM = """
import sys, work
from specsonar.executors import opened, run
if __name__ == "__main__":
    with opened("processes", jobs=2) as workers:
        for _ in run(workers, work.mark, [(sys.argv[1], n) for n in range(8)]):
            pass
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path, how):
    script = tmp_path / "swarm.py"
    script.write_text(_SWARM)
    path = os.pathsep.join([str(Path(work.__file__).parent), *sys.path])
    begun = tmp_path / "begun"
    begun.mkdir()
    parent = subprocess.Popen(
        [sys.executable, script, begun], env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    until(lambda: len(list(begun.iterdir())) == 2)
    workers = [int(path.name.split("-")[1]) for path in begun.iterdir()]
    parent.send_signal(how)
    assert parent.wait(30) != 0
    until(lambda: not any(map(alive, workers)))


def until(true):
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid):
    """Whether a process runs; one that ended and waits for somebody to ask does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
