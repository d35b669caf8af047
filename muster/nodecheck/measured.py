"""One measurement, and how it is told: a line of the report file, a line for people."""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measured:
    """`value` in `unit`; `ok` is False where a result was wrong, whatever its speed. `peer` is the other node."""

    name: str
    value: float
    unit: str
    ok: bool = True
    device: int | None = None
    peer: str = ""
    message: str = ""


def tell(one: Measured, rank: int) -> None:
    """Raises OSError when the report cannot be written: a check that cannot tell is none."""
    facts = {key: value for key, value in asdict(one).items() if value not in (None, "")}
    where = f" device {one.device}" if one.device is not None else f" with {one.peer}" if one.peer else ""
    wrong = "" if one.ok else f"  WRONG: {one.message}"
    sys.stdout.write(f"{one.name}{where}: {one.value:.4g} {one.unit}{wrong}\n")
    sys.stdout.flush()
    path = os.environ.get("MUSTER_REPORT")
    if path:
        line = json.dumps({"time": time.time(), "rank": rank, "measurement": facts})
        with open(path, "a") as file:
            file.write(line + "\n")
