"""`muster lab`: break the embedded cluster on purpose, and mend it."""

from pathlib import Path
from typing import Any

import click

from cli.errors import Exit, Failure
from cli.group import Suggesting
from cli.output import Column, say, table
from cli.up.control import NotRunning, Refused, ask
from cli.up.layout import Layout, default_folder
from muster import faults


@click.group(cls=Suggesting, no_args_is_help=True)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Of the cluster (MUSTER_DATA_DIR, else ~/.muster).")
@click.pass_context
def lab(ctx: click.Context, data_dir: Path | None) -> None:
    """Break the embedded cluster on purpose."""
    ctx.obj = data_dir.absolute() if data_dir else default_folder()


@lab.command()
@click.pass_obj
def status(folder: Path) -> None:
    """The processes of the cluster."""
    state = _ask(folder, do="status")
    say(f"{state['url']}, {'ready' if state['ready'] else 'starting'}, pid {state['pid']}")
    rows = [{"name": name, **process} for name, process in state["processes"].items()]
    columns = [
        Column("PROCESS", lambda one: one["name"]),
        Column("PID", lambda one: one["pid"]),
        Column("RESTARTS", lambda one: one["restarts"]),
        Column("STATE", lambda one: "lost" if one["off"] else "running" if one["pid"] else "restarting"),
    ]
    say(table(columns, rows))


@lab.command()
@click.argument("node")
@click.pass_obj
def lose(folder: Path, node: str) -> None:
    """A node loses its power: agent, shims and ranks die at once and nothing starts again."""
    killed = _ask(folder, do="lose", node=node)["killed"]
    say(f"{node} is lost: {len(killed)} processes killed; `muster lab return {node}` brings it back")


@lab.command("return")
@click.argument("node")
@click.pass_obj
def give_back(folder: Path, node: str) -> None:
    """A lost node comes back."""
    _ask(folder, do="return", node=node)
    say(f"{node} starts again")


@lab.command()
@click.argument("node")
@click.argument("kind", type=click.Choice(("xid", "kernel", *faults.DEVICE_KINDS, *faults.PORT_KINDS)))
@click.argument("text", required=False)
@click.option("--device", type=click.IntRange(0), default=0, show_default=True, help="Index of the virtual device.")
@click.option(
    "--port", default="mlx5_0", show_default=True, help="Name of the RDMA port, for port-down, port-flapping."
)
@click.pass_obj
def fault(folder: Path, node: str, kind: str, text: str | None, device: int, port: str) -> None:
    """Break a virtual device. TEXT is the number of an xid, or the line that the kernel says.

    \b
    muster lab fault node-1 xid 79 --device 3
    muster lab fault node-1 ecc --device 3
    muster lab fault node-1 kernel "EXT4-fs (sda1): Remounting filesystem read-only"
    """
    home = _agent_folder(folder, node)
    if kind == "xid":
        if not text or not text.isdigit():
            raise click.UsageError(f"expected the number of an xid, found {text!r}")
        about = _XID_WORDS.get(text, "injected")
        address = faults.virtual_bus(device).rpartition(".")[0]
        faults.say(home, f"NVRM: Xid (PCI:{address}): {text}, pid='<unknown>', name=<unknown>, {about}")
    elif kind == "kernel":
        if not text:
            raise click.UsageError("expected the line that the kernel says")
        faults.say(home, text)
    else:
        now = faults.read(home)
        if kind in faults.PORT_KINDS:
            now.ports[port] = kind
        else:
            now.devices[str(device)] = sorted({*now.devices.get(str(device), []), kind})
        faults.write(home, now)
    say(f"{node} has it; `muster describe node {node}` shows what is made of it, `muster lab heal {node}` mends it")


_XID_WORDS = {
    "48": "An uncorrectable double bit error (DBE) has been detected on GPU",
    "74": "NVLink: fatal error detected on link 2",
    "79": "GPU has fallen off the bus.",
    "94": "Contained: SM. RST: No, D-RST: No",
    "95": "Uncontained: LTC TAG. RST: Yes, D-RST: No",
}


@lab.command()
@click.argument("node")
@click.option("--device", type=click.IntRange(0), help="Only this one; all by default.")
@click.pass_obj
def heal(folder: Path, node: str, device: int | None) -> None:
    """Mend virtual devices. What the kernel has said stays said until a reset, a reboot or a check."""
    faults.mend(_agent_folder(folder, node), None if device is None else (device,))
    say(f"{node} is mended")


def _agent_folder(folder: Path, node: str) -> Path:
    """Of a node of the running cluster."""
    nodes = sorted(name.removeprefix("agent-") for name in _ask(folder, do="status")["processes"] if "agent-" in name)
    if node not in nodes:
        raise Failure(f"there is no node {node}; nodes: {', '.join(nodes)}", code=Exit.REFUSED)
    return Layout(folder).agent(node)


def _ask(folder: Path, **request: Any) -> dict[str, Any]:
    try:
        return ask(folder, **request)
    except NotRunning as error:
        raise Failure(str(error), code=Exit.UNREACHABLE, hint="start one with `muster up`") from None
    except Refused as error:
        raise Failure(str(error), code=Exit.REFUSED) from None
    except (OSError, ValueError) as error:
        raise Failure(f"the cluster in {folder} does not answer: {error}", code=Exit.UNREACHABLE) from None
