"""Whatever dies in the middle of a sweep, no cell is lost, and none gets other figures than a serial run gives it."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from dask_cluster import Cluster

from specsonar import sweep
from specsonar.render import json as render_json

pytestmark = pytest.mark.slow

VARY, SET = ["sigma=0,0.1", "tokens=60,100"], ["layer=in-order", "cv=0.05"]
METHODS = ("baseline", "likelihood", "logisi")
REPS = 10


def run(**options):
    return sweep.run(cells=sweep.parse(VARY, SET).cells(), methods=METHODS, reps=REPS, **options)


def figures(plain):
    """All but the times and where the work was done."""
    plain = json.loads(render_json.dumps(plain))
    del plain["work"]
    for row in plain["rows"]:
        for score in row["scores"].values():
            del score["seconds"]
    return plain


@pytest.fixture(scope="module")
def serial():
    return figures(run().to_dict())


class Killer:
    """Kills once, when some of the work is done."""

    def __init__(self, kill):
        self._kill = kill
        self.killed = False

    def __call__(self, done, message):
        if not self.killed and done > 0.1:
            self.killed = True
            self._kill()


def test_a_worker_of_a_cluster_is_killed(tmp_path, serial):
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path)
    try:
        killer = Killer(lambda: os.kill(cluster.workers[0].pid, signal.SIGKILL))
        found = run(executor=cluster.address, progress=killer)
    finally:
        cluster.close()
    assert killer.killed and cluster.workers[0].returncode == -signal.SIGKILL
    assert found.work.failed == 0
    assert figures(found.to_dict()) == serial


def test_a_process_of_the_pool_is_killed(serial):
    def kill():
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    killer = Killer(kill)
    found = run(executor="processes", jobs=2, progress=killer)
    assert killer.killed and found.work.failed == 0
    assert figures(found.to_dict()) == serial


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_sweep_itself_is_ended_and_goes_on(tmp_path, serial, how):
    command = [sys.executable, "-m", "specsonar", "sweep", "--reps", str(REPS), "--jobs", "2", "--json"]
    for flag, values in (("--vary", VARY), ("--set", SET), ("--method", METHODS), ("--store", [tmp_path])):
        command += [part for value in values for part in (flag, str(value))]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.rglob("*.json"))) < 3:
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(how)
    said = first.communicate()[1]
    assert first.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    if how == signal.SIGINT:
        assert "the same command goes on from there" in said
        assert "Traceback" not in said
    kept = len(list(tmp_path.rglob("*.json")))
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"24 pieces of work: {kept} from the store, {24 - kept} computed, 0 failed" in second.stderr
    assert 3 <= kept < 24
    assert figures(json.loads(second.stdout)) == serial
