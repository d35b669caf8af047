"""Hints over Redis pub/sub: "something has changed, look now". They may be lost at any time; whoever waits for them
polls as well."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

CHANNEL: Final = "muster:changes"
REPLY_SECONDS: Final = 0.25
"""The longest that a publisher waits for Redis."""
PAUSE_SECONDS: Final = 2.0
"""After a failure nothing is published for so long."""
RECONNECT_SECONDS: Final = 1.0


class Hints:
    """`url` None or empty: hints reach this process only. Safe to share between threads."""

    def __init__(self, url: str | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url, self._monotonic = url, monotonic
        self._publisher: Any = None
        self._paused_until = 0.0
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def publish(self, revision: int) -> None:
        """Tell everybody. Never raises; a Redis that does not answer is left alone for a while."""
        self._hint()
        if not self._url or self._stopped.is_set() or self._monotonic() < self._paused_until:
            return
        try:
            if self._publisher is None:
                self._publisher = _connect(self._url, REPLY_SECONDS)
            self._publisher.publish(CHANNEL, str(revision))
        except Exception:  # a hint must never hurt: whatever is wrong, the others poll
            self._paused_until = self._monotonic() + PAUSE_SECONDS

    def wait(self, timeout: float) -> bool:
        """True when a hint came since the last call, or comes within `timeout` seconds."""
        self._start()
        hinted = self._woken.wait(timeout)
        self._woken.clear()
        return hinted

    def listen(self, on_hint: Callable[[], None]) -> None:
        """Call `on_hint` at each hint, from the thread that received it; it must be quick and must not raise."""
        with self._lock:
            self._listeners.append(on_hint)
        self._start()

    def close(self) -> None:
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=3.0)
        if self._publisher is not None:
            self._publisher.close()

    def _start(self) -> None:
        with self._lock:
            if self._url and self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._follow, name="hints", daemon=True)
                self._thread.start()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                self._subscribe()
            except Exception:  # Redis away, restarted, wrong password: polling goes on, we try again
                self._stopped.wait(RECONNECT_SECONDS)

    def _subscribe(self) -> None:
        """Until the connection breaks. Being subscribed is a hint, too: something may have been missed before."""
        assert self._url is not None
        client = _connect(self._url, 5.0)
        try:
            with client.pubsub(ignore_subscribe_messages=False) as channel:
                channel.subscribe(CHANNEL)
                while not self._stopped.is_set():
                    if channel.get_message(timeout=1.0) is not None:
                        self._hint()
        finally:
            client.close()

    def _hint(self) -> None:
        self._woken.set()
        for listener in tuple(self._listeners):
            listener()


def _connect(url: str, seconds: float) -> Any:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)  # the library's own retries would block for seconds
    return redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=once)
