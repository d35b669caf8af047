"""The agent of one node: `muster-agent` or `python -m agents.main`, configured by the environment.

`muster-agent inspect` tells what the agent sees of its machine, and needs no configuration (agents/inspecting.py).
`muster-agent --devices auto|virtual:h100:8` has precedence over MUSTER_DEVICES: the devices of this machine, or virtual ones.

Exit status 0: told to end (its shims and their ranks go on). 2: wrong configuration. 3: another agent has this
folder.
"""

import asyncio
import fcntl
import logging
import os
import random
import signal
import sys
from contextlib import suppress

from agents import notify
from agents.config import AgentConfig, from_environment
from agents.devices import host, inventory
from agents.node import Node
from agents.runtime.children import Children
from agents.runtime.users import Users
from agents.shims import cgroup
from agents.sync import Sync
from agents.talk.sessions import Sessions
from muster.clock import SystemClock
from muster.protocol import Inventory

log = logging.getLogger("muster.agent")


def main() -> int:
    if sys.argv[1:2] == ["inspect"]:
        from agents.inspecting import main as inspect  # the daemon does not carry what it does not use

        return inspect(sys.argv[2:])
    environ = dict(os.environ)
    match sys.argv[1:]:
        case []:
            pass
        case ["--devices", wanted]:
            environ |= {"MUSTER_DEVICES": wanted, "MUSTER_VIRTUAL_DEVICES": ""}
        case words:
            sys.stderr.write(
                f"muster-agent: expected `inspect` or `--devices auto|virtual:TYPE:COUNT`, found {words}\n"
            )
            return 2
    try:
        config = from_environment(environ)
        level = logging.getLevelNamesMapping().get(config.log_level.upper(), logging.INFO)
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
        logging.getLogger("websockets").setLevel(logging.WARNING)
        have = inventory.take(config)
        config.directory.mkdir(parents=True, exist_ok=True, mode=0o711 if config.users else 0o700)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"muster-agent: {error}\n")
        return 2
    lock = os.open(config.directory / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"muster-agent: another agent (pid {_owner(lock)}) has {config.directory}\n")
        return 3
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    with suppress(asyncio.CancelledError):
        return asyncio.run(_serve(config, have))
    return 0


async def _serve(config: AgentConfig, have: Inventory) -> int:
    cgroup.settle()
    clock, children = SystemClock(), Children()
    children.start()
    try:
        node = Node(
            config,
            have,
            host.boot_id(config.virtual_boot),
            clock=clock,
            children=children,
            environ=dict(os.environ),
            users=Users(config.users),
        )
    except (ValueError, OSError) as error:
        sys.stderr.write(f"muster-agent: {error}\n")
        return 2
    node.adopt()
    await node.health.first_look()
    health = asyncio.create_task(node.health.run())
    sessions = Sessions(config, node.worker)
    sync = asyncio.create_task(Sync(config, node, sessions, clock=clock, randomness=random.Random()).run())
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, sync.cancel)
    log.info(
        "agent of node %s with %d devices in %s", config.node, len(node.health.inventory().devices), config.directory
    )
    watched = asyncio.create_task(notify.keep_telling())
    try:
        await sync
        return 0
    finally:
        notify.tell("STOPPING=1")
        watched.cancel()
        health.cancel()
        await sessions.close()
        await node.close()
        log.info("agent of node %s ends; ranks go on", config.node)


def _owner(lock: int) -> str:
    return os.pread(lock, 32, 0).decode(errors="replace") or "unknown"


if __name__ == "__main__":
    sys.exit(main())
