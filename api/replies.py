"""What leaves: JSON made by msgspec."""

from typing import Any

import msgspec
from starlette.responses import Response


def reply(value: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(msgspec.json.encode(value), status, named, "application/json")
