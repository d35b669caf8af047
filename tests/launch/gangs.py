"""Gangs on paper for launch tests."""

from typing import Any

from controller.launch.render import PlacedWorker, render
from controller.records import JobRecord, ResumePoint
from muster.launch import LaunchTemplate
from tests.makers import make_attempt, make_job


def job_of(framework: str, **spec: Any) -> JobRecord:
    fields = {"framework": framework, "command": ["python", "train.py", "--lr", "0.1"], "workdir": "/srv/dir", **spec}
    job = make_job("digits", namespace="nlp", spec=fields)
    if "script" in spec:
        del job.spec["command"]
    return job


def placed(workers: int, devices: int = 2, kind: str | None = "h100", size: int = 4) -> list[PlacedWorker]:
    return [
        PlacedWorker(
            index=index,
            node=f"n{index}",
            host=f"host-{index}",
            address=f"10.0.0.{index + 1}",
            devices=tuple(range(2, 2 + devices)),
            device_type=kind if devices else None,
            ports=tuple(range(12000 + 2 * size * index, 12000 + 2 * size * index + size)),
        )
        for index in range(workers)
    ]


def launch(
    job: JobRecord, workers: int = 1, devices: int = 2, kind: str | None = "h100", resume: str = "", ports: int = 4
) -> tuple[LaunchTemplate, ...]:
    attempt = make_attempt(
        job, 3, rendezvous="digits-3-abcd", resume=ResumePoint(path=resume, step=5) if resume else None
    )
    return render(job, attempt, placed(workers, devices, kind, ports))
