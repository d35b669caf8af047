"""Clusters by name: a file of contexts, each a server, a token and a namespace. Standard library only.

The file is MUSTER_CONFIG, else ~/.config/muster/config.json (XDG_CONFIG_HOME): `{"current": NAME, "contexts": {NAME:
{"server": URL, "token": TEXT or "tokenFile": PATH, "namespace": NAME}}}`, mode 0600.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from muster.transport import NoCluster


class Context(NamedTuple):
    name: str
    server: str
    secret: str = ""
    token_file: str = ""
    namespace: str = "default"

    def token(self) -> str:
        """Raises NoCluster."""
        if self.secret:
            return self.secret
        try:
            return Path(self.token_file).expanduser().read_text().strip()
        except OSError as error:
            raise NoCluster(f"context {self.name}: {self.token_file or 'no token'}: {error.strerror}") from error


def file_of(env: Mapping[str, str]) -> Path:
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "~").expanduser() / ".config")
    return Path(env.get("MUSTER_CONFIG") or home / "muster" / "config.json")


def read(env: Mapping[str, str]) -> tuple[str, dict[str, Context]]:
    """(the current one, all of them); nothing where there is no file. Raises NoCluster for a file that is none."""
    path = file_of(env)
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        contexts = {
            str(name): Context(
                str(name),
                str(one["server"]),
                str(one.get("token") or ""),
                str(one.get("tokenFile") or ""),
                str(one.get("namespace") or "default"),
            )
            for name, one in found.get("contexts", {}).items()
        }
        return str(found.get("current") or ""), contexts
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoCluster(f"{path} cannot be used: {error!r}") from error


def write(env: Mapping[str, str], current: str, contexts: Mapping[str, Context]) -> None:
    """Complete or not at all, readable to its owner only. Raises OSError."""
    path = file_of(env)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    body: dict[str, Any] = {"current": current, "contexts": {}}
    for one in contexts.values():
        fields = {"server": one.server, "token": one.secret, "tokenFile": one.token_file, "namespace": one.namespace}
        body["contexts"][one.name] = {key: value for key, value in fields.items() if value}
    descriptor, draft = tempfile.mkstemp(prefix=".config.", dir=path.parent)
    with open(descriptor, "w") as file:
        json.dump(body, file, indent=1)
        file.write("\n")
    os.replace(draft, path)


def chosen(env: Mapping[str, str], *, strict: bool = True) -> Context | None:
    """MUSTER_CONTEXT, else the current one. Raises NoCluster when the one that was asked for is not there."""
    try:
        current, contexts = read(env)
    except NoCluster:
        if strict:
            raise
        return None
    name = env.get("MUSTER_CONTEXT") or current
    if name and name not in contexts and strict:
        raise NoCluster(f"there is no context {name!r} in {file_of(env)} (known: {', '.join(contexts) or 'none'})")
    return contexts.get(name)
