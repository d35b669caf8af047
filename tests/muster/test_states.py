"""Phases and moves as data: what is over stays over, and everything can come to an end."""

from enum import StrEnum

import pytest

from muster.reasons import ENDS, End
from muster.states import (
    ATTEMPT_MOVES,
    JOB_MOVES,
    JOB_TERMINAL,
    NODE_MOVES,
    WORKER_MOVES,
    WORKER_TERMINAL,
    AttemptPhase,
    JobPhase,
    NodePhase,
    WorkerPhase,
    sources,
)

TABLES = {"job": JOB_MOVES, "attempt": ATTEMPT_MOVES, "worker": WORKER_MOVES, "node": NODE_MOVES}
PHASES: dict[str, type[StrEnum]] = {"job": JobPhase, "attempt": AttemptPhase, "worker": WorkerPhase, "node": NodePhase}
FINAL: dict[str, frozenset[StrEnum]] = {
    "job": frozenset(JOB_TERMINAL),
    "attempt": frozenset({AttemptPhase.ENDED}),
    "worker": frozenset(WORKER_TERMINAL),
    "node": frozenset(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_each_phase_has_its_row_and_never_moves_to_itself(kind: str) -> None:
    assert set(TABLES[kind]) == set(PHASES[kind])
    assert all(phase not in targets for phase, targets in TABLES[kind].items())


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_over_stays_over_and_nothing_else_does(kind: str) -> None:
    assert {phase for phase, targets in TABLES[kind].items() if not targets} == FINAL[kind]


@pytest.mark.parametrize("kind", ["job", "attempt", "worker"])
def test_every_phase_can_reach_an_end(kind: str) -> None:
    for phase in set(PHASES[kind]) - FINAL[kind]:
        reached, todo = set[StrEnum](), [phase]
        while todo:
            for target in TABLES[kind][todo.pop()] - reached:  # type: ignore[index]
                reached.add(target)
                todo.append(target)
        assert reached & FINAL[kind], phase


@pytest.mark.parametrize("phase", sorted(set(JobPhase) - JOB_TERMINAL))
def test_a_user_may_cancel_a_job_in_any_living_phase(phase: JobPhase) -> None:
    assert JobPhase.CANCELLED in JOB_MOVES[phase]


def test_the_sources_of_a_move_are_the_rows_that_name_it() -> None:
    assert sources(NODE_MOVES, NodePhase.READY) == {NodePhase.UNKNOWN, NodePhase.LOST}
    assert sources(JOB_MOVES, JobPhase.RUNNING) == {JobPhase.STARTING}
    assert sources(ATTEMPT_MOVES, AttemptPhase.PLACED) == frozenset()


def test_every_end_says_whose_budget_it_costs() -> None:
    assert set(ENDS) == set(End)
