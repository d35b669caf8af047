"""What goes over the WebSocket of a session with a worker: binary frames whose first byte is a channel.

Numbers and the closing of one channel are those of Kubernetes' `v5.channel.k8s.io`. Towards the worker: STDIN,
RESIZE ({"Width", "Height"} in characters), CLOSE + a channel that has ended. From the worker: STDOUT, STDERR, CLOSE,
and last of all STATUS, a JSON object with `exitCode` or `signal`, or with `code` and `message` when there was nothing
to end: e.g. NO_SUCH_COMMAND, PORT_CLOSED, IDLE, ENDED. A forwarded port uses STDIN and STDOUT for the two directions.
"""

import json
from typing import Any, Final

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
STATUS: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255

PIECE: Final = 32 * 1024
"""Bytes in one frame at most, as we send them."""


def frame(channel: int, data: bytes = b"") -> bytes:
    return bytes((channel,)) + data


def split(message: bytes | str) -> tuple[int, bytes]:
    """Channel and content. Raises ValueError for what is no such frame."""
    if isinstance(message, str) or not message:
        raise ValueError("expected a binary frame that begins with its channel")
    return message[0], message[1:]


def close(channel: int) -> bytes:
    return bytes((CLOSE, channel))


def resize(columns: int, rows: int) -> bytes:
    return frame(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())


def status(**fields: Any) -> bytes:
    return frame(STATUS, json.dumps(fields).encode())


def read_json(data: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object")
    return found
