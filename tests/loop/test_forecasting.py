"""Forecasts beside the loop: kept fresh, scored, made by one of many, and never in the way of anybody."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.companion import Companion
from controller.forecasting import OLDEST, PATIENCE, Forecaster
from controller.simulation.types import Basis, Forecast
from controller.state.store import open_store
from muster.clock import SystemClock
from muster.states import JobPhase
from tests.loop.world import World, counter
from tests.makers import make_job, make_node

ROOT = Path(__file__).parents[2]
ALL = {"workers": 4, "topology": {}, "accelerators": [{"type": "h100", "count": 8}]}


def told(world: World) -> tuple[Any, Forecast]:
    stored = world.store.forecasts.newest()
    assert stored is not None
    return stored, msgspec.json.decode(stored.body, type=Forecast)


def queue(world: World) -> tuple[Any, Any]:
    """One job that runs on everything for a minute, and one that waits for it."""
    first = world.submit("first", **ALL, timeLimit="60s")
    world.until(world.phase_is(first, JobPhase.RUNNING))
    return first, world.submit("second", **ALL)


def test_a_forecast_is_made_when_something_changes_and_else_only_stamped(world: World) -> None:
    _, second = queue(world)
    world.loop.cycle()
    maker = Forecaster(world.store, world.clock, "a", standby=True)
    assert maker.tick()
    stored, found = told(world)
    eta = found.etas[0]
    assert (eta.job_uid, eta.basis) == (second.uid, Basis.LIMITS)
    assert abs((eta.at or 0.0) - world.clock.now() - 60) < 5
    world.clock.advance(6.0)
    assert maker.tick()
    again, _ = told(world)
    assert again.made_at == stored.made_at
    assert world.clock.now() - again.checked_at < 10
    world.submit("third", **ALL)
    assert maker.tick()
    assert len(told(world)[1].etas) == 2


def test_the_first_word_to_a_waiting_job_is_scored_by_its_start(world: World) -> None:
    _, second = queue(world)
    world.loop.cycle()
    maker = Forecaster(world.store, world.clock, "a", standby=True)
    maker.tick()
    world.until(world.phase_is(second, JobPhase.STARTING), steps=900)
    maker.tick()
    scored = world.store.forecasts.scored()
    assert [one.job_uid for one in scored] == [second.uid]
    assert abs((scored[0].started_at or 0.0) - scored[0].predicted) < 10
    assert told(world)[1].etas == ()


def test_one_of_many_makes_it_and_the_leaders_steps_in_when_it_falls_silent(world: World) -> None:
    queue(world)
    world.loop.cycle()
    standby = Forecaster(world.store, world.clock, "standby", standby=True)
    leader = Forecaster(world.store, world.clock, "leader", standby=False)
    assert leader.tick()
    assert told(world)[0].maker == "leader:leader"
    standby.tick()
    assert told(world)[0].maker == "standby:standby"
    world.clock.advance(5.0)
    world.submit("third", **ALL)
    leader.tick()
    assert told(world)[0].maker == "standby:standby"
    world.clock.advance(OLDEST + PATIENCE)
    leader.tick()
    assert told(world)[0].maker == "leader:leader"


def test_nothing_waits_and_nothing_is_written(world: World) -> None:
    maker = Forecaster(world.store, world.clock, "a", standby=True)
    assert not maker.tick()
    assert world.store.forecasts.newest() is None


@pytest.mark.processes
def test_the_helper_process_writes_a_forecast_and_ends_with_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/muster.db"
    store = open_store(url, clock=SystemClock(), new_id=counter())
    store.migrate()
    now = time.time()
    with store.write() as w:
        w.put_node(make_node("n0"))
        w.insert_job(make_job("big", spec={**ALL, "workers": 9}, queued_at=now))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MUSTER_DATABASE_URL", url)
    clock, helper = SystemClock(), None
    deadline = time.monotonic() + 120
    helper = Companion("controller.forecaster", clock)
    while store.forecasts.newest() is None:
        helper.wanted(True, "standby")
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pid = helper.pid
    assert pid is not None
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 15
    helper.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    store.close()
