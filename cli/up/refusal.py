"""Why a cluster cannot be started here."""

from collections.abc import Sequence

from cli.errors import Exit, Failure


class CannotStart(Failure):
    """The cluster cannot come up; the hint says what to do."""

    def __init__(self, message: str, *, hint: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(message, code=Exit.ERROR, hint=hint, details=details)
