"""A disk that is really full: a small tmpfs, where a test may mount one."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.cluster import AgentProcess, FakeApi, make_assignment, until
from tests.agents.test_life import run

pytestmark = pytest.mark.processes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """2 MiB, below the agent's folder."""
    disk = tmp_path / "n1"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mount.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mount.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_costs_output_and_neither_ranks_nor_exit_codes(
    api: FakeApi, small_disk: Path, start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    agent = start_agent()
    text = f"head -c 5000000 /dev/zero; echo; echo full; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo end; exit 9"
    run(api, make_assignment("w1", text))
    report = until(lambda: (r := api.worker()) and "output is being lost" in r.message and r)
    assert report.phase == "Running"
    assert "No space left on device" in report.message
    until(lambda: [e for e in api.evidence() if e.data.get("code") == "LOG_STORE"])
    (tmp_path / "go").touch()
    report = api.reaches("Exited")
    assert ([(e.code, e.signal) for e in report.exits], report.problem) == ([(9, None)], "")
    assert agent.event("dead")["exits"][0]["code"] == 9
