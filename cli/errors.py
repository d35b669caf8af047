"""What a command ends with when it cannot do what was asked."""

from collections.abc import Sequence
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, told in `muster --help`."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    TIMEOUT = 124
    INTERRUPTED = 130


class Failure(Exception):
    """Told on standard error as `error: message`, one indented line for each of `details`, and `hint: ...`."""

    def __init__(
        self, message: str, *, code: Exit = Exit.ERROR, hint: str | None = None, details: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.hint, self.details = message, code, hint, tuple(details)

    def lines(self) -> list[str]:
        told = [f"error: {self.message}", *(f"  {line}" for line in self.details)]
        return [*told, f"hint: {self.hint}"] if self.hint else told


def suggestion(word: str, known: Sequence[str]) -> str | None:
    """`did you mean "jobs"?`, or None when nothing is close."""
    from muster.problems import nearest

    meant = nearest(word, known)
    return f'did you mean "{meant}"?' if meant else None
