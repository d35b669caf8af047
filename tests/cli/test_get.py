"""Tables, ages, formats, names: what `muster get` prints."""

import json

import pytest
import yaml

from cli.output import Column, age, clean, size, span, table
from tests.cli import canned

GOLDEN = {
    "get jobs": """\
NAME        PHASE    RESTARTS  STEP  REASON    ETA  AGE  MESSAGE
ddp-digits  Running  2         240   -         -    5m   -
llama-sft   Queued   0         -     CAPACITY  20m  5m   needs 16 workers with…
""",
    "get nodes": """\
NAME    PHASE           DEVICES   IN USE  LEAF   SINCE  JOBS
node-0  Ready,Cordoned  2 x h100  0       b0-l0  6m     -
node-1  Lost            2 x h100  0       b0-l0  3m34s  -
node-2  Ready           2 x h100  2       b0-l1  6m     ddp-digits
""",
    "get queues": """\
NAME     PARENT  WEIGHT  QUOTA  STOPPED  AGE  JOBS
default  -       1       -      no       65m  1 Queued, 1 Running
""",
    "get events": """\
AGE    LEVEL    OBJECT          REASON        MESSAGE
5m     normal   job/ddp-digits  Submitted     submitted by admin
4m59s  normal   job/ddp-digits  Placed        attempt 1 on node-0, node-1
4m17s  warning  job/ddp-digits  AttemptEnded  attempt 1 ended as RankFailed: ra…
""",
    "get attempts ddp-digits": """\
ATTEMPT  EPOCH  PHASE    REASON      FROM STEP  STEP  AGE    NODES
1        1      Ended    RankFailed  -          62    4m59s  node-0,node-1
2        2      Ended    NodeLost    50         120   4m17s  node-0,node-1
3        3      Running  -           100        240   3m32s  node-2,node-3
""",
    "get checkpoints ddp-digits": """\
NAME         STEP  FORMAT  COMPLETE  SIZE    AGE  WHY NOT
step-000200  200   dcp     yes       1.5MiB  60s  -
step-000225  225   dcp     no        1.5MiB  60s  the file .metadata is missing
""",
    "get jobs -A --no-headers": """\
default  ddp-digits  Running  2  240  -         -    5m  -
default  llama-sft   Queued   0  -    CAPACITY  20m  5m  needs 16 workers with…
""",
    "get jobs -o name": "job/ddp-digits\njob/llama-sft\n",
    "get attempts ddp-digits 2 -o name": "attempt/2\n",
    "get cp ddp-digits -o name": "checkpoint/step-000200\ncheckpoint/step-000225\n",
    "events": """\
AGE    LEVEL    OBJECT          REASON        MESSAGE
5m     normal   job/ddp-digits  Submitted     submitted by admin
4m59s  normal   job/ddp-digits  Placed        attempt 1 on node-0, node-1
4m17s  warning  job/ddp-digits  AttemptEnded  attempt 1 ended as RankFailed: ra…
""",
}


@pytest.mark.parametrize("words", GOLDEN)
def test_a_listing_is_printed_to_the_letter_within_80_columns(stub, muster, words):
    done = muster(*words.split())
    assert (done.code, done.err) == (0, "")
    assert done.out == GOLDEN[words]
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_claims_are_listed_with_who_they_wait_for(stub, muster):
    status = {
        "owner": "default/llama-sft",
        "queue": "default",
        "priority": 100,
        "nodes": ["node-0", "node-1"],
        "vacated": ["node-0"],
        "leaving": [{"job": "default/ddp-digits", "worker": "worker-0", "node": "node-1"}],
        "madeAt": None,
        "deadline": None,
    }
    claim = {"kind": "Claim", "metadata": {"name": "llama-sft", "namespace": "default"}, "status": status}
    stub.listed("/namespaces/default/claims", [claim])
    lines = muster("get", "claims").out.splitlines()
    assert lines[1].split()[:6] == ["default/llama-sft", "100", "1/2", "-", "-", "default/ddp-digits"]
    assert muster("get", "claims", "other").code == 3


@pytest.mark.parametrize("word", ["jobs", "job", "jo", "JOBS", "job/ddp-digits"])
def test_singular_plural_and_short_names_mean_the_same(stub, muster, word):
    assert muster("get", word, "-o", "name").out.startswith("job/ddp-digits\n")


def test_wide_shows_more_and_cuts_nothing(stub, muster):
    out = muster("get", "jobs", "-o", "wide").out
    assert "2 x h100" in out
    assert "node-2,node-3" in out
    assert canned.WAITING["status"]["message"] in out


def test_json_of_one_is_the_object_and_of_many_a_list(stub, muster):
    assert json.loads(muster("get", "job", "ddp-digits", "-o", "json").out) == canned.JOB
    whole = json.loads(muster("get", "nodes", "-o", "json").out)
    assert whole == {"apiVersion": "muster.dev/v1", "kind": "NodeList", "items": canned.NODES}


def test_yaml_reads_back_as_the_object(stub, muster):
    assert yaml.safe_load(muster("get", "job/ddp-digits", "-o", "yaml").out) == canned.JOB


def test_a_list_of_several_pages_is_read_to_its_end(stub, muster):
    def pages(request):
        second = request["query"].get("continue") == "next"
        metadata = {"resourceVersion": "1"} | ({} if second else {"continue": "next"})
        return 200, {"metadata": metadata, "items": [canned.job("b" if second else "a")]}

    stub.answers["GET", "/namespaces/default/jobs"] = pages
    assert muster("get", "jobs", "-o", "name").out == "job/a\njob/b\n"


def test_the_namespace_goes_from_option_or_environment_into_the_path(stub, muster, monkeypatch):
    stub.listed("/namespaces/research/jobs", [])
    assert muster("get", "jobs", "-n", "research").err == "no jobs in namespace research\n"
    monkeypatch.setenv("MUSTER_NAMESPACE", "research")
    assert muster("get", "jobs").err == "no jobs in namespace research\n"


def test_a_selector_is_the_servers_to_apply(stub, muster):
    muster("get", "jobs", "-l", "team=nlp")
    assert stub.last("GET")["query"] == {"labelSelector": "team=nlp"}


def test_what_is_there_is_shown_though_another_is_missing(stub, muster):
    done = muster("get", "nodes", "node-0", "node-9", "node-1", "-o", "name")
    assert done.out == "node/node-0\nnode/node-1\n"
    assert done.code == 3
    assert done.err.startswith("error: ")


def test_a_missing_checkpoint_is_named(stub, muster):
    done = muster("get", "checkpoints", "ddp-digits", "step-1")
    assert (done.code, done.err) == (3, "error: job ddp-digits has no checkpoint 'step-1'\n")


def test_colours_are_for_terminals_only_and_not_where_they_are_unwanted(monkeypatch):
    from cli import output

    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.colours()


def test_a_painted_table_has_the_same_places():
    columns = [Column("PHASE", lambda one: one["p"], painted=True), Column("X", lambda one: "x")]
    rows = [{"p": "Running"}, {"p": "Failed"}]
    painted = table(columns, rows, colour=True)
    assert painted.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", "") == table(columns, rows)
    assert "\x1b[32mRunning\x1b[0m" in painted


def test_nothing_that_a_program_wrote_can_steer_the_terminal():
    assert clean("a\x1b[2Jb\nc\td\u202ee") == "a [2Jb c d e"


def test_wide_letters_take_two_places():
    columns = [Column("A", lambda one: one[0]), Column("B", lambda one: one[1])]
    assert table(columns, [("日本", "x"), ("abcd", "y")], headers=False) == "日本  x\nabcd  y"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (312, "5m12s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_000, "3h20m"),
        (86_400, "24h"),
        (172_800, "2d"),
    ],
)
def test_ages_are_as_kubectl_has_them(seconds, text):
    assert age("2026-11-30T12:05:00.000Z", canned.NOW + seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0004, "0ms"),
        (0.12, "120ms"),
        (0.9996, "1.00s"),
        (1.1, "1.10s"),
        (9.996, "10.0s"),
        (42.3, "42.3s"),
        (59.96, "1m"),
        (-0.01, "-10ms"),
    ],
)
def test_short_spans_are_exact(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "-"), (0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (2**40, "1.0TiB")]
)
def test_sizes(count, text):
    assert size(count) == text
