"""Priority classes that exist without being made."""

from typing import Final

BUILTIN_CLASSES: Final = {"low": -100, "normal": 0, "high": 100}
"""Their values; higher is served first."""
