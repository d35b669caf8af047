"""Which cluster a command talks to."""

import os
from dataclasses import dataclass
from pathlib import Path

from cli.errors import Exit, Failure
from cli.up.layout import Layout, default_folder


@dataclass(frozen=True, slots=True)
class Place:
    """Where the API is and with which token it is asked."""

    url: str
    token: str


def find() -> Place:
    """`MUSTER_SERVER` with its token, else the embedded cluster of the data directory. Raises Failure."""
    url = os.environ.get("MUSTER_SERVER")
    if url:
        if not url.startswith(("http://", "https://")):
            raise Failure(f"MUSTER_SERVER is {url!r}", hint="write it as http://HOST:PORT", code=Exit.USAGE)
        return Place(url.rstrip("/"), _given_token() or "")
    layout = Layout(default_folder())
    state = layout.read_state()
    if state is None or not isinstance(state.get("url"), str):
        raise Failure(
            f"no cluster is running in {layout.folder}",
            code=Exit.UNREACHABLE,
            hint="start one with `muster up`, or name one with MUSTER_DATA_DIR or MUSTER_SERVER",
        )
    return Place(state["url"], _given_token() or _read(layout.token))


def _given_token() -> str | None:
    if token := os.environ.get("MUSTER_TOKEN"):
        return token.strip()
    path = os.environ.get("MUSTER_TOKEN_FILE")
    return _read(Path(path)) if path else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Failure(f"the token cannot be read from {path}: {error.strerror}", code=Exit.UNREACHABLE) from None
    except UnicodeDecodeError:
        raise Failure(f"{path} holds no token", code=Exit.UNREACHABLE) from None
