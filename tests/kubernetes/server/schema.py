"""Structural schemas of custom resources: what they know is checked, what they do not know is pruned."""

import re
from typing import Any

TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def prune(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        kept = {}
        for name, one in value.items():
            if name in known:
                kept[name] = prune(one, known[name])
            elif more:
                kept[name] = prune(one, more) if isinstance(more, dict) else one
        return kept
    if isinstance(value, list) and "items" in schema:
        return [prune(one, schema["items"]) for one in value]
    return value


def complaints(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    where = path or "<root>"
    if value is None:
        return [] if schema.get("nullable") else [f"{where}: Invalid value: null"]
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, int | str) else [f"{where}: must be an integer or a string"]
    wanted = schema.get("type")
    if wanted and (not isinstance(value, TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        return [f"{where}: Invalid value: {type(value).__name__}: must be of type {wanted}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: Unsupported value: {value!r}: supported values: {schema['enum']}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: Invalid value: {value!r}: should match '{schema['pattern']}'")
    if isinstance(value, str) and len(value) > schema.get("maxLength", 10**9):
        found.append(f"{where}: Too long")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            found.append(f"{where}: should be greater than or equal to {schema['minimum']}")
        if value > schema.get("maximum", value):
            found.append(f"{where}: should be less than or equal to {schema['maximum']}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9):
            found.append(f"{where}: has {len(value)} items")
        found += [
            bad for at, one in enumerate(value) for bad in complaints(one, schema.get("items", {}), f"{path}[{at}]")
        ]
    if isinstance(value, dict):
        found += [f"{path}.{name}: Required value" for name in schema.get("required", ()) if name not in value]
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, one in value.items():
            inner = known.get(name) or (more if isinstance(more, dict) else {})
            found += complaints(one, inner, f"{path}.{name}")
    return found
