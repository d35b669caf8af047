"""Lists of jobs by every selector and all of them together, page by page, are what a look at all jobs gives."""

import itertools
from typing import Any

import pytest

from controller.records import JobRecord
from controller.state import Store
from muster.states import JobPhase
from tests.makers import make_job

PHASES = (JobPhase.QUEUED, JobPhase.RUNNING, JobPhase.SUCCEEDED, JobPhase.FAILED)


@pytest.fixture
def filled(store: Store) -> Store:
    jobs = [
        make_job(
            f"j{n % 7}",
            uid=f"u{n:02}",
            namespace=f"ns{n % 3}",
            phase=PHASES[n % 4] if n < 21 else JobPhase.CANCELLED,
            labels={"team": f"t{n % 2}"} | ({"rare": 'yes, it\'s "rare"'} if n % 5 == 0 else {}),
            spec={"queue": f"q{n % 2}"},
        )
        for n in range(40)
    ]
    with store.write() as w:
        w.insert_jobs(jobs)
    return store


def pages(store: Store, size: int, **wanted: Any) -> list[str]:
    found: list[JobRecord] = []
    with store.read() as r:
        while True:
            last = found[-1] if found else None
            after = (last.namespace, last.name, last.uid) if last else None
            page = r.jobs(**wanted, after=after, limit=size)
            found += page
            if len(page) < size:
                return [one.uid for one in found]


def fits(job: JobRecord, wanted: dict[str, Any]) -> bool:
    return (
        wanted.get("namespace") in (None, job.namespace)
        and wanted.get("queue") in (None, job.spec["queue"])
        and wanted.get("name") in (None, job.name)
        and (wanted.get("phases") is None or job.phase in wanted["phases"])
        and all(job.labels.get(key) == value for key, value in wanted.get("labels", {}).items())
    )


def test_pages_are_the_whole_in_its_order_whatever_is_selected(filled: Store) -> None:
    with filled.read() as r:
        everything = r.jobs()
    assert everything == sorted(everything, key=lambda job: (job.namespace, job.name, job.uid))
    choices: list[list[dict[str, Any]]] = [
        [{}, {"namespace": "ns1"}],
        [{}, {"queue": "q1"}],
        [{}, {"phases": [JobPhase.RUNNING]}, {"phases": [JobPhase.QUEUED, JobPhase.CANCELLED]}, {"phases": []}],
        [
            {},
            {"labels": {"team": "t1"}},
            {"labels": {"team": "t0", "rare": 'yes, it\'s "rare"'}},
            {"labels": {"no": "x"}},
        ],
        [{}, {"name": "j3"}],
    ]
    for parts in itertools.product(*choices):
        wanted: dict[str, Any] = {key: value for part in parts for key, value in part.items()}
        expected = [job.uid for job in everything if fits(job, wanted)]
        assert pages(filled, 3, **wanted) == expected, wanted
