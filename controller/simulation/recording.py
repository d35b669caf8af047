"""A decision with all that it was made from, so that it can be made again elsewhere.

    pack(index, now, plan) -> bytes;  unpack(bytes) -> Recording;  replay(recording) -> what differs

What the planner does not read, and could be secret, is left out: environments, scripts, web hooks, launch templates.
"""

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    JobRecord,
    MaintenanceWindowRecord,
    NodeRecord,
    ProgramRecord,
    QueueRecord,
    Record,
    ReservationRecord,
    WorkerRecord,
)
from controller.scheduling.index import ClusterIndex, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan
from muster.launch import LaunchTemplate
from muster.version import VERSION

FORMAT: Final = 1
LARGEST: Final = 2**31
"""Bytes that a recording may have when it is unpacked."""
NOT_READ: Final = ("env", "script", "notify", "secrets")
SETS: Final = ("groups", "evictions", "migrations", "growths", "turnovers", "stops", "reservations", "waits")

_EMPTY = LaunchTemplate(framework="command", processes=(("true",),))


class Recording(Struct, frozen=True, kw_only=True):
    """`plan` is what was decided, as plain values; `version` is the program's that decided it."""

    format: int = FORMAT
    version: str = VERSION
    now: float
    revision: int
    levels: tuple[str, ...]
    nodes: list[NodeRecord] = []
    queues: list[QueueRecord] = []
    reservations: list[ReservationRecord] = []
    windows: list[MaintenanceWindowRecord] = []
    jobs: list[JobRecord] = []
    attempts: list[AttemptRecord] = []
    workers: list[WorkerRecord] = []
    checkpoints: list[CheckpointRecord] = []
    programs: list[ProgramRecord] = []
    plan: dict[str, Any]

    def records(self) -> list[Record]:
        return [
            *self.nodes,
            *self.queues,
            *self.reservations,
            *self.windows,
            *self.jobs,
            *self.attempts,
            *self.workers,
            *self.checkpoints,
            *self.programs,
        ]


class BadRecording(ValueError):
    """Not a recording, or one of another form."""


_FIELDS: Final[dict[type, str]] = {
    NodeRecord: "nodes",
    QueueRecord: "queues",
    ReservationRecord: "reservations",
    MaintenanceWindowRecord: "windows",
    JobRecord: "jobs",
    AttemptRecord: "attempts",
    WorkerRecord: "workers",
    CheckpointRecord: "checkpoints",
    ProgramRecord: "programs",
}
_decoder = msgspec.msgpack.Decoder(Recording)


def pack(index: ClusterIndex, now: float, decided: Plan) -> bytes:
    tables: dict[str, Any] = {}
    for record in index.records():
        tables.setdefault(_FIELDS[type(record)], []).append(_bare(record))
    recording = Recording(now=now, revision=index.revision, levels=index.level_names, plan=plain(decided), **tables)
    return gzip.compress(msgspec.msgpack.encode(recording), 1, mtime=0)


def unpack(data: bytes) -> Recording:
    """Raises BadRecording."""
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(data, LARGEST)
        if not unpacker.eof:
            raise BadRecording("it is cut off" if len(text) < LARGEST else "it is too large")
        form = msgspec.msgpack.decode(text, type=_Form).format
        if form != FORMAT:
            raise BadRecording(f"it has format {form}; this program reads format {FORMAT}")
        return _decoder.decode(text)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise BadRecording(f"it is no recorded decision ({error})") from None


class _Form(Struct):
    format: int


def replay(recording: Recording) -> list[str]:
    """Plan again from the same index, and say what comes out otherwise; nothing: the plan is the same."""
    index = build(recording.records(), revision=recording.revision, levels=recording.levels)
    again = plain(plan(index, recording.now))
    names = {job.uid: f"{job.namespace}/{job.name}" for job in recording.jobs}
    return [line for part in SETS for line in _differences(part, recording.plan, again, names)]


def plain(decided: Plan) -> dict[str, Any]:
    """A plan as values that JSON has."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(replace(decided, waits=tuple(decided.waits))))
    return found


def _differences(part: str, recorded: dict[str, Any], again: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    before, after = (_by_job(one.get(part) or ()) for one in (recorded, again))
    for uid in (*before, *(uid for uid in after if uid not in before)):
        if before.get(uid) != after.get(uid):
            yield f"{part} of {names.get(uid, uid)}: recorded {_shown(before.get(uid))}; now {_shown(after.get(uid))}"


def _by_job(rows: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        inner = row.get("start", row)
        found.setdefault(inner.get("job_uid") or inner.get("beneficiary") or "", []).append(row)
    return found


def _shown(rows: list[Any] | None) -> str:
    if not rows:
        return "nothing"
    text = msgspec.json.encode(rows).decode()
    return text if len(text) <= 200 else f"{text[:197]}..."


def _bare(record: Record) -> Record:
    match record:
        case JobRecord():
            spec = {name: value for name, value in record.spec.items() if name not in NOT_READ}
            return replace(record, spec=spec)
        case WorkerRecord():
            return replace(record, template=_EMPTY, exits=(), message="")
        case _:
            return record
