"""A gang whose records a scenario changes."""

from typing import Any

from msgspec.structs import replace

from controller.executors.base import Intent
from controller.executors.kubernetes.pod import pod_name
from controller.records import WorkerRecord
from muster.launch import LaunchTemplate
from tests.makers import make_attempt, make_job, make_worker

TEMPLATE = LaunchTemplate(framework="command", processes=(("python", "train.py"),), workdir="/code")


class Gang:
    def __init__(self, workers: int, *, number: int = 1, template: LaunchTemplate = TEMPLATE, **spec: Any) -> None:
        job = make_job(spec={"workers": workers, **spec})
        attempt = make_attempt(job, number)
        made = tuple(make_worker(attempt, index, template=template) for index in range(workers))
        self.intent = Intent(job=job, attempt=attempt, workers=made)

    def want(self, desired: str) -> None:
        for index in range(len(self.intent.workers)):
            self.change(index, desired=desired)

    def change(self, index: int, **fields: Any) -> None:
        workers = list(self.intent.workers)
        workers[index] = replace(workers[index], **fields)
        self.intent = replace(self.intent, workers=tuple(workers))

    def worker(self, uid: str) -> WorkerRecord:
        return next(worker for worker in self.intent.workers if worker.uid == uid)

    @property
    def names(self) -> list[str]:
        return [pod_name(worker) for worker in self.intent.workers]
