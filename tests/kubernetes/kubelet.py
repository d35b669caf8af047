"""A kubelet that runs nothing: it patches the status of pods as the real one would, through the API alone."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from controller.executors.kubernetes.connection import MERGE, Connection, Refused

Object = dict[str, Any]


def stamp(at: float | None = None) -> str:
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """Of the given nodes; of all when none is given."""

    def __init__(self, api: Connection, namespace: str, nodes: Iterable[str] = ()) -> None:
        self.api, self.namespace, self.nodes = api, namespace, frozenset(nodes)
        self.silent: set[str] = set()
        """Nodes that do nothing any more."""

    # -- nodes ---------------------------------------------------------------------------------------

    def register(self, name: str, capacity: Object, labels: dict[str, str] | None = None) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}}
        try:
            self.api.call("POST", "/api/v1/nodes", node)
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise
        self.ready(name, capacity=capacity, allocatable=capacity)

    def ready(self, name: str, word: str = "True", **status: Any) -> None:
        status.setdefault("addresses", [{"type": "InternalIP", "address": "127.0.0.1"}])
        conditions = [{"type": "Ready", "status": word, "lastHeartbeatTime": stamp(), "reason": "KubeletReady"}]
        self.api.call(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            {"status": {**status, "conditions": conditions}},
            content_type=MERGE,
        )

    # -- pods ----------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def pods(self, selector: str = "") -> list[Object]:
        found = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods", query={"labelSelector": selector})
        return [one for one in found["items"] if not self.nodes or one["spec"].get("nodeName") in self.nodes]

    def status(self, name: str, **status: Any) -> None:
        self.api.call("PATCH", f"{self.path(name)}/status", {"status": status}, content_type=MERGE)

    def hold(self, pod: Object) -> None:
        """Its init step runs."""
        steps = pod["spec"].get("initContainers") or []
        self.status(
            pod["metadata"]["name"],
            phase="Pending",
            podIP="127.0.0.1",
            startTime=stamp(),
            initContainerStatuses=[_state(one, running={"startedAt": stamp()}) for one in steps],
            containerStatuses=[_state(one, waiting={"reason": "PodInitializing"}) for one in pod["spec"]["containers"]],
        )

    def wait(self, pod: Object, reason: str, message: str = "") -> None:
        """It cannot start, e.g. ImagePullBackOff."""
        state = {"reason": reason, "message": message}
        self.status(
            pod["metadata"]["name"],
            phase="Pending",
            containerStatuses=[_state(one, waiting=state) for one in pod["spec"]["containers"]],
        )

    def run(self, pod: Object) -> None:
        done = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(), "finishedAt": stamp()}
        self.status(
            pod["metadata"]["name"],
            phase="Running",
            podIP="127.0.0.1",
            initContainerStatuses=[_state(one, terminated=done) for one in pod["spec"].get("initContainers") or []],
            containerStatuses=[_state(one, running={"startedAt": stamp()}) for one in pod["spec"]["containers"]],
        )

    def end(self, pod: Object, code: int = 0, reason: str = "", message: str = "", at: float | None = None) -> None:
        gone = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"), "finishedAt": stamp(at)}
        if message:
            gone["message"] = message
        self.status(
            pod["metadata"]["name"],
            phase="Failed" if code else "Succeeded",
            containerStatuses=[_state(one, terminated=gone) for one in pod["spec"]["containers"]],
        )

    def evict(
        self, pod: Object, reason: str = "Evicted", message: str = "The node was low on resource: memory."
    ) -> None:
        self.status(pod["metadata"]["name"], phase="Failed", reason=reason, message=message)

    def kill(self, pod: Object, code: int = 143) -> None:
        """What was to be deleted is dead, and said to be."""
        meta = pod["metadata"]
        try:
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                self.end(pod, code)
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self.api.call("DELETE", self.path(meta["name"]), body)
        except Refused as error:
            if error.code not in (404, 409):
                raise

    def act(self, go: Callable[[Object], bool], selector: str = "") -> None:
        """One round: what was to be deleted dies, what is bound waits at its barrier, what may go on runs."""
        for pod in self.pods(selector):
            node = pod["spec"].get("nodeName")
            if not node or node in self.silent or pod["status"].get("phase") in ("Succeeded", "Failed"):
                if pod["metadata"].get("deletionTimestamp") and node and node not in self.silent:
                    self.kill(pod)
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self.kill(pod)
            elif pod["status"].get("phase") == "Pending" and not pod["status"].get("initContainerStatuses"):
                self.hold(pod)
            elif pod["status"].get("phase") == "Pending" and go(pod):
                self.run(pod)


def _state(container: Object, **state: Any) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }
