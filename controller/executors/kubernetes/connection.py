"""Requests to the API server: the official client's connections and credentials, plain JSON in and out.

The client's models refuse what a newer server may add, so they are not used. Requests are paced by what the server
answers: after a 429 nothing is sent before its Retry-After, and fewer go at once until it is content again.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 10.0
"""Of one request, but for streams."""
POOL: Final = 24
TRIES: Final = 6
"""Of a request that is refused with 429: it was not carried out."""
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class Refused(Exception):
    """The server said no, in its own words. `code` is the HTTP status, `reason` e.g. AlreadyExists."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after

    @property
    def lasting(self) -> bool:
        """The same request will be refused again, whatever else changes."""
        return self.code in (400, 404, 405, 413, 415, 422)


class Unreachable(Exception):
    """No answer: whether the request was carried out is not known."""


class Pace:
    """How many requests go at once: halved by a 429, one more after as many answers as there are now."""

    def __init__(self, most: int = POOL, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._width, self._out, self._good, self._until = float(most), 0, 0, 0.0
        self._lock = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._lock:
            while self._out >= int(self._width) or self._clock() < self._until:
                self._lock.wait(max(self._until - self._clock(), 0.01) if self._clock() < self._until else 0.1)
            self._out += 1
        try:
            yield
        finally:
            with self._lock:
                self._out -= 1
                self._lock.notify()

    def answered(self) -> None:
        with self._lock:
            self._good += 1
            if self._good >= self._width and self._width < self._most:
                self._width, self._good = self._width + 1, 0
                self._lock.notify()

    def refused(self, seconds: float) -> None:
        with self._lock:
            self._width, self._good = max(self._width / 2, 1.0), 0
            self._until = max(self._until, self._clock() + seconds)

    @property
    def width(self) -> int:
        return int(self._width)


class Connection:
    """Safe to share between threads. `client` is a kubernetes.client.ApiClient."""

    def __init__(self, client: Any) -> None:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        self._client, self._failures = client, (HTTPError, OSError, ApiException)
        self.pace = Pace()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """The answer's JSON. Raises Refused or Unreachable."""
        for left in range(TRIES, 0, -1):
            try:
                with self.pace.turn():
                    answer = self._send(method, path, body, query or {}, content_type, SECONDS)
                    text = self._read(answer)
            except Refused as refusal:
                if refusal.code != 429 or left == 1 or path.endswith("/eviction"):
                    raise
                self.pace.refused(refusal.retry_after)
            else:
                self.pace.answered()
                return text
        raise AssertionError("unreachable")

    def open(self, path: str, query: Mapping[str, Any], seconds: float) -> Any:
        """An answer whose body is still to come (urllib3's response): for watches and logs. `seconds`: of silence."""
        answer = self._send("GET", path, None, query, "application/json", (SECONDS, seconds))
        if not 200 <= answer.status < 300:
            self._read(answer)
        return answer

    def _send(
        self, method: str, path: str, body: Any, query: Mapping[str, Any], content_type: str, timeout: Any
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        pairs = [(key, value) for key, value in query.items() if value not in (None, "")]
        try:
            request = self._client.param_serialize(
                method, path, query_params=pairs, header_params=headers, auth_settings=["BearerToken"]
            )
            return self._client.rest_client.request(
                method, request[1], headers=request[2], body=body, _request_timeout=timeout
            ).response
        except self._failures as error:
            raise Unreachable(_short(error)) from None

    def _read(self, answer: Any) -> Any:
        try:
            data = answer.read()
        except self._failures as error:
            raise Unreachable(_short(error)) from None
        finally:
            answer.release_conn()
        try:
            told = json.loads(data) if data else {}
        except ValueError:
            told = {"message": data.decode(errors="replace").strip()[:500]}
        if 200 <= answer.status < 300:
            return told
        told = told if isinstance(told, dict) else {"message": str(told)}
        seconds = answer.headers.get("Retry-After") or (told.get("details") or {}).get("retryAfterSeconds") or 1
        message = str(told.get("message") or f"the server answered {answer.status}")
        wait = float(seconds) if str(seconds).isdigit() else 1.0
        raise Refused(answer.status, str(told.get("reason") or ""), message, min(wait, 30.0))


def connect(environ: Mapping[str, str] | None = None) -> Connection:
    """MUSTER_KUBERNETES_SERVER (a URL without credentials, as of `kubectl proxy`), else KUBECONFIG, else the pod's own
    service account, else ~/.kube/config. Raises ValueError saying what was tried."""
    from kubernetes import client, config

    env = os.environ if environ is None else environ
    settings = client.Configuration()
    try:
        if env.get("MUSTER_KUBERNETES_SERVER"):
            settings.host = env["MUSTER_KUBERNETES_SERVER"].rstrip("/")
        elif env.get("KUBECONFIG"):
            config.load_kube_config(env["KUBECONFIG"], client_configuration=settings)  # type: ignore[no-untyped-call]
        elif env.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        elif Path("~/.kube/config").expanduser().exists():
            config.load_kube_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            raise ValueError("neither MUSTER_KUBERNETES_SERVER nor KUBECONFIG is set, and there is no service account")
    except config.ConfigException as error:
        raise ValueError(f"no way to the Kubernetes API: {error}") from None
    settings.connection_pool_maxsize = POOL + 8
    settings.retries = False  # the next look is the retry
    return Connection(client.ApiClient(settings))


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
