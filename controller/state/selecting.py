"""Which jobs a list shows. Every selector has an index in the order of pages, so that a page costs as much as its rows
and not as much as the table: (namespace, name, uid) alone, behind the phase, behind the queue, behind each label.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Select, select, tuple_, union_all

from controller.state import tables
from controller.state.kinds import JOB
from muster.states import JobPhase

Place = tuple[str, str, str]
"""(namespace, name, uid): where a job is in the order of lists."""

_jobs, _labels = tables.jobs, tables.job_labels
_place = (_jobs.c.namespace, _jobs.c.name, _jobs.c.uid)


class Wanted(Struct, frozen=True, kw_only=True):
    """None: any. `labels`: all of them. `after`: those behind this place."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    number: int | None = None
    live_only: bool = False
    labels: Mapping[str, str] = {}
    phases: Sequence[JobPhase] | None = None
    queue: str | None = None
    after: Place | None = None
    limit: int | None = None


def jobs(wanted: Wanted) -> Select[Any]:
    """Records by (namespace, name, uid)."""
    phases = None if wanted.phases is None else sorted(set(wanted.phases))
    if phases is not None and len(phases) > 1 and wanted.limit is not None:
        return _merged(wanted, phases, wanted.limit)
    statement = _filtered(select(*JOB.columns), wanted)
    if phases is not None:
        statement = statement.where(_jobs.c.phase.in_(phases) if len(phases) != 1 else _jobs.c.phase == phases[0])
    return statement


def _merged(wanted: Wanted, phases: Sequence[JobPhase], limit: int) -> Select[Any]:
    """The first of each phase, merged: no index has several phases in the order of pages."""
    heads = [_filtered(select(*_place), wanted).where(_jobs.c.phase == phase).subquery() for phase in phases]
    merged = union_all(*(select(head) for head in heads)).subquery()
    first = select(merged.c.uid).order_by(merged.c.namespace, merged.c.name, merged.c.uid).limit(limit)
    return select(*JOB.columns).where(_jobs.c.uid.in_(first.scalar_subquery())).order_by(*_place)


def _filtered(statement: Select[Any], wanted: Wanted) -> Select[Any]:
    """All but the phases. With labels the rows of the first one lead, in their order. Others are looked up by the uid
    alone: more columns would say no more, and make the database believe that nearly nothing is left."""
    place: tuple[Any, ...] = _place
    for number, (key, value) in enumerate(sorted(wanted.labels.items())):
        labels = _labels.alias(f"l{number}")
        statement = statement.join(labels, labels.c.uid == place[2]).where(labels.c.key == key, labels.c.value == value)
        if number == 0:
            place = (labels.c.namespace, labels.c.name, labels.c.uid)
    for column, given in zip(place, (wanted.namespace, wanted.name, wanted.uid), strict=True):
        if given is not None:
            statement = statement.where(column == given)
    if wanted.after is not None:
        statement = statement.where(tuple_(*place) > tuple_(*wanted.after))
    if wanted.number is not None:
        statement = statement.where(_jobs.c.number == wanted.number)
    if wanted.live_only:
        statement = statement.where(tables.LIVE_JOB)
    if wanted.queue is not None:
        statement = statement.where(_jobs.c.queue == wanted.queue)
    statement = statement.order_by(*place)
    return statement if wanted.limit is None else statement.limit(wanted.limit)
