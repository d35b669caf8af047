"""What is left of a worker whose shim is gone, picked out of all processes. Pure, but for one real sweep."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from agents.runtime.diary import Started
from agents.runtime.sweep import Running, belongs, remains, running, sweep

AGENT = 10


def left(
    processes: Iterable[Running],
    marked: set[int] = frozenset(),
    started: tuple[Started, ...] = (),
    known: set[int] = frozenset(),
) -> set[int]:  # type: ignore[assignment]
    return remains(processes, marked=lambda pid: pid in marked, started=started, agent=AGENT, known=set(known))


INIT, OURSELVES = Running(1, 0, 1, 0), Running(AGENT, 1, AGENT, 100)


@pytest.mark.parametrize(
    ("case", "processes", "keywords", "expected"),
    [
        ("nothing", [], {}, set()),
        ("one with the worker's environment", [Running(20, 1, 20, 200)], {"marked": {20}}, {20}),
        ("its children, although their environment is gone", [Running(20, 1, 20, 200), Running(21, 20, 21, 201), Running(22, 21, 22, 202)], {"marked": {20}}, {20, 21, 22}),
        ("members of a session whose leader is dead", [Running(21, 1, 20, 201)], {"started": (Started(0, 0, 20, 200),)}, {21}),
        ("a pid that somebody else has by now", [Running(20, 1, 20, 999)], {"started": (Started(0, 0, 20, 200),)}, set()),
        ("an orphan that became the agent's child", [Running(30, AGENT, 30, 300)], {}, {30}),
        ("the agent's own children", [Running(30, AGENT, 30, 300)], {"known": {30}}, set()),
        ("strangers", [Running(40, 1, 40, 400), Running(41, 40, 40, 401)], {"marked": {99}}, set()),
    ],
)  # fmt: skip
def test_remains(case: str, processes: list[Running], keywords: dict[str, object], expected: set[int]) -> None:
    assert left([INIT, OURSELVES, *processes], **keywords) == expected, case  # type: ignore[arg-type]


@pytest.mark.processes
def test_a_sweep_ends_only_when_nothing_is_left() -> None:
    environ = {**os.environ, "MUSTER_WORKER_UID": f"sweep-{os.getpid()}"}
    text = "trap '' TERM; (trap '' TERM; sleep 1000 & sleep 1000) & sleep 1000"
    process = subprocess.Popen(["/bin/sh", "-c", text], env=environ, start_new_session=True)
    uid = environ["MUSTER_WORKER_UID"]

    def find() -> set[int]:
        return {p.pid for p in running() if belongs(p.pid, uid)}

    try:
        while len(find()) < 4:
            pass
        assert asyncio.run(sweep(find)) >= 4
        assert find() == set()
    finally:
        process.kill()
        process.wait()


def test_our_own_environment_is_read() -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; from agents.runtime.sweep import belongs; print(belongs(os.getpid(), 'w1'), belongs(os.getpid(), 'w'))"],
        env={**os.environ, "MUSTER_WORKER_UID": "w1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert child.stdout.split() == ["True", "False"]
