"""The HTTP client of a cluster: what the command line uses, and any program. Standard library only.

    client = Client.from_environment()
    job = client.apply(manifest).object
    for change in client.watch(kinds=["Job"], namespace="default"): ...

Every refusal by the server is an `ApiError` that carries the problem document. Requests that may be repeated are:
reads, `apply`, and `create`, which sends an Idempotency-Key of its own.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from muster import contexts
from muster.transport import (
    FIRST_PAUSE,
    RETRIES,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MusterError,
    NoCluster,
    NotFound,
    Object,
    Transport,
    Unauthenticated,
    Unavailable,
    Unreachable,
    refusal,
)

__all__ = [
    "ApiError",
    "Applied",
    "Client",
    "Cluster",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "MusterError",
    "NoCluster",
    "NotFound",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "find_cluster",
    "path_of",
]

Objects = list[Object]

PLURALS: Final = {
    "Job": "jobs",
    "Node": "nodes",
    "Queue": "queues",
    "PriorityClass": "priorityclasses",
    "Reservation": "reservations",
    "MaintenanceWindow": "maintenancewindows",
}
LIST_JOBS: Final = 1_000
LIST_BYTES: Final = 1_000_000
"""Of one list of jobs, a little below what the server takes."""
CLUSTER_WIDE: Final = frozenset(PLURALS) - {"Job"}


class Cluster(NamedTuple):
    """Where a cluster is, and the token to use there."""

    server: str
    token: str


class Applied(NamedTuple):
    result: Literal["created", "configured", "unchanged"]
    object: Object


def find_cluster(environ: Mapping[str, str] | None = None) -> Cluster:
    """From MUSTER_SERVER with MUSTER_TOKEN or MUSTER_TOKEN_FILE; else the context MUSTER_CONTEXT; else the data directory
    MUSTER_DATA_DIR of `muster up`; else the current context (`muster config`); else ~/.muster. Raises NoCluster."""
    env = os.environ if environ is None else environ
    if not env.get("MUSTER_SERVER") and (env.get("MUSTER_CONTEXT") or not env.get("MUSTER_DATA_DIR")):
        context = contexts.chosen(env)
        if context is not None:
            return Cluster(context.server, env.get("MUSTER_TOKEN") or context.token())
    folder = Path(env.get("MUSTER_DATA_DIR") or Path(env.get("HOME") or "~").expanduser() / ".muster")
    server = env.get("MUSTER_SERVER") or _server_in(folder / "up.json")
    token = env.get("MUSTER_TOKEN")
    if not token:
        token = _token_in(Path(env.get("MUSTER_TOKEN_FILE") or folder / "token"))
    return Cluster(server, token)


def _server_in(path: Path) -> str:
    try:
        found = json.loads(path.read_text())
        return str(found["url"])
    except FileNotFoundError:
        raise NoCluster(
            f"no cluster: MUSTER_SERVER is not set, and there is no {path} (`muster up` starts a cluster)"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoCluster(f"{path} cannot be used: {error}") from error


def _token_in(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NoCluster(f"no token: MUSTER_TOKEN is not set, and {path}: {error.strerror}") from error


class Client:
    """One server, one token. Not for several threads at once. `timeout` in seconds for each answer."""

    def __init__(
        self,
        server: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = RETRIES,
        sleep: Callable[[float], None] = time.sleep,
        new_key: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self.http = Transport(server, token, timeout=timeout, retries=retries, sleep=sleep)
        self._new_key, self._timeout = new_key, timeout

    @property
    def server(self) -> str:
        return self.http.server

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> "Client":
        """Raises NoCluster."""
        return cls(*find_cluster(environ), **options)

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- resources -----------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        return self.http.json("GET", path_of(kind, name, namespace))

    def list(self, kind: str, namespace: str | None = None, **query: Any) -> Objects:
        """All pages. `namespace` None: of all. `query`: labelSelector, phase, queue."""
        return [item for page in self.pages(path_of(kind, None, namespace), **query) for item in page["items"]]

    def pages(self, path: str, **query: Any) -> Iterator[Object]:
        """The pages of any list."""
        while True:
            page = self.http.json("GET", path, query)
            yield page
            after = page["metadata"].get("continue")
            if not after:
                return
            query["continue"] = after

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False, key: str | None = None) -> Object:
        """Raises Conflict when it exists. `key` is the Idempotency-Key; a repeat with it makes nothing twice."""
        headers = {"Idempotency-Key": key or self._new_key()}
        path = path_of(_kind(manifest), None, _namespace(manifest))
        return self.http.json("POST", path, _dry(dry_run), manifest, headers, again=True)

    def create_all(
        self, manifests: Sequence[Mapping[str, Any]], namespace: str = "default", *, dry_run: bool = False
    ) -> Objects:
        """Many jobs of one namespace, in few requests. A result for each, in their order: {name, namespace, status, and
        `object` when it was created, else `problem`}."""
        results: Objects = []
        for items in _lists(manifests):
            body = {"apiVersion": "muster.dev/v1", "kind": "JobList", "items": items}
            headers = {"Idempotency-Key": self._new_key()}
            path = path_of("Job", None, namespace)
            results += self.http.json("POST", path, _dry(dry_run), body, headers, again=True)["items"]
        return results

    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Applied:
        """Create or change. Raises Conflict for a field that may not change now."""
        path = path_of(_kind(manifest), _name(manifest), _namespace(manifest))
        answer = self.http.request("PUT", path, _dry(dry_run), manifest, again=True)
        result: Any = answer.headers.get("muster-result", "configured")
        return Applied(result, answer.json())

    def delete(self, kind: str, name: str, namespace: str = "default") -> Object:
        """The object as it was last; a live job is cancelled first and goes on until it has ended."""
        return self.http.json("DELETE", path_of(kind, name, namespace))

    def act(self, kind: str, name: str, verb: str, namespace: str = "default", **query: Any) -> Object:
        """Jobs: suspend, resume, restart (query: workdir, fromStep), cancel. Nodes: cordon, uncordon."""
        headers = {"Idempotency-Key": self._new_key()}
        return self.http.json("POST", f"{path_of(kind, name, namespace)}/{verb}", query, headers=headers, again=True)

    def parts(self, name: str, part: str, namespace: str = "default", **query: Any) -> Objects:
        """A job's attempts, events, checkpoints or incidents, oldest first."""
        items: Objects = self.http.json("GET", f"{path_of('Job', name, namespace)}/{part}", query)["items"]
        return items

    def events(self, namespace: str | None = None, **query: Any) -> Objects:
        """The newest events, oldest first. `query`: after, limit."""
        path = "/api/v1/events" if namespace is None else f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        items: Objects = self.http.json("GET", path, query)["items"]
        return items

    def version(self) -> Object:
        return self.http.json("GET", "/api/v1/version")

    # -- streams -------------------------------------------------------------------------------------

    def watch(
        self,
        *,
        after: int | None = None,
        kinds: Sequence[str] = (),
        namespace: str | None = None,
        bookmarks: bool = False,
    ) -> Iterator[Object]:
        """Changes after a revision (without it, from now on), for ever: a stream that breaks is opened again where it
        was. Each is {revision, type: put or delete, kind, namespace, name, uid, object}; with `bookmarks` also
        {revision, type: bookmark}. Raises Gone when the log does not reach back, Unreachable when the server stays
        away."""
        misses = 0
        while True:
            query = {"after": after, "kind": list(kinds), "namespace": namespace}
            try:
                for event, data in self.http.sse("/api/v1/changes", query):
                    misses = 0
                    if event == "error":
                        raise refusal(int(data.get("status", 500)), data)
                    after = int(data["revision"])
                    if event != "bookmark" or bookmarks:
                        yield data
            except Unreachable:
                misses += 1
                if misses > self.http.retries:
                    raise
            self.http.sleep(FIRST_PAUSE * 2**misses)

    def logs(self, name: str, namespace: str = "default", **query: Any) -> Iterator[bytes]:
        """Pieces of a job's logs. `query`: attempt, role, worker, rank, allRanks, follow, tail."""
        path = f"{path_of('Job', name, namespace)}/logs"
        return self.http.pieces(path, query, silence=None if query.get("follow") else self._timeout)


def path_of(kind: str, name: str | None = None, namespace: str | None = "default") -> str:
    """The address of a resource, or of the list of a kind. Raises MusterError for a kind that has none."""
    if kind not in PLURALS:
        raise MusterError(f"there is no kind {kind!r}; expected one of {', '.join(PLURALS)}")
    place = "" if kind in CLUSTER_WIDE or namespace is None else f"/namespaces/{quote(namespace, safe='')}"
    return f"/api/v1{place}/{PLURALS[kind]}" + (f"/{quote(name, safe='')}" if name is not None else "")


def _lists(manifests: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Pieces that one request may hold."""
    piece: list[Mapping[str, Any]] = []
    size = 0
    for manifest in manifests:
        own = len(json.dumps(manifest)) + 2
        if piece and (len(piece) == LIST_JOBS or size + own > LIST_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(manifest)
        size += own
    if piece:
        yield piece


def _kind(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("kind", ""))


def _name(manifest: Mapping[str, Any]) -> str:
    name = (manifest.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise MusterError("metadata.name: required")
    return name


def _namespace(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("namespace") or "default")


def _dry(dry_run: bool) -> Object:
    return {"dryRun": True} if dry_run else {}
