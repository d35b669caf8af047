""" "It worked before": what has changed since an attempt that made progress. Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from controller.records import AttemptRecord, Verdict

NAMES: Final = {"code": "code", "image": "image", "environment": "environment", "packages": "installed packages"}


def with_history(verdict: Verdict, attempt: AttemptRecord, history: Sequence[AttemptRecord]) -> Verdict:
    """The verdict, and where an attempt without a step ends the job, what is different from the last one that had some.
    `history`: newest first."""
    worked = next((one for one in history if one.last_step is not None and one.fingerprint), None)
    if verdict.action != "fail" or attempt.last_step is not None or worked is None or not attempt.fingerprint:
        return verdict
    changed = [words for name, words in NAMES.items() if worked.fingerprint.get(name) != attempt.fingerprint.get(name)]
    what = (
        f"its {' and '.join(changed)} changed since" if changed else "nothing of its code or environment changed since"
    )
    return replace(
        verdict, why=f"{verdict.why}; it worked before: attempt {worked.number} reached step {worked.last_step}, {what}"
    )
