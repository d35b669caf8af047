"""The API server that contract tests run against: the fake in a process of its own, or the real one of KUBECONFIG."""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.executors.kubernetes.connection import Connection, Refused, connect
from tests.kubernetes.kubelet import Kubelet

ROOT = Path(__file__).parents[2]
CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "8"}
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@dataclass
class Ground:
    """A namespace of its own and nodes that are not there; `fake` tells whether faults can be asked for."""

    api: Connection
    namespace: str
    nodes: list[str]
    fake: bool
    kubelet: Kubelet = field(init=False)
    url: str = ""

    def __post_init__(self) -> None:
        self.kubelet = Kubelet(self.api, self.namespace, self.nodes)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def door(self, what: str, **told: Any) -> Any:
        return self.api.call("POST", f"/_test/{what}", told)

    def until(self, true: Callable[[], Any], seconds: float = 60.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < end, "it never came true"
            time.sleep(0.02)
        return found


@contextlib.contextmanager
def served(latency: float = 0.0) -> Iterator[str]:
    """The URL of a fake server in a process of its own."""
    words = [sys.executable, "-m", "tests.kubernetes.server.http", "--latency", str(latency)]
    child = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.terminate()
        child.wait(30)


@contextlib.contextmanager
def ground(nodes: int = 3) -> Iterator[Ground]:
    """All that is made in it is gone afterwards."""
    with contextlib.ExitStack() as stack:
        real = bool(os.environ.get("KUBECONFIG"))
        url = "" if real else stack.enter_context(served())
        api = connect() if real else connect({"MUSTER_KUBERNETES_SERVER": url})
        name = f"muster-contract-{secrets.token_hex(4)}"
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        stack.callback(_remove, api, f"/api/v1/namespaces/{name}")
        made = Ground(api, name, [f"{name}-n{number}" for number in range(nodes)], not real, url=url)
        for node in made.nodes:
            stack.callback(_remove, api, f"/api/v1/nodes/{node}")
            made.kubelet.register(node, CAPACITY, LABELS | {"muster.dev/contract": name})
        stack.callback(_kill_all, made)
        made.until(lambda: _there(api, f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        yield made


def _there(api: Connection, path: str) -> Any:
    try:
        return api.call("GET", path)
    except Refused:
        return None


def _remove(api: Connection, path: str) -> None:
    with contextlib.suppress(Refused):
        api.call("DELETE", path)


def _kill_all(made: Ground) -> None:
    """No kubelet confirms the end of pods on nodes that are not there, so this does."""
    for pod in Kubelet(made.api, made.namespace).pods():
        with contextlib.suppress(Refused):
            path = f"{made.pods}/{pod['metadata']['name']}"
            if pod["metadata"].get("finalizers"):
                empty = [{"op": "remove", "path": "/metadata/finalizers"}]
                made.api.call("PATCH", path, empty, content_type="application/json-patch+json")
            made.api.call("DELETE", path, {"gracePeriodSeconds": 0})
