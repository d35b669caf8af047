"""The server's HTTP side: paths, verbs, streams, and a door for tests (`/_test/...`) to faults, time and kubelets' logs.

python -m tests.kubernetes.server.http [--port N] [--latency SECONDS]      prints its URL
"""

import argparse
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.kubernetes.server import rules
from tests.kubernetes.server.cluster import Cluster, chosen
from tests.kubernetes.server.errors import Refusal, not_found
from tests.kubernetes.server.faults import Faults
from tests.kubernetes.server.kinds import Kind

PATH = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+)(?=/))?/([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?")
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.0", "platform": "linux/amd64"}


class Stream:
    """An answer that comes bit by bit; None keeps the connection looked after."""

    def __init__(self, parts: Iterator[bytes | None], content_type: str) -> None:
        self.parts, self.content_type = parts, content_type


class FakeKubernetes:
    """A server in this process; `url` is where it listens."""

    def __init__(self, port: int = 0, latency: float = 0.0) -> None:
        self.cluster, self.faults, self.latency, self.bookmark = Cluster(), Faults(), latency, 60.0
        self.requests: list[tuple[str, str]] = []
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.drop_watches()
        self._server.shutdown()
        self._server.server_close()

    # -- for tests -----------------------------------------------------------------------------------

    def count(self, method: str, path: str = "") -> int:
        return sum(1 for one, where in self.requests if one == method and re.search(path, where))

    def compact(self) -> None:
        """Nothing of what happened until now can be asked for any more."""
        with self.cluster.lock:
            self.cluster.version += 1
            self.cluster.oldest = self.cluster.version
            self.cluster.log.clear()

    def drop_watches(self) -> None:
        with self.cluster.lock:
            self.cluster.watches += 1
            self.cluster.changed.notify_all()

    # -- requests ------------------------------------------------------------------------------------

    def answer(self, method: str, url: str, body: bytes, content_type: str) -> tuple[int, Any]:
        parts = urlsplit(url)
        path, query = parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))
        if path.startswith("/_test/"):
            return 200, self._door(path, json.loads(body) if body else {})
        self.requests.append((method, path))
        if self.latency:
            time.sleep(self.latency)
        fault = self.faults.hit(method, path + ("?watch" if query.get("watch") in ("true", "1") else ""))
        if fault is not None:
            time.sleep(fault.seconds)
            if not fault.after and fault.code != 200:
                raise _Fails(fault.code, fault.message, fault.reason, fault.retry_after)
        try:
            given = json.loads(body) if body else None
        except ValueError:
            raise Refusal(400, "the object provided is unrecognized: not JSON") from None
        done = self._serve(method, path, query, given, content_type)
        if fault is not None and fault.after:
            raise _Fails(fault.code, fault.message, fault.reason, fault.retry_after)
        return done

    def _serve(self, method: str, path: str, query: dict[str, str], body: Any, content_type: str) -> tuple[int, Any]:
        if about := self._about(path):
            return 200, about
        found = PATH.fullmatch(path)
        prefix, namespace, plural, name, sub = found.groups() if found else (None,) * 5
        kind = self.cluster.kinds.get((prefix or "", plural or ""))
        if kind is None or (namespace and not kind.namespaced):
            raise Refusal(404, "the server could not find the requested resource")
        namespace, name = unquote(namespace or ""), unquote(name or "")
        if kind.plural == "bindings" or (sub and kind.plural == "pods" and sub in ("binding", "eviction", "log")):
            return self._pod_part(kind, namespace, name, sub, query, body)
        if sub and not (sub == "status" and kind.status):
            raise Refusal(404, "the server could not find the requested resource")
        if name:
            return self._one(method, kind, namespace, name, sub or "", query, body, content_type)
        return self._many(method, kind, namespace, query, body)

    def _many(self, method: str, kind: Kind, namespace: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        match method:
            case "GET" if query.get("watch") in ("true", "1"):
                events = self.cluster.watch(kind, namespace, query, self.bookmark)
                lines = (None if one is None else json.dumps(one).encode() + b"\n" for one in events)
                return 200, Stream(lines, "application/json")
            case "GET":
                return 200, self.cluster.items(kind, namespace, query)
            case "POST":
                return 201, self.cluster.create(kind, namespace, body or {}, query.get("dryRun") == "All")
            case "DELETE":
                listed = self.cluster.items(kind, namespace, {k: v for k, v in query.items() if k.endswith("Selector")})
                for one in listed["items"]:
                    meta = one["metadata"]
                    self.cluster.delete(kind, meta.get("namespace", ""), meta["name"], body)
                return 200, listed
            case _:
                raise Refusal(405, "the server does not allow this method on the requested resource")

    def _one(
        self,
        method: str,
        kind: Kind,
        namespace: str,
        name: str,
        sub: str,
        query: dict[str, str],
        body: Any,
        content_type: str,
    ) -> tuple[int, Any]:
        dry = query.get("dryRun") == "All"
        match method:
            case "GET":
                return 200, self.cluster.get(kind, namespace, name)
            case "PUT":
                return 200, self.cluster.update(kind, namespace, name, lambda _: body, sub, dry)
            case "PATCH":
                return 200, self.cluster.patch(kind, namespace, name, body, content_type, sub, dry)
            case "DELETE" if not sub:
                options = dict(body or {})
                if "gracePeriodSeconds" in query:
                    options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
                return 200, self.cluster.delete(kind, namespace, name, options)
            case _:
                raise Refusal(405, "the server does not allow this method on the requested resource")

    def _pod_part(
        self, kind: Kind, namespace: str, name: str, sub: str | None, query: dict[str, str], body: Any
    ) -> tuple[int, Any]:
        match sub:
            case "binding":
                self.cluster.update(kind, namespace, name, lambda pod: rules.bind(pod, body or {}), "binding")
                return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            case "eviction":
                self._may_evict(kind, namespace, name)
                self.cluster.delete(kind, namespace, name, (body or {}).get("deleteOptions"))
                return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            case _:
                return 200, Stream(self._log(kind, namespace, name, query), "text/plain")

    def _may_evict(self, kind: Kind, namespace: str, name: str) -> None:
        pod = self.cluster.get(kind, namespace, name)
        for (where, _), budget in self.cluster.objects.get(("policy", "poddisruptionbudgets"), {}).items():
            labels = ((budget.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
            text = ",".join(f"{key}={value}" for key, value in labels.items())
            allowed = (budget.get("status") or {}).get("disruptionsAllowed", 0)
            if where == namespace and chosen({"labelSelector": text})(pod) and allowed < 1:
                raise Refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")

    def _log(self, kind: Kind, namespace: str, name: str, query: dict[str, str]) -> Iterator[bytes | None]:
        pod = self.cluster.get(kind, namespace, name)
        first = pod["spec"]["containers"][0]["name"]
        key = (namespace, name, query.get("container") or first)
        statuses = (pod["status"].get("containerStatuses") or []) + (pod["status"].get("initContainerStatuses") or [])
        if not any(one["name"] == key[2] and "waiting" not in one.get("state", {}) for one in statuses):
            raise Refusal(400, f'container "{key[2]}" in pod "{name}" is waiting to start: ContainerCreating')
        return self._follow(kind, key, query.get("follow") in ("true", "1"), int(query.get("tailLines") or -1))

    def _follow(self, kind: Kind, key: tuple[str, str, str], follow: bool, tail: int) -> Iterator[bytes | None]:
        text = self.cluster.logs.get(key, "")
        sent = len(text)
        yield (text if tail < 0 else "".join(text.splitlines(True)[-tail:] if tail else [])).encode()
        while follow:
            with self.cluster.lock:
                pod = self.cluster.of(kind).get(key[:2])
                self.cluster.changed.wait(0.05)
                text = self.cluster.logs.get(key, "")
            if len(text) > sent:
                yield text[sent:].encode()
                sent = len(text)
            elif pod is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
                return
            yield None

    # -- what is no resource -------------------------------------------------------------------------

    def _about(self, path: str) -> Any:
        kinds = list(self.cluster.kinds.values())
        if path == "/version":
            return VERSION
        if path in ("/healthz", "/readyz", "/livez"):
            return "ok"
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            versions: dict[str, set[str]] = {}
            for one in kinds:
                if one.group:
                    versions.setdefault(one.group, set()).add(one.version)
            groups = [
                {
                    "name": group,
                    "versions": [{"groupVersion": f"{group}/{one}", "version": one} for one in sorted(found)],
                }
                for group, found in versions.items()
            ]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        here = [one for one in kinds if one.prefix == path]
        if not here:
            return None
        resources = [
            {
                "name": one.plural,
                "kind": one.kind,
                "namespaced": one.namespaced,
                "verbs": ["create", "get", "list", "watch"],
            }
            for one in here
        ]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": here[0].api_version,
            "resources": resources,
        }

    def _door(self, path: str, told: dict[str, Any]) -> Any:
        match path.removeprefix("/_test/"):
            case "fault":
                self.faults.add(**told)
            case "clear":
                self.faults.clear()
            case "compact":
                self.compact()
            case "drop":
                self.drop_watches()
            case "latency":
                self.latency = float(told["seconds"])
            case "bookmark":
                self.bookmark = float(told["seconds"])
            case "log":
                with self.cluster.lock:
                    key = (told["namespace"], told["pod"], told["container"])
                    self.cluster.logs[key] = self.cluster.logs.get(key, "") + told["text"]
                    self.cluster.changed.notify_all()
            case "requests":
                return {"requests": self.requests}
            case _:
                raise not_found("door", path)
        return {}


class _Fails(Refusal):
    """A fault of the test's."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


def _handler(fake: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            retry = None
            try:
                code, told = fake.answer(self.command, self.path, body, self.headers.get("Content-Type") or "")
            except Refusal as refusal:
                if isinstance(refusal, _Fails) and refusal.code == 0:
                    self.close_connection = True
                    self.connection.close()
                    return
                code, told, retry = refusal.code, refusal.status(), refusal.retry_after
            if isinstance(told, Stream):
                self._stream(told)
                return
            text = told.encode() if isinstance(told, str) else json.dumps(told).encode()
            self.send_response(code)
            if retry is not None:
                self.send_header("Retry-After", str(retry))
            self.send_header("Content-Type", "text/plain" if isinstance(told, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, stream: Stream) -> None:
            self.send_response(200)
            self.send_header("Content-Type", stream.content_type)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                self.wfile.flush()
                for part in stream.parts:
                    if part:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                        self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description="A Kubernetes API server without a cluster.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    chosen_ = parser.parse_args()
    fake = FakeKubernetes(chosen_.port, chosen_.latency)
    print(fake.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
