"""As which Unix user a namespace's workers run on this node: MUSTER_USERS, a JSON object.

    {"research": "alice", "vision": "bob:render,video", "*": "muster"}

The user's own groups, and those behind the colon; `*` is every namespace that is not named. Never root.
"""

import grp
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

OTHERS: Final = "*"


class User(Struct, frozen=True, kw_only=True):
    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    shell: str

    def environment(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}

    def credentials(self) -> dict[str, object]:
        """For the shim."""
        return {"uid": self.uid, "gid": self.gid, "groups": self.groups}

    def own(self, *paths: Path) -> None:
        """Raises OSError."""
        for path in paths:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def parse(text: str) -> dict[str, str]:
    """MUSTER_USERS or the file that it names. Raises ValueError, OSError."""
    if not text:
        return {}
    if text.startswith("/"):
        text = Path(text).read_text()
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise ValueError(f'expected an object such as {{"research": "alice", "*": "muster"}}: {error}') from None


class Users:
    """`mapping` is empty where everything runs as the agent's own user."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        """Raises ValueError when a user or group is not there, or is root, or this agent may not change users."""
        if mapping and os.geteuid() != 0:
            raise ValueError("only an agent that runs as root can run workers as other users")
        self._users = {namespace: _user(text) for namespace, text in mapping.items()}

    def of(self, namespace: str) -> User | None:
        """None: the agent's own. Raises LookupError when this namespace has no user here."""
        if not self._users:
            return None
        found = self._users.get(namespace) or self._users.get(OTHERS)
        if found is None:
            raise LookupError(f"namespace {namespace} has no Unix user on this node (MUSTER_USERS)")
        return found

    def apart(self, one: str, other: str) -> bool:
        """Whether the kernel keeps workers of these namespaces from each other. Where everything runs as the agent's own
        user nobody claims that it does."""
        if one == other or not self._users:
            return True
        try:
            first, second = self.of(one), self.of(other)
        except LookupError:
            return True
        return first is None or second is None or first.uid != second.uid


def _user(text: str) -> User:
    name, _, more = text.partition(":")
    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no user {name!r}") from None
    if found.pw_uid == 0:
        raise ValueError("workers never run as root")
    groups = set(os.getgrouplist(found.pw_name, found.pw_gid))
    for group in filter(None, more.split(",")):
        try:
            groups.add(int(group) if group.isdigit() else grp.getgrnam(group).gr_gid)
        except KeyError:
            raise ValueError(f"there is no group {group!r}") from None
    if 0 in groups:
        raise ValueError(f"user {name} may not bring the group of root")
    return User(
        uid=found.pw_uid,
        gid=found.pw_gid,
        groups=tuple(sorted(groups)),
        name=found.pw_name,
        home=found.pw_dir,
        shell=found.pw_shell or "/bin/sh",
    )
