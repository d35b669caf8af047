"""The client: typed errors, repeats of what may be repeated, and where it finds its cluster."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from api.services import Services
from muster import client as module
from muster.client import (
    ApiError,
    Client,
    Conflict,
    Invalid,
    MusterError,
    NoCluster,
    NotFound,
    Unauthenticated,
    Unreachable,
    find_cluster,
    path_of,
)
from tests.api.conftest import manifest
from tests.makers import make_node


class TestAgainstTheRealServer:
    def test_a_jobs_whole_life(self, client: Client, here: Services) -> None:
        assert client.create(manifest("a"), dry_run=True)["status"]["phase"] == "Queued"
        assert client.apply(manifest("a")).result == "created"
        assert client.apply(manifest("a")).result == "unchanged"
        assert client.apply(manifest("a", priorityClass="high")).result == "configured"
        assert client.get("Job", "a")["spec"]["priorityClass"] == "high"
        assert client.act("Job", "a", "suspend")["spec"]["suspend"] is True
        assert client.delete("Job", "a")["status"]["phase"] == "Queued"
        assert [one["reason"] for one in client.parts("a", "events") if one["level"] == "normal"] == [
            "Submitted",
            "Configured",
            "SuspendRequested",
            "CancelRequested",
        ]
        assert client.events("default", limit=1)[0]["reason"] == "CancelRequested"
        assert client.version()["protocol"] == 1

    def test_lists_go_over_all_pages(self, client: Client) -> None:
        for name in "abcde":
            client.create(manifest(name))
        assert [job["metadata"]["name"] for job in client.list("Job", limit=2)] == list("abcde")
        assert [job["metadata"]["name"] for job in client.list("Job", "default", phase="Queued", limit=3)] == list(
            "abcde"
        )
        assert client.list("Job", "other") == []

    def test_cluster_wide_kinds_need_no_namespace(self, client: Client, here: Services) -> None:
        here.write(lambda w: w.put_node(make_node("n0")))
        assert client.list("Node")[0]["metadata"]["name"] == "n0"
        assert client.act("Node", "n0", "cordon")["spec"]["cordoned"] is True
        assert client.get("Queue", "default")["kind"] == "Queue"

    def test_refusals_are_typed_and_carry_the_problem(self, client: Client, url: str) -> None:
        with pytest.raises(NotFound, match="no job 'nope'"):
            client.get("Job", "nope")
        with pytest.raises(Invalid) as invalid:
            client.create(manifest(queue="defualt"))
        assert invalid.value.errors[0]["suggestion"] == "default"
        client.create(manifest())
        with pytest.raises(Conflict) as conflict:
            client.create(manifest())
        assert (conflict.value.status, conflict.value.code) == (409, "ALREADY_EXISTS")
        with pytest.raises(Unauthenticated):
            Client(url, "wrong").list("Job")
        with pytest.raises(NotFound):
            next(client.logs("nope"))

    def test_a_kept_connection_is_used_again(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        made = []
        real = client.http._connect
        monkeypatch.setattr(client.http, "_connect", lambda timeout: made.append(1) or real(timeout))
        for _ in range(3):
            client.version()
        assert made == [1]


Script = list[Callable[[BaseHTTPRequestHandler], None]]


def answer(status: int, body: Any = None, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def act(handler: BaseHTTPRequestHandler) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()
        handler.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        handler.wfile.write(content)

    return act


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


class FakeServer:
    """Answers by script, the last line for ever; remembers what it was asked."""

    def __init__(self) -> None:
        self.script: Script = [answer(200, {"items": []})]
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                (fake.script.pop(0) if len(fake.script) > 1 else fake.script[0])(self)

            do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    made = FakeServer()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def caller(fake: FakeServer, pauses: list[float]) -> Client:
    return Client(fake.url, "secret", sleep=pauses.append, timeout=10)


class TestRepeats:
    @pytest.mark.parametrize("failure", [answer(503), answer(502), hang_up])
    def test_a_read_is_repeated_with_growing_pauses(
        self, fake: FakeServer, caller: Client, pauses: list[float], failure: Any
    ) -> None:
        fake.script = [failure, failure, answer(200, {"version": "1"})]
        assert caller.version() == {"version": "1"}
        assert pauses == [0.1, 0.2]

    def test_a_submission_is_repeated_under_one_key(self, fake: FakeServer, caller: Client) -> None:
        fake.script = [hang_up, answer(503), answer(201, {"kind": "Job"})]
        caller.create(manifest())
        keys = {headers["idempotency-key"] for _, _, headers in fake.asked}
        assert len(fake.asked) == 3
        assert len(keys) == 1

    def test_two_submissions_have_two_keys(self, fake: FakeServer, caller: Client) -> None:
        fake.script = [answer(201, {"kind": "Job"})]
        caller.create(manifest())
        caller.create(manifest())
        assert len({headers["idempotency-key"] for _, _, headers in fake.asked}) == 2

    @pytest.mark.parametrize("failure", [answer(503), hang_up])
    def test_a_delete_is_never_repeated(self, fake: FakeServer, caller: Client, failure: Any) -> None:
        """The first may have cancelled the job; a second would remove it."""
        fake.script = [failure]
        with pytest.raises(MusterError):
            caller.delete("Job", "a")
        assert len(fake.asked) == 1

    @pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500])
    def test_a_refusal_is_not_repeated(self, fake: FakeServer, caller: Client, status: int) -> None:
        fake.script = [answer(status, {"detail": "no", "code": "X"})]
        with pytest.raises(ApiError) as refused:
            caller.version()
        assert (refused.value.status, str(refused.value), refused.value.code) == (status, "no", "X")
        assert len(fake.asked) == 1

    def test_it_ends_after_some(self, fake: FakeServer, caller: Client, pauses: list[float]) -> None:
        fake.script = [hang_up]
        with pytest.raises(Unreachable, match="cannot be reached"):
            caller.version()
        assert len(fake.asked) == 5
        assert pauses == [0.1, 0.2, 0.4, 0.8]

    def test_nobody_there_is_said_in_plain_words(self, pauses: list[float]) -> None:
        with pytest.raises(Unreachable, match=r"http://127.0.0.1:9 cannot be reached: Connection refused"):
            Client("http://127.0.0.1:9", "t", sleep=pauses.append).version()


class TestWords:
    def test_the_token_and_the_query_are_sent(self, fake: FakeServer, caller: Client) -> None:
        fake.script = [answer(200, {"items": [], "metadata": {}})]
        caller.list("Job", "a b", labelSelector="x=y", phase=["Queued", "Running"], queue=None)
        ((method, path, headers),) = fake.asked
        assert (method, headers["authorization"]) == ("GET", "Bearer secret")
        assert path == "/api/v1/namespaces/a%20b/jobs?labelSelector=x%3Dy&phase=Queued&phase=Running"

    def test_a_proxys_page_is_no_problem_document(self, fake: FakeServer, caller: Client) -> None:
        fake.script = [answer(413, b"<html>too large</html>")]
        with pytest.raises(ApiError, match="<html>too large</html>"):
            caller.version()

    def test_a_name_cannot_leave_its_place_in_the_address(self) -> None:
        assert path_of("Job", "../nodes/x?y", "a/b") == "/api/v1/namespaces/a%2Fb/jobs/..%2Fnodes%2Fx%3Fy"

    @pytest.mark.parametrize("bad", [{"kind": "Jbo"}, {"kind": "Job", "metadata": {}}, {"kind": "Job"}])
    def test_a_manifest_without_address_is_refused_here(self, caller: Client, bad: dict[str, Any]) -> None:
        with pytest.raises(MusterError):
            caller.apply(bad)

    @pytest.mark.parametrize("server", ["ftp://x", "http://", ""])
    def test_a_server_must_have_an_address(self, server: str) -> None:
        with pytest.raises(NoCluster):
            Client(server)


class TestFindCluster:
    def test_the_environment_wins(self, tmp_path: Path) -> None:
        assert find_cluster({"MUSTER_SERVER": "http://s", "MUSTER_TOKEN": "t", "HOME": str(tmp_path)}) == (
            "http://s",
            "t",
        )

    def test_a_token_file_will_do(self, tmp_path: Path) -> None:
        (tmp_path / "t").write_text("secret\n")
        found = find_cluster({"MUSTER_SERVER": "http://s", "MUSTER_TOKEN_FILE": str(tmp_path / "t")})
        assert found.token == "secret"

    @pytest.mark.parametrize("variable", ["MUSTER_DATA_DIR", "HOME"])
    def test_the_data_directory_knows_both(self, tmp_path: Path, variable: str) -> None:
        folder = tmp_path if variable == "MUSTER_DATA_DIR" else tmp_path / ".muster"
        folder.mkdir(exist_ok=True)
        (folder / "up.json").write_text('{"url": "http://127.0.0.1:7070", "pid": 1}')
        (folder / "token").write_text("secret\n")
        assert find_cluster({variable: str(tmp_path)}) == ("http://127.0.0.1:7070", "secret")

    @pytest.mark.parametrize(
        ("content", "words"),
        [(None, "muster up"), ("{", "cannot be used"), ("{}", "cannot be used"), ("[]", "cannot be used")],
    )
    def test_without_a_cluster_it_says_what_to_do(self, tmp_path: Path, content: str | None, words: str) -> None:
        if content is not None:
            (tmp_path / "up.json").write_text(content)
        with pytest.raises(NoCluster, match=words):
            find_cluster({"MUSTER_DATA_DIR": str(tmp_path)})

    def test_without_a_token_it_says_where_it_looked(self, tmp_path: Path) -> None:
        with pytest.raises(NoCluster, match=r"MUSTER_TOKEN is not set, and .*/token"):
            find_cluster({"MUSTER_SERVER": "http://s", "MUSTER_DATA_DIR": str(tmp_path)})


def test_the_client_needs_the_standard_library_only() -> None:
    import subprocess
    import sys

    code = "import sys, muster.client; print({n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names))"
    root = str(Path(module.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = eval(found.stdout) - {"__main__", "sitecustomize"}
    assert {name for name in loaded if not name.startswith(("_", "distutils"))} == {"muster"}
