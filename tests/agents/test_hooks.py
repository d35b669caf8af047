"""A site's programs before and after each attempt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.config import from_environment
from tests.agents.cluster import AgentProcess, FakeApi, alive, make_assignment, until

pytestmark = pytest.mark.processes


def hook(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_they_run_around_the_worker_and_know_whose_it_is(
    api: FakeApi, start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    said = tmp_path / "said"
    tell = f"echo $MUSTER_HOOK $MUSTER_NAMESPACE/$MUSTER_JOB $MUSTER_ATTEMPT $MUSTER_DEVICES $MUSTER_NODE >> {said}\n"
    start_agent(
        MUSTER_VIRTUAL_DEVICES="h100:8",
        MUSTER_PROLOG=hook(tmp_path / "before", tell),
        MUSTER_EPILOG=hook(tmp_path / "after", tell + "echo of no use >&2; exit 4"),
    )
    api.want(make_assignment("w1", f"echo rank >> {said}", devices=(2, 3)))
    api.reaches("Ready")
    api.change("w1", desired="run")
    api.reaches("Exited")
    who = "default/train 1 2,3 n1"
    assert said.read_text().splitlines() == [f"prolog {who}", "rank", f"epilog {who}"]
    told = [one.text for one in api.evidence() if one.data.get("code") == "EPILOG_FAILED"]
    assert told == [f"epilog {tmp_path}/after ended with 4: of no use"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo the disk is broken; exit 1", "ended with 1: the disk is broken"),
        ("echo $$ > pid; sleep 1000", "did not end within 1 s"),
    ],
)
def test_a_prolog_that_fails_keeps_the_worker_from_starting(
    api: FakeApi, start_agent: Callable[..., AgentProcess], tmp_path: Path, text: str, says: str
) -> None:
    pid = tmp_path / "pid"
    start_agent(
        MUSTER_PROLOG=hook(tmp_path / "before", text.replace("pid", str(pid))),
        MUSTER_HOOK_TIMEOUT="1" if "sleep" in text else "60",
    )
    api.want(make_assignment("w1", "echo never"))
    report = api.reaches("Exited")
    assert report.problem == "PROLOG_FAILED"
    assert says in report.message
    if pid.exists():
        until(lambda: not alive(int(pid.read_text())))


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    env = {"MUSTER_SERVER": "http://x:1", "MUSTER_TOKEN_FILE": "t", "MUSTER_NODE": "n", "MUSTER_AGENT_DIR": "d"}
    with pytest.raises(ValueError, match=r"MUSTER_PROLOG: expected the absolute path.*MUSTER_HOOK_TIMEOUT"):
        from_environment({**env, "MUSTER_PROLOG": "before.sh", "MUSTER_HOOK_TIMEOUT": "soon"})
