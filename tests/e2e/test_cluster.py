"""A real Dask cluster on this machine: a scheduler and two workers, each a process, over TCP."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import work

from specsonar import executors
from specsonar.errors import ConnectionFailed
from specsonar.executors import opened, run

pytest.importorskip("distributed")


class Cluster:
    """Scheduler and workers; `dask://HOST:PORT` is its `address`."""

    def __init__(self, folder):
        self._folder = folder
        path = os.pathsep.join([str(Path(work.__file__).parent), *sys.path])
        self._environment = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "default"}
        told = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-show", "--scheduler-file", told)
        self._until(told.exists)
        self.tcp = json.loads(told.read_text())["address"]
        self.address = self.tcp.replace("tcp://", "dask://")
        self.workers = [self.worker() for _ in range(2)]
        joined = folder / "worker.log"
        self._until(lambda: joined.read_text().count("Registered to:") == 2)

    def _until(self, true):
        while not true():
            assert self.scheduler.poll() is None
            time.sleep(0.02)

    def _start(self, what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", "--no-dashboard"]
        with (self._folder / f"{what}.log").open("a") as log:
            return subprocess.Popen([*command, *map(str, options)], env=self._environment, stdout=log, stderr=log)

    def worker(self):
        return self._start(
            "worker", self.tcp, "--nthreads", "1", "--nworkers", "1", "--no-nanny", "--local-directory", self._folder
        )

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    started = Cluster(tmp_path)
    yield started
    started.close()


def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    tasks = [(x, str(tmp_path / "died")) for x in range(7)]
    with opened(cluster.address) as workers:
        found = list(run(workers, work.deadly, tasks))
        assert sorted(d.value for d in found) == [x * x for x in range(7)]
        assert len(list(run(workers, work.square, range(20)))) == 20
    assert sum(process.poll() is None for process in cluster.workers) == 1


def test_failures_come_back_as_text(cluster):
    with opened(cluster.address) as workers:
        found = {d.task: d.error for d in run(workers, work.picky, range(4))}
    assert found == {0: None, 1: "one is too few", 2: "ValueError: two lines", 3: None}


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(executors, "_PATIENCE_S", 1.0)


def test_a_cluster_that_goes_away_is_told_of(cluster, impatient):
    with pytest.raises(ConnectionFailed, match="is gone"), opened(cluster.address) as workers:
        for done in run(workers, work.square, range(10_000)):
            if done.task == 5:
                cluster.scheduler.kill()


def test_nobody_there(cluster, impatient):
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    with pytest.raises(ConnectionFailed, match="no Dask scheduler answers"), opened(cluster.address):
        pass
