"""`get -w`: a line for each thing that changes, from the cluster's own log of changes."""

import time
from collections.abc import Callable
from typing import Any, Final

from cli.api import Api, Unreachable, client_of
from cli.errors import Exit, Failure
from cli.names import Resource
from cli.output import say
from muster import client

Object = dict[str, Any]
KINDS: Final = {"job": ("Job", "Attempt", "Worker"), "node": ("Node", "Worker"), "queue": ("Queue",)}
TOGETHER: Final = 0.2
"""Seconds in which changes are waited for before one look at all of them."""
PAUSE: Final = 1.0


def watch(
    api: Api,
    kind: Resource,
    seen: list[Object],
    again: Callable[[], list[Object]],
    show: Callable[[list[Object], bool], str],
) -> None:
    """Until Ctrl-C. `again` fetches what is watched, `show` makes lines of some of it, with or without headers."""
    if kind.word not in KINDS:
        raise Failure(
            f"{kind.plural} cannot be watched", code=Exit.USAGE, hint=f"{', '.join(KINDS)} can; `muster events -w`"
        )
    known, after = {_identity(one): _look(one) for one in seen}, 0
    while True:
        try:
            for change in client_of().watch(kinds=KINDS[kind.word], bookmarks=True):
                if int(change["revision"]) <= after:
                    continue  # of which the last look knew
                time.sleep(TOGETHER)
                after = int(api.get("/jobs", limit=1)["metadata"]["resourceVersion"])
                known = _told(known, again(), show)
        except (client.MusterError, Unreachable):
            time.sleep(PAUSE)
            try:
                known = _told(known, again(), show)
            except Unreachable:
                continue


def _told(known: dict[str, str], found: list[Object], show: Callable[[list[Object], bool], str]) -> dict[str, str]:
    now = {_identity(one): _look(one) for one in found}
    new = [one for one in found if known.get(_identity(one)) != now[_identity(one)]]
    if new:
        say(show(new, False))
    return now


def _identity(one: Object) -> str:
    return str(one["metadata"].get("uid") or one["metadata"]["name"])


def _look(one: Object) -> str:
    """What of it is worth a line when it changes: not the hour of its last lease."""
    import json

    status = {
        key: value for key, value in one.get("status", {}).items() if key not in ("eta", "lastRenewal", "promise")
    }
    return json.dumps([status, one.get("spec"), one["metadata"].get("labels")], sort_keys=True, default=str)
