"""New jobs of all requests at hand go into the database together: one transaction, one commit, and only then the answers.

While one transaction commits the next requests gather, so that many clients cost little more commits than one. What
spoils a transaction spoils it for its request alone: the others are written again without it.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from api import show, wire
from api.forecasts import Forecasts
from api.inventory import Inventory
from api.problems import as_problem, conflict
from api.requests import Once
from api.submission import Submission, create_all
from api.views import JobView
from controller.records import JobRecord
from controller.state import Actor, Remembered, Store, StoreUnavailable, Taken, Writer
from controller.state.hints import Hints
from muster.clock import Clock
from muster.problems import Problem
from muster.resources.job import Job

log = structlog.get_logger("muster.api")

GATHERED: Final = 500
"""Jobs of one transaction, about: requests are taken until there are so many."""

WORKERS: Final = 2
MANY: Final = 200
"""Jobs that wait for which a second transaction is prepared while the first commits."""

TRIES: Final = 3
"""For a request that another process was quicker than: what it wrote is seen then."""

Result = JobView | Problem


class Asked(Struct, frozen=True, kw_only=True, eq=False):
    """The jobs of one request, some of which are refused already."""

    jobs: tuple[Job | Problem, ...]
    user: str
    actor: Actor | None = None
    once: Once | None = None
    answer: Future[list[Result]]


class _Repeat(Struct, frozen=True):
    """What a request got that had the same Idempotency-Key: uids of jobs, and problems."""

    items: tuple[str | Problem, ...]


class Intake:
    """Safe to share between threads. `add` returns at once."""

    def __init__(
        self,
        store: Store,
        inventory: Inventory,
        forecasts: Forecasts,
        hints: Hints,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._store, self._inventory, self._forecasts, self._hints = store, inventory, forecasts, hints
        self._clock, self._new_id = clock, new_id
        self._pool = ThreadPoolExecutor(WORKERS, "intake")
        self._lock = threading.Lock()
        self._waiting: deque[Asked] = deque()
        self._backlog = 0
        self._workers = 0

    def add(
        self,
        jobs: Sequence[Job | Problem],
        user: str,
        *,
        actor: Actor | None = None,
        once: Once | None = None,
    ) -> Future[list[Result]]:
        """The answer comes when they are committed: a job or a problem for each. Problem or StoreError instead, when
        nothing at all was written."""
        asked = Asked(jobs=tuple(jobs), user=user, actor=actor, once=once, answer=Future())
        with self._lock:
            self._waiting.append(asked)
            self._backlog += len(asked.jobs)
            wanted = 1 if self._backlog < MANY else WORKERS
            new = self._workers < wanted
            self._workers += new
        if new:
            self._pool.submit(self._work)
        return asked.answer

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- in its own thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        while group := self._next():
            self._take_in(group)

    def _next(self) -> list[Asked]:
        """Requests that may go together. Of two with the same Idempotency-Key the second has to see the first's."""
        group: list[Asked] = []
        keys: set[str] = set()
        size = 0
        with self._lock:
            while self._waiting and size < GATHERED:
                once = self._waiting[0].once
                if once is not None and once.key in keys:
                    break
                if once is not None:
                    keys.add(once.key)
                asked = self._waiting.popleft()
                self._backlog -= len(asked.jobs)
                if asked.answer.set_running_or_notify_cancel():  # else nobody waits for it any more
                    group.append(asked)
                    size += len(asked.jobs)
            self._workers -= not group
        return group

    def _take_in(self, group: list[Asked]) -> None:
        try:
            results = self._commit(group)
        except StoreUnavailable as error:
            for asked in group:
                asked.answer.set_exception(error)
        except Exception as error:
            if len(group) == 1:
                group[0].answer.set_exception(_meant(error))
                return
            for asked in group:
                self._take_in([asked])
        else:
            for asked, result in zip(group, results, strict=True):
                if isinstance(result, Problem):
                    asked.answer.set_exception(result)
                else:
                    asked.answer.set_result(result)

    def _commit(self, group: list[Asked]) -> list[list[Result] | Problem]:
        for attempt in range(TRIES):
            try:
                return self._commit_once(group)
            except Taken:
                if attempt == TRIES - 1 or len(group) > 1:
                    raise
        raise AssertionError("unreachable")

    def _commit_once(self, group: list[Asked]) -> list[list[Result] | Problem]:
        ground, now = self._inventory.ground(), self._clock.now()
        fresh = [
            [
                one
                if isinstance(one, Problem)
                else Submission(job=one, user=asked.user, uid=self._new_id(), now=now, ground=ground, actor=asked.actor)
                for one in asked.jobs
            ]
            for asked in group
        ]
        writers: list[Writer] = []

        def act(w: Writer) -> list[list[JobRecord | Problem] | _Repeat | Problem]:
            writers.append(w)
            return _write(w, group, fresh)

        written = self._store.transact(act)
        if writers[-1].revision:
            self._hints.publish(writers[-1].revision)
        return [self._shown(one, writers[-1]) for one in written]

    def _shown(self, written: list[JobRecord | Problem] | _Repeat | Problem, w: Writer) -> list[Result] | Problem:
        if isinstance(written, _Repeat):
            return self._again(written)
        if isinstance(written, Problem):
            return written
        return [
            one if isinstance(one, Problem) else wire.job(replace(one, revision=w.revision_of(one.uid) or 0))
            for one in written
        ]

    def _again(self, repeat: _Repeat) -> list[Result]:
        """The same jobs, as they are now."""
        with self._store.read() as r:
            found = r.jobs_with(one for one in repeat.items if isinstance(one, str))
            views = dict(zip(found, show.jobs(r, found.values(), self._forecasts.etas()), strict=True))
        return [one if isinstance(one, Problem) else views.get(one) or gone(one) for one in repeat.items]


def gone(uid: str) -> Problem:
    return Problem(410, "GONE", "The job has been removed meanwhile", f"job {uid} does not exist any more")


def _write(
    w: Writer, group: Sequence[Asked], fresh: Sequence[list[Submission | Problem]]
) -> list[list[JobRecord | Problem] | _Repeat | Problem]:
    """One entry for each request: its jobs and problems, what it got before, or why it is refused whole."""
    known = w.all_remembered(asked.once.key for asked in group if asked.once is not None)
    repeats = [None if one.once is None else _repeated(known.get(one.once.key), one.once) for one in group]
    new = [one for some, repeat in zip(fresh, repeats, strict=True) if repeat is None for one in some]
    made = iter(create_all(w, [one for one in new if not isinstance(one, Problem)]))
    written: list[list[JobRecord | Problem] | _Repeat | Problem] = []
    for asked, some, repeat in zip(group, fresh, repeats, strict=True):
        if repeat is not None:
            written.append(repeat)
            continue
        done = [one if isinstance(one, Problem) else next(made) for one in some]
        written.append(done)
        if asked.once is not None and not _refused(done):
            w.remember(asked.once.key, asked.once.body_hash, [_kept(one) for one in done])
    return written


def _refused(done: Sequence[JobRecord | Problem]) -> bool:
    """A request that changed nothing is not remembered: it may be mended and sent again."""
    return all(isinstance(one, Problem) for one in done)


def _kept(one: JobRecord | Problem) -> list[Any]:
    if isinstance(one, Problem):
        return [one.status, "", {"code": one.code, "title": one.title, "detail": one.wire()["detail"]}]
    return [201, one.uid]


def _repeated(found: Remembered | None, once: Once) -> _Repeat | Problem | None:
    if found is None:
        return None
    if found.body_hash != once.body_hash:
        return conflict("this Idempotency-Key was used for another request", code="IDEMPOTENCY_KEY_REUSED")
    response = found.response
    if response and not isinstance(response[0], list):
        response = [response]  # as the release before kept the one job of a request
    return _Repeat(tuple(uid or Problem(status, **more[0]) for status, uid, *more in response))


def _meant(error: Exception) -> Exception:
    """What the client is told; a fault of ours stays what it is."""
    if isinstance(error, Taken):
        return conflict("another job took the name or the checkpoint directory at the same moment")
    return as_problem(error) or error
