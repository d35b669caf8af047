"""A worker's life on a node, with a real agent and real shims: from the assignment to the reported end."""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.evidence import Source
from tests.agents.cluster import AgentProcess, FakeApi, alive, make_assignment, until

pytestmark = pytest.mark.processes


def run(api: FakeApi, assignment: Any) -> None:
    """Through the barrier and on."""
    api.want(assignment)
    api.reaches("Ready", assignment.worker_uid)
    api.change(assignment.worker_uid, desired="run")


def test_a_worker_waits_at_the_barrier_and_runs_when_told(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "echo hello"))
    api.reaches("Ready")
    assert "go" not in [event["event"] for event in agent.events()]
    api.change("w1", desired="run")
    report = api.reaches("Exited")
    assert [(e.process, e.rank, e.code, e.signal) for e in report.exits] == [(0, 0, 0, None)]
    assert (report.problem, report.busy_ports, report.epoch) == ("", (), 1)
    seen = dict.fromkeys(api.phases())  # a report that was not acknowledged in time is repeated
    assert [phase for phase in seen if phase != "Running"] == ["Preparing", "Ready", "Exited"]
    until(lambda: api.log() == "hello\n")
    assert [(e.rank, e.text) for e in api.evidence() if e.source is Source.LOG] == [(0, "hello\n")]


@pytest.mark.parametrize(
    ("text", "code", "number"),
    [
        ("exit 3", 3, None),
        ("exit 255", 255, None),
        ("kill -9 $$", None, 9),
        ("kill -SEGV $$", None, 11),
        ("kill -TERM $$", None, 15),
    ],
)
def test_exit_codes_and_signals_are_told_exactly(
    api: FakeApi, agent: AgentProcess, text: str, code: int | None, number: int | None
) -> None:
    run(api, make_assignment("w1", text))
    exits = api.reaches("Exited").exits
    assert [(exit_.code, exit_.signal) for exit_ in exits] == [(code, number)]
    evidence = [e for e in api.evidence() if e.source is Source.EXIT]
    assert [(e.data["code"], e.data["signal"], e.rank) for e in evidence] == [(code, number, 0)]


def test_the_first_bad_exit_is_told_at_once_and_the_others_go_on_until_told(api: FakeApi, agent: AgentProcess) -> None:
    processes = (("/bin/sh", "-c", "exec sleep 1000"), ("/bin/sh", "-c", "exit 7"))
    run(api, make_assignment("w1", template={"processes": processes, "ranks": 2, "first_rank": 4}))
    report = until(lambda: (r := api.worker()) and r.exits and r)
    assert report.phase == "Running"
    assert [(e.process, e.rank, e.code) for e in report.exits] == [(1, 5, 7)]
    assert alive(agent.pids()[0])
    api.change("w1", desired="stop", stop_reason="a rank has failed", grace=30.0)
    report = api.reaches("Exited")
    assert [(e.rank, e.code, e.signal) for e in report.exits] == [(5, 7, None), (4, None, 15)]
    assert agent.event("stop")["why"] == "a rank has failed"


def test_a_stopped_worker_may_save_within_its_grace(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "trap 'echo saved; exit 9' TERM; echo up; while :; do sleep 0.05; done"))
    until(lambda: "up" in api.log())
    api.change("w1", desired="stop", grace=60.0)
    assert api.reaches("Exited").exits[0].code == 9
    until(lambda: api.log().endswith("saved\n"))


def test_a_worker_that_ignores_the_signal_is_killed_after_its_grace(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "trap '' TERM; echo up; while :; do sleep 0.05; done"))
    until(lambda: "up" in api.log())
    api.change("w1", desired="stop", grace=0.3)
    assert api.reaches("Exited").exits[0].signal == signal.SIGKILL


def test_a_frozen_rank_is_killed_too(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000"))
    api.reaches("Running")
    (pid,) = agent.pids()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    api.change("w1", desired="stop", grace=0.1)
    assert api.reaches("Exited").exits[0].signal == signal.SIGKILL


def test_nothing_that_a_rank_leaves_behind_survives_it(api: FakeApi, agent: AgentProcess, tmp_path: Path) -> None:
    """Double-forked, in a session of its own, without its environment."""
    daemon = f"setsid env -i /bin/sh -c 'echo $$ > {tmp_path}/daemon; exec sleep 1000' &"
    run(api, make_assignment("w1", f"({daemon}); while ! [ -s {tmp_path}/daemon ]; do sleep 0.01; done; exit 4"))
    report = api.reaches("Exited")
    assert report.exits[0].code == 4
    assert not alive(int((tmp_path / "daemon").read_text()))


def test_processes_that_multiply_do_not_outrun_the_kill(api: FakeApi, agent: AgentProcess) -> None:
    text = "trap '' TERM; f() { while :; do (trap '' TERM; sleep 0.02; (sleep 5 & sleep 5) & exit) & sleep 0.02; done; }; echo up; f"
    run(api, make_assignment("w1", text))
    until(lambda: "up" in api.log())
    api.change("w1", desired="stop", grace=0.3)
    api.reaches("Exited")
    marker = b"MUSTER_WORKER_UID=w1"
    left = [
        p
        for p in Path("/proc").glob("[0-9]*/environ")
        if marker in _read(p) and str(agent.directory).encode() in _read(p)
    ]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_worker_stopped_before_the_start_never_runs(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "echo never"))
    api.reaches("Ready")
    api.change("w1", desired="stop")
    assert api.reaches("Exited").exits == ()
    assert "go" not in [event["event"] for event in agent.events()]


def test_a_worker_that_is_stopped_without_ever_having_been_here_is_told_dead(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", desired="stop"))
    assert api.reaches("Exited").exits == ()


def test_a_worker_that_is_not_listed_any_more_is_killed_and_forgotten(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "trap '' TERM; echo up; while :; do sleep 0.05; done"))
    until(lambda: "up" in api.log())
    pid = agent.pids()[0]
    api.want()
    until(lambda: not alive(pid))
    until(lambda: not agent.folder().exists(), "the folder is removed")


def test_an_ended_worker_stays_until_it_is_not_listed(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "echo bye"))
    api.reaches("Exited")
    until(lambda: api.log() == "bye\n")
    api.push()
    until((agent.folder() / "acked").exists)
    assert agent.folder().exists()
    api.want()
    until(lambda: not agent.folder().exists())


REFUSED = [
    ("NO_SUCH_COMMAND", {"processes": (("no-such-program", "x"),)}, "no-such-program"),
    ("NO_SUCH_COMMAND", {"processes": (("./no-such-file",),)}, "no-such-file"),
    ("PERMISSION", {"processes": (("/etc/passwd",),)}, "/etc/passwd"),
    ("WORKDIR_MISSING", {"processes": (("/bin/true",),), "workdir": "/no/such/folder"}, "/no/such/folder"),
    ("LAUNCH_FAILED", {"processes": (("/bin/echo", "%{nonsense}"),)}, "nonsense"),
    ("LAUNCH_FAILED", {"processes": (("/bin/true",),), "files": {"../../x": ""}}, "outside"),
]


@pytest.mark.parametrize(("code", "template", "mentions"), REFUSED)
def test_what_cannot_be_launched_ends_with_a_code_and_a_sentence(
    api: FakeApi, agent: AgentProcess, code: str, template: dict[str, Any], mentions: str
) -> None:
    api.want(make_assignment(template=template))
    report = api.reaches("Exited")
    assert (report.problem, report.exits) == (code, ())
    assert mentions in report.message
    assert [e.data["code"] for e in api.evidence() if e.source is Source.LAUNCH] == [code]


def test_a_program_that_is_no_program_is_told_when_it_is_executed(
    api: FakeApi, agent: AgentProcess, tmp_path: Path
) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)
    run(api, make_assignment("w1", str(program), "x"))
    report = api.reaches("Exited")
    assert (report.problem, report.exits[0].code) == ("NO_SUCH_COMMAND", 127)


def test_a_busy_port_is_told_and_new_ports_mend_it(api: FakeApi, agent: AgentProcess) -> None:
    with socket.socket() as taken, socket.socket() as other:
        for sock in (taken, other):
            sock.bind(("127.0.0.1", 0))
        taken.listen()
        busy, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        assignment = make_assignment("w1", "echo ok", template={"ports": (busy, free), "listens": (busy, free)})
        api.want(assignment)
        report = until(lambda: (r := api.worker()) and r.problem and r)
        assert (report.phase, report.problem, report.busy_ports, report.revision) == (
            "Preparing",
            "PORT_BUSY",
            (busy,),
            1,
        )
        again = make_assignment("w1", "echo ok", revision=2, template={"ports": (free,), "listens": (free,)})
        api.want(again)
        report = api.reaches("Ready")
        assert (report.problem, report.busy_ports, report.revision) == ("", (), 2)


def test_a_new_template_replaces_a_waiting_shim(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "echo old"))
    api.reaches("Ready")
    first = agent.event("shim")["pid"]
    api.want(make_assignment("w1", "echo new", revision=2))
    until(lambda: (r := api.worker()) and r.phase == "Ready" and r.revision == 2)
    assert not alive(first)
    api.change("w1", desired="run")
    api.reaches("Exited")
    until(lambda: api.log() == "new\n")


def test_two_workers_of_one_node_live_apart(api: FakeApi, agent: AgentProcess) -> None:
    one = make_assignment("w1", "echo one; exit 1", job_uid="j1", attempt="a1")
    two = make_assignment("w2", "echo two; exit 2", job_uid="j2", attempt="a2")
    api.want(one, two)
    api.reaches("Ready", "w1")
    api.reaches("Ready", "w2")
    api.change("w2", desired="run")
    assert api.reaches("Exited", "w2").exits[0].code == 2
    assert api.worker("w1").phase == "Ready"  # type: ignore[union-attr]


def test_an_older_epoch_is_refused_and_a_running_one_stopped(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000", epoch=1))
    api.reaches("Running")
    old = api.assignments["w1"]
    api.want(old, make_assignment("w2", "exec sleep 1000", epoch=2, attempt="a2"))
    assert api.reaches("Exited", "w1").exits[0].signal == signal.SIGTERM
    api.reaches("Ready", "w2")
    api.want(api.assignments["w2"], make_assignment("w0", "echo never", epoch=1))
    report = api.reaches("Exited", "w0")
    assert (report.problem, report.exits) == ("STALE_EPOCH", ())


def test_a_worker_that_should_run_but_whose_folder_is_lost_is_vanished_not_started_again(
    api: FakeApi, agent: AgentProcess
) -> None:
    api.want(make_assignment("w1", "echo twice", desired="run"))
    assert api.reaches("Exited").problem == "VANISHED"
    assert agent.pids() == []


def test_ranks_get_their_environment_and_nothing_of_the_agents(api: FakeApi, agent: AgentProcess) -> None:
    template = {
        "env": {"GREETING": "hi %%{x}", "MUSTER_REPORT": "%{report}", "WHERE": "%{address} %{interface}"},
        "process_env": ({"RANK": "0"},),
        "files": {"hostfile": "n1 %{address}\n"},
        "script": "#!/bin/sh\nenv; cat %{hostfile}\n".replace("%{hostfile}", "hostfile"),
        "processes": (("%{dir}/script",),),
    }
    run(api, make_assignment(template=template, token="attempt-token"))
    api.reaches("Exited")
    until(lambda: api.log().endswith("n1 127.0.0.1\n"))
    env = dict(line.split("=", 1) for line in api.log().splitlines() if "=" in line)
    assert env["GREETING"] == "hi %{x}"
    assert (env["RANK"], env["MUSTER_TOKEN"], env["MUSTER_WORKER_UID"]) == ("0", "attempt-token", "w1")
    assert env["MUSTER_REPORT"] == str(agent.folder() / "report.jsonl")
    assert env["WHERE"].startswith("127.0.0.1 ")
    assert "MUSTER_TOKEN_FILE" not in env
    assert "MUSTER_AGENT_DIR" not in env


def test_secrets_stand_in_no_argument_list_and_in_no_open_file(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000", template={"env": {"KEY": "s3cret"}}))
    api.reaches("Running")
    for pid in (agent.pid, agent.event("shim")["pid"], *agent.pids()):
        with suppress(FileNotFoundError, ProcessLookupError):  # a helper of the agent's may have ended meanwhile
            assert b"s3cret" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert not (agent.folder() / "launch.json").exists()
    assert (agent.folder() / "assignment.json").stat().st_mode & 0o077 == 0
    assert agent.folder().stat().st_mode & 0o077 == 0


def test_a_checkpoint_directory_is_made_and_its_stock_told_at_start_and_end(
    api: FakeApi, agent: AgentProcess, tmp_path: Path
) -> None:
    directory = tmp_path / "deep" / "ckpt"
    save = "mkdir $D/step-5 && echo x > $D/step-5/w && echo w 2 > $D/step-5/COMPLETE; mkdir $D/step-6"
    run(api, make_assignment("w1", f"D={directory}; {save}", checkpoint_directory=str(directory)))
    api.reaches("Exited")
    with_stock = [report for report in api.reports if "a1" in report.checkpoints]
    assert with_stock[0].checkpoints["a1"] == ()
    end = with_stock[-1]
    assert [worker.phase for worker in end.workers] == ["Exited"]
    assert [(item.step, item.complete) for item in end.checkpoints["a1"]] == [(6, False), (5, True)]


def test_a_checkpoint_directory_that_cannot_be_is_told(api: FakeApi, agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    api.want(make_assignment(checkpoint_directory=str(tmp_path / "file" / "ckpt")))
    report = api.reaches("Exited")
    assert report.problem == "CHECKPOINT_DIR"
    assert str(tmp_path / "file") in report.message


def test_progress_and_checkpoints_are_told_while_it_runs(api: FakeApi, agent: AgentProcess, tmp_path: Path) -> None:
    directory = tmp_path / "ckpt"
    line = '{"rank": 0, "step": 7, "loss": 0.5}'
    done = f'{{"checkpoint": "{directory}/step-7"}}'
    save = f"mkdir {directory}/step-7; touch {directory}/step-7/COMPLETE"
    text = f"echo '{line}' >> $MUSTER_REPORT; echo nonsense >> $MUSTER_REPORT; {save}; echo '{done}' >> $MUSTER_REPORT; sleep 1000"
    assignment = make_assignment(
        "w1", text, checkpoint_directory=str(directory), template={"env": {"MUSTER_REPORT": "%{report}"}}
    )
    run(api, assignment)
    until(lambda: [(p.step, p.loss, p.rank) for p in api.progress()] == [(7, 0.5, 0)])
    until(lambda: [(item.step, item.complete) for item in api.stock() or ()] == [(7, True)])
    assert api.worker().phase == "Running"  # type: ignore[union-attr]


def test_progress_is_found_in_the_log_by_the_jobs_expression(api: FakeApi, agent: AgentProcess) -> None:
    regex = r"step (?P<step>\d+) loss (?P<loss>\S+)"
    run(api, make_assignment("w1", "echo step 3 loss 0.25; sleep 1000", template={"progress_regex": regex}))
    until(lambda: [(p.step, p.loss) for p in api.progress()] == [(3, 0.25)])


def test_per_rank_files_of_a_framework_are_shipped_as_their_ranks(api: FakeApi, agent: AgentProcess) -> None:
    from muster.launch import LogPattern

    text = "mkdir -p $L/r/0 $L/r/1; echo zero > $L/r/0/stdout.log; echo one > $L/r/1/stderr.log; echo own; exit 5"
    template = {
        "env": {"L": "%{logs}"},
        "ranks": 2,
        "first_rank": 2,
        "log_pattern": LogPattern(r"(?P<rank>\d+)/(?P<stream>stdout|stderr)\.log$"),
    }
    run(api, make_assignment("w1", text, template=template))
    report = api.reaches("Exited")
    assert report.exits[0].rank is None
    until(lambda: (api.log(None), api.log(2), api.log(3)) == ("own\n", "zero\n", "one\n"))
    tails = {(e.rank, e.data["stream"]): e.text for e in api.evidence() if e.source is Source.LOG}
    assert tails == {(None, "output"): "own\n", (2, "stdout"): "zero\n", (3, "stderr"): "one\n"}


def test_a_loud_rank_delays_nobody_and_keeps_its_begin_and_its_end(api: FakeApi, agent: AgentProcess) -> None:
    """30 MB at once with a limit of 1 MiB: the store has the first MiB whole, and the last words."""
    loud = (
        "i=0; while [ $i -lt 60 ]; do head -c 500000 /dev/zero | tr '\\0' $((i % 10)); i=$((i+1)); done; echo the end"
    )
    quiet = "while :; do echo $(date +%s) still here; sleep 0.05; done"
    api.want(
        make_assignment("w1", loud, log_limit=2**20), make_assignment("w2", quiet, attempt="a2", job_uid="j2", job="b")
    )
    for uid in ("w1", "w2"):
        api.reaches("Ready", uid)
    for uid in ("w1", "w2"):
        api.change(uid, desired="run")
    api.reaches("Exited", "w1")
    log = until(lambda: text if (text := api.log(0, "w1")).endswith("the end\n") else "")
    begin, _, end = log.partition("\n[muster: ")
    assert begin.startswith("0" * 500_000 + "1" * 500_000 + "2" * 40_000)
    assert len(begin) >= 2**20
    assert len(end) >= 64 * 1024
    assert api.log(0, "w2").count("still here") > 1


def test_a_backlog_of_reports_at_the_end_is_read_to_its_end(api: FakeApi, agent: AgentProcess) -> None:
    say = """i=0; while [ $i -lt 40000 ]; do echo '{"step": '$i', "padding": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}'; i=$((i+1)); done"""
    api.want(
        make_assignment(
            "w1", say + " > all; cat all >> $MUSTER_REPORT", template={"env": {"MUSTER_REPORT": "%{report}"}}
        )
    )
    api.reaches("Ready")
    api.change("w1", desired="run")
    api.reaches("Exited")
    assert max(point.step for point in api.progress()) == 39_999
