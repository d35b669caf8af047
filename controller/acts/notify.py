"""Side effects that follow a job's fate, through the outbox in the same transaction."""

from typing import Any

from controller.acts.postmortem import postmortem, sentences
from controller.records import JobRecord
from controller.state.writing import Writer
from muster.clock import iso


def notify(w: Writer, job: JobRecord, event: str, *, now: float, message: str) -> None:
    """Ask that everybody be told whom its manifest names for `event`: at least once, at most one row per way, event and
    epoch. What went wrong goes with it."""
    asked = job.spec.get("notify")
    if not asked or event not in asked.get("events", ()):
        return
    story = postmortem(w, job) if event in ("failed", "held", "restarted") else None
    told = {
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
    key = f"{job.uid}:{event}:{job.epoch}"
    if asked.get("webhook"):
        w.enqueue("webhook", {"url": asked["webhook"], **told, **({"postmortem": story} if story else {})}, key=key)
    title = f"{job.namespace}/{job.name}: {event}"
    text = "\n".join([message, *(sentences(story) if story else ())])
    if asked.get("slack"):
        w.enqueue("webhook", {"url": asked["slack"], **_slack(title, text)}, key=f"{key}:slack")
    if asked.get("mail"):
        w.enqueue("mail", {"to": list(asked["mail"]), "subject": title, "text": text}, key=f"{key}:mail")


def _slack(title: str, text: str) -> dict[str, Any]:
    """The form of Slack's incoming web hooks; `<`, `>` and `&` mean something there."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": f"*{title}*\n{safe[:3000]}"}
