"""What a worker has to tell besides its phase: progress, its checkpoint stock, its logs, the evidence of its end."""

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from agents.runtime import postmortem
from agents.runtime.children import Children
from agents.runtime.diary import History
from agents.runtime.folder import Folder
from agents.runtime.logs import WorkerLogs
from agents.runtime.matcher import Matcher
from agents.runtime.prepare import Refusal
from agents.runtime.reportfile import MAX_READ, ReportReader
from agents.runtime.sources import Source as LogSource
from agents.runtime.stocktaking import Stock, take_stock
from agents.runtime.threads import in_thread
from agents.runtime.trainers import Trainers
from agents.runtime.users import User
from muster.clock import Clock
from muster.evidence import Evidence, Source
from muster.flight import newest
from muster.protocol import Assignment, CheckpointItem, LogChunk, ProgressPoint

log = logging.getLogger("muster.agent")

MOST_MEASURED = 256
"""Measurements that are taken from one worker."""
MOST_POINTS = 256
"""Progress points kept until they are sent; the newest win."""
BACKLOG = 64 * 2**20
"""Bytes of reports that are still read when a worker has ended; the newest."""
UNSTARTED = {
    "NO_SUCH_COMMAND",
    "PERMISSION",
    "WORKDIR_MISSING",
    "CHECKPOINT_DIR",
    "DISK_FULL",
    "LAUNCH_FAILED",
    "STALE_EPOCH",
    "IMAGE_PULL",
    "PROLOG_FAILED",
    "NO_CONTAINER_ENGINE",
}


class News(Struct, frozen=True):
    """What goes into the next report. `stock` None: nothing new about checkpoints."""

    evidence: tuple[Evidence, ...] = ()
    points: tuple[ProgressPoint, ...] = ()
    stock: tuple[CheckpointItem, ...] | None = None


class Telling:
    """`version` grows with each change of the worker's report; `acked` is the newest that the controller has.
    `on_news` is called when there is something to send."""

    def __init__(
        self,
        folder: Folder,
        assignment: Assignment,
        node: str,
        children: Children,
        clock: Clock,
        on_news: Callable[[], None],
        user: Callable[[], User | None],
    ) -> None:
        self._folder, self.assignment, self._node = folder, assignment, node
        self._children, self._clock, self._on_news, self._user = children, clock, on_news, user
        self.concluded = folder.acked.exists()
        self.version = 1
        self.acked = 1 if self.concluded else 0
        self._logs = WorkerLogs(folder, lambda: self.assignment, self._log_text)
        self._reader = ReportReader(folder.report)
        self._matcher: Matcher | None = None
        self._evidence: list[Evidence] = []
        self._points: list[ProgressPoint] = []
        self._measurements = 0
        self._trainers, self._reports = Trainers(), False
        self._stock: tuple[CheckpointItem, ...] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._stock_failed = self._log_failed = self._regex_failed = False

    # -- while it runs -------------------------------------------------------------------------------

    def poll(self, history: History) -> bool:
        """Read on in the report file, look for new logs. True when there was something."""
        if history.log_error and not self._log_failed:
            self._log_failed = True
            self.condition(history.log_error, "LOG_STORE")
        if self._matcher is not None and self._matcher.ended and not self._regex_failed:
            self._regex_failed = True
            self.condition("progress.regex took too long and is not used any more", "PROGRESS_REGEX")
        said = self._reader.read(self._clock.now())
        self._reports = self._reports or any(each.point is not None for each in said)
        self._add([each.point for each in said if each.point is not None])
        self._measured([each.measurement for each in said if each.measurement is not None])
        if any(each.checkpoint for each in said) and (self._taking is None or self._taking.done()):
            self._taking = asyncio.create_task(self._take_stock())
        self._logs.look()
        return bool(said)

    def sources(self, rank: int | None) -> dict[str, LogSource]:
        """The files of a rank's log as they are now."""
        self._logs.look()
        return self._logs.sources(rank)

    def next_log(self) -> LogChunk | None:
        return self._logs.next(final=self.concluded)

    def log_acked(self, rank: int | None, offset: int, begin: int | None = None) -> None:
        try:
            self._logs.acknowledge(rank, offset, begin)
        except OSError as error:
            log.warning("%s: how far the logs are shipped cannot be remembered: %s", self._folder.path, error)

    def stream_broke(self) -> None:
        self._logs.rewind()

    def shipped(self) -> bool:
        self._logs.look()
        return self._logs.drained()

    async def first_stock(self) -> None:
        """Make the checkpoint directory and see what is in it. Raises Refusal."""
        directory = self._checkpoints()
        if directory is None:
            return
        stock = await take_stock(
            self._children, directory, self.assignment.checkpoint_format, prepare=True, user=self._user()
        )
        if stock.items is None:
            code = "DISK_FULL" if stock.errno in (errno.ENOSPC, errno.EDQUOT) else "CHECKPOINT_DIR"
            raise Refusal(code, stock.error)
        self._took(stock)

    async def take_stacks(self, pids: set[int]) -> None:
        """Before a worker is stopped whose gang has failed: where its ranks are."""
        spy = postmortem.py_spy()
        if spy is None:
            return
        for rank, text in (await postmortem.stacks(self._children, pids, spy)).values():
            self._evidence.append(self._seen(Source.STACK, text, rank=rank))

    async def examine(self, look: str, pids: set[int]) -> None:
        """What each of its ranks is at: told as evidence that names the look."""
        folder = self._folder.recorders
        asked = postmortem.ask(folder)
        began = self._clock.boottime()
        for one in await postmortem.look(self._children, pids, postmortem.py_spy()):
            seen = self._seen(
                Source.STACK, one.text, rank=one.rank, look=look, pid=one.pid, state=one.state, share=one.share
            )
            self._evidence.append(seen)
        while asked and self._clock.boottime() < began + postmortem.RECORDER:
            await asyncio.sleep(0.1)
            if len(await in_thread(lambda: list(folder.glob("dump.*")), timeout=postmortem.RECORDER)) >= asked:
                break
        for rank, flight in (await in_thread(lambda: postmortem.flights(folder), timeout=10.0)).items():
            calls = newest(flight, postmortem.CALLS)
            self._evidence.append(self._seen(Source.COLLECTIVE, "", rank=rank, look=look, calls=calls))
        self._on_news()

    def runs(self, fingerprint: dict[str, str]) -> None:
        """What it runs, for the attempt's record."""
        self._evidence.append(self._seen(Source.LAUNCH, "", fingerprint=fingerprint))
        self._on_news()

    def _find_cores(self, history: History) -> None:
        if not history.dumped:
            return
        work = self._folder.work
        folders = (work / self.assignment.template.workdir, work)
        keep = self._folder.path.parent.parent / "cores"
        for text in postmortem.cores(folders, history.dumped, keep, work):
            self._evidence.append(self._seen(Source.CONDITION, text, code="CORE_DUMP"))

    # -- at its end ----------------------------------------------------------------------------------

    async def conclude(self, history: History) -> None:
        """Everything of this worker is dead: gather what goes with the report of its end."""
        self._reader.skip(BACKLOG)
        self.poll(history)
        for _ in range(self._reader.behind() // MAX_READ + 1):
            await asyncio.sleep(0)  # others go on meanwhile
            self.poll(history)
        if self._taking is not None:
            await self._taking
        if history.went:
            await self._take_stock()
        for exit_ in history.exits:
            data = {"code": exit_.code, "signal": exit_.signal, "oom": exit_.oom}
            self._evidence.append(self._seen(Source.EXIT, "", at=exit_.at, rank=exit_.rank, **data))
        self._find_cores(history)
        if history.problem in UNSTARTED:
            self._evidence.append(self._seen(Source.LAUNCH, history.message, at=history.over_at, code=history.problem))
        self._evidence += self._logs.tails(self._node)
        if self._reader.malformed:
            log.info("%s: %d malformed lines in the report file", self._folder.path, self._reader.malformed)
        self.concluded = True
        self.close()

    def close(self) -> None:
        if self._matcher is not None:
            self._matcher.close()

    # -- the next report -----------------------------------------------------------------------------

    def pending(self) -> bool:
        return bool(self.version > self.acked or self._points or self._evidence or self._stock is not None)

    def urgent(self) -> bool:
        """Whether what is pending is more than progress."""
        return bool(self.version > self.acked or self._evidence or self._stock is not None)

    def take(self) -> News:
        news = News(tuple(self._evidence), tuple(self._points), self._stock)
        self._evidence, self._points, self._stock = [], [], None
        return news

    def witness(self, sight: Evidence) -> None:
        """Something befell the node or a device of this worker."""
        mine = {"attempt": self.assignment.attempt, "role": self.assignment.role, "worker": self.assignment.index}
        self._evidence.append(msgspec.structs.replace(sight, node=self._node, **mine))
        self._on_news()

    # ------------------------------------------------------------------------------------------------

    def _log_text(self, text: str) -> None:
        regex = self.assignment.template.progress_regex
        if self.concluded:
            return
        if not regex:
            self._add([] if self._reports else self._trainers.feed(text, self._clock.now()))
            return
        if self._matcher is None:
            self._matcher = Matcher(self._children, regex, self._clock.now, lambda point: self._add([point]))
        self._matcher.feed(text)

    def _add(self, points: list[ProgressPoint]) -> None:
        if points:
            self._points = (self._points + points)[-MOST_POINTS:]
            self._on_news()

    def _measured(self, found: list[dict[str, object]]) -> None:
        """What an active check says of the node; the controller takes it only from such."""
        for one in found[: MOST_MEASURED - self._measurements]:
            self._measurements += 1
            self._evidence.append(self._seen(Source.DEVICE, "", measurement=one))
            self._on_news()

    async def _take_stock(self) -> None:
        directory = self._checkpoints()
        if directory is not None:
            self._took(
                await take_stock(self._children, directory, self.assignment.checkpoint_format, user=self._user())
            )

    def _took(self, stock: Stock) -> None:
        if stock.items is not None:
            self._stock, self._stock_failed = stock.items, False
        elif not self._stock_failed:
            self._stock_failed = True
            self.condition(stock.error, "CHECKPOINT_DIR")
        self._on_news()

    def condition(self, text: str, code: str) -> None:
        self._evidence.append(self._seen(Source.CONDITION, text, code=code))
        self._on_news()

    def _checkpoints(self) -> Path | None:
        """None also when the worker's namespace has no user here any more: nobody else may look."""
        directory = self.assignment.checkpoint_directory
        try:
            self._user()
        except LookupError:
            return None
        return self._folder.work / directory if directory else None

    def _seen(
        self, source: Source, text: str, *, at: float | None = None, rank: int | None = None, **data: object
    ) -> Evidence:
        return Evidence(
            source=source,
            at=self._clock.now() if at is None else at,
            attempt=self.assignment.attempt,
            node=self._node,
            role=self.assignment.role,
            worker=self.assignment.index,
            rank=rank,
            text=text,
            data=data,
        )
