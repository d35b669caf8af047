"""A real embedded cluster, started and looked at as a user would, and what of it is alive."""

import os
import subprocess
import sys
import time
from pathlib import Path

from cli.up import processes
from cli.up.layout import Layout
from muster.client import Client, MusterError

ROOT = Path(__file__).parents[2]
PATIENCE = 150  # seconds: the machine may be busy


def until(what, true, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := true():
                return found
        except (MusterError, OSError, KeyError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")


class Cluster:
    """`folder/data` is its data directory. `start` may be called again after an end."""

    def __init__(self, folder):
        self.layout = Layout(folder / "data")
        self.log = folder / "up.log"
        self.process = None
        self.env = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
        self.env |= {"PYTHONPATH": str(ROOT), "MUSTER_DATA_DIR": str(self.layout.folder)}

    def start(self, *words):
        command = [sys.executable, "-m", "cli.main", "up", "--port", "0", "--agents", "2", *words]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)
        until("ready", self._ready)

    def _ready(self):
        assert self.process.poll() is None, self.log.read_text()
        state = self.layout.read_state() or {}
        return state.get("ready") and state["pid"] == self.process.pid

    def muster(self, *words):
        command = [sys.executable, "-m", "cli.main", *map(str, words)]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=PATIENCE)

    def client(self):
        return Client(self.layout.read_state()["url"], self.layout.token.read_text().strip())

    def processes(self):
        return {name: one["pid"] for name, one in self.layout.read_state()["processes"].items()}

    def shims(self):
        """Live shims of all nodes."""
        return [pid for node in self.layout.agents.iterdir() for pid in processes.shim_pids(node)]

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()
                self.process.wait()


def identities(pids):
    """Pids with their start times, by which they are known again."""
    return {(pid, start) for pid in pids if (start := processes.start_time(pid)) is not None}


def alive(found):
    return {pid for pid, start in found if processes.start_time(pid) == start}


def marked(folder):
    """Everybody, except ourselves, whose command line or environment names this data directory."""
    word, found = str(folder).encode(), set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if word in text and processes.start_time(int(entry.name)) is not None:
            found.add(int(entry.name))
    return found


def job(name, script, fence=None):
    recovery = {"killGrace": "1s"} | ({"fenceAfter": fence} if fence else {})
    spec = {"script": script, "recovery": recovery}
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
