"""Quantities as people write them: CPU ("96", "500m"), memory ("1Ti", "64G"), durations ("12h", "1h30m"), shares ("5%").

Units follow the Kubernetes quantity and Go duration notations; internally CPU is in thousandths of a
core, memory in bytes, durations in seconds. Every parser raises ValueError with what is allowed.
"""

import math
import re
from decimal import Decimal
from typing import Final

MEMORY_UNITS: Final = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip
DURATION_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

MAX_CPU_MILLI: Final = 10**9
MAX_MEMORY: Final = 2**60

_CPU = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m?)")
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


def parse_cpu(text: str | float) -> int:
    """Thousandths of a core. `"96"` is 96000, `"500m"` is 500."""
    match = _CPU.fullmatch(str(text).strip())
    if not match:
        raise ValueError('expected cores such as "8", "0.5" or "500m"')
    value = Decimal(match[1]) * (1 if match[2] else 1000)
    if value != int(value):
        raise ValueError("expected a whole number of thousandths of a core")
    if value > MAX_CPU_MILLI:
        raise ValueError("expected at most a million cores")
    return int(value)


def parse_memory(text: str | float) -> int:
    """Bytes. `"1Ti"` is 2**40, `"1T"` is 10**12."""
    match = _MEMORY.fullmatch(str(text).strip())
    if not match or match[2] not in MEMORY_UNITS:
        raise ValueError('expected bytes such as "512Mi", "64Gi", "1Ti" or "64G"')
    size = int(Decimal(match[1]) * MEMORY_UNITS[match[2]])
    if size > MAX_MEMORY:
        raise ValueError("expected bytes, at most 1024Pi")
    return size


def parse_duration(text: str | float) -> float:
    """Seconds. A bare number is seconds; `"1h30m"` is 5400."""
    if isinstance(text, int | float):
        if not math.isfinite(text):
            raise ValueError('expected a duration such as "30s", "12h" or "1h30m"')
        return float(text)
    text = text.strip()
    parts = _DURATION_PART.findall(text)
    seconds = sum(float(number) * DURATION_UNITS[unit] for number, unit in parts)
    if not parts or "".join(number + unit for number, unit in parts) != text or not math.isfinite(seconds):
        raise ValueError('expected a duration such as "30s", "12h" or "1h30m"')
    return float(seconds)


def parse_percent(text: str) -> float:
    """A share from 0 to 1. `"5%"` is 0.05."""
    match = _PERCENT.fullmatch(text.strip())
    if not match or float(match[1]) > 100:
        raise ValueError('expected a share such as "5%"')
    return float(match[1]) / 100


def format_cpu(milli: int) -> str:
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_memory(size: int) -> str:
    """The largest binary unit that loses nothing, else bytes."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size and size % MEMORY_UNITS[unit] == 0:
            return f"{size // MEMORY_UNITS[unit]}{unit}"
    return str(size)


def format_duration(seconds: float) -> str:
    """A short human duration: `0.4s`, `42s`, `5m12s`, `3h20m`, `12d4h`."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for unit, size, lower, lower_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size}{unit}" + (f"{rest}{lower}" if rest else "")
    return f"{whole}s"
