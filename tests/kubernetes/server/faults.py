"""Faults on demand: refusals, slow answers, answers that are lost after the work is done, watches that end."""

import re
import threading
from dataclasses import dataclass
from typing import Any


@dataclass
class Fault:
    """Hits `times` requests that match, after letting `skip` through. `code` 0 drops the connection instead of an
    answer; `after`: the request is carried out all the same."""

    method: str
    path: re.Pattern[str]
    code: int = 500
    message: str = "as the test wished"
    reason: str = ""
    retry_after: int | None = None
    after: bool = False
    seconds: float = 0.0
    skip: int = 0
    times: int = 1


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, **told: Any) -> None:
        path = re.compile(str(told.pop("path", "")))
        with self._lock:
            self._faults.append(Fault(method=told.pop("method", ""), path=path, **told))

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def hit(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times and fault.method in ("", method) and fault.path.search(path):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None
