"""Who is told of a job's fate, by which way, and with what."""

import pytest

from muster.states import JobPhase
from tests.loop.world import World


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.store.close()


def test_a_failure_is_told_by_every_way_with_its_post_mortem(world):
    told = {
        "webhook": "https://hook.example/",
        "slack": "https://slack.example/",
        "mail": ["a@b.c"],
        "events": ["failed"],
    }
    job = world.submit(notify=told, recovery={"maxRestarts": 0})
    workers = world.run(job)
    world.exit(workers[1], code=1, log="Traceback (most recent call last):\nValueError: a < b & c\n")
    world.until(world.phase_is(job, JobPhase.FAILED))
    due = {item.key.rpartition(":")[2]: item for item in world.store.outbox_due(world.clock.now())}
    hook, slack, mail = due["1"], due["slack"], due["mail"]
    assert hook.payload["postmortem"][0]["category"] == "user_error"
    assert "rank 1 on" in mail.payload["text"]
    assert mail.payload["subject"] == "default/train: failed"
    assert (slack.kind, slack.payload["url"]) == ("webhook", "https://slack.example/")
    assert "a &lt; b &amp; c" in slack.payload["text"]
