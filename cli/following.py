"""Follows what a job writes over its attempts, and over an API that goes away and comes back: no line is lost, none
is shown twice."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from cli.api import Api, Object, Unreachable, jobs_path

T = TypeVar("T")

PATIENCE: Final = 120.0
"""Seconds for which the API may be away."""
PAUSE: Final = 0.5
ENDED: Final = frozenset({"Succeeded", "Failed", "Cancelled"})


class Following:
    """`query` are those of the logs, without `attempt`. `say` tells people what is not the job's own."""

    def __init__(
        self,
        api: Api,
        name: str,
        namespace: str,
        query: Mapping[str, Any],
        *,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._name, self._namespace, self._query = api, name, namespace, dict(query)
        self._say, self._sleep, self._monotonic = say, sleep, monotonic
        self._away_since: float | None = None

    def job(self) -> Iterator[bytes]:
        """Every attempt from the newest on, until the job has ended. Raises Failure."""
        found, shown = self._job(), 0
        uid = found["metadata"]["uid"]
        while found["metadata"]["uid"] == uid:
            number = self._newest()
            if number > shown:
                if shown:
                    self._say(f"attempt {number}")
                yield from self.attempt(number)
                shown, self._query["tail"] = number, None
            elif found["status"]["phase"] in ENDED:
                if not shown:
                    yield from self._logs()  # the API says why there is nothing
                return
            else:
                self._sleep(PAUSE)
            found = self._patiently(self._job)

    def attempt(self, number: int) -> Iterator[bytes]:
        """Until it has ended. What a new stream repeats is left out, line by line: lines of several ranks may come in
        another order then."""
        shown: Counter[int] = Counter()
        over = False
        while not over:
            repeated = shown.copy()
            try:
                for line in _lines(self._logs(attempt=number)):
                    self._away_since = None
                    known = hash(line)
                    if repeated[known] > 0:
                        repeated[known] -= 1
                        continue
                    shown[known] += 1
                    yield line
            except Unreachable as error:
                self._wait(error)
            over = self._patiently(lambda: self._is_over(number))
            if not over and self._query.get("tail") is not None:
                self._say("the API was away; lines written meanwhile are left out, as --tail was asked for")
                self._query["tail"] = 0

    def _logs(self, **more: Any) -> Iterator[bytes]:
        return self._api.logs(self._name, self._namespace, **self._query, **more, follow=1)

    def _job(self) -> Object:
        return self._api.get(jobs_path(self._namespace, self._name))

    def _attempts(self) -> list[Object]:
        return self._api.items(jobs_path(self._namespace, self._name, "attempts"))

    def _newest(self) -> int:
        """0: there is none yet."""
        return max((int(one["number"]) for one in self._patiently(self._attempts)), default=0)

    def _is_over(self, number: int) -> bool:
        """Ended, or gone with its job. A stream also ends when its API does."""
        return all(one["phase"] == "Ended" for one in self._attempts() if one["number"] == number)

    def _patiently(self, ask: Callable[[], T]) -> T:
        while True:
            try:
                found = ask()
            except Unreachable as error:
                self._wait(error)
                continue
            self._away_since = None
            return found

    def _wait(self, error: Unreachable) -> None:
        """Raises `error` when the API has been away for too long."""
        now = self._monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since > PATIENCE:
            raise error
        self._sleep(PAUSE)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines; the last may lack its end, unless the stream breaks off: it comes again then."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest
