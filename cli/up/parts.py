"""The processes of an embedded cluster, as data: the very processes of production, with their environment."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cli.up.layout import Layout

LEASE: Final = {"renew": 0.5, "unknown": 2.0, "fence": 5.0, "margin": 1.0}
LEADER_LEASE: Final = 2.0
BLOCK: Final = "b0"
PASSED: Final = ("MUSTER_DECISIONS", "MUSTER_DECISIONS_MIB")
"""Settings of the one who starts the cluster that its servers are given."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process. `stdin` is written to it once. `restart_after` in seconds doubles up to a limit while it keeps
    dying at once. `after` names the part that must work before this one is started the first time: on few cores,
    who is waited for should not share them with who waits."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    restart_after: float = 0.2
    node: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What `up` was asked for."""

    layout: Layout
    host: str
    port: int
    agents: int
    devices: str
    nodes_per_leaf: int
    redis_binary: Path | None
    redis_port: int
    redis_password: str
    repair: str = ""

    @property
    def connect_host(self) -> str:
        """Where this machine finds what listens on every address."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host

    @property
    def url(self) -> str:
        return f"http://{self.connect_host}:{self.port}"

    @property
    def redis_url(self) -> str:
        return f"redis://:{self.redis_password}@127.0.0.1:{self.redis_port}/0" if self.redis_binary else ""

    def nodes(self) -> list[str]:
        return [f"node-{index}" for index in range(self.agents)]


def parts(plan: Plan) -> list[Part]:
    """All processes, in the order in which they are started."""
    servers = _server_environment(plan)
    made = []
    if plan.redis_binary:
        made.append(Part("redis", (str(plan.redis_binary), "-"), stdin=_redis_config(plan)))
    made.append(Part("api", _module("api.main"), servers))
    made.append(Part("controller", _module("controller.main"), servers))
    if plan.redis_binary:
        made.append(Part("worker", _module("controller.tasks.main"), servers, after="api"))
    return made + [_agent(plan, index, node) for index, node in enumerate(plan.nodes())]


def _module(name: str) -> tuple[str, ...]:
    """-P: a folder named like one of ours in the user's working directory is not ours."""
    return (sys.executable, "-P", "-m", name)


def _server_environment(plan: Plan) -> dict[str, str]:
    folder = plan.layout.folder
    recorded = {name: os.environ[name] for name in PASSED if name in os.environ}
    return recorded | {
        "MUSTER_DATABASE_URL": f"sqlite:///{plan.layout.database}",
        "MUSTER_REDIS_URL": plan.redis_url,
        "MUSTER_LOG_STORE": str(folder / "logs"),
        "MUSTER_LEASE": json.dumps(LEASE),
        "MUSTER_LEADER_LEASE": str(LEADER_LEASE),
        "MUSTER_API_HOST": plan.host,
        "MUSTER_API_PORT": str(plan.port),
        "MUSTER_ADMIN_TOKEN_FILE": str(plan.layout.token),
        "MUSTER_AGENT_TOKEN_FILE": str(folder / "agent-token"),
        "MUSTER_SECRET_FILE": str(folder / "secret"),
        **({"MUSTER_REPAIR": plan.repair} if plan.repair else {}),
    }


def _agent(plan: Plan, index: int, node: str) -> Part:
    """PATH: what `python` means to a job is first of all the interpreter that this cluster runs on."""
    leaf = f"{BLOCK}-l{index // plan.nodes_per_leaf}"
    env = {
        "MUSTER_SERVER": plan.url,
        "MUSTER_TOKEN_FILE": str(plan.layout.folder / "agent-token"),
        "MUSTER_NODE": node,
        "MUSTER_AGENT_DIR": str(plan.layout.agent(node)),
        **({"MUSTER_DEVICES": "auto"} if plan.devices == "auto" else {"MUSTER_VIRTUAL_DEVICES": plan.devices}),
        "MUSTER_VIRTUAL_BOOT": node,
        "MUSTER_NODE_LABELS": f"muster.dev/block={BLOCK},muster.dev/leaf={leaf}",
        "MUSTER_NODE_ADDRESS": "127.0.0.1",
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }
    return Part(f"agent-{node}", _module("agents.main"), env, node=node, after="api")


def _redis_config(plan: Plan) -> str:
    """Hints and a broker: nothing in it is worth a disk. By standard input, so that the password is on no command line."""
    return "\n".join(
        (
            "bind 127.0.0.1",
            f"port {plan.redis_port}",
            f"requirepass {plan.redis_password}",
            f"dir {plan.layout.folder}",
            'save ""',
            "appendonly no",
            "daemonize no",
            "",
        )
    )
