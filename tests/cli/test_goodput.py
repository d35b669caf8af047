"""`muster goodput`."""

import json

SUMS = {"queued": 3600.0, "suspended": 0.0, "starting": 360.0, "productive": 32400.0, "lost": 1800.0}
SUMS |= {"recovering": 1440.0, "stalled": 0.0, "saving": 0.0}
RESTART = {"attempt": 1, "cause": "gpu_lost", "detect": 0.2, "stop": 1.5, "decide": 0.0}
RESTART |= {"place": 9.0, "launch": 20.0, "load": None, "redo": 105.0}
RECEIPT = {
    "namespace": "default",
    "name": "llama",
    "outcome": "Succeeded",
    "devices": 16,
    "accelerator": "h100",
    "createdAt": "2026-11-30T12:00:00Z",
    "finishedAt": "2026-11-30T14:00:00Z",
    "ettr": 0.9,
    "deviceSeconds": SUMS,
    "restarts": [RESTART],
}
ACCOUNT = {"name": "research", "jobs": 3, "deviceSeconds": SUMS, "ettr": 0.9, "mttfSeconds": 7200.0}
ACCOUNT |= {"mttrSeconds": 31.0, "failures": 1, "parts": {"detect": 0.2}}


def test_a_job_has_its_receipt(stub, muster):
    stub.get("/namespaces/default/jobs/llama/receipt", RECEIPT)
    done = muster("goodput", "llama")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["default/llama: Succeeded after 2h", "ETTR 90.0% on 16 h100 devices"]
    assert "productive        9.000 device-hours  81.8%  steps that were kept" in lines
    assert not any(line.startswith("stalled") for line in lines)
    assert lines[-1].split() == ["1", "gpu_lost", "200ms", "1.50s", "0ms", "9.00s", "20.0s", "-", "1m45s"]
    assert max(map(len, lines)) <= 80


def test_sums_of_a_week_by_queue(stub, muster):
    stub.get("/goodput", {"by": "queue", "live": False, "total": ACCOUNT | {"name": "all"}, "items": [ACCOUNT]})
    done = muster("goodput", "--since", "7d", "-q", "research")
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:5] == ["research", "3", "1", "90.0%", "9.0h"]
    assert "finished ones" in done.out
    query = stub.last("GET")["query"]
    assert (query["by"], query["queue"], "namespace" in query) == ("queue", "research", False)
    assert json.loads(muster("goodput", "-o", "json").out)["items"] == [ACCOUNT]


def test_a_span_that_is_none_is_refused(stub, muster):
    done = muster("goodput", "--since", "week")
    assert (done.code, "expected a number with m, h, d or w" in done.err) == (2, True)
