"""The API's settings: environment variables only, named in docs/architecture.md."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from controller import logs
from controller.logs import Format
from controller.state import retention
from controller.state.retention import Retention
from muster.protocol import Lease


class Settings(Struct, frozen=True, kw_only=True):
    """`log_store` is a folder, or a URL for fsspec. The three files are made at the first start when they are missing. Port 0: any free
    one. `url` is where the other API processes reach this one. `sessions` (exec, attach, port-forward) are open at once
    at most; one ends after `session_idle` seconds of silence."""

    database_url: str
    log_store: Path | str
    admin_token_file: Path
    agent_token_file: Path
    secret_file: Path
    redis_url: str | None = None
    lease: Lease = Lease()
    host: str = "127.0.0.1"
    port: int = 7070
    log_level: str = "info"
    log_format: Format = "text"
    url: str = ""
    retention: Retention = Retention()
    sessions: int = 256
    session_idle: float = 3600.0


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Raises ValueError naming every variable that is missing or wrong."""
    env = os.environ if environ is None else environ
    needed = {
        "MUSTER_DATABASE_URL": "e.g. sqlite:////var/lib/muster/muster.db",
        "MUSTER_LOG_STORE": "a folder for the jobs' logs, or a URL such as s3://bucket/logs",
        "MUSTER_ADMIN_TOKEN_FILE": "made when missing",
        "MUSTER_AGENT_TOKEN_FILE": "made when missing",
        "MUSTER_SECRET_FILE": "made when missing",
    }
    problems = [f"{name} is not set ({hint})" for name, hint in needed.items() if not env.get(name)]
    lease, port = Lease(), 7070
    try:
        lease = msgspec.json.decode(env["MUSTER_LEASE"], type=Lease) if env.get("MUSTER_LEASE") else lease
    except msgspec.MsgspecError as error:
        problems.append(f"MUSTER_LEASE: {error}")
    text = env.get("MUSTER_API_PORT") or "7070"
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        port = int(text)
    else:
        problems.append(f"MUSTER_API_PORT: expected a port from 0 to 65535, found {text!r}")
    form: Format = "text"
    try:
        form = logs.form(env)
    except ValueError as error:
        problems.append(str(error))
    sessions, idle = (
        _positive(env, "MUSTER_SESSIONS", 256, problems),
        _positive(env, "MUSTER_SESSION_IDLE", 3600, problems),
    )
    if (url := env.get("MUSTER_API_URL", "")) and not re.match(r"https?://[^\s/]+", url):
        problems.append(f"MUSTER_API_URL: expected http://HOST:PORT, found {url!r}")
    keep = Retention()
    try:
        keep = retention.parse(env.get("MUSTER_RETENTION"))
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise ValueError("; ".join(problems))
    return Settings(
        database_url=env["MUSTER_DATABASE_URL"],
        log_store=env["MUSTER_LOG_STORE"],
        retention=keep,
        admin_token_file=Path(env["MUSTER_ADMIN_TOKEN_FILE"]),
        agent_token_file=Path(env["MUSTER_AGENT_TOKEN_FILE"]),
        secret_file=Path(env["MUSTER_SECRET_FILE"]),
        redis_url=env.get("MUSTER_REDIS_URL") or None,
        lease=lease,
        host=env.get("MUSTER_API_HOST") or "127.0.0.1",
        port=port,
        log_level=env.get("MUSTER_LOG_LEVEL") or "info",
        log_format=form,
        url=url.rstrip("/"),
        sessions=sessions,
        session_idle=float(idle),
    )


def _positive(env: Mapping[str, str], name: str, default: int, problems: list[str]) -> int:
    text = env.get(name) or str(default)
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    problems.append(f"{name}: expected a whole number above 0, found {text!r}")
    return default
