"""Writing what happened: checkpoints, incidents, events, evidence, progress, lease renewals."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import bindparam, delete, func, select, update

from controller.records import CheckpointRecord, EventRecord, IncidentRecord, JobRecord
from controller.state import tables
from controller.state.kinds import ATTEMPT, CHECKPOINT, EVENT, INCIDENT, JOB
from controller.state.limits import EVENTS, EVIDENCE_BYTES, EVIDENCE_ITEMS, EVIDENCE_TEXT, PROGRESS_POINTS, thin
from controller.state.statements import batches, insert_or
from controller.state.transaction import Transaction
from muster.evidence import Evidence
from muster.protocol import CheckpointItem, ProgressPoint

_evidence, _progress, _events, _leases = tables.evidence, tables.progress, tables.events, tables.leases

_newer_stock = (
    update(tables.jobs)
    .where(tables.jobs.c.uid == bindparam("the_uid"), tables.jobs.c.stock_epoch <= bindparam("the_epoch"))
    .values(stock_epoch=bindparam("the_epoch"))
    .returning(*JOB.columns)
)
_evidence_held = select(func.count(), func.coalesce(func.sum(_evidence.c.size), 0)).where(
    _evidence.c.attempt_uid == bindparam("attempt_uid")
)
_points_held = select(func.count()).where(_progress.c.attempt_uid == bindparam("attempt_uid"))
_point_keys = select(_progress.c.step, _progress.c.rank, _progress.c.phase).where(
    _progress.c.attempt_uid == bindparam("attempt_uid")
)
_ages = select(
    _events.c.revision,
    func.row_number().over(partition_by=_events.c.object_uid, order_by=_events.c.revision.desc()).label("age"),
).where(_events.c.object_uid.in_(bindparam("uids", expanding=True)))
_aged = _ages.subquery()
_prune_events = delete(_events).where(_events.c.revision.in_(select(_aged.c.revision).where(_aged.c.age > EVENTS)))


class FactWriter(Transaction):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._with_events: set[str] = set()

    def put_checkpoints(self, job_uid: str, attempt_uid: str, epoch: int, items: Sequence[CheckpointItem]) -> bool:
        """`items` are all the checkpoints that the job has now. False, and nothing written, when a newer epoch has
        reported already or the job is gone. A checkpoint that is as it was keeps its uid, epoch and attempt."""
        row = self._connection.execute(_newer_stock, {"the_uid": job_uid, "the_epoch": epoch}).first()
        if row is None:
            return False
        job = JOB.read(row)
        known = {record.path: record for record in self.checkpoints(job_uid)}
        new: list[CheckpointRecord] = []
        for item in {item.path: item for item in items}.values():
            old = known.pop(item.path, None)
            record = self._checkpoint(job, attempt_uid, epoch, item, old)
            if old is None:
                new.append(record)
            elif msgspec.structs.replace(record, epoch=old.epoch, attempt_uid=old.attempt_uid) != old:
                self._replace(CHECKPOINT, record)
        if new:
            self._insert(CHECKPOINT, new, "a checkpoint of this uid exists already")
        for gone in known.values():
            self._connection.execute(delete(tables.checkpoints).where(tables.checkpoints.c.uid == gone.uid))
            self._buffer.delete(CHECKPOINT, gone)
        return True

    def _checkpoint(
        self, job: JobRecord, attempt_uid: str, epoch: int, item: CheckpointItem, old: CheckpointRecord | None
    ) -> CheckpointRecord:
        return CheckpointRecord(
            uid=old.uid if old else self._new_id(),
            job_uid=job.uid,
            namespace=job.namespace,
            attempt_uid=attempt_uid,
            epoch=epoch,
            path=item.path,
            step=item.step,
            format=item.format,
            complete=item.complete,
            size=item.size,
            manifest=item.manifest,
            why=item.why,
            created_at=item.modified_at or (old.created_at if old else self._clock.now()),
            revision=old.revision if old else 0,
        )

    def insert_incident(self, record: IncidentRecord) -> IncidentRecord:
        self._insert(INCIDENT, [record], f"incident {record.uid} exists already")
        return record

    def patch_incident(self, uid: str, *, expect_revision: int | None = None, **fields: Any) -> IncidentRecord:
        return self._patch(INCIDENT, uid, fields, expect_revision)

    def add_event(
        self,
        *,
        namespace: str,
        kind: str,
        object_uid: str,
        name: str,
        reason: str,
        message: str,
        level: Literal["normal", "warning"] = "normal",
        at: float | None = None,
        uid: str | None = None,
    ) -> EventRecord:
        """Written at the commit; the oldest events of an object go when it has too many."""
        record = EventRecord(
            uid=uid or self._new_id(),
            namespace=namespace,
            kind=kind,
            object_uid=object_uid,
            name=name,
            reason=reason,
            message=message,
            at=self._clock.now() if at is None else at,
            level=level,
        )
        self._buffer.put(EVENT, record, row=EVENT.values(record))
        self._with_events.add(object_uid)
        return record

    def add_evidence(self, items: Iterable[Evidence]) -> int:
        """How many were new and kept. A repeat, an unknown attempt and what goes beyond an attempt's limits are
        dropped."""
        by_attempt: dict[str, list[Evidence]] = {}
        for item in items:
            by_attempt.setdefault(item.attempt, []).append(item)
        return sum(self._keep_evidence(uid, by_attempt[uid]) for uid in sorted(by_attempt))

    def _keep_evidence(self, attempt_uid: str, items: list[Evidence]) -> int:
        if self._one(ATTEMPT, uid=attempt_uid) is None:
            return 0
        count, size = self._connection.execute(_evidence_held, {"attempt_uid": attempt_uid}).one()
        rows: dict[str, dict[str, Any]] = {}
        for item in items:
            body = msgspec.json.encode(msgspec.structs.replace(item, text=item.text[-EVIDENCE_TEXT:]))
            if count + len(rows) >= EVIDENCE_ITEMS or size + len(body) > EVIDENCE_BYTES:
                continue
            digest = hashlib.blake2b(body, digest_size=16).hexdigest()
            if digest not in rows:
                size += len(body)
                rows[digest] = {
                    "attempt_uid": attempt_uid,
                    "digest": digest,
                    "at": item.at,
                    "size": len(body),
                    "body": body.decode(),
                }
        if not rows:
            return 0
        keep = insert_or(self._dialect, _evidence, ("attempt_uid", "digest"))
        return int(self._connection.execute(keep, list(rows.values())).rowcount)

    def add_progress(self, attempt_uid: str, points: Sequence[ProgressPoint]) -> None:
        """A later point of the same step, rank and phase replaces the earlier one. When an attempt has too many, the
        older ones are thinned out. An unknown attempt is ignored."""
        if not points or self._one(ATTEMPT, uid=attempt_uid) is None:
            return
        rows = {(p.step, -1 if p.rank is None else p.rank, p.phase): p for p in points}
        put = insert_or(self._dialect, _progress, ("attempt_uid", "step", "rank", "phase"), ("at", "loss", "seconds"))
        self._connection.execute(
            put,
            [
                {
                    "attempt_uid": attempt_uid,
                    "step": step,
                    "rank": rank,
                    "phase": phase,
                    "at": p.at,
                    "loss": p.loss,
                    "seconds": p.seconds,
                }
                for (step, rank, phase), p in sorted(rows.items(), key=lambda item: item[0])
            ],
        )
        held = int(self._connection.execute(_points_held, {"attempt_uid": attempt_uid}).scalar_one())
        if held > PROGRESS_POINTS:
            self._thin_progress(attempt_uid)

    def _thin_progress(self, attempt_uid: str) -> None:
        ordered = _point_keys.order_by(_progress.c.at, _progress.c.step, _progress.c.rank, _progress.c.phase)
        keys = self._connection.execute(ordered, {"attempt_uid": attempt_uid}).all()
        self._connection.execute(
            delete(_progress).where(
                _progress.c.attempt_uid == bindparam("the_attempt"),
                _progress.c.step == bindparam("the_step"),
                _progress.c.rank == bindparam("the_rank"),
                _progress.c.phase == bindparam("the_phase"),
            ),
            [
                {"the_attempt": attempt_uid, "the_step": step, "the_rank": rank, "the_phase": phase}
                for step, rank, phase in (keys[index] for index in thin(len(keys)))
            ],
        )

    def renew_leases(self, renewals: Iterable[tuple[str, str]]) -> None:
        """(node, boot id) of each node that renewed. Not in the change log."""
        at = self._clock.now()
        rows = [
            {"node": node, "renewals": 1, "boot_id": boot_id, "renewed_at": at}
            for node, boot_id in sorted(dict(renewals).items())
        ]
        if rows:
            renew = insert_or(self._dialect, _leases, ("node",), ("boot_id", "renewed_at"), ("renewals",))
            self._connection.execute(renew, rows)

    def _finish(self) -> None:
        super()._finish()
        for uids in batches(sorted(self._with_events - self._born)):
            self._connection.execute(_prune_events, {"uids": uids})
