"""Verbs that change a part of something, one-liners, contexts, plug-ins, completion, the full screen."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli import editing, oneliners
from cli.errors import Failure
from tests.cli import canned
from tests.cli.stub import problem

ROOT = Path(__file__).parents[2]
JOB = "/namespaces/default/jobs/ddp-digits"


@pytest.fixture
def sent(stub):
    stub.on("PUT", JOB, 200, canned.JOB, {"Muster-Result": "configured"})
    return lambda: stub.last("PUT")["body"]


class TestChanging:
    def test_patch_merges_and_null_takes_away(self, muster, sent):
        done = muster("patch", "job", "ddp-digits", "-p", '{"spec": {"timeLimit": "2h", "checkpoint": null}}')
        assert (done.code, done.out) == (0, "job/ddp-digits configured\n")
        assert sent()["spec"]["timeLimit"] == "2h"
        assert "checkpoint" not in sent()["spec"]
        assert sent()["metadata"]["resourceVersion"] == canned.JOB["metadata"]["resourceVersion"]
        assert "status" not in sent()

    def test_label_sets_takes_away_and_overwrites_only_when_told(self, muster, sent):
        assert muster("label", "job", "ddp-digits", "team=vision", "--overwrite").code == 0
        assert sent()["metadata"]["labels"]["team"] == "vision"
        assert "expected KEY=VALUE" in muster("label", "job", "ddp-digits").err
        with pytest.raises(Failure, match="is 'a' already"):
            editing.labelled({"metadata": {"labels": {"x": "a"}}}, ("x=b",), "labels", overwrite=False)
        assert (
            editing.labelled({"metadata": {"labels": {"x": "a"}}}, ("x-",), "labels", overwrite=False)["metadata"][
                "labels"
            ]
            == {}
        )

    def test_scale_and_priority(self, muster, sent):
        muster("scale", "ddp-digits", "--workers", "8")
        assert sent()["spec"]["workers"] == 8
        muster("priority", "ddp-digits", "high")
        assert sent()["spec"]["priorityClass"] == "high"

    def test_edit_keeps_the_text_that_was_refused(self, stub, muster, monkeypatch, tmp_path):
        monkeypatch.setenv("EDITOR", "sed -i s/default/nowhere/")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        stub.on("PUT", JOB, *problem(422, "no such queue"))
        done = muster("edit", "job", "ddp-digits")
        assert done.code == 4
        assert "your text is in" in done.err
        kept = done.err.partition("your text is in ")[2].split()[0]
        assert "nowhere" in Path(kept).read_text()
        Path(kept).unlink()
        monkeypatch.setenv("EDITOR", "true")
        assert muster("edit", "job", "ddp-digits").out == "job/ddp-digits unchanged\n"

    def test_create_refuses_what_is_there(self, stub, muster, tmp_path):
        (tmp_path / "job.yaml").write_text(
            "{apiVersion: muster.dev/v1, kind: Job, metadata: {name: x}, spec: {command: [a]}}"
        )
        stub.on("POST", "/namespaces/default/jobs", *problem(409, "there is a live job x"))
        done = muster("create", "-f", tmp_path / "job.yaml")
        assert done.code == 4
        assert "job.yaml:1: there is a live job x" in done.err

    def test_diff_shows_what_apply_would_change(self, stub, muster, tmp_path):
        changed = canned.JOB | {"spec": canned.JOB["spec"] | {"timeLimit": "7h"}}
        stub.on("PUT", JOB, 200, changed)
        (tmp_path / "job.yaml").write_text(
            json.dumps(
                {key: changed[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "ddp-digits"}}
            )
        )
        done = muster("diff", "-f", tmp_path / "job.yaml")
        assert done.code == 1
        assert "+  timeLimit: 7h" in done.out
        assert stub.last("PUT")["query"] == {"dryRun": "True"} or stub.last("PUT")["query"]["dryRun"]
        stub.on("PUT", JOB, 200, canned.JOB)
        assert muster("diff", "-f", tmp_path / "job.yaml").code == 0


class TestOneLiners:
    def test_submit_sends_a_job_of_this_folder(self, stub, muster):
        stub.on("POST", "/namespaces/default/jobs", 201, canned.JOB)
        words = [
            "-w",
            "2",
            "-g",
            "h100:8",
            "-g",
            "a100",
            "--time",
            "2h",
            "-e",
            "LR=1",
            "--checkpoint",
            "ckpt",
            "--after",
            "prep",
            "--array",
            "0-3",
            "--within",
            "leaf",
        ]
        assert muster("submit", *words, "--", "python", "train.py", "--lr", "1").code == 0
        body = stub.last("POST")["body"]
        assert body["metadata"] == {"name": "train", "namespace": "default"}
        assert body["spec"] == {
            "command": ["python", "train.py", "--lr", "1"], "workdir": os.getcwd(), "workers": 2,
            "accelerators": [{"type": "h100", "count": 8}, {"type": "a100", "count": 1}], "timeLimit": "2h", "env": {"LR": "1"},
            "checkpoint": {"directory": os.path.abspath("ckpt")}, "after": [{"job": "prep"}], "array": {"indices": "0-3"}, "topology": {"required": "leaf"},
        }  # fmt: skip

    def test_a_name_that_nobody_gave_makes_room_for_one_in_use(self, stub, muster):
        def answer(request):
            name = request["body"]["metadata"]["name"]
            return (
                problem(409, f"there is a live job {name}")
                if name == "train"
                else (201, canned.JOB | {"metadata": canned.JOB["metadata"] | {"name": name}})
            )

        stub.answers["POST", "/namespaces/default/jobs"] = answer
        assert muster("submit", "--", "train.py").out == "job/train-2 created\n"
        assert muster("submit", "--name", "train", "--", "train.py").code == 4

    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (["python", "-u", "src/Train_2.py"], "train-2"),
            (["bash"], "bash"),
            (["./run.sh", "a"], "run"),
            (["7zip"], "job-7zip"),
        ],
    )
    def test_names(self, command, name):
        assert oneliners.name_of(command) == name

    @pytest.mark.parametrize("words", [["-g", ":8"], ["-g", "h100:x"], ["-e", "NOT_SET_ANYWHERE"]])
    def test_nonsense_is_refused(self, stub, muster, words):
        assert muster("submit", *words, "--", "true").code == 2


class TestContexts:
    def test_a_cluster_by_name_is_used_until_another_one_is(self, stub, muster, monkeypatch, tmp_path):
        monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "config.json"))
        monkeypatch.delenv("MUSTER_SERVER")
        monkeypatch.delenv("MUSTER_TOKEN")
        monkeypatch.delenv("MUSTER_DATA_DIR")
        (tmp_path / "token").write_text("from-a-file\n")
        assert (
            muster(
                "config", "set-context", "lab", "--server", stub.url, "--token-file", tmp_path / "token", "-n", "vision"
            ).code
            == 0
        )
        assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o600
        stub.listed("/namespaces/vision/jobs", [canned.JOB])
        assert "ddp-digits" in muster("get", "jobs").out
        assert stub.last("GET")["token"] == "Bearer from-a-file"
        muster("config", "set-context", "far", "--server", "https://far.example", "--token", "t")
        assert muster("config", "current-context").out == "lab\n"
        assert muster("config", "use-context", "faar").err.strip().endswith('did you mean "far"?')
        muster("config", "use-context", "far")
        assert "*        far" in muster("config", "get-contexts").out
        assert "token: (kept here)" in muster("config", "view").out
        monkeypatch.setenv("MUSTER_CONTEXT", "lab")
        assert muster("get", "jobs").code == 0
        assert muster("config", "delete-context", "lab").code == 0
        assert muster("get", "jobs").code == 5

    def test_a_file_that_is_none_is_told(self, muster, monkeypatch, tmp_path):
        (tmp_path / "config.json").write_text("{")
        monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "config.json"))
        assert "cannot be used" in muster("config", "get-contexts").err


def run(*words, **env):
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *words], cwd=ROOT, env=os.environ | env, capture_output=True, text=True
    )


def test_a_program_on_the_path_is_a_verb(tmp_path):
    (tmp_path / "muster-hello-there").write_text('#!/bin/sh\necho plug "$@"; exit 3\n')
    (tmp_path / "muster-hello-there").chmod(0o755)
    done = run("hello", "there", "a", "-x", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (3, "plug a -x\n")
    assert "did you mean" in run("helo").stderr or "see `muster --help`" in run("helo").stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [("muster su", "submit"), ("muster get jo", "job"), ("muster logs d", "ddp-digits"), ("muster get node n", "n1"), ("muster get jobs --no-", "--no-headers")],
)  # fmt: skip
def test_the_shell_completes_verbs_kinds_and_names(stub, words, found):
    nodes = [canned.NODES[0] | {"metadata": canned.NODES[0]["metadata"] | {"name": "n1"}}]
    stub.listed("/nodes", nodes)
    count = len(words.split()) - 1
    done = run(COMP_WORDS=words, COMP_CWORD=str(count), _MUSTER_COMPLETE="bash_complete")
    assert f"plain,{found}" in done.stdout.splitlines()


class Terminal:
    """`muster top` on a terminal of its own."""

    def __init__(self, rows=24, columns=100):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(ROOT)
            os.environ |= {"TERM": "xterm", "LINES": str(rows), "COLUMNS": str(columns)}
            os.execv(sys.executable, [sys.executable, "-m", "cli.main", "top"])
        self.seen = b""

    def until(self, text, seconds=60):
        self.seen, deadline = b"", time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, f"never saw {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536)

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        self.press("q")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    continue
        raise AssertionError("it did not end")


@pytest.mark.processes
def test_top_shows_jobs_nodes_and_one_of_them(stub):
    stub.get("/version", {"version": "0"})
    terminal = Terminal()
    terminal.until("ddp-digits")
    terminal.press("2")
    terminal.until(canned.NODES[0]["metadata"]["name"])
    terminal.press("\n")
    terminal.until("Boot id")
    terminal.press("q")
    terminal.press("1")
    terminal.until("ddp-digits")
    assert terminal.end() == 0


def test_top_needs_a_terminal(stub, muster):
    done = muster("top")
    assert done.code == 2
    assert "needs a terminal" in done.err


class TestTokens:
    def test_the_value_alone_for_scripts(self, stub, muster):
        stub.on("POST", "/tokens", 201, {"name": "ann", "token": "muster_abc", "role": "viewer"})
        assert (
            muster("token", "create", "--role", "viewer", "--name", "ann", "--expires", "30d", "-o", "value").out
            == "muster_abc\n"
        )
        assert stub.last("POST")["body"] == {"role": "viewer", "name": "ann", "expires": "30d"}
        assert muster("token", "create", "--role", "king").code == 2

    def test_what_one_may(self, stub, muster):
        stub.get("/access", {"allowed": False, "why": "this needs the role operator; this token has the role viewer"})
        done = muster("auth", "can-i", "drain", "nodes")
        assert (done.code, done.out) == (1, "no: this needs the role operator; this token has the role viewer\n")
        assert stub.last("GET")["query"] == {"method": "POST", "address": "/api/v1/nodes/x/drain"}
        muster("auth", "can-i", "create", "jobs", "-n", "vision")
        assert stub.last("GET")["query"] == {"method": "POST", "address": "/api/v1/namespaces/vision/jobs"}
        assert muster("auth", "can-i", "fly", "jobs").code == 2
