"""Asks the API through `muster.client`, and turns its refusals into words and exit codes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from cli.errors import Exit, Failure
from muster import client

Object = dict[str, Any]
BASE: Final = "/api/v1"
RETRIES: Final = 2
QUIET: Final = 60.0
"""Seconds without a byte after which an answer counts as broken off."""


class Unreachable(Failure):
    """Nobody answered, or the answer broke off."""


class NotThere(Failure):
    """404."""


class Api:
    """One cluster's API. Every method raises Unreachable, NotThere or Failure."""

    def __init__(self, asked: client.Client) -> None:
        self._client = asked

    def get(self, path: str, **query: Any) -> Object:
        with _told():
            return self._client.http.json("GET", BASE + path, query)

    def items(self, path: str, **query: Any) -> list[Object]:
        """All items of a list, over as many pages as it has."""
        with _told():
            return [item for page in self._client.pages(BASE + path, **query) for item in page["items"]]

    def put(self, path: str, body: Object, *, dry_run: bool = False, launch: bool = False) -> tuple[Object, str]:
        """The object as it is now, and `created`, `configured` or `unchanged`. `launch`, in a dry run of a job: what
        each rank would get instead of the object."""
        query = ({"dryRun": True} if dry_run else {}) | ({"launch": True} if launch else {})
        with _told():
            answer = self._client.http.request("PUT", BASE + path, query, body, again=True)
            return answer.json(), answer.headers.get("muster-result", "configured")

    def create_all(self, jobs: Sequence[Object], namespace: str, *, dry_run: bool = False) -> list[Object]:
        """A result for each: {status, object, problem}."""
        with _told():
            return self._client.create_all(jobs, namespace, dry_run=dry_run)

    def act(self, kind: str, name: str, verb: str, namespace: str = "default", **query: Any) -> Object:
        with _told():
            return self._client.act(kind, name, verb, namespace, **query)

    def post(self, path: str, body: Object | None = None, **query: Any) -> Object:
        with _told():
            return self._client.http.json("POST", BASE + path, query, body)

    def delete(self, path: str) -> Object:
        with _told():
            return self._client.http.json("DELETE", BASE + path)

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """The body of an answer, piece by piece."""
        with _told():
            yield from self._client.http.pieces(BASE + path, query, silence=QUIET)

    def logs(self, name: str, namespace: str, **query: Any) -> Iterator[bytes]:
        with _told():
            yield from self._client.logs(name, namespace, **query)


def connect(timeout: float = 30.0) -> Api:
    """The cluster of the environment (see `muster --help`). `timeout` in seconds for each answer."""
    with _told():
        return Api(client.Client.from_environment(retries=RETRIES, timeout=timeout))


def client_of() -> client.Client:
    """The client itself, for what is no request with an answer."""
    with _told():
        return client.Client.from_environment(retries=RETRIES)


def jobs_path(namespace: str, name: str = "", part: str = "") -> str:
    """`/namespaces/NS/jobs[/NAME[/PART]]`."""
    return path_to("namespaces", namespace, "jobs", name, part)


def path_to(*parts: str) -> str:
    """`/nodes/NAME`, `/queues/NAME`."""
    return "/" + "/".join(quote(each, safe="") for each in parts if each)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except client.MusterError as error:
        raise failure(error) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"the answer is not one of Muster's API ({type(error).__name__}: {error})") from None


def failure(error: client.MusterError) -> Failure:
    """What an error of the client means to the one who typed the command."""
    match error:
        case client.NoCluster():
            hint = "MUSTER_DATA_DIR names the data directory of another cluster"
            return Unreachable(str(error), code=Exit.UNREACHABLE, hint=hint)
        case client.Unreachable():
            hint = "is it running? `muster up` starts one here; MUSTER_SERVER and MUSTER_DATA_DIR name another"
            return Unreachable(str(error), code=Exit.UNREACHABLE, hint=hint)
        case client.Unavailable():
            return Unreachable(error.detail, code=Exit.UNREACHABLE, hint="try again in a moment")
        case client.NotFound():
            return NotThere(error.detail, code=Exit.NOT_FOUND)
        case client.Unauthenticated() | client.Forbidden():
            hint = "the token is MUSTER_TOKEN, else in MUSTER_TOKEN_FILE, else in the data directory"
            return Failure(error.detail, code=Exit.REFUSED, hint=hint)
        case client.ApiError() if error.errors:
            title = str(error.problem.get("title") or "refused")
            details = [_sentence(one) for one in error.errors]
            return Failure(title[:1].lower() + title[1:], code=Exit.REFUSED, details=details)
        case client.ApiError():
            return Failure(error.detail, code=Exit.REFUSED if error.status < 500 else Exit.ERROR)
    return Failure(str(error))


def _sentence(error: Object) -> str:
    from muster.problems import FieldError

    return FieldError(
        field=str(error.get("field") or ""),
        message=str(error.get("message") or error.get("code") or "not valid"),
        found=error.get("found"),
        allowed=tuple(error.get("allowed") or ()),
        suggestion=error.get("suggestion"),
    ).sentence()
