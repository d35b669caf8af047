"""Which parts of the cluster do their work: asked from outside, as a user would see it."""

import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cli.up.parts import Plan

PATIENCE: Final = 2.0  # seconds for one answer
LEADING: Final = b"leading"
"""What the controller writes into its log when it has become the leader."""


def readiness(plan: Plan) -> Callable[[], frozenset[str]]:
    """A function that names the parts that are ready now. The Celery worker has nothing to show before its first task:
    it counts as ready with the server that it listens to."""
    log = plan.layout.log("controller")
    before = _size(log)  # what an earlier life of this cluster wrote does not count

    def look() -> frozenset[str]:
        found = set()
        if plan.redis_binary and _listens(plan.redis_port):
            found |= {"redis", "worker"}
        if _wrote(log, before, LEADING):
            found.add("controller")
        nodes = _nodes(plan)
        if nodes is not None:
            found |= {"api", *(f"agent-{name}" for name, phase in nodes.items() if phase == "Ready")}
        return frozenset(found)

    return look


def _nodes(plan: Plan) -> dict[str, str] | None:
    """Phases of the nodes by name; None while the API does not answer."""
    connection = http.client.HTTPConnection(plan.connect_host, plan.port, timeout=PATIENCE)
    try:
        token = plan.layout.token.read_text().strip()
        connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        items: list[dict[str, Any]] = json.load(answer)["items"]
        return {item["metadata"]["name"]: item["status"]["phase"] for item in items}
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(PATIENCE)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wrote(path: Path, offset: int, word: bytes) -> bool:
    try:
        with path.open("rb") as log:
            log.seek(offset)
            return word in log.read(2**20)
    except OSError:
        return False
