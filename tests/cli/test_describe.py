"""The life of a job on one page."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli import describing
from cli.timeline import block, how, ranges, timeline
from tests.cli import canned

JOB = """\
Name:         ddp-digits
Namespace:    default
UID:          0198c0de-0000-7000-8000-000000000001
Labels:       team=nlp
Created:      2026-11-30 12:00:00.000 UTC (5m ago)
Started:      2026-11-30 12:00:02.100 UTC (4m57s ago)
Phase:        Running
Progress:     step 240, loss 0.0312 (2s ago)
Restarts:     2 of at most 20
Workers:      worker-0 on node-2 [0-1] Running, worker-1 on node-3 [0-1] Running
Queue:        default, priority normal
Gang:         2 workers with 2 ranks each, framework torchrun
Each worker:  2 x h100, 1 CPU, 1Gi memory
Topology:     required leaf
Workdir:      /home/ada/examples
Command:      python ddp_digits.py --output runs/ddp-digits
Environment:  STEPS=300, STEP_SECONDS=0.2
Checkpoints:  /data/runs/checkpoints
              format dcp, every auto, grace 5s

Attempts:
  2026-11-30 (times in UTC)
  ● attempt 1 · epoch 1 · Ended, RankFailed
  │ nodes       node-0 (devices 0-1), node-1 (devices 0-1)
  │ from        the beginning, no checkpoint
  │ ran         12:00:02.100 to 12:00:42.220 (40.1s), launched in 1.20s
  │ steps       1 to 62 (62 done), loss 0.913
  │ failed      rank 3 on node-1, killed by SIGKILL (9), at 12:00:41.000
  │ verdict     process killed, likely, node-1 not at fault → restart
  │             rank 3 on node-1 was killed from outside by SIGKILL; nothing
  │             speaks against the node
  │ evidence    rank 3: signal 9
  │ evidence    no kernel line on node-1 within 60 s
  │ recovery    detect 120ms · stop 1.10s · decide 4ms · relaunch 1.88s
  │ down        3.10s from the failure until attempt 2 ran
  ● attempt 2 · epoch 2 · Ended, NodeLost
  │ nodes       node-0 (devices 0-1), node-1 (devices 0-1)
  │ from        checkpoint step-000050, step 50
  │ ran         12:00:44.100 to 12:01:27.000 (42.9s), launched in 1.88s
  │ steps       51 to 120 (70 done), loss 0.4071
  │ failed      node-1 went silent at 12:01:20.000
  │ verdict     node lost, confirmed, node-1 at fault → replace
  │             node-1 has not renewed its lease for 6.0 s
  │ recovery    detect 6.00s · stop 1.00s · decide 1ms · relaunch 2.25s
  │ down        9.25s from the failure until attempt 3 ran
  │ redone      12 steps done twice
  ● attempt 3 · epoch 3 · Running
    nodes       node-2 (devices 0-1), node-3 (devices 0-1)
    from        checkpoint step-000100, step 100
    ran         12:01:29.250 until now (3m31s), launched in 2.25s
    steps       101 to 240 (140 done), loss 0.0312
    redone      20 steps done twice

Events:
  12:00:00.000  Submitted     submitted by admin
  12:00:00.900  Placed        attempt 1 on node-0, node-1
! 12:00:42.224  AttemptEnded  attempt 1 ended as RankFailed: rank 3 on node-1
                              was killed from outside by SIGKILL; nothing speaks
                              against the node
"""


def test_a_job_with_three_attempts_to_the_letter(stub, muster):
    done = muster("describe", "job", "ddp-digits")
    assert (done.code, done.err) == (0, "")
    assert done.out == JOB
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_waiting_job_says_in_whole_why():
    text = describing.job(canned.WAITING, [], [], width=80, now=canned.NOW)
    assert "Reason:       CAPACITY\n" in text
    assert "Message:      needs 16 workers with 8 x h100 in one leaf; the largest leaf has 2\n" in text
    assert "              nodes with 8 free devices\n" in text
    assert "Attempts" not in text


def test_a_node_shows_its_devices_and_who_uses_them(stub, muster):
    out = muster("describe", "node", "node-2").out
    assert "Phase:        Ready for 6m\n" in out
    assert "  0       h100  0     ok      default/ddp-digits\n" in out
    assert "Events" not in out, "those of others are not told here"


def test_a_queue(stub, muster):
    out = muster("describe", "queue/default").out
    assert "Jobs:         1 Queued, 1 Running\n" in out
    assert "Stopped:      no\n" in out


def test_an_attempt_that_never_ran_says_so():
    never = canned.attempt(
        1, phase="Ended", reason="LaunchFailed", message="no such program: pyhton",
        times={"placedAt": "12:00:00.000", "endedAt": "12:00:01.500"},
    )  # fmt: skip
    assert block(never, None, width=80, now=canned.NOW) == [
        "  ● attempt 1 · epoch 1 · Ended, LaunchFailed",
        "    from        the beginning, no checkpoint",
        "    ran         never; placed 12:00:00.000, ended 12:00:01.500 (1.50s)",
        "    message     no such program: pyhton",
    ]


def test_an_attempt_that_is_being_launched_says_for_how_long():
    new = canned.attempt(1, phase="Launching", times={"placedAt": "12:04:58.000"})
    assert "    ran         not yet; placed 12:04:58.000, 2.00s ago" in block(new, None, width=80, now=canned.NOW)


def test_what_has_not_happened_yet_is_left_out():
    stopping = copy.deepcopy(canned.FIRST)
    stopping["phase"], stopping["reason"], stopping["verdict"] = "Stopping", None, None
    stopping["timeline"] |= {"endedAt": None, "decidedAt": None}
    lines = block(stopping, None, width=80, now=canned.NOW)
    assert "    recovery    detect 120ms" in lines
    assert not any("verdict" in line or "down" in line for line in lines)


@pytest.mark.parametrize("reason", ["Succeeded", "Suspended", "Cancelled", "Preempted"])
def test_an_end_that_was_asked_for_is_no_failure(reason):
    lines = block(canned.FIRST | {"reason": reason, "verdict": None}, canned.SECOND, width=80, now=canned.NOW)
    assert not any(word in line for line in lines for word in ("failed", "recovery", "down"))


def test_the_first_process_to_die_is_named_when_the_verdict_names_none():
    lines = block(canned.FIRST | {"verdict": None}, None, width=80, now=canned.NOW)
    assert "    failed      rank 3 on node-1, killed by SIGKILL (9), at 12:00:41.000" in lines


def test_a_new_day_is_written_where_it_begins():
    later = copy.deepcopy(canned.THIRD)
    later["timeline"]["placedAt"] = "2026-12-01T00:00:01.000Z"
    text = timeline([later, canned.FIRST], width=80, now=canned.NOW)
    assert text.splitlines()[0] == "  2026-11-30 (times in UTC)"
    assert "  2026-12-01 (times in UTC)\n  ● attempt 3" in text


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ({"code": 1}, "exit code 1"),
        ({"signal": 11}, "killed by SIGSEGV (11)"),
        ({"signal": 200}, "killed by signal 200"),
        ({"signal": 9, "oom": True}, "out of memory, killed by SIGKILL (9)"),
    ],
)
def test_how_a_process_ended(end, text):
    assert how(end) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1], "0-1"), ([6, 0, 1, 2, 3], "0-3,6"), ([1, 3, 5], "1,3,5")]
)
def test_devices_in_short(numbers, text):
    assert ranges(numbers) == text


WORDS = st.text(st.characters(codec="ascii", min_codepoint=0), max_size=300)


@given(why=WORDS, message=WORDS, command=st.lists(WORDS, max_size=4), width=st.integers(60, 120))
def test_whatever_the_words_no_line_is_too_long_and_nothing_steers_the_terminal(why, message, command, width):
    one = canned.FIRST | {"verdict": canned.verdict(why=why, decidedBy=[message]), "message": message}
    job = canned.job(message=message, reason="R")
    job["spec"] = job["spec"] | {"command": command}
    events = [canned.event(1, "12:00:00.000", "Reason", message, "warning")]
    text = describing.job(job, [one, canned.SECOND], events, width=width, now=canned.NOW)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_job_of_roles_after_others_and_an_array_say_so(stub, muster):
    spec = {
        **canned.WAITING["spec"],
        "roles": [{"name": "learner", "workers": 2, "accelerators": [{"type": "h100", "count": 8}], "head": True}],
        "nodeSelector": {"pool": "a"},
        "nodes": {"exclude": ["n7"]},
        "topology": {"required": "block", "segment": {"size": 2, "level": "leaf"}},
    }
    status = {
        **canned.WAITING["status"],
        "dependencies": [{"job": "prepare", "condition": "succeeded", "met": False, "phase": "Running"}],
        "elements": {"total": 4, "made": 2, "phases": {"Running": 2}},
    }
    stub.get("/namespaces/default/jobs/llama-sft", {**canned.WAITING, "spec": spec, "status": status})
    for part in ("attempts", "events"):
        stub.listed(f"/namespaces/default/jobs/llama-sft/{part}", [])
    out = muster("describe", "job", "llama-sft").out
    for line in (
        "After:        prepare succeeded (Running)",
        "Elements:     4, 2 made: 2 Running",
        "Role:         learner: 2 workers with 8 x h100, the head",
        "Topology:     required block, segment of 2 in one leaf",
        "Nodes:        with pool=a; never n7",
    ):
        assert line in out, out
