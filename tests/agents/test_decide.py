"""The matrix of what is wanted x what is seen, cell by cell."""

import itertools

import pytest

from agents.runtime.decide import Act, Seen, Wanted, decide
from agents.runtime.diary import History

FRESH, WENT, OVER = History(), History(went=True, revision=1), History(went=True, over=True)
WAITING = History(revision=1)

TABLE = [
    ("a new worker is prepared", "prepare", 1, FRESH, False, Act.PREPARE),
    ("a waiting worker waits", "prepare", 1, WAITING, True, Act.NOTHING),
    ("the barrier opens", "run", 1, WAITING, True, Act.GO),
    ("a running worker is left alone", "run", 1, WENT, True, Act.NOTHING),
    ("a running worker whose template grew is left alone", "run", 2, WENT, True, Act.NOTHING),
    ("a newer template replaces a waiting shim", "prepare", 2, WAITING, True, Act.REPLACE),
    ("a newer template goes before the barrier", "run", 2, WAITING, True, Act.REPLACE),
    ("a shim gone at the barrier is prepared again", "run", 1, WAITING, False, Act.PREPARE),
    ("a shim gone while ranks ran is swept", "run", 1, WENT, False, Act.SWEEP),
    ("a shim gone while ranks ran is swept before it is stopped", "stop", 1, WENT, False, Act.SWEEP),
    ("a shim gone while ranks ran is swept although nobody has spoken", None, 0, WENT, False, Act.SWEEP),
    ("a running worker is stopped", "stop", 1, WENT, True, Act.STOP),
    ("a waiting worker is stopped", "stop", 1, WAITING, True, Act.STOP),
    ("a worker that nobody lists is stopped", "", 0, WENT, True, Act.STOP),
    ("a worker that never was is concluded", "stop", 1, FRESH, False, Act.CONCLUDE),
    ("an unlisted worker that never was is concluded", "", 0, FRESH, False, Act.CONCLUDE),
    ("what has ended is never started again", "run", 9, OVER, False, Act.NOTHING),
    ("what has ended needs no stop", "stop", 1, OVER, False, Act.NOTHING),
    ("an end that is not settled is kept", "", 0, OVER, False, Act.NOTHING),
    ("nobody has spoken: a running worker goes on", None, 0, WENT, True, Act.NOTHING),
    ("nobody has spoken: nothing is prepared", None, 0, FRESH, False, Act.NOTHING),
]


@pytest.mark.parametrize(
    ("desired", "revision", "history", "shim", "act"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_matrix(desired: str | None, revision: int, history: History, shim: bool, act: Act) -> None:
    assert decide(Wanted(desired=desired, revision=revision), Seen(history=history, shim=shim)) is act


def test_a_settled_end_is_forgotten_when_it_is_not_listed() -> None:
    seen = Seen(history=OVER, shim=False, settled=True)
    assert decide(Wanted(desired=""), seen) is Act.FORGET
    assert decide(Wanted(desired="stop"), seen) is Act.NOTHING


def test_a_refused_template_waits_for_the_next_one() -> None:
    seen = Seen(history=FRESH, shim=False, refused=1)
    assert decide(Wanted(desired="prepare", revision=1), seen) is Act.NOTHING
    assert decide(Wanted(desired="prepare", revision=2), seen) is Act.PREPARE


def test_over_all_cells_ranks_start_once_at_most_and_only_when_asked() -> None:
    histories = [FRESH, WAITING, WENT, OVER]
    for desired, revision, history, shim, settled in itertools.product(
        (None, "", "prepare", "run", "stop"), (0, 1, 2), histories, (False, True), (False, True)
    ):
        act = decide(Wanted(desired=desired, revision=revision), Seen(history=history, shim=shim, settled=settled))
        if act is Act.GO:
            assert (desired, history.went, shim) == ("run", False, True)
        if act is Act.PREPARE:
            assert not history.went
            assert not history.over
            assert desired in ("prepare", "run")
        if act is Act.FORGET:
            assert history.over
