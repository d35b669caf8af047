"""`python -m controller.whatif`: one question to the planner about the live cluster, which it only reads.

The question is one JSON object on standard input, the answer one on standard output: {"do": "whatif", ...WhatIf} or
{"do": "capacity"}; {"errors": [...]} where the question does not fit the cluster. The API asks so in a process of its
own, so that no answer of any length is in the way of its other requests.
"""

import os
import sys
from typing import Any

import msgspec

from controller.main import new_id
from controller.scheduling.index import ClusterIndex, build
from controller.settings import from_environment
from controller.simulation.capacity import capacity
from controller.simulation.spans import History
from controller.simulation.whatif import Unfit, WhatIf, compare
from controller.state.errors import StoreError
from controller.state.store import Store, open_store
from muster.clock import SystemClock

NICE = 10
REMEMBERED = 2_000


def main() -> int:
    os.nice(NICE)
    clock = SystemClock()
    question = msgspec.json.decode(sys.stdin.buffer.read())
    store = open_store(from_environment().database_url, clock=clock, new_id=new_id)
    try:
        answer = msgspec.json.encode(reply(store, question, clock.now()))
    except StoreError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        store.close()
    sys.stdout.buffer.write(answer)
    return 0


def reply(store: Store, question: dict[str, Any], now: float) -> Any:
    """The answer to one question. Raises StoreError."""
    with store.read() as r:
        revision, records = r.snapshot()
        history = History(r.succeeded(REMEMBERED))
    index: ClusterIndex = build(records, revision=revision)
    if question.pop("do") == "capacity":
        return {"revision": revision, "now": now, "levels": capacity(index)}
    try:
        return compare(index, msgspec.convert(question, WhatIf), now, history)
    except Unfit as error:
        return {"errors": error.errors}


if __name__ == "__main__":
    sys.exit(main())
