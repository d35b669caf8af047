"""The controller's settings: environment variables only, named in docs/architecture.md."""

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from controller import logs
from controller.acts import repair_policy
from controller.acts.repair_policy import RepairPolicy
from controller.logs import Format
from controller.state import retention
from controller.state.retention import Retention
from muster.protocol import Lease


class Settings(Struct, frozen=True, kw_only=True):
    """`leader_lease` in seconds. `executor` is agents or kubernetes. `metrics_port`: None serves none, 0 takes any free
    one."""

    database_url: str
    redis_url: str | None = None
    lease: Lease = Lease()
    leader_lease: float = 10.0
    executor: str = "agents"
    log_level: str = "info"
    log_format: Format = "text"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    retention: Retention = Retention()
    repair: RepairPolicy = RepairPolicy()
    decisions: str = ""
    """The folder where plans are recorded with their index; empty: they are not."""
    decisions_mib: int = 256
    """What they may take there, the oldest go first."""


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Raises ValueError naming the variable that is missing or wrong."""
    env = os.environ if environ is None else environ
    if not env.get("MUSTER_DATABASE_URL"):
        raise ValueError("MUSTER_DATABASE_URL is not set, e.g. sqlite:////var/lib/muster/muster.db")
    executor = env.get("MUSTER_EXECUTOR", "agents")
    if executor not in ("agents", "kubernetes"):
        raise ValueError(f"MUSTER_EXECUTOR: expected agents or kubernetes, found {executor!r}")
    try:
        lease = msgspec.json.decode(env["MUSTER_LEASE"], type=Lease) if env.get("MUSTER_LEASE") else Lease()
    except msgspec.MsgspecError as error:
        raise ValueError(f"MUSTER_LEASE: {error}") from None
    try:
        leader_lease = float(env.get("MUSTER_LEADER_LEASE", "10"))
    except ValueError:
        raise ValueError("MUSTER_LEADER_LEASE: expected seconds") from None
    port = env.get("MUSTER_METRICS_PORT") or None
    if port is not None and not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError(f"MUSTER_METRICS_PORT: expected a port from 0 to 65535, found {port!r}")
    return Settings(
        database_url=env["MUSTER_DATABASE_URL"],
        redis_url=env.get("MUSTER_REDIS_URL") or None,
        lease=lease,
        leader_lease=leader_lease,
        executor=executor,
        log_level=env.get("MUSTER_LOG_LEVEL", "info"),
        log_format=logs.form(env),
        metrics_host=env.get("MUSTER_METRICS_HOST") or "127.0.0.1",
        metrics_port=None if port is None else int(port),
        retention=retention.parse(env.get("MUSTER_RETENTION")),
        repair=repair_policy.from_environment(env),
        decisions=env.get("MUSTER_DECISIONS", ""),
        decisions_mib=_positive(env, "MUSTER_DECISIONS_MIB", 256),
    )


def _positive(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"{name}: expected a whole number above 0, found {text!r}")
    return int(text)
