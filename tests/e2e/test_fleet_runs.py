"""A fleet as it is run: on a cluster, interrupted, and large beside small."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from specsonar import tracefile
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

SERVICE = WORLDS["H0"].service


@pytest.fixture
def logs(tmp_path):
    """Four files of counted streams."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(4):
        trace = simulate(SERVICE, tokens=200, streams=10, seed=number).without_truth()
        tracefile.write(trace, folder / f"answers-2026-11-0{number + 1}.jsonl.zst")
    return folder


def specsonar(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "specsonar", "fleet", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def test_a_cluster_gives_what_one_process_gives(logs, tmp_path):
    pytest.importorskip("distributed")
    from test_cluster import Cluster

    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        far = specsonar(logs, "--json", "--executor", cluster.address).communicate()
    finally:
        cluster.close()
    near = specsonar(logs, "--json", "--executor", "serial").communicate()
    assert json.loads(far[0]) == json.loads(near[0])
    assert json.loads(far[0])["streams"] == 40


def test_ctrl_c_keeps_what_is_done(logs, tmp_path):
    out = tmp_path / "out"
    running = specsonar(logs, "--out", out, "--jobs", 1)
    log = out / "fleet.sqlite-wal"
    while running.poll() is None and not (log.exists() and log.stat().st_size):
        pass
    running.send_signal(signal.SIGINT)
    said = running.communicate()
    if running.returncode:  # it may have been done a moment before
        assert running.returncode == 130
        assert "interrupted" in said[1]
        assert "Traceback" not in said[1]
    again = specsonar(logs, "--out", out, "--jobs", 1, "--json")
    assert json.loads(again.communicate()[0])["streams"] == 40
    assert again.returncode == 0


MEMORY = """
import resource, sys
from specsonar.fleet import fleet
found = fleet(sys.argv[1], executor="serial", sample=20)
print(found.streams, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def many(path, copies):
    """A table of `copies` times 40 streams of some 100 events, and its size in memory, MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    streams = simulate(SERVICE, tokens=300, streams=40, seed=3).streams
    t = np.concatenate([s.t_ns for s in streams])
    tokens = np.concatenate([s.tokens for s in streams])
    owner = np.repeat(np.arange(40), [len(s) for s in streams])
    schema = pa.schema([("stream", pa.string()), ("t_ns", pa.int64()), ("tokens", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for copy in range(copies):
            names = pa.array([f"{copy}-{k}" for k in range(40)]).take(pa.array(owner))
            writer.write_table(pa.table([names, t, tokens], schema=schema), row_group_size=1 << 17)
    return copies * t.size * 16 / 1e6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_fleet(tmp_path):
    pytest.importorskip("pyarrow")
    peaks, sizes = [], []
    for copies in (60, 600):
        path = tmp_path / f"{copies}.parquet"
        sizes.append(many(path, copies))
        command = [sys.executable, "-c", MEMORY, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
        streams, peak = done.stdout.split()
        assert int(streams) == copies * 40
        peaks.append(float(peak))
    assert sizes[1] - sizes[0] > 35  # its events alone, were they all held at once
    assert peaks[1] - peaks[0] < 15
