"""Where the embedded cluster keeps its things, and what it says about itself in `up.json`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def default_folder() -> Path:
    """`MUSTER_DATA_DIR`, else `~/.muster`."""
    return Path(os.environ.get("MUSTER_DATA_DIR") or Path.home() / ".muster").absolute()


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the data directory (see docs/architecture.md)."""

    folder: Path

    @property
    def lock(self) -> Path:
        return self.folder / "up.lock"

    @property
    def state(self) -> Path:
        return self.folder / "up.json"

    @property
    def control(self) -> Path:
        return self.folder / "up.sock"

    @property
    def database(self) -> Path:
        return self.folder / "muster.db"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def agents(self) -> Path:
        return self.folder / "agents"

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def agent(self, node: str) -> Path:
        return self.agents / node

    def read_state(self) -> dict[str, Any] | None:
        """What the running `up` says of itself; None when there is nothing readable."""
        try:
            return dict(json.loads(self.state.read_text()))
        except (OSError, ValueError):
            return None

    def write_state(self, state: dict[str, Any]) -> None:
        """Replaced in one step: a reader sees the old or the new one, never half of it."""
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps(state, indent=1))
        new.chmod(0o600)
        new.replace(self.state)
