"""Questions to the planner, as people type them and read the answers."""

import pytest

from tests.cli import canned

ETA = {"at": canned.at("12:25:00.000"), "bound": False, "basis": "limits", "note": ""}
NOW = {"at": canned.at("12:05:00.000"), "bound": False, "basis": "now", "note": ""}
NEVER = {"at": None, "bound": False, "basis": "none", "note": "it would not start even when all that runs has ended"}
FAR = {"at": canned.at("14:05:00.000"), "bound": True, "basis": "bound", "note": ""}


def name(job, namespace="default"):
    return {"namespace": namespace, "name": job}


ANSWER = {
    "apiVersion": "muster.dev/v1",
    "kind": "WhatIf",
    "metadata": {"resourceVersion": "41"},
    "at": canned.at("12:05:00.000"),
    "starts": [{**name("llama-sft"), "nodes": [f"node-{n}" for n in range(10)], "domain": "b0"}],
    "evictions": [{**name("big", "prod"), "victims": [name("small")]}],
    "waiting": 5,
    "jobs": [
        {**name("llama-sft"), "today": ETA, "then": NOW},
        {**name("other"), "today": ETA, "then": ETA},
        {**name("never"), "today": NEVER, "then": NEVER},
        {**name("far", "prod"), "today": FAR, "then": FAR},
    ],
    "why": None,
}
TEXT = """\
At revision 41, with the change:
  llama-sft               would start now on node-0, node-1, node-2, node-3,
                          node-4, node-5, node-6, node-7 and 2 more in b0
  prod/big                would have small go, and start then

JOB        TODAY       THEN        SOONER BY  BASIS   NOTE
llama-sft  in 20m      now         20m        now     -
other      in 20m      in 20m      0s         limits  -
never      ?           ?           -          none    it would not start even w…
prod/far   after 120m  after 120m  0s         bound   -
and 1 more
"""
ROOM = {
    "at": canned.at("12:05:00.000"),
    "items": [
        {
            "accelerator": "h100",
            "level": level,
            "domains": domains,
            "free": 12,
            "total": 16,
            "gangs": [
                {"devices": 1, "workers": 12, "domain": "b0"},
                {"devices": 8, "workers": whole, "domain": where},
            ],
        }
        for level, domains, whole, where in (("cluster", 1, 1, "cluster"), ("node", 2, 0, ""))
    ],
}
GANGS = """\
ACCELERATOR  LEVEL    DOMAINS  FREE   x 1  x 8  LARGEST IN
h100         cluster  1        12/16  12   1    cluster
h100         node     2        12/16  12   0    -
x N: workers of N devices each, of one gang in one domain, that could start now (12:05:00 UTC)
"""


def test_starts_are_told_beside_todays_within_80_columns(stub, muster, monkeypatch):
    monkeypatch.setattr("cli.verbs.whatif.now", lambda: canned.NOW)
    stub.on("POST", "/whatif", 200, ANSWER)
    done = muster("whatif", "--quota", "research=h100:64", "--add-nodes", 2, "--like", "node-0", "--drain", "node-1")
    assert (done.code, done.out, done.err) == (0, TEXT, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert stub.last("POST")["body"] == {
        "quota": {"research": {"h100": 64}},
        "addNodes": 2,
        "like": "node-0",
        "drain": ["node-1"],
        "namespace": "default",
    }


def test_which_gangs_could_start(stub, muster):
    stub.get("/capacity", ROOM)
    assert muster("whatif", "--gangs").out == GANGS


@pytest.mark.parametrize(
    "words",
    [
        "whatif",
        "whatif --gangs --drain node-1",
        "whatif --add-nodes 3",
        "whatif --quota research:h100=3",
        "whatif --quota research=h100:many",
    ],
)
def test_what_is_no_question_is_wrong_usage(stub, muster, words):
    assert muster(*words.split()).code == 2
    assert stub.asked == []
