"""PURE. Receipts summed up: what a queue, a project, a kind of accelerator, a cause or a node cost."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

from controller.records import ReceiptRecord
from controller.recovery.goodput import Bucket, Restart, Slice, ettr, mean_times

By = Literal["queue", "namespace", "user", "accelerator", "cause", "node", "job"]
BYS: Final = get_args(By)
PARTS: Final = ("detect", "stop", "decide", "place", "launch", "load", "redo")


class Account(Struct, frozen=True, kw_only=True):
    """`sums`: device-seconds by bucket (by cause: only what the failures took, in seconds of the gang; by node: nothing).
    `failures` are those that restarted or ended a gang; `parts` the mean seconds of each part of getting over one."""

    name: str
    jobs: int
    sums: Mapping[Bucket, float]
    ettr: float | None
    mttf: float | None
    mttr: float | None
    failures: int
    parts: Mapping[str, float]


def account(name: str, receipts: Sequence[ReceiptRecord]) -> Account:
    restarts = [one for receipt in receipts for one in restarts_in(receipt)]
    slices = [one for receipt in receipts for one in slices_in(receipt)]
    sums = {bucket: sum(getattr(receipt, bucket.value) for receipt in receipts) for bucket in Bucket}
    mttf, mttr = mean_times(slices, restarts)
    return Account(
        name=name,
        jobs=len(receipts),
        sums=sums,
        ettr=ettr(sums),
        mttf=mttf,
        mttr=mttr,
        failures=len(restarts),
        parts=_parts(restarts),
    )


def accounts(by: By, receipts: Sequence[ReceiptRecord]) -> list[Account]:
    """By name; of a cause or node, those that have failures only."""
    if by == "cause":
        return _causes(receipts)
    if by == "node":
        return _nodes(receipts)
    groups: dict[str, list[ReceiptRecord]] = defaultdict(list)
    for receipt in receipts:
        groups[_KEYS[by](receipt)].append(receipt)
    return [account(name, mine) for name, mine in sorted(groups.items())]


_KEYS: Final[dict[str, Callable[[ReceiptRecord], str]]] = {
    "queue": lambda receipt: receipt.queue,
    "namespace": lambda receipt: receipt.namespace,
    "user": lambda receipt: receipt.user,
    "accelerator": lambda receipt: receipt.accelerator or "none",
    "job": lambda receipt: f"{receipt.namespace}/{receipt.name}",
}


def _causes(receipts: Iterable[ReceiptRecord]) -> list[Account]:
    restarts: dict[str, list[Restart]] = defaultdict(list)
    jobs: dict[str, set[str]] = defaultdict(set)
    for receipt in receipts:
        for one in restarts_in(receipt):
            restarts[one.cause].append(one)
            jobs[one.cause].add(receipt.uid)
    return [_bare(cause, len(jobs[cause]), found) for cause, found in sorted(restarts.items())]


def _bare(name: str, jobs: int, restarts: Sequence[Restart]) -> Account:
    over = [sum(getattr(one, part) or 0.0 for part in PARTS[:-1]) for one in restarts if one.launch is not None]
    sums = dict.fromkeys(Bucket, 0.0) | {
        Bucket.LOST: sum(one.redo for one in restarts),
        Bucket.RECOVERING: sum(over),
    }
    return Account(
        name=name,
        jobs=jobs,
        sums=sums,
        ettr=None,
        mttf=None,
        mttr=fmean(over) if over else None,
        failures=len(restarts),
        parts=_parts(restarts),
    )


def _nodes(receipts: Iterable[ReceiptRecord]) -> list[Account]:
    """Nodes that a verdict named as the culprit, and how often."""
    found: dict[str, list[str]] = defaultdict(list)
    for receipt in receipts:
        for attempt in receipt.body.get("attempts", ()):
            for node in attempt.get("culprits", ()):
                found[node].append(receipt.uid)
    nothing = dict.fromkeys(Bucket, 0.0)
    return [
        Account(
            name=node,
            jobs=len(set(uids)),
            sums=nothing,
            ettr=None,
            mttf=None,
            mttr=None,
            failures=len(uids),
            parts={},
        )
        for node, uids in sorted(found.items())
    ]


def _parts(restarts: Sequence[Restart]) -> dict[str, float]:
    known = {part: [getattr(one, part) for one in restarts if getattr(one, part) is not None] for part in PARTS}
    return {part: fmean(values) for part, values in known.items() if values}


def restarts_in(receipt: ReceiptRecord) -> list[Restart]:
    return msgspec.convert(receipt.body.get("restarts", []), list[Restart])


def slices_in(receipt: ReceiptRecord) -> list[Slice]:
    return msgspec.convert(receipt.body.get("slices", []), list[Slice])
