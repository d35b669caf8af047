"""From evidence to ends: how each rank ended, when, where, and what its log says about it.

Where a launcher such as torchrun stands between Muster and the ranks, its failure summary gives the ranks'
own exits ("rank : 1 (local_rank: 1)", "exitcode : -9 (pid: 123)", as torch.distributed.elastic prints them).
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from controller.recovery.signatures import SIGNATURES, Kind, Signature, matches
from controller.recovery.types import FailureCase
from muster.evidence import Evidence, Source
from muster.protocol import RankExit

TERM, KILL = 15, 9
BEFORE_ALL = 0.0
NOT_ITS_OWN = ("FENCED", "VANISHED")
"""Problems of a worker whose ranks were killed by its shim, its agent, or with them."""

_BLOCK = re.compile(
    r"time\s*:\s*(?P<time>\S+).*?rank\s*:\s*(?P<rank>\d+) \(local_rank: \d+\).*?exitcode\s*:\s*(?P<code>-?\d+)",
    re.DOTALL,
)


class End(Struct, frozen=True, kw_only=True):
    """One rank's (or one worker's) end. `code` is the exit code, `signal` the signal; `ours` when Muster itself
    ended it after the failure was known. `log` is the tail of its log."""

    node: str
    at: float
    rank: int | None = None
    code: int | None = None
    signal: int | None = None
    oom: bool = False
    ours: bool = False
    log: str = ""

    @property
    def reading(self) -> tuple[Signature, str] | None:
        """What its log says: the kind and the line. Between an error of its own and the loss of its peers, the later
        word counts; every other kind names a cause and outranks both."""
        found = {
            signature.kind: (position, signature, line) for position, signature, line in reversed(matches(self.log))
        }
        own, lost = found.get(Kind.USER_ERROR), found.get(Kind.VICTIM)
        if own and lost:
            del found[Kind.VICTIM if own[0] > lost[0] else Kind.USER_ERROR]
        order = [signature.kind for signature in SIGNATURES]
        best = min(found.values(), key=lambda item: order.index(item[1].kind), default=None)
        return (best[1], best[2]) if best else None

    @property
    def kind(self) -> Kind | None:
        return self.reading[0].kind if self.reading else None

    @property
    def line(self) -> str:
        """The line that names the cause, else the last one."""
        if self.reading:
            return self.reading[1]
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    @property
    def victim(self) -> bool:
        """It ended because others did: ended by Muster, told to end, or it lost its peers."""
        if self.ours or (self.signal == TERM):
            return True
        return self.kind is Kind.VICTIM and self.signal is None

    def how(self) -> str:
        if self.oom:
            return "was killed for want of memory"
        if self.signal:
            return f"was killed by {signal_name(self.signal)}"
        return f"exited with {self.code}"


def ends(case: FailureCase) -> list[End]:
    """All ends that are not a plain success, earliest first."""
    logs = _logs(case.evidence)
    found: list[End] = []
    for worker in case.workers:
        key = (worker.role, worker.index)
        own = logs.get((*key, None), "")
        last = max((exit_.at for exit_ in worker.exits), default=worker.ended_at or 0.0)
        named = list(_launcher_ends(own, worker.node, logs, key, last))
        for exit_ in worker.exits:
            if exit_.code == 0 and not exit_.signal:
                continue
            if named and _is_launchers(exit_):
                continue
            log = logs.get((*key, exit_.rank), "") or own or _joined(logs, key)
            fenced = worker.problem in NOT_ITS_OWN
            found.append(_end(exit_, worker.node, BEFORE_ALL if fenced else case.attempt.stopping_at, log))
        found += named
    return sorted(found, key=lambda end: (end.at, end.rank if end.rank is not None else -1))


def _is_launchers(exit_: RankExit) -> bool:
    return exit_.rank is None or (exit_.code or 0) > 0


def _end(exit_: RankExit, node: str, stopping_at: float | None, log: str) -> End:
    ours = stopping_at is not None and exit_.at >= stopping_at and exit_.signal in (TERM, KILL)
    return End(
        node=node, at=exit_.at, rank=exit_.rank, code=exit_.code, signal=exit_.signal, oom=exit_.oom, ours=ours, log=log
    )


def _logs(evidence: Iterable[Evidence]) -> dict[tuple[str, int | None, int | None], str]:
    """The newest tail of each stream: (role, worker, rank) to text."""
    found: dict[tuple[str, int | None, int | None], tuple[float, str]] = {}
    for item in evidence:
        if item.source is Source.LOG:
            key = (item.role, item.worker, item.rank)
            if key not in found or item.at >= found[key][0]:
                found[key] = (item.at, item.text)
    return {key: text for key, (_, text) in found.items()}


def _joined(logs: dict[tuple[str, int | None, int | None], str], key: tuple[str, int]) -> str:
    return "\n".join(text for (role, worker, _), text in sorted(logs.items(), key=repr) if (role, worker) == key)


def _launcher_ends(
    text: str, node: str, logs: dict[tuple[str, int | None, int | None], str], key: tuple[str, int], at: float
) -> Iterable[End]:
    """The ranks that torchrun's summary names, dated by torchrun's own end: its times are local and without a zone."""
    for block in _BLOCK.finditer(text):
        rank, code = int(block["rank"]), int(block["code"])
        yield End(
            node=node,
            at=at,
            rank=rank,
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            log=logs.get((*key, rank), ""),
        )


def signal_name(number: int) -> str:
    """`SIGKILL` for 9 (signal(7), Linux numbering)."""
    return _SIGNALS.get(number, f"signal {number}")


_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip
