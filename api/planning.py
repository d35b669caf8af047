"""Asks the planner about the live cluster, in a process of its own (`controller.whatif`): however long it thinks, no
other request waits."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from muster.problems import FieldError, Problem

SECONDS: Final = 120.0
"""After which an answer is given up."""
AT_ONCE: Final = 2
LINE: Final = 20.0
"""Seconds that a question waits for its turn."""

_turns = threading.BoundedSemaphore(AT_ONCE)


def ask(database_url: str, question: Mapping[str, Any]) -> Any:
    """The answer, decoded. Raises Problem: 422 with what does not fit the cluster, 503 when there is no answer."""
    if not _turns.acquire(timeout=LINE):
        raise _unavailable(f"{AT_ONCE} other questions are being thought about; ask again in a moment")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "controller.whatif"],
            env={**os.environ, "MUSTER_DATABASE_URL": database_url},
            input=msgspec.json.encode(question),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(f"the planner found no answer within {SECONDS:g} s") from None
    except OSError as error:
        raise _unavailable(f"no process can be started: {error.strerror or error}") from None
    finally:
        _turns.release()
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unavailable(words[-1].removeprefix("error: ") if words else f"it ended with {done.returncode}")
    answer = msgspec.json.decode(done.stdout)
    if errors := answer.get("errors"):
        found = tuple(FieldError(**{**one, "allowed": tuple(one["allowed"])}) for one in errors)
        raise Problem(422, "INVALID", "The change does not fit the cluster", errors=found)
    return answer


def _unavailable(detail: str) -> Problem:
    return Problem(503, "UNAVAILABLE", "The planner cannot answer", detail)
