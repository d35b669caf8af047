"""How verdicts say what is done."""

from collections.abc import Sequence
from typing import Final

_DOES: Final = {
    "fail": "a restart would not help",
    "hold": "the job is held until its user resumes it",
    "retry": "the gang starts again",
    "restart": "the gang restarts on the same nodes",
    "replace": "the gang is placed anew without it",
    "previous_checkpoint": "the gang restarts from the checkpoint before",
}


def does(action: str) -> str:
    """The second half of a verdict's sentence."""
    return _DOES[action]


def names(nodes: Sequence[str]) -> str:
    """`node n0`, `nodes n0, n1`."""
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(nodes)
