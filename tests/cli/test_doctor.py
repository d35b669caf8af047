"""A machine is judged by facts; each thing that is wrong is told with what to do."""

import json
import socket
from dataclasses import replace

import pytest

from cli.checkup import Machine, broken, examine
from cli.verbs.doctor import look, report

GIB = 2**30
GOOD = Machine(
    python=(3, 12, 1),
    folder="/home/ada/.muster",
    file_system="ext4",
    free_disk=80 * GIB,
    free_memory=16 * GIB,
    cpus=8,
    ephemeral=(32768, 60999),
    open_files=65536,
    redis="/venv/valkey-server",
    packages={"torch": True, "sklearn": True},
    cgroups="v2, writable",
    now=1_800_000_000.0,
    newest_file=1_799_999_000.0,
)


def levels(machine, level):
    return [finding.name for finding in examine(machine) if finding.level == level]


def test_nothing_is_wrong_with_a_good_machine():
    assert {finding.level for finding in examine(GOOD)} == {"ok"}
    assert not broken(examine(GOOD))


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"python": (3, 10, 9)}, "Python"),
        ({"folder_problem": "cannot be written"}, "data directory"),
        ({"file_system": "nfs4", "remote": True}, "file system"),
        ({"free_disk": 10 * 2**20}, "free disk"),
        ({"free_memory": 100 * 2**20}, "free memory"),
        ({"loopback_problem": "Cannot assign requested address"}, "loopback"),
        ({"port_problem": "Permission denied"}, "port"),
        ({"ephemeral": (1024, 65535)}, "ports of ranks"),
        ({"open_files": 64}, "open files"),
        ({"processes": 50}, "processes"),
        ({"boottime": False}, "clock"),
    ],
)
def test_what_makes_a_cluster_impossible_fails_with_a_fix(facts, name):
    findings = examine(replace(GOOD, **facts))
    failed = [finding for finding in findings if finding.level == "FAIL"]
    assert [finding.name for finding in failed] == [name]
    assert failed[0].fix
    assert broken(findings)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"free_disk": GIB // 2}, "free disk"),
        ({"free_disk": None}, "free disk"),
        ({"free_memory": GIB // 2}, "free memory"),
        ({"port_owner": "another program"}, "port"),
        ({"ephemeral": (11000, 60999)}, "ports of ranks"),
        ({"ephemeral": None}, "ports of ranks"),
        ({"open_files": 512}, "open files"),
        ({"processes": 512}, "processes"),
        ({"redis": ""}, "Redis server"),
        ({"packages": {"sklearn": True}}, "torch"),
        ({"root": True}, "user"),
        ({"now": 100.0}, "clock"),
        ({"now": 1_799_990_000.0}, "clock"),
    ],
)
def test_what_is_only_worse_is_a_warning(facts, name):
    machine = replace(GOOD, **facts)
    assert levels(machine, "warn") == [name]
    assert levels(machine, "FAIL") == []


@pytest.mark.parametrize(
    ("ephemeral", "left"),
    [((32768, 60999), 22768), ((1024, 9999), 22768), ((20000, 60999), 10000), ((15000, 15099), 22668), ((1, 65535), 0)],
)
def test_the_ports_that_ephemeral_ones_leave_are_counted(ephemeral, left):
    found = next(one.found for one in examine(replace(GOOD, ephemeral=ephemeral)) if one.name == "ports of ranks")
    assert found.startswith(f"{left} of 22768 ")


def test_the_port_of_the_own_cluster_is_no_problem():
    machine = replace(GOOD, port_owner="another program", own_cluster=True)
    assert levels(machine, "warn") == []


def test_everything_is_told_at_once_within_80_columns():
    machine = replace(GOOD, python=(3, 9, 0), remote=True, file_system="nfs4", redis="", root=True)
    text = report(examine(machine), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[:2] == [
        "FAIL  Python          3.9.0",
        "                      fix: install Python 3.11 or newer",
    ]
    assert text.splitlines()[-1] == "2 things to mend first (2 warnings)"


def test_the_good_end():
    assert report(examine(GOOD), width=80).splitlines()[-1] == "a cluster can run here: muster up"


def test_facts_of_this_machine_are_learned_without_leaving_anything(tmp_path):
    folder = tmp_path / "not" / "there"
    machine = look(folder, 1)
    assert machine.folder_problem == ""
    assert not folder.exists()
    assert machine.free_disk
    assert machine.free_memory
    assert machine.ephemeral
    assert machine.boottime
    assert machine.newest_file is None
    assert machine.loopback_problem == ""


def test_a_file_in_the_way_of_the_data_directory_is_a_problem(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is no folder" in look(tmp_path / "file" / "data", 1).folder_problem


def test_a_port_that_is_taken_is_seen_and_whether_by_the_own_cluster(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert look(tmp_path, port).port_owner == "another program"
        (tmp_path / "up.json").write_text(json.dumps({"port": port}))
        assert look(tmp_path, port).own_cluster


def test_a_clock_that_went_back_is_told_by_how_much():
    clock = next(one for one in examine(replace(GOOD, now=1_799_992_000.0)) if one.name == "clock")
    assert clock.found == "2027-01-15T05:46:40Z, 1h56m before the newest file of the data directory"


def test_the_command_exits_with_1_when_something_fails_and_speaks_json(muster, monkeypatch):
    monkeypatch.setattr("cli.verbs.doctor.look", lambda folder, port: replace(GOOD, open_files=10))
    done = muster("doctor", "-o", "json")
    assert done.code == 1
    answer = json.loads(done.out)
    assert answer["good"] is False
    assert {"name": "open files", "level": "FAIL", "found": "at most 10", "fix": "ulimit -n 4096"} in answer["findings"]
    assert muster("doctor", "-o", "name").out == "open files\n"
    monkeypatch.setattr("cli.verbs.doctor.look", lambda folder, port: GOOD)
    assert muster("doctor").code == 0
