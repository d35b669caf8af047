"""torchrun's closing words: which of its ranks ended how.

    Failures:
    [1]:
      time      : 2026-12-01_01:51:05
      host      : localhost
      rank      : 0 (local_rank: 0)
      exitcode  : -15 (pid: 22228)  (SIGTERM)
      error_file: <N/A>
      traceback : Signal 15 (SIGTERM) received by PID 22228
    -------------------------------------------------------
    Root Cause (first observed failure):
    [0]:
      time      : ...

(torch.distributed.elastic.multiprocessing.errors, PyTorch 2.13.) The times are local, without a zone, and whole
seconds, so they are not read; the root cause comes last and is the first that the launcher saw. A launcher that was
stopped in the middle leaves only its line of the log: "failed (exitcode: -9) local_rank: 1 (pid: 22230) of binary".
"""

import re

from msgspec import Struct

_START = re.compile(r"^\[\d+\]:\s*$")
_FIELD = re.compile(r"^\s+(rank|exitcode|error_file|traceback)\s*: (.*)$")
_ROOT = "Root Cause (first observed failure):"
_LINE = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: \d+\)")
_RULE = re.compile(r"^[-=]{20,}$")


class Failure(Struct, frozen=True):
    """One rank in the summary. `code` is negative for a signal."""

    rank: int
    code: int
    root: bool
    traceback: str = ""


def failures(log: str, first_rank: int) -> list[Failure]:
    """The root cause first, the others in the order in which they are named; empty when torchrun says nothing.
    `first_rank` is the global rank of its first process."""
    head, found, tail = log.rpartition(_ROOT)
    if not found:
        lines = [Failure(first_rank + int(line[2]), int(line[1]), True) for line in _LINE.finditer(log)]
        return lines[-1:]
    start = head.rfind("\nFailures:")
    if start < 0:
        start = head.rfind("\nOther Failures:")
    return [*_blocks(tail, root=True)[:1], *(_blocks(head[start:], root=False) if start >= 0 else [])]


def _blocks(text: str, *, root: bool) -> list[Failure]:
    found: list[Failure] = []
    fields: dict[str, list[str]] = {}
    last: list[str] = []
    for line in [*text.splitlines(), "[0]:"]:
        if _START.match(line):
            if failure := _failure(fields, root):
                found.append(failure)
            fields, last = {}, []
        elif field := _FIELD.match(line):
            last = fields.setdefault(field[1], [])
            last.append(field[2])
        elif not _RULE.match(line):
            last.append(line)
    return found


def _failure(fields: dict[str, list[str]], root: bool) -> Failure | None:
    numbers = [re.match(r"-?\d+", fields[name][0]) if name in fields else None for name in ("rank", "exitcode")]
    if numbers[0] is None or numbers[1] is None:
        return None
    return Failure(int(numbers[0][0]), int(numbers[1][0]), root, "\n".join(fields.get("traceback", ())))
