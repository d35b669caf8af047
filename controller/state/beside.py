"""What the row of a job has beside its record: out of the spec, to select by and to exclude each other by."""

import posixpath
from typing import Any


def beside(spec: dict[str, Any]) -> dict[str, str | None]:
    return {"queue": str(spec.get("queue") or "default"), "directory": checkpoint_directory(spec)}


def checkpoint_directory(spec: dict[str, Any]) -> str | None:
    """Of the spec's wire form, normalised; None when there is none, or it is private to each worker."""
    path: str | None = (spec.get("checkpoint") or {}).get("directory")
    if not path or not path.startswith("/"):
        return None
    return "/" + posixpath.normpath(path).lstrip("/")
