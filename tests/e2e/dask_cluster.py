"""A real Dask cluster on this machine: a scheduler and two workers, each a process, over TCP."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import work


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
