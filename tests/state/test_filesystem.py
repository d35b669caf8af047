"""SQLite is refused where its files would be shared by machines."""

from pathlib import Path

import pytest

from controller.state import StoreError, open_store
from muster import filesystem
from muster.clock import ManualClock
from muster.filesystem import check_local_filesystem, is_network, mount_of

MOUNTS = """\
proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/local xfs rw 0 0
//nas/a\\040b /mnt/with\\040space cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
portal /run/user/0/doc fuse.portal rw 0 0
tmpfs /tmp tmpfs rw 0 0
overlay /tmp overlay rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/var/lib", "/", "ext4"),
        ("/home/ada/.muster", "/home", "nfs4"),
        ("/home", "/home", "nfs4"),
        ("/homestead", "/", "ext4"),
        ("/home/local/x", "/home/local", "xfs"),
        ("/mnt/with space/x", "/mnt/with space", "cifs"),
        ("/mnt/ssh/x", "/mnt/ssh", "fuse.sshfs"),
        ("/tmp/x", "/tmp", "overlay"),
    ],
)
def test_the_longest_and_latest_mount_holds_a_path(path: str, point: str, kind: str) -> None:
    assert mount_of(path, MOUNTS) == (point, kind)


def test_no_mounts_say_nothing() -> None:
    assert mount_of("/x", "") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "fuse.sshfs", "fuse.glusterfs"])
def test_network_file_systems(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.portal", "fuseblk"])
def test_local_file_systems(kind: str) -> None:
    assert not is_network(kind)


def test_a_store_on_a_network_file_system_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_local_filesystem(tmp_path) is None
    monkeypatch.setattr(filesystem, "mount_of", lambda path, mounts: ("/home", "nfs4"))
    with pytest.raises(StoreError, match=r"network file system .nfs4, mounted at /home.*PostgreSQL"):
        open_store(f"sqlite:///{tmp_path / 'x.db'}", clock=ManualClock(), new_id=str)
    assert list(tmp_path.iterdir()) == []
