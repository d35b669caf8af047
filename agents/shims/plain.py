"""JSON by the C parts of the standard library alone: the package `json` brings `re`, and half a megabyte, into a shim."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Context:
    """What the scanner asks for."""

    strict = False
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


_scan = make_scanner(_Context())  # type: ignore[arg-type]


def loads(data: bytes | str) -> Any:
    """Raises ValueError."""
    text = (data.decode() if isinstance(data, bytes) else data).strip()
    try:
        found, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than one value")
    return found


def dumps(value: Any) -> str:
    """Of dictionaries with string keys, lists, strings, numbers, True, False and None."""
    if isinstance(value, str):
        return str(encode_basestring_ascii(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode_basestring_ascii(key)}: {dumps(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
