"""Deadlines are found without looking at every attempt."""

from typing import Any

from msgspec.structs import replace

from controller.dates import Dates
from controller.picture import Picture
from controller.records import AttemptRecord, Change, JobRecord
from muster.states import AttemptPhase
from tests.makers import NOW, make_attempt, make_job


def running(name: str, limit: str = "1h") -> tuple[JobRecord, AttemptRecord]:
    job = make_job(name, spec={"timeLimit": limit})
    return job, make_attempt(job, phase=AttemptPhase.RUNNING, running_at=NOW)


def put(picture: Picture, revision: int, kind: str, record: Any) -> None:
    picture.apply([Change(revision=revision, kind=kind, uid=record.uid, record=replace(record, revision=revision))])


def test_a_job_is_due_from_its_date_on_until_something_of_it_changes() -> None:
    (job, attempt), (later, other) = running("a"), running("b", "2h")
    picture = Picture([job, attempt, later, other])
    dates = Dates(picture)
    dates.note(job, [attempt])
    dates.note(later, [other])
    assert dates.due(NOW + 3599) == set()
    assert dates.due(NOW + 3600) == {job.uid}
    assert dates.due(NOW + 3601) == {job.uid}, "what was not written must be tried again"
    put(picture, 5, "Attempt", replace(attempt, phase=AttemptPhase.STOPPING))
    assert dates.due(NOW + 3602) == set()
    assert dates.due(NOW + 7200) == {later.uid}


def test_a_limit_that_is_changed_while_it_runs_counts_from_then_on() -> None:
    job, attempt = running("a")
    longer = replace(job, spec={**job.spec, "timeLimit": "3h"})
    picture = Picture([job, attempt])
    dates = Dates(picture)
    dates.note(job, [attempt])
    put(picture, 5, "Job", longer)
    dates.note(longer, [attempt])
    assert dates.due(NOW + 3600) == set()
    assert dates.due(NOW + 10_800) == {job.uid}


def test_an_attempt_that_is_over_is_due_no_more() -> None:
    job, attempt = running("a")
    picture = Picture([job, attempt])
    dates = Dates(picture)
    dates.note(job, [attempt])
    put(picture, 5, "Attempt", replace(attempt, phase=AttemptPhase.ENDED))
    assert dates.due(NOW + 3600) == set()
