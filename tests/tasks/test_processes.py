"""Web hooks through real processes: outbox, Redis, a worker, a receiver; and what gets lost on the way."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.state import Store
from controller.state.limits import OUTBOX_TRIES
from controller.state.types import OutboxItem
from controller.tasks.app import make_app
from controller.tasks.dispatch import AWAY_SECONDS, dispatch
from muster.clock import SystemClock
from tests.tasks.parts import DEADLINE, Process, Receiver, free_port, start_redis, wait_until

pytestmark = pytest.mark.processes
Start = Callable[..., Receiver]


class Sender:
    """The outbox's part of the loop."""

    def __init__(self, box: Store, url: str, clock: SystemClock, visibility: float = 60.0) -> None:
        self._box, self._app, self._clock, self._visibility = box, make_app(url), clock, visibility

    def promise(self, url: str, key: str = "job-1:Failed:3") -> OutboxItem:
        """Enqueue a call and hand it on; the item."""
        with self._box.write() as w:
            w.enqueue("webhook", {"url": url, "event": "Failed", "job": {"name": "train"}}, key=key)
        [item] = [item for item in self._box.outbox_due(self._clock.now(), 100) if item.key == key]
        return item

    def send(self) -> None:
        """One look of the loop's."""
        dispatch(self._box, self._app, self._clock.now(), visibility=self._visibility)

    def until(self, id: str, state: str) -> OutboxItem:  # noqa: A002
        """Send what is due, as the loop does, until the item is in `state`."""

        def reached() -> bool:
            self.send()
            return self._item(id).state == state

        wait_until(reached, f"the item to be {state}")
        return self._item(id)

    def _item(self, id: str) -> OutboxItem:  # noqa: A002
        item = self._box.outbox_item(id)
        assert item is not None
        return item


@pytest.fixture
def sender(box: Store, redis_url: str, system_clock: SystemClock) -> Sender:
    return Sender(box, redis_url, system_clock)


def test_a_receiver_that_fails_twice_is_called_until_it_answers_200_with_one_key(
    sender: Sender, new_worker: Callable[[], Process], receiver: Start
) -> None:
    hook = receiver(500, 503, 200)
    new_worker()
    item = sender.promise(hook.url)
    done = sender.until(item.id, "done")
    assert hook.calls == [("job-1:Failed:3", {"event": "Failed", "job": {"name": "train"}})] * 3
    assert (done.tries, done.error) == (2, "")


def test_a_receiver_that_never_answers_200_ends_as_a_dead_letter(
    sender: Sender, new_worker: Callable[[], Process], receiver: Start, box: Store, system_clock: SystemClock
) -> None:
    hook = receiver(410)
    new_worker()
    item = sender.promise(hook.url)
    for _ in range(OUTBOX_TRIES - 3):
        box.outbox_failed(item.id, "an earlier failure", 0.0)
    for failures in range(OUTBOX_TRIES - 2, OUTBOX_TRIES):
        sender.send()
        wait_until(lambda n=failures: (box.outbox_item(item.id) or item).tries == n, "the next failure")
        box.outbox_postpone(item.id, system_clock.now())  # its pause would be long by now
    dead = sender.until(item.id, "dead")
    assert (dead.tries, dead.error) == (OUTBOX_TRIES, "the receiver answered 410 Gone")
    assert box.outbox_due(system_clock.now() + 1e9) == []


def test_a_worker_killed_in_the_middle_of_a_call_loses_nothing(
    box: Store, redis_url: str, system_clock: SystemClock, new_worker: Callable[[], Process], receiver: Start
) -> None:
    hanging = threading.Event()
    hook = receiver(lambda: 200 if hanging.wait(DEADLINE) else 500, 200)
    sender = Sender(box, redis_url, system_clock, visibility=1.0)
    first = new_worker()
    item = sender.promise(hook.url)
    wait_until(lambda: sender.send() or hook.calls, "the first call")
    first.end(signal.SIGKILL)
    hanging.set()
    assert (box.outbox_item(item.id) or item).state == "due"
    new_worker()
    sender.until(item.id, "done")
    assert {key for key, _ in hook.calls} == {item.key}
    assert len(hook.calls) >= 2


def test_redis_restarted_and_emptied_loses_nothing_and_the_worker_stays(
    binary: Path,
    redis: Process,
    redis_port: int,
    redis_url: str,
    tmp_path: Path,
    box: Store,
    system_clock: SystemClock,
    new_worker: Callable[[], Process],
    receiver: Start,
) -> None:
    hook = receiver(200)
    sender = Sender(box, redis_url, system_clock, visibility=5.0)
    worker = new_worker()
    sender.until(sender.promise(hook.url, "before").id, "done")
    redis.end()
    item = sender.promise(hook.url, "after")
    started = time.monotonic()
    sender.send()
    assert time.monotonic() - started < 10.0
    waiting = box.outbox_item(item.id)
    assert waiting is not None
    assert (waiting.state, waiting.tries) == ("due", 0)
    box.outbox_postpone(item.id, 0.0)
    again = start_redis(binary, redis_port, tmp_path)
    try:
        sender.until(item.id, "done")
        assert worker.child.poll() is None
    finally:
        again.end()


def test_sigterm_ends_an_idle_worker_cleanly(
    sender: Sender, new_worker: Callable[[], Process], receiver: Start
) -> None:
    hook = receiver(200)
    worker = new_worker()
    sender.until(sender.promise(hook.url).id, "done")
    assert worker.end(signal.SIGTERM) == 0
    assert "Traceback" not in worker.log.read_text()


def test_sigterm_ends_a_worker_in_the_middle_of_a_call(
    sender: Sender, new_worker: Callable[[], Process], receiver: Start, box: Store
) -> None:
    hanging = threading.Event()
    hook = receiver(lambda: 200 if hanging.wait(DEADLINE) else 500)
    worker = new_worker()
    item = sender.promise(hook.url)
    sender.send()
    wait_until(lambda: hook.calls, "the call")
    started = time.monotonic()
    assert worker.end(signal.SIGTERM) == 0
    assert time.monotonic() - started < 8.0  # the receiver would hang for much longer
    hanging.set()
    assert (box.outbox_item(item.id) or item).state == "due"


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"MUSTER_DATABASE_URL": ""}, "MUSTER_DATABASE_URL is not set"),
        ({"MUSTER_REDIS_URL": ""}, "MUSTER_REDIS_URL is not set"),
        ({"MUSTER_WEBHOOK_BACKOFF": "soon"}, "MUSTER_WEBHOOK_BACKOFF: expected seconds above 0, found 'soon'"),
    ],
)
def test_a_worker_with_a_wrong_environment_says_so_and_ends(
    environ: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sqlite_url: str,
) -> None:
    from controller.tasks.main import main

    settings: dict[str, Any] = {"MUSTER_DATABASE_URL": sqlite_url, "MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"}
    for name, value in {**settings, **environ}.items():
        monkeypatch.setenv(name, value)
    assert main() == 2
    assert says in capsys.readouterr().err


def test_without_redis_dispatch_returns_soon_and_everything_waits_a_while(
    box: Store, system_clock: SystemClock
) -> None:
    sender = Sender(box, f"redis://127.0.0.1:{free_port()}/0", system_clock)
    ids = [sender.promise("http://127.0.0.1:1/", key).id for key in ("a", "b", "c")]
    started = time.monotonic()
    sender.send()
    assert time.monotonic() - started < 10.0
    for id_ in ids:
        item = box.outbox_item(id_)
        assert item is not None
        assert (item.state, item.tries) == ("due", 0)
        assert 0 < item.next_at - system_clock.now() <= AWAY_SECONDS
