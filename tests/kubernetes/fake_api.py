"""A minimal Kubernetes API server: pods of one namespace, over real HTTP, strict where the real one is.

Tests play the kubelet through `run`, `end` and `confirm_deletions`, and make requests fail through `refuse`.
"""

import itertools
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PODS = "/api/v1/namespaces/default/pods"
FINISHED = "2023-11-14T22:13:20Z"
"""When containers end: 1 700 000 000."""


class Refusal(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class FakeKubernetes:
    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self._numbers = itertools.count(1)
        self._refusals: list[list[Any]] = []
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # -- what tests do -------------------------------------------------------------------------------

    def refuse(self, method: str, path: str, status: int = 500, skip: int = 0, times: int = 1) -> None:
        """Answer `status` to `times` requests that match, after letting `skip` through."""
        self._refusals.append([method, re.compile(path), status, skip, times])

    def run(self, *names: str) -> None:
        """The kubelet starts all containers of these pods; of all that are bound when none is named."""
        for name in names or [name for name, pod in self.pods.items() if pod["spec"].get("nodeName")]:
            self._states(name, "Running", {"running": {"startedAt": FINISHED}})

    def end(self, name: str, code: int = 0, reason: str = "", signal: int = 0, container: int | None = None) -> None:
        """One container or all of them end."""
        gone = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"), "finishedAt": FINISHED}
        self._states(name, "", {"terminated": {**gone, "signal": signal} if signal else gone}, container)
        states = [one["state"] for one in self.pods[name]["status"]["containerStatuses"]]
        if all("terminated" in state for state in states):
            good = all(state["terminated"]["exitCode"] == 0 for state in states)
            self.pods[name]["status"]["phase"] = "Succeeded" if good else "Failed"

    def confirm_deletions(self) -> None:
        """The kubelet has killed what was to be deleted."""
        with self._lock:
            self.pods = {n: pod for n, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]}

    def count(self, method: str, path: str = "") -> int:
        return sum(1 for m, p in self.requests if m == method and re.search(path, p))

    def _states(self, name: str, phase: str, state: dict[str, Any], container: int | None = None) -> None:
        with self._lock:
            pod = self.pods[name]
            pod["status"]["phase"] = phase or pod["status"]["phase"]
            every = pod["status"].setdefault(
                "containerStatuses", [{"name": one["name"], "state": {}} for one in pod["spec"]["containers"]]
            )
            for index, one in enumerate(every):
                if container is None or container == index:
                    one["state"] = state
            self._touch(pod)

    # -- what the server does ------------------------------------------------------------------------

    def answer(self, method: str, url: str, body: Any) -> Any:
        parts = urlsplit(url)
        with self._lock:
            self.requests.append((method, parts.path))
            for refusal in self._refusals:
                if refusal[0] == method and refusal[1].search(parts.path) and refusal[4]:
                    refusal[3] -= 1
                    if refusal[3] < 0:
                        refusal[4] -= 1
                        raise Refusal(refusal[2], "as the test wished")
            if not parts.path.startswith(PODS):
                raise Refusal(404, "no such path")
            name, _, sub = parts.path[len(PODS) :].strip("/").partition("/")
            act: dict[tuple[str, bool, str], Callable[[], Any]] = {
                ("GET", False, ""): lambda: self._list(parse_qs(parts.query)),
                ("POST", False, ""): lambda: self._create(body),
                ("GET", True, ""): lambda: self._get(name),
                ("DELETE", True, ""): lambda: self._delete(name, body or {}),
                ("PATCH", True, ""): lambda: self._patch(name, body),
                ("POST", True, "binding"): lambda: self._bind(name, body),
            }
            chosen = act.get((method, bool(name), sub))
            if chosen is None:
                raise Refusal(405, "not allowed")
            return json.loads(json.dumps(chosen()))

    def _touch(self, pod: dict[str, Any]) -> dict[str, Any]:
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        return pod

    def _get(self, name: str) -> dict[str, Any]:
        if name not in self.pods:
            raise Refusal(404, f'pods "{name}" not found')
        return self.pods[name]

    def _list(self, query: dict[str, list[str]]) -> dict[str, Any]:
        wanted = [one.partition("=") for one in query.get("labelSelector", [""])[0].split(",") if one]
        fits = [
            pod
            for pod in self.pods.values()
            if all((value if eq else None) in (None, pod["metadata"]["labels"].get(key))
                   and key in pod["metadata"]["labels"] for key, eq, value in wanted)
        ]  # fmt: skip
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": fits}

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?", name):
            raise Refusal(422, f"invalid name {name}")
        if any(
            not re.fullmatch(r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", v) for v in body["metadata"]["labels"].values()
        ):
            raise Refusal(422, "invalid label")
        if name in self.pods:
            raise Refusal(409, f'pods "{name}" already exists')
        body["metadata"]["uid"] = f"uid-{next(self._numbers)}"
        body["status"] = {"phase": "Pending"}
        self.pods[name] = self._touch(body)
        return body

    def _bind(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        pod = self._get(name)
        if pod["spec"].get("nodeName"):
            raise Refusal(409, f"pod {name} is already assigned to node {pod['spec']['nodeName']}")
        if "deletionTimestamp" in pod["metadata"]:
            raise Refusal(409, f"pod {name} is being deleted, cannot be assigned to a host")
        pod["spec"]["nodeName"] = body["target"]["name"]
        self._touch(pod)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _patch(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        pod = self._get(name)
        uid = body["metadata"].get("uid", pod["metadata"]["uid"])
        if uid != pod["metadata"]["uid"]:
            raise Refusal(409, "the uid in the precondition does not match")
        pod["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))
        return self._touch(pod)

    def _delete(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """A pod that no kubelet has is gone at once; else its kubelet must confirm."""
        pod = self._get(name)
        if body.get("preconditions", {}).get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise Refusal(409, "the uid in the precondition does not match")
        if not pod["spec"].get("nodeName"):
            return self.pods.pop(name)
        pod["metadata"].setdefault("deletionTimestamp", FINISHED)
        return self._touch(pod)


def _handler(fake: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet

        def _serve(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, answer = 200, fake.answer(self.command, self.path, json.loads(text) if text else None)
            except Refusal as refusal:
                status = refusal.status
                answer = {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "message": str(refusal),
                    "code": status,
                }
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
