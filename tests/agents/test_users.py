"""Namespaces as Unix users: what runs as whom, and who waits for whom."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runtime.users import Users, parse
from muster.launch import LogPattern, Running
from tests.agents.cluster import AgentProcess, FakeApi, alive, make_assignment, until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"a": "no-such-user"}, "there is no user"),
        ({"a": "root"}, "never run as root"),
        ({"a": "0"}, "never run as root"),
        ({"a": "nobody:no-such-group"}, "there is no group"),
        ({"a": "nobody:root"}, "group of root"),
    ],
)
@ROOT_ONLY
def test_what_is_refused(mapping: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Users(mapping)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_mapping_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected an object"):
        parse(text)


@ROOT_ONLY
def test_who_can_be_told_apart() -> None:
    users = Users({"a": "nobody", "b": "daemon", "*": "nobody"})
    assert users.of("c") == users.of("a")
    assert [users.apart("a", other) for other in "abc"] == [True, True, False]
    assert Users({}).apart("a", "b")
    with pytest.raises(LookupError, match="namespace x"):
        Users({"a": "nobody"}).of("x")


@pytest.fixture
def agent(api: FakeApi) -> Iterator[AgentProcess]:
    """In a folder that another user may pass through."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        made = AgentProcess(api, Path(name) / "n1", MUSTER_USERS='{"default": "nobody:video", "lab": "nobody"}')
        yield made
        made.end()


@ROOT_ONLY
@pytest.mark.processes
def test_a_worker_is_its_namespaces_user_and_has_nothing_of_the_agents(api: FakeApi, agent: AgentProcess) -> None:
    script = """
        id -un; id -Gn; echo $HOME $USER; ulimit -n; ulimit -c
        cat ../assignment.json ../diary.jsonl 2>&1 | head -2
        echo '{"step": 7}' >> $REPORT; echo mine > file; mkdir -p ck/step-3; echo > ck/step-3/COMPLETE
        ln -s /etc/shadow "$LOGS/rank-0.log"; shopt -q login_shell && echo login
        tail -f /dev/null & wait
    """
    template = {
        "processes": (("/bin/bash", "-c", script),),
        "env": {"REPORT": "%{report}", "LOGS": "%{logs}"},
        "running": Running(ulimits={"core": 0, "nofile": 4000}),
        "log_pattern": LogPattern(r"rank-(?P<rank>\d)\.log"),
    }
    api.want(make_assignment(template=template, checkpoint_directory="ck"))
    api.reaches("Ready")
    api.change("w1", desired="run")
    lines = until(lambda: found if len(found := api.log(None).splitlines()) >= 7 else None, "its output")
    assert lines[:5] == ["nobody", "nogroup video", "/nonexistent nobody", "4000", "0"]
    assert all("Permission denied" in line for line in lines[5:7])
    until(lambda: [point.step for point in api.progress()] == [7])
    pid = agent.pids()[0]
    assert f"Uid:\t{65534}\t{65534}\t{65534}\t{65534}" in Path(f"/proc/{pid}/status").read_text()
    api.want(
        *(one for one in [make_assignment(template=template, checkpoint_directory="ck", desired="stop", grace=1.0)])
    )
    api.reaches("Exited")
    assert not alive(pid)
    assert api.log(0) == ""  # of the link to somebody else's file nothing was read
    stock = api.stock()
    assert stock is not None
    assert [item.step for item in stock] == [3]


@ROOT_ONLY
@pytest.mark.processes
def test_namespaces_of_one_user_run_one_after_the_other(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "exec sleep 1000"))
    api.reaches("Ready", "w1")
    second = make_assignment("w2", "exec sleep 1000", namespace="lab", attempt="a2", job_uid="j2")
    api.want(*api.assignments.values(), second)
    report = until(lambda: found if (found := api.worker("w2")) and found.message else None)
    assert (report.phase, "namespace default" in report.message) == ("Preparing", True)
    api.want(second)
    api.reaches("Ready", "w2")


@ROOT_ONLY
@pytest.mark.processes
def test_a_namespace_without_a_user_is_refused(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment(namespace="other"))
    report = api.reaches("Exited")
    assert report.problem == "PERMISSION"
    assert "namespace other has no Unix user" in report.message
