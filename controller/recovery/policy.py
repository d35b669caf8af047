"""What each known kind of end leads to, as a table."""

import re
from typing import Final, Literal

from msgspec import Struct

from controller.recovery.signatures import Kind

Action = Literal["record", "fail", "hold", "retry", "restart", "replace", "previous_checkpoint"]


class Policy(Struct, frozen=True):
    """`action` the first time; `again` (when not empty) from the second time in a row without a new step on. `advice`
    is told with the action that ends the job. `innocent`: whatever it was, the node is not at fault."""

    action: Action
    again: Action | Literal[""] = ""
    advice: str = ""
    certainty: Literal["confirmed", "likely", "possible", ""] = ""
    innocent: bool = True


POLICIES: Final[dict[str, Policy]] = {
    Kind.DISK_FULL: Policy("hold", certainty="confirmed"),
    Kind.DEVICE: Policy("replace", innocent=False),
    Kind.HOST_FAULT: Policy("replace", innocent=False),
    Kind.NODE_SETUP: Policy("replace", innocent=False),
    Kind.SHARED_MEMORY: Policy("fail", advice="make /dev/shm larger, or use fewer loader processes"),
    Kind.ENGINE_DEAD: Policy("restart"),
    Kind.HOST_OOM: Policy("restart", "fail", "ask for more memory"),
    Kind.GPU_LEFTOVER: Policy("restart"),
    Kind.GPU_OOM: Policy("fail", advice="use a smaller batch or model, or a device with more memory"),
    Kind.PREEMPTED: Policy("restart"),
    Kind.PORT_IN_USE: Policy("retry"),
    Kind.CHECKPOINT_CORRUPT: Policy("previous_checkpoint"),
    Kind.WORLD_SIZE: Policy("fail", advice="resume with the world size that wrote it"),
    Kind.CHECKPOINT_MISMATCH: Policy("fail", advice="resume with the program and world size that wrote it"),
    Kind.STORAGE: Policy("restart", "hold"),
    Kind.LIMITS: Policy("fail", advice="raise the limit, or open fewer files and threads"),
    Kind.ACCESS: Policy("fail", advice="give the job a token or a path that it may use"),
    Kind.EXTERNAL: Policy("retry"),
    Kind.NAN: Policy("restart", innocent=False),
    Kind.DESYNC: Policy("fail"),
    Kind.START_TIMEOUT: Policy("restart", "fail", "raise the time that ranks wait for each other at the start"),
    Kind.CONTAINER_DEVICE: Policy("restart"),
    Kind.DEVICE_CODE: Policy("restart", innocent=False),
    Kind.CRASH: Policy("restart", innocent=False),
    Kind.USER_ERROR: Policy("fail", certainty="confirmed"),
}
"""Lost peers are no cause, so they are not here; nor is a network that is not set up: in a cluster that places again it may
be one machine's."""


def innocent(category: str) -> bool:
    """Whether an end of this category says that the node did nothing wrong."""
    return category in POLICIES and POLICIES[category].innocent


USAGE: Final = re.compile(r"^.*\berror: .*$|^usage: .*$", re.IGNORECASE | re.MULTILINE)


def exit_meaning(code: int | None, log: str) -> str | None:
    """What an exit code says by convention: 126 and 127 from shells and exec, 2 and 64 with a usage message from
    argument parsers (argparse, getopt, sysexits)."""
    if code == 126:
        return "the command cannot be executed"
    if code == 127:
        return "the command was not found"
    if code in (2, 64) and re.search(r"^\s*usage: ", log, re.IGNORECASE | re.MULTILINE):
        return "the program does not understand its arguments"
    return None
