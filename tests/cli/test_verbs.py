"""What each verb asks the server and says to its user, and the exit codes."""

import io
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.main import VERBS, cli
from tests.cli import canned
from tests.cli.stub import problem

ROOT = Path(__file__).parents[2]
PATH = "/namespaces/default/jobs/ddp-digits"
MANIFEST = """\
apiVersion: muster.dev/v1
kind: Job
metadata: {name: ddp-digits}
spec: {command: [python, train.py], workdir: src, checkpoint: {directory: ckpt}}
"""


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    return path


# -- apply -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["created", "configured", "unchanged"])
def test_apply_sends_the_manifest_and_tells_what_became_of_it(stub, muster, manifest, result):
    stub.on("PUT", PATH, 200, canned.JOB, {"Muster-Result": result})
    done = muster("apply", "-f", manifest)
    assert (done.code, done.out, done.err) == (0, f"job/ddp-digits {result}\n", "")
    sent = stub.last("PUT")
    assert sent["token"] == "Bearer secret"
    assert sent["body"]["metadata"] == {"name": "ddp-digits", "namespace": "default"}
    assert sent["body"]["spec"] == {
        "command": ["python", "train.py"],
        "workdir": str(manifest.parent / "src"),
        "checkpoint": {"directory": str(manifest.parent / "ckpt")},
    }


def test_apply_of_several_files_and_standard_input(stub, muster, manifest, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MANIFEST.replace("ddp-digits", "other").encode())))
    monkeypatch.chdir(tmp_path)
    stub.on("PUT", PATH, 200, canned.JOB, {"Muster-Result": "created"})
    stub.on("PUT", "/namespaces/default/jobs/other", 200, canned.JOB, {"Muster-Result": "created"})
    done = muster("apply", "-f", manifest, "-f", "-")
    assert done.out == "job/ddp-digits created\njob/other created\n"
    assert stub.last("PUT")["body"]["spec"]["workdir"] == str(tmp_path / "src"), "stdin: against the current folder"


def test_apply_goes_on_after_a_refusal_and_tells_every_finding(stub, muster, manifest, tmp_path):
    manifest.write_text(f"{MANIFEST}---\n{MANIFEST.replace('ddp-digits', 'good')}")
    errors = [
        {"field": "spec.worker", "code": "UNKNOWN_FIELD", "message": "unknown field", "found": "worker", "suggestion": "workers"},
        {"field": "spec.cpu", "code": "INVALID", "message": "expected cores"},
    ]  # fmt: skip
    stub.on("PUT", PATH, *problem(422, "", errors, title="The manifest is not valid"))
    stub.on("PUT", "/namespaces/default/jobs/good", 201, canned.JOB, {"Muster-Result": "created"})
    done = muster("apply", "-f", manifest)
    assert done.code == 4
    assert done.out == "job/good created\n"
    assert done.err == (
        f"error: {manifest}:1: job/ddp-digits: the manifest is not valid\n"
        "  spec.worker: unknown field (found 'worker'); did you mean \"workers\"?\n"
        "  spec.cpu: expected cores\n"
    )


def test_jobs_that_stand_together_go_in_one_request_and_what_is_there_already_is_applied(stub, muster, manifest):
    names = ["a", "b", "c"]
    queue = "apiVersion: muster.dev/v1\nkind: Queue\nmetadata: {name: q}\nspec: {}\n"
    manifest.write_text("---\n".join([queue, *(MANIFEST.replace("ddp-digits", name) for name in names)]))
    new = {"status": 201, "object": canned.job(phase="Queued", warnings=["slow"]), "problem": None}
    live = {"status": 409, "object": None, "problem": {"status": 409, "title": "Conflict", "code": "ALREADY_EXISTS"}}
    stub.on("PUT", "/queues/q", 201, {}, {"Muster-Result": "created"})
    stub.on("POST", "/namespaces/default/jobs", 207, {"items": [new, live, live]})
    stub.on("PUT", "/namespaces/default/jobs/b", 200, canned.JOB, {"Muster-Result": "unchanged"})
    stub.on("PUT", "/namespaces/default/jobs/c", *problem(422, "no"))
    done = muster("apply", "-f", manifest)
    assert done.out == "queue/q created\njob/a created\njob/b unchanged\n"
    line = manifest.read_text()[: manifest.read_text().rindex("---")].count("\n") + 2
    assert done.err == f"warning: job/a: slow\nerror: {manifest}:{line}: job/c: no\n"
    assert done.code == 4
    assert [one["metadata"] for one in stub.last("POST")["body"]["items"]] == [
        {"name": name, "namespace": "default"} for name in names
    ]


def test_a_manifest_that_means_one_very_object_goes_alone(stub, muster, manifest):
    bound = MANIFEST.replace("{name: ddp-digits}", "{name: ddp-digits, uid: u-1}")
    manifest.write_text("---\n".join([bound, MANIFEST.replace("ddp-digits", "b")]))
    stub.on("PUT", PATH, *problem(409, "another uid"))
    stub.on("PUT", "/namespaces/default/jobs/b", 201, canned.JOB, {"Muster-Result": "created"})
    assert muster("apply", "-f", manifest).out == "job/b created\n"
    assert not any(one["method"] == "POST" for one in stub.asked)


def test_nothing_is_sent_when_one_manifest_cannot_be_read(stub, muster, manifest):
    manifest.write_text(f"{MANIFEST}---\nkind: [")
    done = muster("apply", "-f", manifest)
    assert done.code == 1
    assert done.err.startswith("error: nothing was sent: the manifests cannot be read\n")
    assert not stub.asked


def test_apply_tells_the_servers_warnings(stub, muster, manifest):
    stub.on(
        "PUT", PATH, 201, canned.job(phase="Queued", warnings=["no node has 8 x h100"]), {"Muster-Result": "created"}
    )
    done = muster("apply", "-f", manifest)
    assert (done.code, done.err) == (0, "warning: job/ddp-digits: no node has 8 x h100\n")


def test_a_dry_run_says_so_to_both(stub, muster, manifest):
    stub.on("PUT", PATH, 200, canned.JOB, {"Muster-Result": "created"})
    assert muster("apply", "-f", manifest, "--dry-run").out == "job/ddp-digits created (dry run)\n"
    assert stub.last("PUT")["query"] == {"dryRun": "true"}


def test_namespaces_that_contradict_each_other_are_refused(stub, muster, manifest):
    manifest.write_text(MANIFEST.replace("{name: ddp-digits}", "{name: ddp-digits, namespace: a}"))
    done = muster("apply", "-f", manifest, "-n", "b")
    assert (done.code, done.err) == (2, f"error: {manifest}:1: the manifest says namespace a, the command says b\n")


@pytest.mark.parametrize("verb", ["apply", "delete"])
def test_the_default_namespace_named_on_purpose_contradicts_a_manifest_too(stub, muster, manifest, verb):
    manifest.write_text(MANIFEST.replace("{name: ddp-digits}", "{name: ddp-digits, namespace: team}"))
    done = muster(verb, "-f", manifest, "-n", "default")
    assert (done.code, stub.asked) == (2, [])
    assert "the manifest says namespace team, the command says default" in done.err


def test_a_kind_that_cannot_be_applied_gets_a_suggestion(stub, muster, manifest):
    manifest.write_text(MANIFEST.replace("kind: Job", "kind: Jobs"))
    done = muster("apply", "-f", manifest)
    assert done.code == 4
    assert done.err.endswith('unknown kind "Jobs"\nhint: did you mean "Job"?\n')


# -- wishes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("suspend", "will be suspended"),
        ("resume", "resumed"),
        ("restart", "will be restarted"),
        ("cancel", "will be cancelled"),
    ],
)
@pytest.mark.parametrize("words", [["ddp-digits"], ["job/ddp-digits"], ["job", "ddp-digits"]])
def test_a_wish_for_a_job_in_each_way_of_naming_it(stub, muster, verb, said, words):
    stub.on("POST", f"{PATH}/{verb}", 202, canned.JOB)
    done = muster(verb, *words)
    assert (done.code, done.out) == (0, f"job/ddp-digits {said}\n")


def test_cordon_and_uncordon(stub, muster):
    for verb in ("cordon", "uncordon"):
        stub.on("POST", f"/nodes/node-0/{verb}", 200, canned.NODES[0])
        assert muster(verb, "node-0").out == f"node/node-0 {verb}ed\n"


def test_delete_says_what_it_did_to_a_live_job_a_finished_one_and_a_queue(stub, muster, manifest):
    stub.on("DELETE", PATH, 202, canned.JOB)
    stub.on("DELETE", "/namespaces/default/jobs/old", 200, canned.job("old", "Failed"))
    stub.on("DELETE", "/queues/q", 200, canned.QUEUE)
    assert muster("delete", "job", "ddp-digits", "old").out == "job/ddp-digits will be cancelled\njob/old deleted\n"
    assert muster("delete", "queue/q").out == "queue/q deleted\n"
    assert muster("delete", "-f", manifest).out == "job/ddp-digits will be cancelled\n"


def test_a_conflict_is_refused_with_the_servers_words(stub, muster):
    stub.on("POST", f"{PATH}/resume", *problem(409, "job ddp-digits is not suspended"))
    done = muster("resume", "ddp-digits")
    assert (done.code, done.err) == (4, "error: job ddp-digits is not suspended\n")


# -- wait --------------------------------------------------------------------------------------------


def passing(*phases):
    """The job in one phase after the other; None: it is not there."""
    left = list(phases)

    def answer(_):
        phase = left.pop(0) if len(left) > 1 else left[0]
        return problem(404, "there is no job") if phase is None else (200, canned.job(phase=phase, reason="UserError"))

    return answer


@pytest.fixture
def _quick(monkeypatch):
    monkeypatch.setattr("cli.verbs.wait.PAUSE", 0.001)
    monkeypatch.setattr("cli.verbs.events.PAUSE", 0.001)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("goal", "phases", "code", "told"),
    [
        ("phase=Running", ["Queued", "Starting", "Running"], 0, "job/ddp-digits is Running\n"),
        ("phase=Succeeded", ["Running", "Succeeded"], 0, "job/ddp-digits is Succeeded\n"),
        ("terminal", ["Running", "Failed"], 0, "job/ddp-digits is Failed\n"),
        ("deleted", ["Running", "Cancelled", None], 0, "job/ddp-digits deleted\n"),
        ("phase=Succeeded", ["Running", "Failed"], 1, "error: job/ddp-digits is Failed and will not be Succeeded (UserError)\n"),
        ("phase=Running", ["Cancelled"], 1, "error: job/ddp-digits is Cancelled and will not be Running (UserError)\n"),
        ("terminal", [None], 3, "error: there is no job 'ddp-digits'\n"),
    ],
)  # fmt: skip
def test_waiting_ends_when_the_goal_is_reached_or_out_of_reach(stub, muster, goal, phases, code, told):
    stub.answers["GET", PATH] = passing(*phases)
    done = muster("wait", "job/ddp-digits", f"--for={goal}")
    assert (done.code, done.out + done.err) == (code, told)


@pytest.mark.usefixtures("_quick")
def test_waiting_gives_up_with_124(stub, muster):
    done = muster("wait", "job", "ddp-digits", "--for=phase=Succeeded", "--timeout", "0")
    assert (done.code, done.err) == (124, "error: timed out: job/ddp-digits is Running\n")


@pytest.mark.usefixtures("_quick")
def test_waiting_outlives_a_server_that_does_not_answer_for_a_while(stub, muster):
    answers = [problem(503, "the database is away")] * 8 + [(200, canned.job(phase="Succeeded"))]
    stub.answers["GET", PATH] = lambda _: answers.pop(0)
    assert muster("wait", "job/ddp-digits").out == "job/ddp-digits is Succeeded\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--for=phase=Suceeded"], 'did you mean "phase=Succeeded"?'),
        (["--for=running"], 'did you mean "phase=Running"?'),
        (["--timeout=soon"], None),
    ],
)
def test_a_goal_or_time_that_is_none_is_wrong_usage(stub, muster, words, hint):
    done = muster("wait", "job/x", *words)
    assert done.code == 2
    assert hint is None or f"hint: {hint}" in done.err


# -- logs and events ---------------------------------------------------------------------------------


def test_logs_go_through_byte_by_byte(stub, muster):
    text = "step 1 loss 2.3\nno end of line: é".encode()
    stub.on("GET", f"{PATH}/logs", 200, text)
    done = muster("logs", "job/ddp-digits", "--worker", "0", "--rank", "0", "--tail", "0", "--attempt", "2")
    assert done.out.encode() == text
    assert stub.last("GET")["query"] == {"worker": "0", "rank": "0", "tail": "0", "attempt": "2"}


def test_logs_of_all_ranks_followed(stub, muster):
    stub.on("GET", f"{PATH}/logs", 200, b"")
    stub.listed(f"{PATH}/attempts", [canned.FIRST])
    assert muster("logs", "-f", "ddp-digits", "--all-ranks", "--attempt", "1").code == 0
    asked = [one["query"] for one in stub.asked if one["path"].endswith("/logs")]
    assert asked == [{"attempt": "1", "follow": "1", "allRanks": "1"}]


@pytest.mark.parametrize("words", [["--rank", "x"], ["--rank", "1", "--all-ranks"], ["--tail", "-1"]])
def test_senseless_options_of_logs_are_wrong_usage(stub, muster, words):
    assert muster("logs", "ddp-digits", *words).code == 2


@pytest.mark.usefixtures("_quick")
def test_watched_events_come_once_each_and_only_of_the_job(stub, muster):
    later = [
        canned.event(50, "12:05:00.000", "Placed", "of another", uid="other"),
        canned.event(51, "12:05:01.000", "Running", "\x1b[2Jruns"),
    ]

    def coming(request):
        after = int(request["query"]["after"])
        if after == 51:
            return problem(401, "that is all")
        return 200, {
            "metadata": {"resourceVersion": "60"},
            "items": [one for one in later if one["revision"] > after][:1],
        }

    stub.answers["GET", "/namespaces/default/events"] = coming
    done = muster("events", "-w", "--job", "ddp-digits")
    assert done.out.splitlines()[-2:] == [
        "12:00:42  job/ddp-digits  AttemptEnded  " + canned.EVENTS[2]["message"],
        "12:05:01  job/ddp-digits  Running  ?[2Jruns",
    ]
    assert done.code == 4, "the watch ended by the server's refusal"


# -- finding the cluster -----------------------------------------------------------------------------


def test_the_cluster_of_the_data_directory_is_found(stub, muster, monkeypatch, tmp_path):
    (tmp_path / "up.json").write_text(json.dumps({"url": stub.url}))
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.delenv("MUSTER_SERVER")
    monkeypatch.delenv("MUSTER_TOKEN")
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    assert muster("get", "jobs").code == 0
    assert stub.last("GET")["token"] == "Bearer from-file"


def test_no_cluster_at_all(muster):
    done = muster("get", "jobs")
    assert done.code == 5
    assert done.err.startswith("error: no cluster")
    assert "`muster up` starts a cluster" in done.err
    assert "\nhint: MUSTER_DATA_DIR names" in done.err


def test_a_cluster_that_does_not_answer(muster, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MUSTER_SERVER", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("MUSTER_TOKEN", "t")
        done = muster("get", "jobs")
    assert done.code == 5
    assert "cannot be reached: Connection refused" in done.err


def test_a_server_that_is_no_muster(stub, muster):
    stub.on("GET", "/namespaces/default/jobs", 200, b"<html>")
    done = muster("get", "jobs")
    assert (done.code, done.out) == (1, "")
    assert "the answer is not one of Muster's API" in done.err


def test_a_token_that_is_not_known(stub, muster):
    stub.on("GET", "/nodes", *problem(401, "this token is not known"))
    done = muster("get", "nodes")
    assert (done.code, done.err.splitlines()[0]) == (4, "error: this token is not known")
    assert "MUSTER_TOKEN" in done.err


# -- usage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gte", "jobs"], 'error: unknown command "gte"\nhint: did you mean "get"?\n'),
        (["xyzzy"], 'error: unknown command "xyzzy"\nhint: see `muster --help`\n'),
        (["get", "jbos"], 'error: "jbos" is not a resource\nhint: did you mean "jobs"?\n'),
        (["describe", "events", "x"], 'error: "events" cannot be used here\nhint: known: jobs (jo), nodes (no), queues (q), priorityclasses (pc), reservations (rsv), maintenancewindows (mw)\n'),
        (["get", "attempts"], "error: attempts of which job?\nhint: muster get attempts JOB\n"),
        (["get", "jobs", "-o", "xml"], None),
        (["get"], None),
        (["describe", "job"], None),
        (["describe", "job", "a", "job/b"], None),
        (["delete"], None),
        (["apply"], None),
        (["get", "jobs", "--nope"], None),
        (["get", "nodes", "-l", "a=b"], None),
    ],
)  # fmt: skip
def test_wrong_usage_is_2_and_says_what_was_meant(stub, muster, words, told):
    done = muster(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert told is None or done.err == told
    assert not stub.asked


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help_within_80_columns(muster, verb):
    done = muster(verb, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: muster {verb}")
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_help_tells_the_verbs_and_the_exit_codes(muster):
    out = muster("--help").out
    assert all(f"\n  {verb} " in out for verb in VERBS)
    assert "\n    124  `wait` ran out of time\n" in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_verb_stands_where_the_table_says():
    context = cli.make_context("muster", ["version"], resilient_parsing=True)
    assert {name: cli.get_command(context, name).name for name in VERBS} == {name: name for name in VERBS}


def test_version_with_and_without_a_server(stub, muster):
    stub.get("/version", {"version": "9.9.9", "apiVersion": "muster.dev/v1", "protocol": 1, "protocolOldest": 1})
    assert muster("version", "--client").out.startswith("client  0.")
    assert "server  9.9.9 (API muster.dev/v1, agent protocol 1)" in muster("version").out


# -- as a process ------------------------------------------------------------------------------------


def test_get_jobs_as_a_process_imports_nothing_heavy(stub):
    program = (
        "import sys; from cli.main import run; run(['get', 'jobs']);"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("NAME ")
    heavy = {"yaml", "pydantic", "msgspec", "rich", "asyncio", "sqlalchemy", "numpy", "controller", "api", "agents"}
    assert not heavy & set(eval(done.stderr))


def test_a_reader_that_has_seen_enough_is_no_error(stub):
    stub.listed("/namespaces/default/jobs", [canned.job(f"job-{number}") for number in range(3000)])
    command = f"{sys.executable} -m cli.main get jobs | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split()[0], done.stderr) == ("NAME", "")


def test_the_exit_code_is_that_of_the_process(stub):
    command = [sys.executable, "-m", "cli.main", "describe", "job", "none"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: ")
    assert time.monotonic() - began < 30
