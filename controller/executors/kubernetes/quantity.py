"""Kubernetes quantities: `95690m`, `1167634920Ki`, `288764809146`, `1e3`."""

import re
from decimal import Decimal
from typing import Any, Final

_UNITS: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([+-]?\d*\.?\d+|\d+\.)(?:[eE]([+-]?\d{1,2})|([numkMGTPE]i?|[KMGTPE]i)?)")


def quantity(text: Any) -> Decimal:
    """The number that `text` means. Raises ValueError when it is none."""
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None or (found[3] or "") not in _UNITS:
        raise ValueError(f"expected a Kubernetes quantity such as 500m or 64Gi, found {text!r}")
    if found[2]:
        return Decimal(found[1]) * Decimal(10) ** int(found[2])
    return Decimal(found[1]) * _UNITS[found[3] or ""]


def amount(text: Any) -> Decimal:
    """As `quantity`, and 0 for what is none: one odd number of a stranger's pod must not hide its node."""
    try:
        return quantity(text)
    except ValueError:
        return Decimal(0)
