"""Back-off, one call and one dispatch: without processes, against each kind of database."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.exceptions import OperationalError

from controller.state import Store
from controller.state.limits import OUTBOX_TRIES
from controller.state.types import OutboxItem
from controller.tasks.app import VISIBILITY_SECONDS, make_app
from controller.tasks.backoff import Backoff, delay
from controller.tasks.dispatch import AWAY_SECONDS, dispatch
from controller.tasks.main import backoff_from
from controller.tasks.webhook import LONGEST_ERROR, call
from muster.clock import ManualClock

Answer = Callable[[httpx2.Request], httpx2.Response]
BACKOFF = Backoff(first=2.0, most=600.0)


class App:
    """Records what would be sent; broken from the message with number `breaks_at` on."""

    def __init__(self, breaks_at: int | None = None, error: Exception | None = None) -> None:
        self.sent: list[tuple[str, list[Any], str]] = []
        self._breaks_at, self._error = breaks_at, error or OperationalError("connection refused")

    def send_task(self, name: str, args: list[Any], task_id: str, **_: Any) -> None:
        if self._breaks_at is not None and len(self.sent) >= self._breaks_at:
            raise self._error
        self.sent.append((name, args, task_id))


def promise(store: Store, key: str = "job-1:Failed:3", kind: str = "webhook", **payload: Any) -> OutboxItem:
    with store.write() as w:
        w.enqueue(kind, {"url": "http://hooks.test/x?y=1", "event": "Failed", **payload}, key=key)
    return next(item for item in store.outbox_due(1e12, 1000) if item.key == key)


def item_of(store: Store, id: str) -> OutboxItem:  # noqa: A002
    found = store.outbox_item(id)
    assert found is not None
    return found


def attempt(store: Store, item: OutboxItem, clock: ManualClock, answer: Answer) -> OutboxItem:
    """One call with `answer` as the receiver; the item afterwards."""
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        call(store, client, item.id, item.next_at, clock=clock, backoff=BACKOFF)
    return item_of(store, item.id)


def status(code: int) -> Answer:
    return lambda _request: httpx2.Response(code)


def never(_request: httpx2.Request) -> httpx2.Response:
    raise AssertionError("the receiver must not be called")


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 2), (1, 2), (2, 4), (3, 8), (8, 256), (9, 512), (10, 600), (11, 600), (12, 600), (10_000, 600)],
)
def test_the_pause_doubles_with_each_failure_up_to_the_most(failures: int, seconds: float) -> None:
    assert delay(BACKOFF, failures) == seconds


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.integers(1, 10**6))
def test_a_pause_is_positive_finite_never_shrinks_and_never_exceeds_the_most(
    first: float, most: float, failures: int
) -> None:
    backoff = Backoff(first=first, most=most)
    assert 0 < delay(backoff, failures) <= delay(backoff, failures + 1) <= most


@pytest.mark.parametrize(("text", "first"), [(None, 2.0), ("", 2.0), ("0.05", 0.05), ("30", 30.0)])
def test_the_first_pause_comes_from_the_environment(text: str | None, first: float) -> None:
    assert backoff_from({} if text is None else {"MUSTER_WEBHOOK_BACKOFF": text}).first == first


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_first_pause_that_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="MUSTER_WEBHOOK_BACKOFF"):
        backoff_from({"MUSTER_WEBHOOK_BACKOFF": text})


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_any_success_of_the_receiver_is_done(store: Store, clock: ManualClock, code: int) -> None:
    after = attempt(store, promise(store), clock, status(code))
    assert (after.state, after.tries, after.error, after.done_at) == ("done", 0, "", clock.now())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (302, "the receiver answered 302 Found"),
        (404, "the receiver answered 404 Not Found"),
        (500, "the receiver answered 500 Internal Server Error"),
        (599, "the receiver answered 599"),
    ],
)
def test_any_other_answer_is_a_failure_with_its_status(store: Store, clock: ManualClock, code: int, error: str) -> None:
    after = attempt(store, promise(store), clock, status(code))
    assert (after.state, after.tries, after.error, after.next_at) == ("due", 1, error, clock.now() + 2.0)


def _refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("connection refused", request=request)


def _hang(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("no answer in time", request=request)


def _burst(_request: httpx2.Request) -> httpx2.Response:
    raise ZeroDivisionError("x" * 10_000)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(_refuse, "ConnectError: connection refused"), (_hang, "ReadTimeout: no answer in time")],
)
def test_no_answer_at_all_is_a_failure_with_its_text(
    store: Store, clock: ManualClock, answer: Answer, error: str
) -> None:
    after = attempt(store, promise(store), clock, answer)
    assert (after.state, after.tries, after.error) == ("due", 1, error)


def test_a_failure_of_an_unforeseen_kind_keeps_a_bounded_text(store: Store, clock: ManualClock) -> None:
    after = attempt(store, promise(store), clock, _burst)
    assert after.tries == 1
    assert after.error.startswith("ZeroDivisionError: xxx")
    assert len(after.error) == LONGEST_ERROR


@pytest.mark.parametrize("url", ["", "hooks.test", "ftp://hooks.test/", "http://", "http://[::1", 7, None])
def test_a_url_that_cannot_be_called_is_a_failure_and_not_a_crash(store: Store, clock: ManualClock, url: Any) -> None:
    item = promise(store, url=url)
    with httpx2.Client() as client:
        call(store, client, item.id, item.next_at, clock=clock, backoff=BACKOFF)
    after = item_of(store, item.id)
    assert (after.state, after.tries) == ("due", 1)
    assert after.error


def test_the_request_is_the_payload_without_its_url_under_the_items_key(store: Store, clock: ManualClock) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200)

    attempt(store, promise(store, job={"name": "zug-ü"}), clock, answer)
    [request] = seen
    assert (request.method, str(request.url)) == ("POST", "http://hooks.test/x?y=1")
    assert request.headers["Idempotency-Key"] == "job-1:Failed:3"
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.content) == {"event": "Failed", "job": {"name": "zug-ü"}}


def test_a_redirect_is_not_followed(store: Store, clock: ManualClock) -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(307, headers={"Location": "http://169.254.169.254/"})

    assert attempt(store, promise(store), clock, answer).tries == 1
    assert urls == ["http://hooks.test/x?y=1"]


def test_an_endless_answer_is_not_read(store: Store, clock: ManualClock) -> None:
    def endless() -> Iterator[bytes]:
        yield b"x"
        raise AssertionError("the body was read")

    assert attempt(store, promise(store), clock, lambda _: httpx2.Response(200, content=endless())).state == "done"


def test_repeating_a_call_that_is_done_calls_nobody(store: Store, clock: ManualClock) -> None:
    item = promise(store)
    attempt(store, item, clock, status(200))
    assert attempt(store, item, clock, never).state == "done"


def test_the_message_of_a_call_that_has_failed_since_is_old_and_does_not_jump_the_pause(
    store: Store, clock: ManualClock
) -> None:
    item = promise(store)
    attempt(store, item, clock, status(500))
    assert attempt(store, item, clock, never).tries == 1


def test_a_dead_letter_is_not_called_again(store: Store, clock: ManualClock) -> None:
    item = promise(store)
    for _ in range(OUTBOX_TRIES):
        item = attempt(store, item, clock, status(500))
    assert (item.state, item.tries) == ("dead", OUTBOX_TRIES)
    assert attempt(store, item, clock, never) == item
    assert store.outbox_due(math.inf, 10) == []


def test_an_item_that_is_gone_is_no_error(store: Store, clock: ManualClock) -> None:
    with httpx2.Client(transport=httpx2.MockTransport(never)) as client:
        call(store, client, "id-of-nothing", 0.0, clock=clock, backoff=BACKOFF)


def test_what_is_due_is_sent_once_and_again_only_after_its_visibility(store: Store, clock: ManualClock) -> None:
    app, item = App(), promise(store)
    for _ in range(3):
        dispatch(store, app, clock.now())
    turn = clock.now() + VISIBILITY_SECONDS
    assert app.sent == [("muster.webhook", [item.id, turn], item.id)]
    clock.advance(VISIBILITY_SECONDS)
    dispatch(store, app, clock.now())
    assert app.sent[1:] == [("muster.webhook", [item.id, turn + VISIBILITY_SECONDS], item.id)]
    assert item_of(store, item.id).tries == 0


def test_the_newest_message_of_an_item_is_the_only_one_that_works(store: Store, clock: ManualClock) -> None:
    app, item = App(), promise(store)
    dispatch(store, app, clock.now())
    clock.advance(VISIBILITY_SECONDS)
    dispatch(store, app, clock.now())
    old, new = (json.loads(json.dumps(args)) for _, args, _ in app.sent)
    with httpx2.Client(transport=httpx2.MockTransport(never)) as client:
        call(store, client, *old, clock=clock, backoff=BACKOFF)
    with httpx2.Client(transport=httpx2.MockTransport(status(200))) as client:
        call(store, client, *new, clock=clock, backoff=BACKOFF)
    assert item_of(store, item.id).state == "done"


@pytest.mark.parametrize("error", [OperationalError("away"), ConnectionRefusedError("away"), TimeoutError("away")])
def test_redis_away_makes_all_wait_and_nothing_fail(store: Store, clock: ManualClock, error: Exception) -> None:
    ids = [promise(store, key).id for key in ("a", "b", "c")]
    dispatch(store, App(breaks_at=1, error=error), clock.now())
    items = [item_of(store, id_) for id_ in ids]
    assert {(item.state, item.tries) for item in items} == {("due", 0)}
    waits = [clock.now() + VISIBILITY_SECONDS, clock.now() + AWAY_SECONDS, clock.now() + AWAY_SECONDS]
    assert sorted(item.next_at for item in items) == sorted(waits)


def test_a_kind_that_nobody_knows_becomes_a_dead_letter_and_holds_up_nobody(store: Store, clock: ManualClock) -> None:
    app, odd, good = App(), promise(store, "odd", kind="pigeon"), promise(store, "good")
    for _ in range(OUTBOX_TRIES):
        dispatch(store, app, clock.now())
        clock.advance(VISIBILITY_SECONDS)
    after = item_of(store, odd.id)
    assert (after.state, after.error) == ("dead", "there is no task for the kind 'pigeon'")
    assert {task_id for _, _, task_id in app.sent} == {good.id}


def test_the_application_is_made_once_per_redis_and_connects_to_nothing() -> None:
    assert make_app("redis://127.0.0.1:1/0") is make_app("redis://127.0.0.1:1/0")
    assert make_app("redis://127.0.0.1:1/0") is not make_app("redis://127.0.0.1:2/0")


def test_the_application_keeps_no_results_and_acknowledges_late() -> None:
    conf = make_app("redis://127.0.0.1:1/0").conf
    assert conf.task_acks_late
    assert conf.task_reject_on_worker_lost
    assert conf.task_ignore_result
    assert conf.result_backend is None
    assert not conf.worker_enable_remote_control
