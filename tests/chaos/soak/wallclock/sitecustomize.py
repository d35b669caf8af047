"""Loaded by every Python process of a soak at its start: its wall clock is as wrong as a file says."""

import os
import time

_true, _file = time.time, os.environ.get("MUSTER_SOAK_CLOCK", "")


def _wrong() -> float:
    try:
        with open(_file) as file:
            return _true() + float(file.read())
    except (OSError, ValueError):
        return _true()


if _file:
    time.time = _wrong
