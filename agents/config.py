"""The agent's settings: environment variables only, named in docs/architecture.md."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from agents.runtime.hooks import Hooks
from agents.runtime.users import parse as parse_users
from muster.quantity import parse_cpu, parse_memory

NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


class AgentConfig(Struct, frozen=True, kw_only=True):
    """`cpu_milli` in thousandths of a core and `memory` in bytes override what the machine has. `virtual_boot` is a
    suffix of the boot id, by which a virtual node can be rebooted. `health`: auto (virtual devices: only they), all,
    off. `kernel_log`: auto, kmsg, journal, dmesg, none, or a file's path. `plugins`: folder of a site's own checks."""

    server: str
    token_file: Path
    node: str
    directory: Path
    address: str = "127.0.0.1"
    virtual_devices: str = ""
    labels: dict[str, str] = {}
    cpu_milli: int | None = None
    memory: int | None = None
    virtual_boot: str = ""
    health: str = "auto"
    kernel_log: str = "auto"
    expected_devices: int | None = None
    plugins: str = ""
    users: dict[str, str] = {}
    engine: str = "auto"
    hooks: Hooks = Hooks()
    log_level: str = "info"

    @property
    def stream_url(self) -> str:
        return re.sub(r"^http", "ws", self.server.rstrip("/")) + "/agent/v1/stream"


def from_environment(environ: Mapping[str, str] | None = None) -> AgentConfig:
    """Raises ValueError that names every variable which is missing or wrong."""
    env = os.environ if environ is None else environ
    wrong: list[str] = []
    needed = {
        name: env.get(name, "") for name in ("MUSTER_SERVER", "MUSTER_TOKEN_FILE", "MUSTER_NODE", "MUSTER_AGENT_DIR")
    }
    wrong += [f"{name} is not set" for name, value in needed.items() if not value]
    if needed["MUSTER_SERVER"] and not re.match(r"https?://[^\s/]+", needed["MUSTER_SERVER"]):
        wrong.append(f"MUSTER_SERVER: expected http://HOST:PORT, found {needed['MUSTER_SERVER']!r}")
    if needed["MUSTER_NODE"] and not NODE_NAME.fullmatch(needed["MUSTER_NODE"]):
        wrong.append(f"MUSTER_NODE: expected lower-case letters, digits, '-' and '.', found {needed['MUSTER_NODE']!r}")
    labels = _labels(env.get("MUSTER_NODE_LABELS", ""), wrong)
    cpu = _quantity(env, "MUSTER_NODE_CPU", parse_cpu, wrong)
    memory = _quantity(env, "MUSTER_NODE_MEMORY", parse_memory, wrong)
    devices = _devices(env, wrong)
    health, kernel_log = env.get("MUSTER_HEALTH") or "auto", env.get("MUSTER_KERNEL_LOG") or "auto"
    users: dict[str, str] = {}
    try:
        users = parse_users(env.get("MUSTER_USERS", ""))
    except (ValueError, OSError) as error:
        wrong.append(f"MUSTER_USERS: {error}")
    hooks = _hooks(env, wrong)
    if health not in ("auto", "all", "off"):
        wrong.append(f"MUSTER_HEALTH: expected auto, all or off, found {health!r}")
    if kernel_log not in ("auto", "kmsg", "journal", "dmesg", "none") and "/" not in kernel_log:
        wrong.append(f"MUSTER_KERNEL_LOG: expected auto, kmsg, journal, dmesg, none or a path, found {kernel_log!r}")
    expected = env.get("MUSTER_EXPECTED_DEVICES", "")
    if expected and not expected.isdigit():
        wrong.append(f"MUSTER_EXPECTED_DEVICES: expected a number, found {expected!r}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return AgentConfig(
        server=needed["MUSTER_SERVER"],
        token_file=Path(needed["MUSTER_TOKEN_FILE"]),
        node=needed["MUSTER_NODE"],
        directory=Path(needed["MUSTER_AGENT_DIR"]).absolute(),
        address=env.get("MUSTER_NODE_ADDRESS") or "127.0.0.1",
        virtual_devices=devices,
        labels=labels,
        cpu_milli=cpu,
        memory=memory,
        virtual_boot=env.get("MUSTER_VIRTUAL_BOOT", ""),
        health=health,
        kernel_log=kernel_log,
        expected_devices=int(expected) if expected else None,
        plugins=env.get("MUSTER_HEALTH_PLUGINS", "/etc/muster/health.d"),
        users=users,
        hooks=hooks,
        engine=env.get("MUSTER_CONTAINER_ENGINE") or "auto",
        log_level=env.get("MUSTER_LOG_LEVEL", "info"),
    )


def _devices(env: Mapping[str, str], wrong: list[str]) -> str:
    """Of MUSTER_DEVICES (`auto`, or `virtual:h100:8`) and MUSTER_VIRTUAL_DEVICES, the older word for the second."""
    wanted, older = env.get("MUSTER_DEVICES", ""), env.get("MUSTER_VIRTUAL_DEVICES", "")
    if wanted in ("", "auto"):
        return older if not wanted else ""
    kind, _, rest = wanted.partition(":")
    if kind != "virtual" or not rest:
        wrong.append(f"MUSTER_DEVICES: expected auto or virtual:TYPE:COUNT such as virtual:h100:8, found {wanted!r}")
    return rest


def _hooks(env: Mapping[str, str], wrong: list[str]) -> Hooks:
    wrong += [
        f"{name}: expected the absolute path of a program, found {path!r}"
        for name in ("MUSTER_PROLOG", "MUSTER_EPILOG")
        if (path := env.get(name)) and not (path.startswith("/") and os.access(path, os.X_OK))
    ]
    text = env.get("MUSTER_HOOK_TIMEOUT") or "60"
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        wrong.append(f"MUSTER_HOOK_TIMEOUT: expected seconds above 0, found {text!r}")
        text = "60"
    return Hooks(prolog=env.get("MUSTER_PROLOG", ""), epilog=env.get("MUSTER_EPILOG", ""), timeout=float(text))


def _labels(text: str, wrong: list[str]) -> dict[str, str]:
    labels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name:
            wrong.append(f"MUSTER_NODE_LABELS: expected NAME=VALUE, found {part!r}")
        labels[name.strip()] = value.strip()
    return labels


def _quantity(env: Mapping[str, str], name: str, parse: Callable[[str], int], wrong: list[str]) -> int | None:
    if not env.get(name):
        return None
    try:
        return parse(env[name])
    except ValueError as error:
        wrong.append(f"{name}: {error}, found {env[name]!r}")
        return None
