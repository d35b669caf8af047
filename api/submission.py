"""Submitting, applying and steering jobs: each one transaction that writes the job, an event and the change."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from api import admission
from api.inventory import Ground
from api.problems import conflict, not_found
from controller.arrays import is_array, names_of
from controller.dependencies import Newest
from controller.records import JobRecord, PriorityClassRecord, QueueRecord
from controller.state import Actor, Reading, Writer, checkpoint_directory
from muster.problems import FieldError, Problem
from muster.reasons import Held
from muster.resources.job import Job, JobSpec
from muster.resources.mutability import When, changed, when
from muster.resources.parse import invalid, parse
from muster.states import JOB_TERMINAL, JobPhase

Result = Literal["created", "configured", "unchanged"]

_SERVERS: Final = ("status",)
"""What a manifest that was read from the server has more than one that was written by hand."""

_LATER: Final = {
    When.NEXT_ATTEMPT: "takes effect in the next attempt only: suspend the job, apply, then resume it",
    When.NEVER: "cannot be changed for this job: cancel it and submit another one",
}


class Submission(Struct, frozen=True, kw_only=True):
    """A manifest with everything that accepting it needs. `now` in UTC seconds."""

    job: Job
    user: str
    uid: str
    now: float
    ground: Ground
    actor: Actor | None = None
    """In whose name it is written; None: in that of the transaction."""


class Applied(Struct, frozen=True):
    """`record` is not written yet in a dry run."""

    result: Result
    record: JobRecord


def manifest(document: Any, namespace: str, name: str | None = None) -> Job:
    """The job in a body that was sent to `namespace` (and `name`). Raises Problem 422."""
    if isinstance(document, Mapping):
        document = {key: value for key, value in document.items() if key not in _SERVERS}
        metadata = document.get("metadata")
        if isinstance(metadata, Mapping):
            document["metadata"] = {"namespace": namespace, **metadata}
    resource = parse(document)
    if not isinstance(resource, Job):
        raise invalid([FieldError("kind", "expected a Job here", found=resource.kind, allowed=("Job",))])
    expected = {"namespace": namespace} | ({"name": name} if name is not None else {})
    errors = [
        FieldError(f"metadata.{key}", f"differs from the address it was sent to ({value})", found=found)
        for key, value in expected.items()
        if (found := getattr(resource.metadata, key)) != value
    ]
    if errors:
        raise invalid(errors)
    return resource


def create(w: Reading, asked: Submission) -> JobRecord:
    """Insert the job (only judge it when `w` cannot write). Raises Problem."""
    (made,) = create_all(w, [asked])
    if isinstance(made, Problem):
        raise made
    return made


def create_all(w: Reading, asked: Sequence[Submission]) -> list[JobRecord | Problem]:
    """Insert the jobs that may be (only judge them when `w` cannot write), with few queries for however many. Another
    transaction that takes a name or a directory at the same time lets this one fail at its commit, with Taken."""
    standing = Standing.of(w, asked)
    made: list[JobRecord | Problem] = []
    for one in asked:
        try:
            record = standing.admit(w, one)
        except Problem as problem:
            made.append(problem)
            continue
        made.append(record)
        if isinstance(w, Writer):
            _insert(w, one, record)
    return made


def _directory(job: Job) -> str | None:
    checkpoint = job.spec.checkpoint
    return checkpoint_directory({"checkpoint": {"directory": checkpoint.directory}}) if checkpoint else None


def _insert(w: Writer, asked: Submission, record: JobRecord) -> None:
    w.actor = asked.actor or w.actor
    w.insert_jobs([record])
    _event(w, record, "Submitted", f"submitted to queue {record.spec['queue']} by {asked.user}")
    for warning in record.warnings:
        _event(w, record, "Structural", warning, level="warning")


class Standing:
    """What new jobs are judged by: queues, priority classes, live names, directories in use; with what was admitted already."""

    def __init__(
        self,
        queues: list[QueueRecord],
        classes: list[PriorityClassRecord],
        names: dict[tuple[str, str], str],
        owners: dict[str, JobRecord],
    ) -> None:
        self._queues, self._names, self._owners = queues, names, owners
        self._classes = {one.name: one for one in classes}
        self._admitted: dict[tuple[str, str], JobRecord] = {}
        self._fitting: dict[tuple[int, str, str, int], JobRecord] = {}

    @classmethod
    def of(cls, r: Reading, asked: Sequence[Submission]) -> "Standing":
        wanted: dict[str, list[str]] = {}
        for one in asked:
            wanted.setdefault(one.job.metadata.namespace, []).append(one.job.metadata.name)
        names = {
            (namespace, name): str(phase)
            for namespace, some in wanted.items()
            for name, phase in r.live_names(namespace, some).items()
        }
        paths = {path for one in asked if (path := _directory(one.job)) is not None}
        return cls(r.queues(), r.policies(PriorityClassRecord), names, r.jobs_in_directories(paths))

    def admit(self, r: Reading, asked: Submission) -> JobRecord:
        """Raises Problem 409 or 422."""
        namespace, name = asked.job.metadata.namespace, asked.job.metadata.name
        if (namespace, name) in self._names:
            phase = self._names[namespace, name]
            raise conflict(
                f"there is a live job {name} in namespace {namespace} ({phase}); names are free again after the end",
                code="ALREADY_EXISTS",
            )
        record = ordered(r, self._own_directory(self._fit_as_one(asked)), partial(self._newest, r, namespace))
        self._admitted[namespace, name] = record
        self._names[namespace, name] = str(record.phase)
        if (path := checkpoint_directory(record.spec)) is not None:
            self._owners[path] = record
        return record

    def _newest(self, r: Reading, namespace: str, name: str) -> JobRecord | None:
        return self._admitted.get((namespace, name)) or r.job_named(namespace, name)

    def judge(self, record: JobRecord, ground: Ground) -> JobRecord:
        """The record completed and with its warnings. Raises Problem 422 or 409."""
        return self._own_directory(self._fit(record, ground))

    def _fit_as_one(self, asked: Submission) -> JobRecord:
        """`_fit`, found out once for jobs that share their spec, as those of a list do."""
        key = (id(asked.job.spec), asked.job.metadata.namespace, asked.user, id(asked.ground))
        if (like := self._fitting.get(key)) is not None:
            return replace(like, **_own(asked))
        self._fitting[key] = record = self._fit(record_of(asked), asked.ground)
        return record

    def _fit(self, record: JobRecord, ground: Ground) -> JobRecord:
        errors = admission.findings(record.spec, self._queues, ground.index)
        errors += admission.class_errors(record, self._classes)
        if errors:
            topology = all(error.code == "INVALID_TOPOLOGY" for error in errors)
            raise Problem(
                422, "INVALID_TOPOLOGY" if topology else "INVALID", "The manifest is not valid", errors=tuple(errors)
            )
        queue = next(queue for queue in self._queues if queue.name == record.spec["queue"])
        record = replace(record, spec=admission.completed(record.spec, queue))
        if (ranked := self._classes.get(record.spec["priorityClass"])) is not None:
            record = replace(record, priority=ranked.spec["value"], preempts=ranked.spec.get("preempts") != "never")
        return replace(record, warnings=admission.warnings(record, ground))

    def _own_directory(self, record: JobRecord) -> JobRecord:
        """The record as it is. Raises Problem 409 where another live job has its checkpoints there."""
        other = self._owners.get(checkpoint_directory(record.spec) or "")
        if other is not None and other.uid != record.uid:
            message = f"job {other.namespace}/{other.name} has its checkpoints there, and it is live"
            error = FieldError("spec.checkpoint.directory", message, "SHARED", record.spec["checkpoint"]["directory"])
            raise conflict(error.sentence(), error, code="CHECKPOINT_DIRECTORY_SHARED")
        return record


def apply(w: Reading, asked: Submission) -> Applied:
    """Create the job, or bring the live one to this manifest. Raises Problem."""
    job = asked.job
    found = w.job_named(job.metadata.namespace, job.metadata.name)
    if found is None or found.phase in JOB_TERMINAL:
        if job.metadata.uid is not None or job.metadata.resource_version is not None:
            raise conflict(f"job {job.metadata.name} of this uid or resourceVersion is not live any more")
        return Applied("created", create(w, asked))
    _same(found, job)
    wanted = record_of(asked)
    queue = w.queue(wanted.spec["queue"])
    before, after = _as_now(found.spec) | {"suspend": found.suspend}, admission.completed(wanted.spec, queue)
    paths = changed(before, after)
    paths += [f"metadata.{word}" for word in ("labels", "annotations") if getattr(found, word) != getattr(wanted, word)]
    if not paths:
        return Applied("unchanged", found)
    _may_change(found, paths)
    fields = _fields(found, wanted, after, paths)
    if "suspend" in fields:
        fields["wished_at"] = asked.now
    if "spec.after" in paths:
        same = {entry["job"] for entry in found.spec.get("after") or () if entry in (after.get("after") or ())}
        fields |= {"met": tuple(name for name in found.met if name in same), "unmet": None}
    judged = Standing.of(w, [asked]).judge(replace(found, **fields), asked.ground)
    record = ordered(w, judged, partial(w.job_named, found.namespace))
    if "spec.priorityClass" in paths:
        fields |= {"priority": record.priority, "preempts": record.preempts}
    if isinstance(w, Writer):
        record = w.patch_job(found.uid, **fields, warnings=record.warnings)
        _event(w, record, "Configured", f"changed by {asked.user}: {', '.join(paths)}")
    return Applied("configured", record)


def ordered(r: Reading, record: JobRecord, newest: Newest) -> JobRecord:
    """With warnings of what it comes after and does not exist yet. Raises Problem 422 where it comes after itself, 409
    where the name of one of its elements is taken."""
    errors = admission.order_errors(record, newest)
    if errors:
        raise Problem(422, "INVALID", "The manifest is not valid", errors=tuple(errors))
    if is_array(record) and not record.made:
        taken = sorted(r.live_names(record.namespace, names_of(record.name, record.spec["array"])))
        if taken:
            raise conflict(f"the name {taken[0]} of an element belongs to a live job already", code="ALREADY_EXISTS")
    return replace(record, warnings=(*record.warnings, *admission.absent(record, newest)))


def steer(w: Writer, namespace: str, name: str, wish: str, user: str, now: float) -> JobRecord:
    """One of suspend, resume, restart, cancel, asked for at `now`. A wish that holds already changes nothing. Raises Problem."""
    record = existing(w, namespace, name)
    fields, reason = _WISHES[wish](record)
    if all(getattr(record, field) == value for field, value in fields.items()):
        return record
    record = w.patch_job(record.uid, wished_at=now, **fields)
    _event(w, record, reason, f"{wish} asked by {user}")
    return record


def existing(r: Reading, namespace: str, name: str) -> JobRecord:
    """The live job of this name, else the newest finished one. Raises Problem 404."""
    record = r.job_named(namespace, name)
    if record is None:
        raise not_found("Job", name, namespace)
    return record


def record_of(asked: Submission) -> JobRecord:
    job = asked.job
    return JobRecord(
        namespace=job.metadata.namespace,
        spec=job.spec.wire(),
        user=asked.user,
        suspend=job.spec.suspend,
        **_own(asked),
    )


def _own(asked: Submission) -> dict[str, Any]:
    """What one job has for itself of those with the same spec, namespace and user."""
    job = asked.job
    return {
        "uid": asked.uid,
        "name": job.metadata.name,
        "labels": job.metadata.labels,
        "annotations": job.metadata.annotations,
        "wished_at": asked.now if job.spec.suspend else None,
        "created_at": asked.now,
        "queued_at": asked.now,
    }


def _as_now(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec that an older release has stored, with the defaults of what it did not know."""
    try:
        return JobSpec.model_validate(spec, by_alias=True, by_name=False).wire()
    except ValidationError:
        return spec


def _same(found: JobRecord, job: Job) -> None:
    """A manifest that names a uid or a version means just that. Raises Problem 409."""
    uid, version = job.metadata.uid, job.metadata.resource_version
    if uid is not None and uid != found.uid:
        raise conflict(f"the live job {found.name} has uid {found.uid}, not {uid}")
    if version is not None and version != str(found.revision):
        raise conflict(f"job {found.name} was changed meanwhile: it is at version {found.revision}, not {version}")
    if found.cancel:
        raise conflict(f"job {found.name} is being cancelled; apply again when it has ended")


def _may_change(found: JobRecord, paths: list[str]) -> None:
    """Raises Problem 409 with one finding for each field that may not change now."""
    allowed = {When.LIVE, When.NEXT_ATTEMPT} if found.phase is JobPhase.SUSPENDED else {When.LIVE}
    if is_array(found) and found.made:
        allowed = {When.LIVE}
    errors = tuple(
        FieldError(path, _LATER[moment], "IMMUTABLE")
        for path in paths
        if (moment := when(path)) not in allowed and moment is not When.LIVE
    )
    if errors:
        raise conflict("; ".join(error.sentence() for error in errors), *errors, code="IMMUTABLE_FIELD")


def _fields(found: JobRecord, wanted: JobRecord, spec: dict[str, Any], paths: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {word: getattr(wanted, word) for word in ("labels", "annotations")}
    if any(path.startswith("spec.") for path in paths):
        fields |= {"spec": spec, "generation": found.generation + 1}
        fields |= {"suspend": True} if wanted.suspend else (_resume(found)[0] if found.suspend else {})
    return fields


def _live(record: JobRecord, wish: str) -> None:
    if record.phase in JOB_TERMINAL:
        raise conflict(f"job {record.name} has ended ({record.phase}): nothing to {wish}", code="JOB_ENDED")
    if record.cancel and wish != "cancel":
        raise conflict(f"job {record.name} is being cancelled: too late to {wish}")


def _suspend(record: JobRecord) -> tuple[dict[str, Any], str]:
    _live(record, "suspend")
    return {"suspend": True, "restart_requested": False}, "SuspendRequested"


def _resume(record: JobRecord) -> tuple[dict[str, Any], str]:
    """A job that is held for another reason than its user's wish needs a nudge to be tried again."""
    _live(record, "resume")
    held = record.phase is JobPhase.SUSPENDED and record.reason != Held.BY_USER
    return {"suspend": False, "restart_requested": held or record.restart_requested}, "ResumeRequested"


def _restart(record: JobRecord) -> tuple[dict[str, Any], str]:
    _live(record, "restart")
    if is_array(record):
        raise conflict(f"job {record.name} is an array: restart its elements, e.g. {record.name}-0")
    if record.suspend:
        raise conflict(f"job {record.name} is suspended; resume it instead")
    if record.phase is JobPhase.SUSPENDED:
        return _resume(record)
    if record.attempt_uid is None:
        raise conflict(f"job {record.name} is {record.phase}: it has no running attempt to restart")
    return {"restart_requested": True}, "RestartRequested"


def _cancel(record: JobRecord) -> tuple[dict[str, Any], str]:
    if record.phase is JobPhase.CANCELLED:
        return {}, ""
    _live(record, "cancel")
    return {"cancel": True}, "CancelRequested"


_WISHES: Final[dict[str, Callable[[JobRecord], tuple[dict[str, Any], str]]]] = {
    "suspend": _suspend,
    "resume": _resume,
    "restart": _restart,
    "cancel": _cancel,
}


def _event(
    w: Writer, record: JobRecord, reason: str, message: str, level: Literal["normal", "warning"] = "normal"
) -> None:
    w.add_event(
        namespace=record.namespace,
        kind="Job",
        object_uid=record.uid,
        name=record.name,
        reason=reason,
        message=message,
        level=level,
    )
