"""What went wrong with a job, short enough for a message; kept with its receipt when the job is gone."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.records import JobRecord
from controller.state import Reading
from muster.clock import iso

NEWEST: Final = 5


def postmortem(r: Reading, job: JobRecord) -> list[dict[str, Any]]:
    """Its newest failures, the last one first."""
    found = sorted(r.incidents(job_uid=job.uid), key=lambda one: one.opened_at, reverse=True)
    return [
        {
            "at": iso(one.opened_at),
            "category": one.verdict.category,
            "action": one.verdict.action,
            "why": one.verdict.why,
            "culpritNodes": list(one.verdict.culprit_nodes),
            "culpritRank": one.verdict.culprit_rank,
            "certainty": one.verdict.certainty,
            "decidedBy": list(one.verdict.decided_by),
        }
        for one in found[:NEWEST]
    ]


def sentences(story: Sequence[Mapping[str, Any]]) -> list[str]:
    """For people: one line for each failure, with what the last verdict rests on."""
    lines = [f"{one['at']}  {one['category']}: {one['why']}" for one in story]
    return [*lines[:1], *(f"    {text}" for text in (story[0]["decidedBy"] if story else ())), *lines[1:]]
