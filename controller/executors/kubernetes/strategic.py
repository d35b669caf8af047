"""Strategic merge patches of pods: maps are merged, lists by the key of their items, null removes. Pure.

As in the API's conventions: `$patch: delete` in an item removes it, `$patch: replace` takes the place of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "conditions": "type",
    "ownerReferences": "uid",
    "addresses": "type",
    "podIPs": "ip",
    "claims": "name",
}
_SETS: Final = ("finalizers",)


def merge(base: Any, patch: Any, field: str = "") -> Any:
    """`base` with `patch` applied; neither is changed."""
    if isinstance(patch, Mapping):
        return _merge_map(base if isinstance(base, Mapping) else {}, patch)
    if isinstance(patch, list) and isinstance(base, list):
        if field in _SETS:
            return [*base, *(item for item in patch if item not in base)]
        key = _KEYS.get(field)
        if key is not None and all(isinstance(item, Mapping) for item in (*base, *patch)):
            return _merge_list(base, patch, key)
    return patch


def _merge_map(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    found = dict(base)
    for name, value in patch.items():
        if name.startswith("$"):
            _directive(found, name, value)
        elif value is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), value, name)
    return found


def _directive(found: dict[str, Any], name: str, value: Any) -> None:
    """`$deleteFromPrimitiveList/finalizers: [a]` takes single values out of a list."""
    word, _, field = name.partition("/")
    if word == "$deleteFromPrimitiveList" and isinstance(value, list):
        found[field] = [item for item in found.get(field) or () if item not in value]


def _merge_list(base: Sequence[Mapping[str, Any]], patch: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [{k: v for k, v in item.items() if k != "$patch"} for item in patch if set(item) != {"$patch"}]
    found: list[Any] = list(base)
    for item in patch:
        place = next((at for at, one in enumerate(found) if one.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del found[place]
        elif place is None:
            found.append(merge({}, item))
        else:
            found[place] = merge(found[place], item)
    return found
