"""Side effects that follow a job's fate, through the outbox in the same transaction."""

from controller.records import JobRecord
from controller.state.writing import Writer
from muster.clock import iso


def notify(w: Writer, job: JobRecord, event: str, *, now: float, message: str) -> None:
    """Ask for the job's web hook, when it has one for `event`. At least once, at most one row per event and epoch."""
    hook = job.spec.get("notify")
    if not hook or event not in hook.get("events", ()):
        return
    payload = {
        "url": hook["webhook"],
        "event": event,
        "at": iso(now),
        "job": {
            "uid": job.uid,
            "namespace": job.namespace,
            "name": job.name,
            "phase": str(job.phase),
            "reason": job.reason,
            "message": message,
            "restarts": job.restarts,
        },
    }
    w.enqueue("webhook", payload, key=f"{job.uid}:{event}:{job.epoch}")
