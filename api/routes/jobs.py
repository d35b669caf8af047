"""Jobs: submit, apply, read, steer, delete."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api import bulk, show, submission, wire
from api.acting import acting
from api.idempotency import only_once
from api.intake import Result
from api.problems import conflict
from api.replies import reply
from api.requests import Document, OnlyOnce, body_of, document_of, once_of, page_after, page_token, selector
from api.requests import field_selector as fields_of
from api.restarting import Restart, restart
from api.services import Asking, Here, Services, principal_of, services_of
from api.submission import Submission
from api.views import JobView, ListView, ResultsView
from controller.acts.receipts import receipt_of
from controller.launch.preview import preview
from controller.launch.types import LaunchError
from controller.records import JobRecord
from controller.state import Taken, Writer
from controller.telemetry.spans import submitted
from muster.problems import Problem
from muster.resources.meta import API_VERSION
from muster.states import JOB_TERMINAL, JobPhase

router = APIRouter(tags=["jobs"])

Namespace = Annotated[str, Path(description="the project")]
Name = Annotated[str, Path(description="of the job")]
Labels = Annotated[str | None, Query(alias="labelSelector", description="label=value[,label=value]: all of them")]
FieldsOf = Annotated[
    str | None,
    Query(
        alias="fieldSelector",
        description="field=value[,field=value] of metadata.name, metadata.namespace, metadata.uid, metadata.number, spec.queue, status.phase",
    ),
]
DryRun = Annotated[bool, Query(alias="dryRun", description="check everything, write nothing")]
Launch = Annotated[bool, Query(description="in a dry run: answer with what each rank would get, as a LaunchPreview")]


@router.post(
    "/namespaces/{namespace}/jobs",
    status_code=201,
    response_model=JobView,
    responses={207: {"model": ResultsView, "description": "A result for each item of a list"}},
    openapi_extra=body_of("Job", "JobList"),
)
async def submit(request: Request, namespace: Namespace, dry_run: DryRun = False) -> Response:
    """Submit a job, or with a JobList up to 1,000 at once: one transaction, and a result for each item (207), so that one
    bad item is no harm to the others. With an Idempotency-Key a repeat gets the same jobs again."""
    # Called directly, for this is the busiest address: as dependencies they would take a fifth of a submission's time.
    here, asking = await services_of(request), await principal_of(request)
    document, once = await document_of(request), await once_of(request)
    listed, began = bulk.is_list(document), here.clock.now()
    if listed:
        jobs = await run_in_threadpool(bulk.manifests, document, namespace)
    else:
        jobs = [submission.manifest(document, namespace)]
    if dry_run:
        results = await run_in_threadpool(bulk.judged, here, asking.name, jobs)
    else:
        adding = here.intake.add(jobs, asking.name, actor=acting.get(), once=once)
        results = await asyncio.wrap_future(adding)
        if here.export is not None:
            await run_in_threadpool(_trace, here, results, began, request.state.request_id)
    if listed:
        return reply(bulk.results(document, namespace, results), 207)
    (result,) = results
    if isinstance(result, Problem):
        raise result
    return reply(result, 200 if dry_run else 201)


@router.get("/jobs", response_model=ListView[JobView])
def all_jobs(
    here: Here,
    label_selector: Labels = None,
    field_selector: FieldsOf = None,
    phase: Annotated[list[JobPhase] | None, Query()] = None,
    queue: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    after: Annotated[str | None, Query(alias="continue")] = None,
) -> Response:
    """Jobs of all namespaces, by namespace and name."""
    return _list(here, None, label_selector, field_selector, phase, queue, limit, after)


@router.get("/namespaces/{namespace}/jobs", response_model=ListView[JobView])
def jobs(
    here: Here,
    namespace: Namespace,
    label_selector: Labels = None,
    field_selector: FieldsOf = None,
    phase: Annotated[list[JobPhase] | None, Query()] = None,
    queue: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    after: Annotated[str | None, Query(alias="continue")] = None,
) -> Response:
    """Jobs of one namespace, live and finished, by name."""
    return _list(here, namespace, label_selector, field_selector, phase, queue, limit, after)


@router.get("/namespaces/{namespace}/jobs/{name}", response_model=JobView)
def job(here: Here, namespace: Namespace, name: Name) -> Response:
    """The live job of this name, else the newest finished one."""
    with here.store.read() as r:
        return reply(show.jobs(r, [submission.existing(r, namespace, name)], here.forecasts.etas())[0])


@router.put("/namespaces/{namespace}/jobs/{name}", response_model=JobView, openapi_extra=body_of("Job"))
def apply(
    here: Here,
    asking: Asking,
    namespace: Namespace,
    name: Name,
    document: Document,
    dry_run: DryRun = False,
    launch: Launch = False,
) -> Response:
    """Create the job, or change the live one to this manifest. The header `Muster-Result` says which: created (201),
    configured or unchanged (200). A field that may not change now is refused with 409."""
    asked = _submission(here, asking.name, submission.manifest(document, namespace, name))
    if dry_run:
        with here.store.read() as r:
            done = submission.apply(r, asked)
            if launch:
                return reply(_preview(done.record), Muster_Result=done.result)
            return reply(wire.job(done.record), Muster_Result=done.result)
    try:
        done = here.write(lambda w: submission.apply(w, asked))
    except Taken:  # somebody else made it at the same moment, and now it is there to be compared with
        done = here.write(lambda w: submission.apply(w, asked))
    return _job(here, done.record.uid, 201 if done.result == "created" else 200, Muster_Result=done.result)


@router.delete("/namespaces/{namespace}/jobs/{name}", response_model=JobView, responses={202: {"model": JobView}})
def delete(here: Here, asking: Asking, namespace: Namespace, name: Name) -> Response:
    """Cancels a live job (202: it goes on until its last process is dead); removes a finished one with all that is
    known of it (200)."""

    now = here.clock.now()

    def act(w: Writer) -> tuple[JobRecord, JobView | None]:
        found = submission.existing(w, namespace, name)
        if found.phase not in JOB_TERMINAL:
            return submission.steer(w, namespace, name, "cancel", asking.name, now), None
        if found.parent and (array := w.job(found.parent)) is not None and array.phase not in JOB_TERMINAL:
            raise conflict(f"job {name} is an element of {array.name}, which is live: it stays until that has ended")
        last = show.jobs(w, [found])[0]
        for one in w.elements(found.uid):
            w.put_receipt(receipt_of(w, one, here.clock.now()))
            w.delete_job(one.uid)
        w.put_receipt(receipt_of(w, found, here.clock.now()))
        w.delete_job(found.uid)
        return found, last

    record, last = here.write(act)
    if last is None:
        return _job(here, record.uid, 202)
    here.logs.remove_job(record.namespace, record.uid)
    return reply(last)


@router.post("/namespaces/{namespace}/jobs/{name}/{wish}", response_model=JobView)
def steer(
    here: Here,
    asking: Asking,
    namespace: Namespace,
    name: Name,
    wish: Literal["suspend", "resume", "restart", "cancel"],
    once: OnlyOnce,
    workdir: Annotated[
        str | None, Query(description="restart: the folder of the code from now on", pattern="^/")
    ] = None,
    from_step: Annotated[
        int | None,
        Query(alias="fromStep", ge=0, lt=2**62, description="restart: from its checkpoint; 0: from the beginning"),
    ] = None,
) -> Response:
    """Wishes are written at once and acted upon by the controller; the answer is the job as it is now. A restart may be
    given another folder and a step, and begins a job anew that has ended."""
    now = here.clock.now()
    if wish == "restart":
        asked = Restart(workdir=workdir, step=from_step)
        status, uid = only_once(
            here,
            once,
            lambda w: (
                202,
                restart(w, namespace, name, asked, user=asking.name, now=now, new_id=here.new_id).uid,
            ),
        )
        return _job(here, uid, status)
    status, uid = only_once(
        here, once, lambda w: (202, submission.steer(w, namespace, name, wish, asking.name, now).uid)
    )
    return _job(here, uid, status)


def _trace(here: Services, results: list[Result], began: float, request_id: str) -> None:
    now = here.clock.now()
    made = [one["metadata"] for one in results if not isinstance(one, Problem)]
    if here.export is not None:
        here.export([submitted(one["uid"], one["namespace"], one["name"], began, now, request_id) for one in made])


def _preview(record: JobRecord) -> dict[str, Any]:
    """Raises Problem 422 where no gang of the job can be launched as it is written."""
    try:
        items = preview(record)
    except LaunchError as error:
        raise Problem(422, "INVALID", "The job cannot be launched as it is written", str(error)) from error
    return {
        "apiVersion": API_VERSION,
        "kind": "LaunchPreview",
        "metadata": {"name": record.name, "namespace": record.namespace},
        "framework": record.spec.get("framework", "command"),
        "items": items,
    }


def _submission(here: Services, user: str, job: Any) -> Submission:
    return Submission(job=job, user=user, uid=here.new_id(), now=here.clock.now(), ground=here.inventory.ground())


def _job(here: Services, uid: str, status: int, **headers: str) -> Response:
    """The job as it is after the commit."""
    with here.store.read() as r:
        record = r.job(uid)
        if record is None:
            raise Problem(410, "GONE", "The job has been removed meanwhile", f"job {uid} does not exist any more")
        return reply(show.jobs(r, [record], here.forecasts.etas())[0], status, **headers)


def _list(
    here: Services,
    namespace: str | None,
    label_selector: str | None,
    field_selector: str | None,
    phases: list[JobPhase] | None,
    queue: str | None,
    limit: int,
    after: str | None,
) -> Response:
    labels, fields, begin = selector(label_selector), fields_of(field_selector), page_after(after)
    places, queues = {namespace, fields.namespace} - {None}, {queue, fields.queue} - {None}
    if fields.phase is not None:
        phases = [fields.phase] if phases is None or fields.phase in phases else []
    with here.store.read() as r:
        found = []
        if len(places) < 2 and len(queues) < 2:  # else nothing can be both
            found = r.jobs(
                next(iter(places), None),
                name=fields.name,
                uid=fields.uid,
                number=fields.number,
                labels=labels,
                phases=phases,
                queue=next(iter(queues), None),
                after=begin,
                limit=limit + 1,
            )
        shown = found[:limit]
        more = page_token((shown[-1].namespace, shown[-1].name, shown[-1].uid)) if len(found) > limit else None
        return reply(wire.page("Job", r.revision(), show.jobs(r, shown, here.forecasts.etas()), more))
