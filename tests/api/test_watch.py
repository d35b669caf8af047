"""The change log as a stream: complete, in order, resumable."""

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from api import follower
from api.services import Services
from api.settings import Settings
from controller.state import TooOld
from controller.state.retention import CHANGE_BYTES, Keep, Retention
from muster.client import Client, Gone, Unreachable
from muster.states import JobPhase
from tests.api.conftest import manifest, served
from tests.makers import make_job


def submit(client: Client, *names: str) -> None:
    for name in names:
        client.create(manifest(name))


def take(stream: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return [next(stream) for _ in range(count)]


def test_changes_come_with_their_objects(client: Client) -> None:
    stream = client.watch(kinds=["Job"], bookmarks=True)
    first = next(stream)
    assert first["type"] == "bookmark"
    submit(client, "a")
    change = next(one for one in stream if one["type"] != "bookmark")
    assert (change["type"], change["kind"], change["namespace"], change["name"]) == ("put", "Job", "default", "a")
    assert change["object"] == client.get("Job", "a")
    assert change["revision"] > first["revision"]


def test_a_watcher_resumes_where_it_was_and_misses_nothing(client: Client) -> None:
    submit(client, "a", "b", "c")
    stream = client.watch(after=0, kinds=["Job"])
    (a,) = take(stream, 1)
    stream.close()  # type: ignore[attr-defined]
    submit(client, "d")
    rest = take(client.watch(after=a["revision"], kinds=["Job"]), 3)
    assert [one["name"] for one in [a, *rest]] == ["a", "b", "c", "d"]


def test_revisions_grow_without_gaps(client: Client) -> None:
    submit(client, *"abcde")
    newest = client.list("Job")[-1]
    seen = [one["revision"] for one in take(client.watch(after=0), int(newest["metadata"]["resourceVersion"]))]
    assert seen == list(range(1, len(seen) + 1))


def test_can_be_narrowed_to_a_namespace(client: Client) -> None:
    client.create(manifest("a", metadata={"namespace": "other"}))
    submit(client, "b")
    assert next(client.watch(after=0, namespace="default"))["name"] == "b"


def test_what_was_removed_is_a_delete(client: Client, here: Services) -> None:
    here.write(lambda w: w.insert_job(make_job(phase=JobPhase.FAILED)))
    stream = client.watch(after=0, kinds=["Job"])
    next(stream)
    client.delete("Job", "train")
    gone = next(stream)
    assert (gone["type"], gone["name"], gone["object"]) == ("delete", "train", None)


def test_every_kind_can_be_watched(client: Client, here: Services) -> None:
    from tests.api.test_nodes_and_queues import furnish

    furnish(here)
    seen = {}
    for change in client.watch(after=0):
        seen[change["kind"]] = change["object"]
        if change["kind"] == "Incident":
            break
    assert seen.keys() >= {"Job", "Attempt", "Worker", "Node", "Queue", "Checkpoint", "Incident"}
    assert all(seen.values())


def test_many_watchers_cost_one_reader(client: Client, here: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.routes import changes

    pages: list[int] = []
    real = changes._page

    async def counted(services: Services, after: int) -> Any:
        pages.append(after)
        return await real(services, after)

    monkeypatch.setattr(changes, "_page", counted)
    now = int(client.watch(bookmarks=True).__next__()["revision"])
    streams = [client.watch(after=now, kinds=["Job"], bookmarks=True) for _ in range(5)]
    for stream in streams:
        assert next(stream)["type"] == "bookmark"
    submit(client, "a")
    for stream in streams:
        assert next(one for one in stream if one["type"] == "put")["name"] == "a"
    assert pages == []


def test_a_revision_that_was_cut_off_is_gone(client: Client, here: Services) -> None:
    submit(client, *"abc")
    here.store.prune(Retention(changes=Keep(7, 2 * CHANGE_BYTES)))
    with pytest.raises(Gone) as refused:
        next(client.watch(after=1))
    assert refused.value.problem["oldest"] > 2


def test_a_watcher_that_falls_behind_the_log_is_told(
    client: Client, here: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(*_: object) -> Any:
        raise TooOld(1, 5, 9)

    monkeypatch.setattr("api.routes.changes._page", cut)
    submit(client, "a")
    with pytest.raises(Gone):
        list(client.watch(after=0))


def test_an_idle_watcher_is_told_where_it_is(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "BOOKMARK", 0.05)
    stream = client.watch(bookmarks=True)
    first, second = next(stream), next(stream)
    assert first == second == {"type": "bookmark", "revision": first["revision"]}


def test_last_event_id_wins_over_after(url: str, client: Client, settings: Settings) -> None:
    submit(client, "a", "b")
    (first,) = take(client.watch(after=0, kinds=["Job"]), 1)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    token = settings.admin_token_file.read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": str(first["revision"])}
    connection.request("GET", "/api/v1/changes?after=0&kind=Job", headers=headers)
    response = connection.getresponse()
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    lines = [response.readline() for _ in range(8)]
    connection.close()
    assert lines[0] == b"id: %d\n" % first["revision"]
    assert any(b'"name":"b"' in line for line in lines)
    assert not any(b'"name":"a"' in line for line in lines)


def test_a_watcher_survives_a_restart_of_the_server(app: FastAPI, settings: Settings) -> None:
    """The client opens its stream again where it was."""
    from api.app import create_app

    with served(app) as address:
        client = Client(address, settings.admin_token_file.read_text().strip(), sleep=lambda _: None)
        submit(client, "a")
        stream = client.watch(after=0, kinds=["Job"])
        assert next(stream)["name"] == "a"
    with pytest.raises(Unreachable):
        next(stream)
    with served(create_app(settings)) as address:
        again = Client(address, settings.admin_token_file.read_text().strip())
        submit(again, "b")
        assert [one["name"] for one in take(again.watch(after=0, kinds=["Job"]), 2)] == ["a", "b"]


def test_the_follower_goes_on_when_the_database_was_away(
    client: Client, here: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controller.state import StoreUnavailable

    real, failures = here.follower._read, iter([StoreUnavailable("away")] * 2)
    happened = []

    def read(*args: Any) -> Any:
        if (failure := next(failures, None)) is not None:
            happened.append(1)
            raise failure
        return real(*args)

    monkeypatch.setattr(here.follower, "_read", read)
    monkeypatch.setattr(follower, "POLL", 0.01)
    stream = client.watch(after=0, kinds=["Job"])
    submit(client, "a")
    assert next(stream)["name"] == "a"
    assert happened
