"""The three kinds of patches by their content types."""

import copy
from typing import Any

from controller.executors.kubernetes.strategic import merge as strategic
from tests.kubernetes.server.errors import Refusal


def apply(base: dict[str, Any], patch: Any, content_type: str) -> dict[str, Any]:
    kind = content_type.partition(";")[0].strip()
    match kind:
        case "application/merge-patch+json":
            return merge(base, patch)  # type: ignore[no-any-return]
        case "application/strategic-merge-patch+json":
            return strategic(base, patch)  # type: ignore[no-any-return]
        case "application/json-patch+json":
            return json_patch(base, patch)
        case _:
            raise Refusal(415, f"the body of the request was in an unknown format - {kind}")


def merge(base: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(base) if isinstance(base, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), value)
    return found


def json_patch(base: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    found = copy.deepcopy(base)
    for step in steps:
        path = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        try:
            _step(found, step["op"], path, step.get("value"))
        except (KeyError, IndexError, ValueError, TypeError):
            raise Refusal(422, f"the server rejected our request due to an error in our request: {step}") from None
    return found


def _step(tree: Any, op: str, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    last: Any = path[-1]
    if isinstance(tree, list):
        last = len(tree) if last == "-" else int(last)
    match op:
        case "test":
            if tree[last] != value:
                raise ValueError
        case "remove":
            del tree[last]
        case "add" if isinstance(tree, list):
            tree.insert(last, value)
        case "add":
            tree[last] = value
        case "replace":
            tree[last]
            tree[last] = value
        case _:
            raise ValueError
