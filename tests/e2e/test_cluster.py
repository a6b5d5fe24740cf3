"""Tasks on a real Dask cluster: workers die, the scheduler goes away, nothing is lost and nothing hangs."""

import pytest
import work
from dask_cluster import Cluster

from specsonar import executors
from specsonar.errors import ConnectionFailed
from specsonar.executors import opened, run

pytest.importorskip("distributed")


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
