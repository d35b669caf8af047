"""Problem documents (RFC 9457) and the single errors inside them.

Each error says where (`spec.accelerators[0].count`), what was found, what is allowed, and what was
probably meant.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with a request. `code` is for machines, `message` for people."""

    field: str
    message: str
    code: str = "INVALID"
    found: Any = None
    allowed: tuple[str, ...] = ()
    suggestion: str | None = None

    def wire(self) -> dict[str, Any]:
        out: dict[str, Any] = {"field": self.field, "code": self.code, "message": self.message}
        if self.found is not None:
            out["found"] = self.found
        if self.allowed:
            out["allowed"] = list(self.allowed)
        if self.suggestion:
            out["suggestion"] = self.suggestion
        return out

    def sentence(self) -> str:
        text = f"{self.field}: {self.message}" if self.field else self.message
        if self.found is not None:
            text += f" (found {self.found!r})"
        if self.suggestion:
            text += f'; did you mean "{self.suggestion}"?'
        elif self.allowed and len(self.allowed) <= 12:
            text += "; allowed: " + ", ".join(self.allowed)
        return text


@dataclass(slots=True, eq=False)
class Problem(Exception):
    """A refusal. `status` is the HTTP status, `code` the machine code, `errors` the single findings. Not frozen:
    context managers set the traceback of the exceptions that pass them."""

    status: int
    code: str
    title: str
    detail: str = ""
    errors: tuple[FieldError, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        return {
            "type": f"https://muster.dev/problems/{self.code.lower().replace('_', '-')}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail or "; ".join(error.sentence() for error in self.errors),
            "errors": [error.wire() for error in self.errors],
            **self.extra,
        }

    def __str__(self) -> str:
        return self.detail or self.title


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that was probably meant, or None when nothing is close."""
    by_lower = {name.lower(): name for name in allowed}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
