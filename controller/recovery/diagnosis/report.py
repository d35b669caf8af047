"""A diagnosis in a few lines for people."""

from typing import Final

from controller.recovery.diagnosis.types import Diagnosis

DOES: Final = {
    "record": "nothing: take note of it",
    "retry": "start it again as it is",
    "restart": "restart it from its newest complete checkpoint, on the same nodes",
    "replace": "restart it without this node, and look at the node",
    "drain": "let it finish, and give the node no new work until it was looked at",
    "hold": "make room first, then start it again",
    "fail": "mend it first: a restart would fail the same way",
    "previous_checkpoint": "restart it from the checkpoint (or the download) before this one",
    "original_world_size": "restart it with the number of ranks that wrote the checkpoint",
}
_NODE: Final = {True: "yes", False: "no", None: "not known"}


def report(found: Diagnosis) -> str:
    rank = "not known" if found.culprit_rank is None else f"rank {found.culprit_rank}"
    lines = [
        f"what      {found.category} ({found.certainty})",
        f"who       {rank}; node at fault: {_NODE[found.node_at_fault]}",
        f"why       {found.why}",
        f"do        {found.action}: {DOES[found.action]}" + (f"; {found.advice}" if found.advice else ""),
    ]
    where = found.where or ("",) * len(found.decided_by)
    lines += [
        f"line      {line}" + (f"   ({at})" if at else "") for line, at in zip(found.decided_by, where, strict=False)
    ]
    return "\n".join(lines)
