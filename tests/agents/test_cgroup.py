"""A worker's control groups: nobody gets out, all die at once, and want of memory is proven by the kernel's count."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from agents.shims import access
from agents.shims.cgroup import Groups, parents

pytestmark = pytest.mark.processes


@pytest.fixture
def groups():
    made = Groups(f"test-{uuid.uuid4().hex[:8]}")
    yield made
    made.kill()
    for pid in made.members():
        os.kill(pid, signal.SIGKILL)
    made.close()


def test_parents_are_folders_of_this_process_that_exist():
    for parent in parents().values():
        assert (Path(parent) / "cgroup.procs").exists()


def test_where_no_group_may_be_made_everything_does_nothing(monkeypatch):
    monkeypatch.setattr("agents.shims.cgroup.parents", lambda: {"cgroup2": "/proc/no/such/tree"})
    none = Groups("x")
    none.enter()
    none.kill()
    assert none.limit(1000, 2**30) == ["cpu", "memory"]
    none.close()
    assert (none.folders, none.members(), none.oom_kills()) == ([], set(), 0)


def test_daemons_stay_members_and_are_killed_with_the_group(groups):
    if not any((Path(folder) / "cgroup.kill").exists() for folder in groups.folders):
        pytest.skip("no cgroup v2 tree that this user may write, or a kernel before 5.14")
    script = "(setsid sh -c 'sleep 600 & exec sleep 600' &) ; sleep 600"
    child = subprocess.Popen(["sh", "-c", script], preexec_fn=groups.enter)
    while len(groups.members()) < 4:
        pass
    groups.kill()
    child.wait(30)
    while groups.members():
        pass
    groups.close()
    assert not any(Path(folder).exists() for folder in groups.folders)


def test_an_out_of_memory_kill_is_counted_and_another_kill_is_not(groups):
    limits = [
        file
        for folder in groups.folders
        for name in ("memory.max", "memory.limit_in_bytes")
        if (file := Path(folder) / name).exists()
    ]
    if not limits:
        pytest.skip("no memory controller that this user may set")
    child = subprocess.Popen(["sleep", "600"], preexec_fn=groups.enter)
    child.kill()
    child.wait()
    assert groups.oom_kills() == 0
    limits[0].write_text(str(48 * 2**20))
    eater = subprocess.Popen([sys.executable, "-c", "x = b'x' * (400 * 2**20)"], preexec_fn=groups.enter)
    assert eater.wait(60) == -signal.SIGKILL
    assert groups.oom_kills() == 1


def test_memory_and_cores_are_limited(groups):
    if groups.limit(500, 64 * 2**20):
        pytest.skip("no controllers that this user may set")
    eater = subprocess.Popen([sys.executable, "-c", "x = b'x' * (400 * 2**20)"], preexec_fn=groups.enter)
    assert eater.wait(60) == -signal.SIGKILL
    spin = "import time, resource\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
    spin += "u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", spin], preexec_fn=groups.enter, stdout=subprocess.PIPE)
    assert float(done.stdout) < 0.8


def test_devices_that_are_not_its_own_cannot_be_opened(groups):
    """By the hook of v2 or the controller of v1, whichever this machine has; /dev/full plays the other's device."""
    denied = [access.numbers("/dev/full")]
    ways = {"cgroup2": access.deny_v2, "devices": access.deny_v1}
    tried = []
    for kind, deny in ways.items():
        if kind not in groups.by_kind:
            continue
        try:
            deny(groups.by_kind[kind], denied)
        except OSError:
            continue
        tried.append(kind)
        done = subprocess.run(["sh", "-c", "cat /dev/null && ! head -c1 /dev/full"], preexec_fn=groups.enter)
        assert done.returncode == 0, kind
        if kind == "cgroup2":  # the other way alone, in a group of its own
            break
    if not tried:
        pytest.skip("no rights to control access to devices")
    with open("/dev/full", "rb") as file:
        assert file.read(1) == b"\0"


def test_the_controller_of_v1_denies_too(groups):
    if "devices" not in groups.by_kind:
        pytest.skip("no devices controller of cgroup v1")
    access.deny_v1(groups.by_kind["devices"], [access.numbers("/dev/full")])
    done = subprocess.run(["sh", "-c", "cat /dev/null && ! head -c1 /dev/full"], preexec_fn=groups.enter)
    assert done.returncode == 0
