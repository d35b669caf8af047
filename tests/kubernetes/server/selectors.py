"""Label and field selectors in their text form."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.kubernetes.server.errors import Refusal

Test = Callable[[Mapping[str, Any]], bool]


def labels(text: str) -> Test:
    tests = [_label(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda one: all(test((one.get("metadata") or {}).get("labels") or {}) for test in tests)


def _label(part: str) -> Callable[[Mapping[str, str]], bool]:
    among = re.fullmatch(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)", part)
    if among:
        key, word, values = among[1], among[2], {value.strip() for value in among[3].split(",")}
        return lambda own: (own.get(key) in values) is (word == "in")
    compared = re.fullmatch(r"([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)", part)
    if compared:
        key, word, value = compared.groups()
        return lambda own: (own.get(key) == value) is (word != "!=")
    if re.fullmatch(r"![\w./-]+", part):
        return lambda own: part[1:] not in own
    if re.fullmatch(r"[\w./-]+", part):
        return lambda own: part in own
    raise Refusal(400, f"unable to parse requirement: {part}")


def fields(text: str) -> Test:
    tests = []
    for part in (one.strip() for one in text.split(",") if one.strip()):
        found = re.fullmatch(r"([\w.]+)\s*(==|=|!=)\s*(.*)", part)
        if not found:
            raise Refusal(400, f"invalid selector: {part!r}")
        tests.append(found.groups())

    def test(one: Mapping[str, Any]) -> bool:
        return all((_at(one, path) == value) is (word != "!=") for path, word, value in tests)

    return test


def _at(one: Any, path: str) -> str:
    for name in path.split("."):
        one = one.get(name) if isinstance(one, Mapping) else None
    return "" if one is None else str(one)
