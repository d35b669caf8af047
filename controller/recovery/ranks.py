"""All ranks looked at at one moment: stacks, process states, flight recorders, grouped. Who stands elsewhere? Pure.

Order of trust: a rank that was stopped or sits in the kernel; collectives that differ or that one rank did not reach;
the one rank whose stack is not that of all others; the one rank that does not wait for its peers while all others do; by
the processor alone, the one that computes while the others sleep.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from controller.recovery.diagnosis.flight import Call, Flight, odd_one
from controller.recovery.diagnosis.stacks import main_stack, odd_rank
from muster.evidence import Evidence, Source

BUSY: Final = 0.5
"""Share of a core from which on a process computes."""
IDLE: Final = 0.05
_WAITING: Final = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|\bbarrier|broadcast|\breduce\b|recv|receive|\bsend|accept|\bpoll|"
    r"\bselect\b|\bwait|synchronize|\bget_?store|rendezvous|exchange|collective|\bjoin\b",
    re.IGNORECASE,
)
_COLLECTIVE: Final = re.compile(
    r"(all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|barrier|broadcast|reduce|gather|scatter)\w* \([^)]*distributed",
    re.IGNORECASE,
)
_AT_WORK: Final = (
    ("save", re.compile(r"\b(torch\.)?save\w* \(|serializ|checkpoint|write_?file|fsync|safetensors", re.IGNORECASE)),
    ("evaluate", re.compile(r"\b(evaluat\w*|validat\w*|eval_\w*) \(", re.IGNORECASE)),
    ("compile", re.compile(r"_dynamo|_inductor|triton|compile\w* \(|lower\w* \(.*jax", re.IGNORECASE)),
    ("load", re.compile(r"load_(checkpoint|state|dataset|model)|from_pretrained|unpickl|tokeniz", re.IGNORECASE)),
)


class Found(Struct, frozen=True, kw_only=True):
    """`kind`: stopped, blocked (in the kernel), desync, behind, elsewhere, or at-work: all are busy with something that
    takes long. `why` in words."""

    kind: Literal["stopped", "blocked", "desync", "behind", "elsewhere", "at-work"]
    rank: int | None
    why: str
    node: str = ""
    phase: str = ""


class _Rank(Struct, frozen=True):
    state: str
    share: float
    node: str
    stack: tuple[str, ...] = ()


def look(evidence: Iterable[Evidence], uid: str) -> Found | None:
    """What the look `uid` has found; None: nothing that would tell one rank from another."""
    seen = [item for item in evidence if item.data.get("look") == uid]
    ranks = _by_rank([item for item in seen if item.source is Source.STACK])
    found = _states(ranks) or _flights(seen) or _stacks(ranks) or _shares(ranks)
    if found is None or found.rank not in ranks or found.node:
        return found
    return Found(kind=found.kind, rank=found.rank, why=found.why, node=ranks[found.rank].node, phase=found.phase)


def _by_rank(seen: Sequence[Evidence]) -> dict[int, _Rank]:
    """Of the processes that name themselves a rank's, its first one: others are its helpers."""
    first: dict[int, Evidence] = {}
    for item in seen:
        if item.rank is not None:
            other = first.get(item.rank)
            if other is None or int(item.data.get("pid", 0)) < int(other.data.get("pid", 0)):
                first[item.rank] = item
    return {
        rank: _Rank(
            str(item.data.get("state", "")), float(item.data.get("share", 0.0)), item.node, main_stack(item.text)
        )
        for rank, item in sorted(first.items())
    }


def _states(ranks: Mapping[int, _Rank]) -> Found | None:
    for state, kind, words in (
        ("T", "stopped", "is stopped by a signal (SIGSTOP)"),
        ("t", "stopped", "is stopped by a debugger"),
        ("Z", "stopped", "is dead and nobody has taken its end"),
        ("D", "blocked", "sits in the kernel and cannot be interrupted"),
    ):
        mine = [rank for rank, one in ranks.items() if one.state == state]
        if mine and len(mine) < max(2, len(ranks)):
            who = f"rank {mine[0]} on {ranks[mine[0]].node}"
            return Found(kind="stopped" if kind == "stopped" else "blocked", rank=mine[0], why=f"{who} {words}")
    return None


def _flights(seen: Sequence[Evidence]) -> Found | None:
    flights = {
        item.rank: Flight({(str(g), int(n)): Call(str(name), str(sizes)) for g, n, name, sizes in calls})
        for item in seen
        if item.source is Source.COLLECTIVE and item.rank is not None and (calls := _calls(item.data))
    }
    odd = odd_one(flights)
    return None if odd is None else Found(kind="desync" if odd.desync else "behind", rank=odd.rank, why=odd.why)


def _calls(data: Mapping[str, Any]) -> list[tuple[Any, Any, Any, Any]]:
    calls = data.get("calls")
    return [tuple(one) for one in calls if len(one) == 4] if isinstance(calls, list) else []


def _stacks(ranks: Mapping[int, _Rank]) -> Found | None:
    stacks = {rank: one.stack for rank, one in ranks.items() if one.stack}
    if len(stacks) < min(2, len(ranks)):
        return None
    if found := _collectives(stacks):
        return found
    working = {rank: frame for rank, stack in stacks.items() if (frame := _not_waiting(stack))}
    if len(working) == 1 and len(stacks) > 1:
        rank, frame = next(iter(working.items()))
        return Found(kind="elsewhere", rank=rank, why=f"rank {rank} is in {frame}, all others wait for their peers")
    if phase := _at_work(stacks):
        return Found(kind="at-work", rank=None, phase=phase, why=f"the stacks of its ranks show that it is at: {phase}")
    if odd := odd_rank(stacks):
        return Found(kind="elsewhere", rank=odd[0], why=f"rank {odd[0]} stands elsewhere than all others, in {odd[1]}")
    return None


def _collectives(stacks: Mapping[int, tuple[str, ...]]) -> Found | None:
    """Ranks that wait in different collectives: none of them can end."""
    calls: dict[str, list[int]] = {}
    for rank, stack in sorted(stacks.items()):
        for frame in stack:
            if match := _COLLECTIVE.search(frame):
                calls.setdefault(match[1].lower(), []).append(rank)
                break
    if len(calls) < 2:
        return None
    few = min(calls.values(), key=len)
    words = ", ".join(f"rank {ranks[0]} in {name}" for name, ranks in calls.items())
    return Found(kind="desync", rank=few[0], why=f"ranks wait in different collectives: {words}")


def _not_waiting(stack: Sequence[str]) -> str:
    """Its innermost frame, where none of its frames waits for a peer."""
    return "" if any(_WAITING.search(frame.partition(" (")[0]) for frame in stack) else stack[0]


def _at_work(stacks: Mapping[int, tuple[str, ...]]) -> str:
    for phase, pattern in _AT_WORK:
        if any(pattern.search(frame) for stack in stacks.values() for frame in stack):
            return phase
    return ""


def _shares(ranks: Mapping[int, _Rank]) -> Found | None:
    """Without stacks: one that computes among sleepers, or one that sleeps among those that spin."""
    if len(ranks) < 2 or any(one.stack for one in ranks.values()):
        return None
    busy = [rank for rank, one in ranks.items() if one.share >= BUSY]
    idle = [rank for rank, one in ranks.items() if one.share <= IDLE]
    if len(busy) + len(idle) != len(ranks):
        return None
    if len(busy) == 1:
        return Found(kind="elsewhere", rank=busy[0], why=f"rank {busy[0]} computes while all others sleep")
    if len(idle) == 1 and len(ranks) > 2:
        return Found(kind="elsewhere", rank=idle[0], why=f"rank {idle[0]} sleeps while all others compute")
    return None
