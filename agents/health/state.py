"""What health must remember over the agent's own end: one file, replaced in one step, so that what was read and what
follows from it are never apart."""

import logging
from pathlib import Path
from typing import Any

import msgspec

from agents.devices.known import Known
from agents.runtime.folder import replace
from muster.conditions import Condition
from muster.protocol import Device, Nic, TaskResult

log = logging.getLogger("muster.agent")


class Remembered(msgspec.Struct, kw_only=True):
    """`cursor`: how far the kernel's log of the boot `boot_id` was read; None: never. `results`: of tasks that the
    controller may still ask for, by uid; a task with an empty result was begun and is not known to have ended."""

    boot_id: str = ""
    cursor: str | None = None
    latched: tuple[Condition, ...] = ()
    known: tuple[Known, ...] = ()
    devices: tuple[Device, ...] = ()
    nics: tuple[Nic, ...] = ()
    """As last offered: what an agent that starts again says until it has looked."""
    results: dict[str, TaskResult] = {}
    memory: dict[str, dict[str, Any]] = {}


def load(path: Path) -> Remembered:
    """A damaged file is worth a word and no more: the checks find again what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Remembered)
    except FileNotFoundError:
        return Remembered()
    except (OSError, ValueError) as error:
        log.warning("%s cannot be used (%s): beginning anew", path, error)
        return Remembered(cursor="")


def save(path: Path, what: Remembered) -> None:
    """Raises OSError."""
    replace(path, msgspec.json.encode(what), durable=False)
