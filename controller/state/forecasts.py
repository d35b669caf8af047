"""The newest forecast of starts, and the predictions that it is scored by. Neither is in the change log."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, bindparam, delete, func, select, update

from controller.state import tables
from controller.state.engine import translated
from controller.state.statements import insert_or
from controller.state.types import Prediction, StoredForecast
from muster.states import JobPhase

SCORED = 1_000
"""Starts whose predictions are kept."""

_row, _said = tables.forecasts, tables.predictions
_FIELDS = StoredForecast.__struct_fields__
_open = select(_said).where(_said.c.started_at.is_(None))
_first_start = (
    select(func.min(tables.attempts.c.placed_at))
    .where(tables.attempts.c.job_uid == _said.c.job_uid, tables.attempts.c.placed_at >= _said.c.made_at)
    .scalar_subquery()
)
_started = (
    update(_said)
    .where(_said.c.started_at.is_(None))
    .where(
        select(tables.attempts.c.uid)
        .where(tables.attempts.c.job_uid == _said.c.job_uid, tables.attempts.c.placed_at >= _said.c.made_at)
        .exists()
    )
    .values(started_at=_first_start)
)
_waits = (
    select(tables.jobs.c.uid)
    .where(tables.jobs.c.uid == _said.c.job_uid)
    .where(tables.jobs.c.phase.in_(sorted((JobPhase.QUEUED, JobPhase.RECOVERING))))
)
_void = delete(_said).where(_said.c.started_at.is_(None), ~_waits.exists())
_scored = select(_said).where(_said.c.started_at.is_not(None)).order_by(_said.c.started_at.desc(), _said.c.job_uid)


class Forecasts:
    """`read` and `write` give connections."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[Connection]],
        write: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        self._read, self._write = read, write

    def newest(self, *, body: bool = True) -> StoredForecast | None:
        """Without `body` only who made it and when: cheap enough to ask often."""
        columns = [_row.c[name] for name in _FIELDS if body or name != "body"]
        with translated(), self._read() as connection:
            row = connection.execute(select(*columns)).first()
        return None if row is None else StoredForecast(**({"body": ""} | dict(row._mapping)))

    def put(self, forecast: StoredForecast) -> None:
        with self._write() as connection:
            replace = insert_or(connection.dialect.name, _row, ("id",), _FIELDS)
            values = {name: getattr(forecast, name) for name in _FIELDS}
            connection.execute(replace, {"id": 1} | values)

    def holds(self, maker: str, revision: int, at: float) -> None:
        """Its maker found at `at` that nothing has changed it up to `revision`."""
        with self._write() as connection:
            same = update(_row).where(_row.c.maker == bindparam("the_maker"))
            connection.execute(
                same.values(checked_at=bindparam("at"), revision=bindparam("to")),
                {"the_maker": maker, "at": at, "to": revision},
            )

    # -- how good they were --------------------------------------------------------------------------

    def open_predictions(self) -> list[Prediction]:
        """Of waits that have not ended."""
        with translated(), self._read() as connection:
            return [Prediction(**row._mapping) for row in connection.execute(_open)]

    def predict(self, predictions: Iterable[Prediction]) -> None:
        rows = [{name: getattr(one, name) for name in Prediction.__struct_fields__} for one in predictions]
        if not rows:
            return
        with self._write() as connection:
            connection.execute(insert_or(connection.dialect.name, _said, ("job_uid", "made_at")), rows)

    def settle(self) -> None:
        """Starts that have come are noted; what was said of waits that ended otherwise is dropped, and of starts
        before the last thousand."""
        with self._write() as connection:
            connection.execute(_started)
            connection.execute(_void)
            last = connection.execute(
                select(_said.c.started_at)
                .where(_said.c.started_at.is_not(None))
                .order_by(_said.c.started_at.desc())
                .limit(1)
                .offset(SCORED)
            ).scalar()
            if last is not None:
                connection.execute(delete(_said).where(_said.c.started_at <= last))

    def scored(self) -> list[Prediction]:
        """Of the last thousand starts, the newest first."""
        with translated(), self._read() as connection:
            return [Prediction(**row._mapping) for row in connection.execute(_scored.limit(SCORED))]
