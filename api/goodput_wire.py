"""Receipts and their sums as people and programs see them."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from controller.records import ReceiptRecord
from controller.recovery.accounts import PARTS, Account, By, account, accounts, restarts_in, slices_in
from controller.recovery.goodput import Bucket, Restart, ettr
from muster.clock import iso


class DeviceSeconds(TypedDict):
    queued: float
    suspended: float
    starting: float
    productive: float
    lost: float
    recovering: float
    stalled: float
    saving: float


class SliceView(TypedDict):
    began: str | None
    ended: str | None
    bucket: str
    devices: int
    attempt: int | None


class RestartView(TypedDict):
    """Seconds from the failure of an attempt to the next first step, part by part; null where a part is not known."""

    attempt: int
    cause: str
    detect: float | None
    stop: float | None
    decide: float | None
    place: float | None
    launch: float | None
    load: float | None
    redo: float


class ReceiptView(TypedDict):
    """`ettr` is productive over all device-seconds that were held."""

    uid: str
    namespace: str
    name: str
    queue: str
    user: str
    accelerator: str
    devices: int
    outcome: str
    createdAt: str | None
    finishedAt: str | None
    message: str
    deviceSeconds: DeviceSeconds
    ettr: float | None
    slices: list[SliceView]
    restarts: list[RestartView]
    attempts: list[dict[str, Any]]


class AccountView(TypedDict):
    """`parts`: the mean seconds of each part of getting over a failure."""

    name: str
    jobs: int
    deviceSeconds: DeviceSeconds
    ettr: float | None
    mttfSeconds: float | None
    mttrSeconds: float | None
    failures: int
    parts: dict[str, float]


class GoodputView(TypedDict):
    """`live`: whether jobs that live are counted; they are not when there are too many for one answer."""

    by: str
    live: bool
    total: AccountView
    items: list[AccountView]


def receipt(record: ReceiptRecord) -> ReceiptView:
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "name": record.name,
        "queue": record.queue,
        "user": record.user,
        "accelerator": record.accelerator,
        "devices": record.devices,
        "outcome": record.outcome,
        "createdAt": iso(record.created_at),
        "finishedAt": iso(record.finished_at),
        "message": record.body.get("message", ""),
        "deviceSeconds": _seconds({bucket: getattr(record, bucket.value) for bucket in Bucket}),
        "ettr": ettr({bucket: getattr(record, bucket.value) for bucket in Bucket}),
        "slices": [
            {
                "began": iso(one.began),
                "ended": iso(one.ended),
                "bucket": one.bucket.value,
                "devices": one.devices,
                "attempt": one.attempt,
            }
            for one in slices_in(record)
        ],
        "restarts": [_restart(one) for one in restarts_in(record)],
        "attempts": record.body.get("attempts", []),
    }


def goodput(by: By, receipts: Sequence[ReceiptRecord], live: bool) -> GoodputView:
    return {
        "by": by,
        "live": live,
        "total": _account(account("all", receipts)),
        "items": [_account(one) for one in accounts(by, receipts)],
    }


def _account(found: Account) -> AccountView:
    return {
        "name": found.name,
        "jobs": found.jobs,
        "deviceSeconds": _seconds(found.sums),
        "ettr": found.ettr,
        "mttfSeconds": found.mttf,
        "mttrSeconds": found.mttr,
        "failures": found.failures,
        "parts": {part: found.parts[part] for part in PARTS if part in found.parts},
    }


def _seconds(sums: Any) -> DeviceSeconds:
    return {bucket.value: sums[bucket] for bucket in Bucket}  # type: ignore[return-value]


def _restart(one: Restart) -> RestartView:
    return {name: getattr(one, name) for name in one.__struct_fields__}  # type: ignore[return-value]
