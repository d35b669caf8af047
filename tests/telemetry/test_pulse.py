"""What the controller tells of itself, and that it is true."""

import json
import urllib.error
import urllib.request

import pytest

from controller.scheduling.types import DecisionGroup, Eviction, Plan, Start, Victim
from controller.telemetry.pulse import STALLED, Pulse
from controller.telemetry.server import serve


@pytest.fixture
def pulse(clock):
    return Pulse(clock)


@pytest.mark.parametrize(
    ("role", "alive", "ready"),
    [("starting", True, False), ("standby", True, True), ("leader", True, True), ("cut off", True, False)],
)
def test_ready_is_who_leads_or_stands_by_with_a_database(pulse, role, alive, ready):
    pulse.beat(role, 3)
    health = pulse.health()
    assert (health.alive, health.ready, health.role) == (alive, ready, role)


def test_a_loop_that_hangs_is_neither_alive_nor_ready(pulse, clock):
    pulse.beat("leader", 1)
    clock.advance(STALLED - 1)
    assert pulse.health().alive
    clock.advance(2)
    assert (pulse.health().alive, pulse.health().ready) == (False, False)


def ask(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_probes_and_prometheus_are_answered_on_a_port_of_its_own(pulse, clock):
    pulse.beat("leader", 7)
    start = Start(job_uid="j", scope="gang", device_type=None, workers=())
    victims = (Victim(job_uid="v", attempt_uid="a"), Victim(job_uid="w", attempt_uid="b", workers=("x",)))
    pulse.decided(
        Plan(groups=(DecisionGroup(start=start),), evictions=(Eviction(job_uid="j", victims=victims, workers=()),))
    )
    pulse.dropped()
    for seconds in (0.0005, 0.3, 100.0):
        with pulse.timed(pulse.cycles):
            clock.advance(seconds)
    pulse.beat("leader", 7)
    server = serve(pulse, "127.0.0.1", 0)
    try:
        status, body = ask(server, "/healthz")
        assert (status, json.loads(body)["epoch"]) == (200, 7)
        assert ask(server, "/readyz")[0] == 200
        assert ask(server, "/nothing")[0] == 404
        lines = ask(server, "/metrics")[1].splitlines()
        clock.advance(STALLED + 1)
        assert ask(server, "/healthz")[0] == 503
    finally:
        server.shutdown()
        server.server_close()
    for line in (
        "muster_controller_leading 1.0",
        'muster_cycle_seconds_bucket{le="0.5"} 2.0',
        "muster_cycle_seconds_count 3.0",
        'muster_decisions_total{what="starts"} 1.0',
        'muster_decisions_total{what="evictions"} 1.0',
        'muster_decisions_total{what="shrinks"} 1.0',
        'muster_decisions_total{what="dropped"} 1.0',
    ):
        assert line in lines
