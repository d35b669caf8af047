"""What an agent does next about one worker: expected x observed. Pure.

| wanted            | went | shim  | over | does                                                          |
| ----------------- | ---- | ----- | ---- | ------------------------------------------------------------- |
| not listed        | any  | any   | yes  | FORGET, once the end is acknowledged and the logs are shipped  |
| anything          | any  | any   | yes  | NOTHING: it stays as it ended                                  |
| not yet known     | any  | any   | no   | NOTHING: the controller has not spoken since the agent started |
| anything          | yes  | gone  | no   | SWEEP: kill what is left, then VANISHED                        |
| not listed, stop  | no   | gone  | no   | CONCLUDE: it never ran and never will                          |
| not listed, stop  | any  | there | no   | STOP                                                          |
| prepare, run      | no   | gone  | no   | PREPARE, unless this revision was refused (a busy port)        |
| prepare, run      | no   | new   | no   | NOTHING: it has not said yet of which template it is           |
| prepare, run      | no   | older | no   | REPLACE the waiting shim: the template has changed             |
| run               | no   | there | no   | GO                                                            |
| anything else     |      |       |      | NOTHING                                                       |
"""

from enum import StrEnum

from msgspec import Struct

from agents.runtime.diary import History


class Act(StrEnum):
    NOTHING = "nothing"
    PREPARE = "prepare"
    REPLACE = "replace"
    GO = "go"
    STOP = "stop"
    SWEEP = "sweep"
    CONCLUDE = "conclude"
    FORGET = "forget"


class Wanted(Struct, frozen=True, kw_only=True):
    """`desired` is prepare, run or stop; "" when the worker is no longer listed; None before the controller spoke."""

    desired: str | None
    revision: int = 0


class Seen(Struct, frozen=True, kw_only=True):
    """`refused` is the template revision that could not be prepared, but might with another one. `settled`: the end
    is acknowledged and the logs are shipped."""

    history: History
    shim: bool
    refused: int | None = None
    settled: bool = False


def decide(wanted: Wanted, seen: Seen) -> Act:
    history = seen.history
    if history.over:
        return Act.FORGET if wanted.desired == "" and seen.settled else Act.NOTHING
    if history.went and not seen.shim:
        return Act.SWEEP
    if wanted.desired is None:
        return Act.NOTHING
    if wanted.desired in ("", "stop"):
        return Act.STOP if seen.shim else Act.CONCLUDE
    if history.went:
        return Act.NOTHING
    if not seen.shim:
        return Act.NOTHING if seen.refused == wanted.revision else Act.PREPARE
    if not history.revision:
        return Act.NOTHING
    if history.revision < wanted.revision:
        return Act.REPLACE
    return Act.GO if wanted.desired == "run" else Act.NOTHING
