"""The embedded cluster as a user has it: the `muster` command, the REST API, and the processes' pids."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tell import PATIENCE, StoryFailed, until

Object = dict[str, Any]


def command() -> list[str]:
    """The installed `muster`, or the same from a checkout that is only on the path."""
    beside = Path(sys.executable).with_name("muster")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "cli.main"]


class Cluster:
    """A cluster under `folder`: `data` is its data directory, `log` what `muster up` prints."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.log = folder, folder / "data", folder / "up.log"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
            "PATH": path,
            "MUSTER_DATA_DIR": str(self.data),
        }
        self._up: subprocess.Popen[bytes] | None = None

    # -- the command line ------------------------------------------------------------------------------

    def muster(self, *words: str, check: bool = True, patience: float = PATIENCE) -> str:
        """The output of a `muster` command. Raises StoryFailed with its errors when it fails and `check` is set."""
        done = subprocess.run(
            [*command(), *words], env=self.environment, capture_output=True, text=True, timeout=patience, check=False
        )
        if check and done.returncode:
            raise StoryFailed(f"muster {' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout + done.stderr

    def start(self) -> None:
        """Start `muster up` in a session of its own; returns when four nodes are Ready."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = ["up", "--data-dir", str(self.data), "--port", str(port), "--agents", "4"]
        with open(self.log, "wb") as log:
            self._up = subprocess.Popen(
                [*command(), *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        until("the cluster to start", self._started)

    def _started(self) -> bool:
        assert self._up
        if self._up.poll() is not None:
            raise StoryFailed(f"muster up ended with {self._up.returncode}: {self.log.read_text(errors='replace')}")
        if not (self.data / "up.json").exists():
            return False
        return sum(node["status"]["phase"] == "Ready" for node in self.nodes().values()) == 4

    def stop(self) -> int:
        """End `muster up` by SIGTERM; its exit code."""
        if self._up is None:
            return 0
        self._up.send_signal(signal.SIGTERM)
        try:
            return self._up.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._up.kill()
            return self._up.wait()

    # -- the processes -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return str(self._up_file()["url"])

    def pid(self, name: str) -> int | None:
        """The pid of one of the cluster's processes as `muster up` knows it now; None while it is down."""
        process = self._up_file()["processes"].get(name)
        return process["pid"] if isinstance(process, dict) else process

    def _up_file(self) -> Object:
        return dict(json.loads((self.data / "up.json").read_text()))

    def kill(self, *names: str) -> dict[str, int]:
        """SIGKILL these processes at once; their pids."""
        pids = {name: self.pid(name) or 0 for name in names}
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        return pids

    def back(self, name: str, old: int) -> bool:
        """Is the process there again, with another pid?"""
        pid = self.pid(name)
        return pid not in (None, 0, old)

    # -- the API -------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """A document of the API; None while the API cannot be reached. Raises StoryFailed when it refuses."""
        try:
            token = (self.data / "token").read_text().strip()
            request = urllib.request.Request(
                f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return None
            raise StoryFailed(f"GET {path}: {error.code} {error.read().decode(errors='replace')}") from error
        except (OSError, ValueError):
            return None

    def nodes(self) -> dict[str, Object]:
        answer = self.get("/nodes")
        return {node["metadata"]["name"]: node for node in answer["items"]} if answer else {}

    def leaf(self, node: str) -> str:
        return str(until("the nodes", self.nodes)[node]["metadata"]["labels"]["muster.dev/leaf"])

    def job(self, name: str) -> Object:
        return dict(until(f"job {name}", lambda: self.get(f"/namespaces/default/jobs/{name}")))

    def attempts(self, name: str) -> list[Object]:
        """Oldest first."""
        answer = until("the attempts", lambda: self.get(f"/namespaces/default/jobs/{name}/attempts"))
        return sorted(answer["items"], key=lambda attempt: attempt["number"])

    def checkpoints(self, name: str) -> list[Object]:
        answer = until("the checkpoints", lambda: self.get(f"/namespaces/default/jobs/{name}/checkpoints"))
        return list(answer["items"])

    def step(self, name: str) -> int:
        return int((self.job(name)["status"].get("progress") or {}).get("step") or 0)

    def copy_examples(self) -> Path:
        """The examples in a folder of this cluster, so that nothing is written into the checkout."""
        source, target = Path(__file__).parents[1], self.folder / "examples"
        target.mkdir(parents=True)
        for path in [*source.glob("*.py"), *source.glob("*.yaml")]:
            shutil.copy(path, target)
        return target
