"""Why a session with a worker cannot be."""


class Refusal(Exception):
    """`code` is for programs, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
