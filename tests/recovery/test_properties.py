"""What holds for every failed attempt, however odd its evidence."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.recovery.decide import RESTARTS
from controller.recovery.outcome import FATE, outcome
from controller.recovery.signatures import SIGNATURES
from muster.evidence import Source
from muster.protocol import RankExit
from muster.states import JobPhase, WorkerPhase
from tests.makers import NOW
from tests.recovery.case import Case
from tests.recovery.logs import lost_peer, raised, torchrun_summary

words = st.sampled_from(
    [
        "",
        lost_peer(0),
        raised(1),
        torchrun_summary((0, 0, -9), (1, 1, 1)),
        "Killed\n",
        "OSError: [Errno 28]\n",
        "[0]:\n",
    ]
)
logs = st.lists(words | st.text(max_size=60), max_size=3).map("".join)
exits = st.builds(
    RankExit,
    process=st.just(0),
    rank=st.sampled_from([None, 0, 1]),
    code=st.sampled_from([None, 0, 1, 2, 126, 127, 143]),
    signal=st.sampled_from([None, 6, 9, 11, 15, 63]),
    oom=st.booleans(),
    at=st.floats(NOW - 100, NOW + 100),
)
workers = st.fixed_dictionaries(
    {
        "exits": st.lists(exits, max_size=2).map(tuple),
        "problem": st.sampled_from(["", "VANISHED", "FENCED", "PORT_BUSY", "DISK_FULL", "NO_SUCH_COMMAND", "NEW"]),
        "phase": st.sampled_from([WorkerPhase.EXITED, WorkerPhase.LOST]),
    }
)
cases = st.tuples(workers, workers, logs, logs, st.integers(0, 3), st.sampled_from([None, 10, 20]))


def build(drawn):
    one, other, log, worker_log, restarts, step = drawn
    case = Case(restarts=restarts, maxRestarts=2, last_step=step, best_step=15)
    return case.worker(0, **one).worker(1, **other).log(0, log).log(1, worker_log, rank=None)


@settings(max_examples=150, deadline=None)
@given(cases)
def test_every_case_gets_a_verdict_with_a_fate_and_a_sentence(drawn):
    case = build(drawn)
    verdict = case.decide()
    assert verdict.action in FATE
    assert verdict.fingerprint
    assert verdict.category
    assert "\n" not in verdict.why
    assert set(verdict.culprit_nodes) <= {"n0", "n1"}
    follows = outcome(verdict, case.build())
    assert not set(follows.excluded) & set(follows.preferred)


@settings(max_examples=100, deadline=None)
@given(cases)
def test_a_spent_budget_is_never_overdrawn(drawn):
    case = build(drawn)
    verdict = case.decide()
    assert case.job.restarts < 2 or verdict.action not in RESTARTS


@settings(max_examples=100, deadline=None)
@given(cases, st.randoms(use_true_random=False))
def test_the_order_in_which_workers_and_evidence_arrive_changes_nothing(drawn, shuffle):
    case = build(drawn)
    before = case.decide()
    shuffle.shuffle(case.evidence)
    case.workers.reverse()
    after = case.decide()
    assert (after.category, after.action, after.fingerprint) == (before.category, before.action, before.fingerprint)


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 8))
def test_an_unchanging_end_without_progress_stops_at_last(drawn, limit):
    """Whatever it is: by the limit of repeats, by patience, by the budget, or because it cannot start."""
    *rest, _restarts, _step = drawn
    case = build((*rest, 0, None))
    case.job.spec["recovery"] = {"maxRestarts": 20, "noProgressLimit": limit}
    for restarts in range(21):
        case.job = type(case.job)(
            **{**{f: getattr(case.job, f) for f in case.job.__struct_fields__}, "restarts": restarts}
        )
        verdict = case.decide()
        follows = outcome(verdict, case.build())
        if follows.next is not JobPhase.RECOVERING:
            return
        case.history.insert(0, case.build().attempt.__class__(**_ended(case, verdict)))
    raise AssertionError("it went on for ever")


def _ended(case, verdict):
    fields = {name: getattr(case.attempt, name) for name in case.attempt.__struct_fields__}
    return {**fields, "verdict": verdict, "reason": outcome(verdict, case.build()).end}


@given(st.text(max_size=400))
def test_signatures_never_fail_on_text(text):
    for signature in SIGNATURES:
        signature.pattern.search(text)


def test_logs_of_other_sources_are_not_read():
    case = Case().ends(0, code=3).log(0, raised(0))
    case.evidence = [type(item)(source=Source.KERNEL, at=item.at, text=item.text) for item in case.evidence]
    assert case.decide().action == "restart"
