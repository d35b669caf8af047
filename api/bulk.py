"""Many jobs in one request: a JobList in, a result for each item out."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from api import wire
from api.intake import Result
from api.services import Services
from api.submission import Submission, create_all, manifest
from api.views import ResultsView, ResultView
from controller.records import JobRecord
from muster.problems import FieldError, Problem
from muster.resources.job import Job, JobSpec
from muster.resources.meta import API_VERSION
from muster.resources.parse import invalid

MOST: Final = 1_000
"""Items of one list."""

_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "items"})


def is_list(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("kind") == "JobList"


def manifests(document: Mapping[str, Any], namespace: str) -> list[Job | Problem]:
    """A job or a problem for each item. Raises Problem 422 when the list itself is none."""
    items = document.get("items")
    errors = [FieldError(name, "unknown field", "UNKNOWN_FIELD", name) for name in sorted(set(document) - _FIELDS)]
    if document.get("apiVersion") != API_VERSION:
        found = document.get("apiVersion")
        errors.append(FieldError("apiVersion", "unknown" if found else "required", found=found, allowed=(API_VERSION,)))
    if not isinstance(items, list) or not items:
        errors.append(FieldError("items", "expected a list of at least one Job"))
    elif len(items) > MOST:
        errors.append(
            FieldError("items", f"expected at most {MOST} jobs; send more in several lists", found=len(items))
        )
    if errors:
        raise invalid(errors)
    assert isinstance(items, list)
    known: dict[bytes, JobSpec] = {}
    return [_manifest(item, namespace, known) for item in items]


def _manifest(item: Any, namespace: str, known: dict[bytes, JobSpec]) -> Job | Problem:
    """Items of a list may leave out what the list says. `known` are the specs of the list that were found valid, by
    their JSON: jobs of one list are often alike, and each spec is looked at once."""
    text = b""
    if isinstance(item, Mapping):
        text = msgspec.json.encode(item.get("spec"))
        item = {"apiVersion": API_VERSION, "kind": "Job", **item}
        if text in known:
            item["spec"] = known[text]
    try:
        job = manifest(item, namespace)
    except Problem as problem:
        return problem
    known[text] = job.spec
    return job


def judged(here: Services, user: str, jobs: Sequence[Job | Problem]) -> list[Result]:
    """What would become of each; nothing is written."""
    ground, now = here.inventory.ground(), here.clock.now()
    asked = [
        Submission(job=job, user=user, uid=here.new_id(), now=now, ground=ground)
        for job in jobs
        if not isinstance(job, Problem)
    ]
    with here.store.read() as r:
        made = iter(create_all(r, asked))
    return [_shown(job if isinstance(job, Problem) else next(made)) for job in jobs]


def _shown(one: JobRecord | Problem) -> Result:
    return one if isinstance(one, Problem) else wire.job(one)


def results(document: Mapping[str, Any], namespace: str, found: Sequence[Result]) -> ResultsView:
    items = [_result(item, namespace, one) for item, one in zip(document["items"], found, strict=True)]
    newest = max((int(one["metadata"]["resourceVersion"]) for one in found if not isinstance(one, Problem)), default=0)
    return {
        "apiVersion": API_VERSION,
        "kind": "JobResultList",
        "metadata": {"resourceVersion": str(newest)},
        "items": items,
    }


def _result(item: Any, namespace: str, one: Result) -> ResultView:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    named = {"name": name if isinstance(name, str) else "", "namespace": namespace}
    if isinstance(one, Problem):
        return {**named, "status": one.status, "object": None, "problem": one.wire()}  # type: ignore[typeddict-item]
    return {**named, "status": 201, "object": one, "problem": None}  # type: ignore[typeddict-item]
