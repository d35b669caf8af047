"""From evidence to ends: how each rank ended, when, where, and what its log says about it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from controller.records import WorkerRecord
from controller.recovery.logs import Reading, read
from controller.recovery.signatures import Kind, without_warnings
from controller.recovery.torchrun import failures
from controller.recovery.types import FailureCase
from muster.evidence import Evidence, Source
from muster.protocol import RankExit

ABRT, KILL, PIPE, TERM = 6, 9, 13, 15
NOT_ITS_OWN = ("FENCED", "VANISHED")
"""Problems of a worker whose ranks were killed by its shim, by its agent, or with them."""
VICTIMS = (Kind.PEERS, Kind.NETWORK_SETUP, Kind.TEARDOWN)
"""Kinds that are told by those whom others left alone; beside a cause they count for nothing."""
TOLD_TO_END = (128 + TERM, 128 + 2)
"""Exit codes of programs that catch SIGTERM or SIGINT and end in order, as shells number them."""


class Stream(Struct, frozen=True):
    """Everything that one process printed, as far as it was kept, and when it wrote last."""

    text: str = ""
    at: float = 0.0


Streams = Mapping[tuple[str, int | None, int | None], Stream]


class End(Struct, frozen=True, kw_only=True):
    """One rank's (or one worker's) end; not a plain success. `order` breaks a tie in time; `ours`: Muster itself ended
    it, after the failure was known or at the fence. `signal` None: it exited with `code`."""

    node: str
    worker: str
    at: float
    order: int = 0
    rank: int | None = None
    code: int | None = None
    signal: int | None = None
    oom: bool = False
    ours: bool = False
    reading: Reading = Reading()
    log: str = ""

    @property
    def kind(self) -> Kind | None:
        return self.reading.kind

    @property
    def line(self) -> str:
        """The line that names the cause, else the last one that is no mere warning."""
        if self.reading.line:
            return self.reading.line
        lines = [line.strip() for line in without_warnings(self.log).splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    @property
    def proof(self) -> str:
        """What is quoted for it: of a killed process only words that name a cause, else how it ended."""
        if self.signal and not self.reading.hit:
            return f"{self.who} {self.how}"
        return self.line or f"{self.who} {self.how}"

    @property
    def victim(self) -> bool:
        """It ended because others did: told to end, ended by Muster, or it lost its peers. A runtime aborts when a
        peer has gone, so SIGABRT with such words is a victim's, too; any other signal is an end of its own."""
        if self.ours or self.signal in (TERM, PIPE) or self.code in TOLD_TO_END:
            return True
        return self.kind in VICTIMS and self.signal in (None, ABRT)

    @property
    def who(self) -> str:
        return f"rank {self.rank} on {self.node}" if self.rank is not None else f"worker {self.worker} on {self.node}"

    @property
    def how(self) -> str:
        if self.oom:
            return "was killed for want of memory"
        if self.signal:
            return f"was killed by {signal_name(self.signal)}"
        return "ended" if self.code is None else f"exited with {self.code}"


def ends(case: FailureCase) -> list[End]:
    """All ends that are not a plain success, earliest first."""
    streams = _streams(case.evidence)
    found = [end for worker in case.workers for end in _of_worker(case, worker, streams)]
    return sorted(found, key=_when)


def culprit(found: Sequence[End]) -> End | None:
    """The earliest end that nobody else caused; when all look like victims, the earliest of them. At the same time:
    proof of the kernel, then what a launcher saw first, then signals, then a named cause, then a bare exit code."""
    own = [end for end in found if not end.victim]
    return min(own or found, key=_when, default=None)


def _when(end: End) -> tuple[float, bool, int, int, int, str, int]:
    weight = 0 if end.signal else 1 if end.kind else 2
    return end.at, not end.oom, end.order, weight, -1 if end.rank is None else end.rank, end.worker, end.code or 0


def _of_worker(case: FailureCase, worker: WorkerRecord, streams: Streams) -> Iterable[End]:
    for exit_ in worker.exits:
        if exit_.code == 0 and not exit_.signal:
            continue
        rank = exit_.rank
        if rank is None and worker.template.ranks == 1:
            rank = worker.template.first_rank
        own = _stream(streams, worker, exit_.rank)
        named = list(_launched(worker, exit_, own, streams)) or list(_silently(worker, exit_, streams))
        if named:
            yield from named
            continue
        stream = own if own.text else _all_of(streams, worker) if rank is None else _stream(streams, worker, rank)
        yield _end(case, worker, exit_, rank, stream)


def _end(case: FailureCase, worker: WorkerRecord, exit_: RankExit, rank: int | None, stream: Stream) -> End:
    reading = read(stream.text)
    return End(
        node=worker.node,
        worker=f"{worker.role}-{worker.index}",
        at=exit_.at,
        rank=rank,
        code=None if exit_.signal else exit_.code,
        signal=exit_.signal or None,
        oom=exit_.oom,
        ours=_ours(case, worker, exit_, reading),
        reading=reading,
        log=stream.text,
    )


def _ours(case: FailureCase, worker: WorkerRecord, exit_: RankExit, reading: Reading) -> bool:
    """The shim kills at the fence, and after the grace that follows its SIGTERM; a program may answer that with an
    exit code. Node and controller clocks may differ a little, so a kill within the grace is not called ours."""
    if worker.problem in NOT_ITS_OWN and exit_.signal in (KILL, TERM):
        return True
    stopping = case.attempt.stopping_at
    if stopping is None or exit_.at < stopping:
        return False
    if exit_.signal == KILL:
        return not exit_.oom and exit_.at >= stopping + worker.grace / 2
    return exit_.signal == TERM or (not exit_.signal and reading.kind in (None, *VICTIMS))


def _launched(worker: WorkerRecord, exit_: RankExit, own: Stream, streams: Streams) -> Iterable[End]:
    """The ranks that a launcher's summary names. Each is dated by its own last words where it had any, since the
    launcher itself ends only after it has stopped the others."""
    for order, failure in enumerate(failures(own.text, worker.template.first_rank)):
        stream = _stream(streams, worker, failure.rank)
        reading = read(stream.text or failure.traceback)
        at = min(exit_.at, stream.at) if failure.root and reading.kind and stream.at else exit_.at
        yield End(
            node=worker.node,
            worker=f"{worker.role}-{worker.index}",
            at=at,
            order=order,
            rank=failure.rank,
            code=failure.code if failure.code >= 0 else None,
            signal=-failure.code if failure.code < 0 else None,
            oom=exit_.oom and failure.code == -KILL,
            ours=not failure.root and failure.code == -KILL,
            reading=reading,
            log=stream.text,
        )


def _silently(worker: WorkerRecord, exit_: RankExit, streams: Streams) -> Iterable[End]:
    """A launcher that was stopped before it could say anything: ranks whose own logs name a cause."""
    if exit_.rank is not None:
        return
    for rank in range(worker.template.first_rank, worker.template.first_rank + worker.template.ranks):
        stream = _stream(streams, worker, rank)
        reading = read(stream.text)
        if reading.kind not in (None, *VICTIMS):
            yield End(
                node=worker.node,
                worker=f"{worker.role}-{worker.index}",
                at=min(exit_.at, stream.at or exit_.at),
                rank=rank,
                reading=reading,
                log=stream.text,
            )


def _streams(evidence: Iterable[Evidence]) -> Streams:
    """(role, worker, rank) to its text: the newest tail of each file, stderr last, since errors are printed there."""
    tails: dict[tuple[str, int | None, int | None], dict[str, Evidence]] = {}
    for item in evidence:
        if item.source is Source.LOG:
            files = tails.setdefault((item.role, item.worker, item.rank), {})
            name = str(item.data.get("stream", ""))
            if name not in files or (item.at, item.text) > (files[name].at, files[name].text):
                files[name] = item
    return {key: _join(files) for key, files in tails.items()}


def _join(files: Mapping[str, Evidence]) -> Stream:
    ordered = sorted(files.items(), key=lambda item: (item[0] == "stderr", item[1].at, item[0]))
    return Stream("\n".join(item.text for _, item in ordered), max(item.at for item in files.values()))


def _stream(streams: Streams, worker: WorkerRecord, rank: int | None) -> Stream:
    return streams.get((worker.role, worker.index, rank), Stream())


def _all_of(streams: Streams, worker: WorkerRecord) -> Stream:
    parts = [streams[key] for key in sorted(streams, key=repr) if key[:2] == (worker.role, worker.index)]
    return Stream("\n".join(part.text for part in parts), max((part.at for part in parts), default=0.0))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9 (signal(7), Linux numbering)."""
    return _SIGNALS.get(number, f"signal {number}")


_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
