"""When a silence is too long, what a look at all ranks shows, who is slow, which loss is strange."""

import pytest

from controller.records import Watch
from controller.recovery import losses, watching
from controller.recovery.ranks import look
from controller.recovery.stragglers import straggler
from muster.evidence import Evidence, Source
from muster.protocol import ProgressPoint
from muster.states import AttemptPhase
from tests.makers import NOW, make_attempt, make_job

JOB = make_job()
RUNNING = make_attempt(JOB, phase=AttemptPhase.RUNNING, running_at=NOW)


def stepped(gaps, attempt=RUNNING, watch=None):
    at = NOW
    for number, gap in enumerate(gaps, 1):
        at += gap
        watch = watching.heard(watch, attempt, [ProgressPoint(step=number, at=at)], at)
    return watch


def test_a_pace_is_learned_and_a_save_without_a_word_is_within_it():
    watch = stepped([5.0, *[30.0] * 20, 200.0])
    assert watch.paces["start"] == (5.0,)
    assert watching.limit({}, watch) == 600.0


def test_a_quick_job_is_not_suspected_for_a_hiccup():
    assert watching.limit({}, stepped([1.0] * 20)) == 120.0


def test_little_is_known_at_first():
    assert watching.limit({}, stepped([1.0, 1.0])) == watching.UNKNOWN


@pytest.mark.parametrize(
    ("wanted", "phase", "seconds"),
    [
        ("30s", "train", 30),
        ("never", "train", None),
        ({"save": "5m"}, "save", 300),
        ("30s", "start", 1800),
        ("never", "start", None),
    ],
)
def test_the_manifest_has_the_last_word(wanted, phase, seconds):
    assert watching.limit({"recovery": {"hangAfter": wanted}}, Watch(phase=phase)) == seconds


def test_a_server_that_shows_no_steps_is_never_watched():
    assert watching.due(JOB, RUNNING) is None


def test_a_phase_has_its_own_pace():
    watch = stepped([1.0] * 10)
    watch = watching.heard(watch, RUNNING, [ProgressPoint(step=10, at=NOW + 20, phase="save", mark=True)], NOW + 20)
    assert (watch.phase, watching.limit({}, watch)) == ("save", watching.UNKNOWN)
    watch = watching.heard(watch, RUNNING, [ProgressPoint(step=11, at=NOW + 60)], NOW + 60)
    assert (watch.phase, watch.paces["save"]) == ("train", (40.0,))


def seen(rank, state="S", share=0.0, frames=(), source=Source.STACK, **data):
    text = 'Thread 1 (idle): "MainThread"\n' + "".join(f"    {one}\n" for one in frames) if frames else ""
    return Evidence(source=source, at=NOW, node=f"n{rank // 2}", rank=rank, text=text,
                    data={"look": "x", "pid": 10 + rank, "state": state, "share": share, **data})  # fmt: skip


WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:1)", "train (train.py:3)")
BARRIER = ("barrier (torch/distributed/distributed_c10d.py:1)", "train (train.py:9)")
SPINS = ("spin (data.py:4)", "train (train.py:8)")
SAVES = ("write (torch/serialization.py:1)", "save (torch/serialization.py:2)")


@pytest.mark.parametrize(
    ("evidence", "kind", "rank"),
    [
        ([seen(0), seen(1, state="T"), seen(2)], "stopped", 1),
        ([seen(0), seen(1, state="D")], "blocked", 1),
        ([seen(0, frames=WAITS), seen(1, frames=SPINS)], "elsewhere", 1),
        ([seen(0, frames=WAITS), seen(1, frames=BARRIER), seen(2, frames=WAITS)], "desync", 1),
        ([seen(0, frames=SAVES), seen(1, frames=WAITS), seen(2, frames=SAVES)], "at-work", None),
        ([seen(0, share=1.0), seen(1), seen(2)], "elsewhere", 0),
        ([seen(0), seen(1)], None, None),
        ([], None, None),
    ],
)
def test_the_odd_one_is_found_by_whatever_there_is(evidence, kind, rank):
    found = look(evidence, "x")
    assert (found and found.kind, found and found.rank) == (kind, rank)


def test_flight_recorders_name_the_rank_that_is_behind():
    calls = [["0", 1, "nccl:all_reduce", "4"], ["0", 2, "nccl:all_reduce", "4"]]
    evidence = [seen(rank, source=Source.COLLECTIVE, calls=calls[: 1 if rank == 1 else 2]) for rank in range(3)]
    assert (look(evidence, "x").kind, look(evidence, "x").rank) == ("behind", 1)


def points(seconds, steps=20):
    return [
        ProgressPoint(step=step, at=NOW + step, rank=rank, seconds=own)
        for step in range(steps)
        for rank, own in enumerate(seconds)
    ]


def test_a_straggler_must_be_slow_in_every_comparison():
    assert straggler(points([0.1, 0.1, 1.0])).rank == 2
    assert straggler(points([0.1, 0.1, 0.12])) is None
    assert straggler(points([0.1, 0.1, 1.0], steps=8)) is None
    once = [
        *points([0.1, 0.1, 0.1], 20),
        *(ProgressPoint(step=20, at=NOW, rank=r, seconds=9.0 if r else 0.1) for r in range(3)),
    ]
    assert straggler(once) is None


@pytest.mark.parametrize(
    ("loss", "bad", "what"), [(0.9, "", ""), (50.0, "", "jump"), (None, "nan", "nan"), (None, "", ""), (0.0, "", "")]
)
def test_strange_losses(loss, bad, what):
    assert losses.strange([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.0], loss, bad) == what
