"""`muster admin`."""

import json

from tests.cli.stub import problem

SOUND = {"ok": True, "revision": "41", "invariants": [{"name": "no_gap", "broken": []}]}
BENT = {
    "ok": False,
    "revision": "41",
    "invariants": [*SOUND["invariants"], {"name": "one_attempt", "broken": ["a1 and a2 are both live"]}],
}
ITEM = {
    "id": "o1",
    "kind": "webhook",
    "key": "k",
    "state": "dead",
    "tries": 12,
    "error": "answered 500",
    "createdAt": "2026-11-30T12:00:00Z",
    "nextAt": None,
    "doneAt": "2026-11-30T12:04:00Z",
}


def test_a_sound_cluster_is_0(stub, muster):
    stub.get("/admin/check", SOUND)
    done = muster("admin", "check")
    assert (done.code, done.out) == (0, "ok      no gap\nall 1 invariants hold at revision 41\n")


def test_a_broken_invariant_is_1_and_is_told(stub, muster):
    stub.get("/admin/check", BENT)
    done = muster("admin", "check")
    assert done.code == 1
    assert "BROKEN  one attempt" in done.out
    assert "a1 and a2 are both live" in done.err
    done = muster("admin", "check", "-o", "json")
    assert (done.code, json.loads(done.out)) == (1, BENT)


def test_the_audit_trail_is_printed_line_by_line(stub, muster):
    stub.get("/admin/audit", b'{"name": "a"}\n{"name": "b"}\n')
    done = muster("admin", "audit", "--actor", "ann", "--since", "2026-11-30T12:00:00Z")
    assert (done.code, done.out) == (0, '{"name": "a"}\n{"name": "b"}\n')
    assert stub.last("GET")["query"] == {"actor": "ann", "since": "2026-11-30T12:00:00Z"}


def test_the_dead_letters_are_what_outbox_lists(stub, muster):
    stub.listed("/admin/outbox", [ITEM])
    for words in ([], ["list"]):
        done = muster("admin", "outbox", *words)
        assert done.code == 0
        assert "o1" in done.out
        assert "answered 500" in done.out
        assert stub.last("GET")["query"] == {"state": "dead"}


def test_no_dead_letters_are_said_so(stub, muster):
    stub.listed("/admin/outbox", [])
    done = muster("admin", "outbox", "list", "--state", "due")
    assert (done.code, done.out, done.err) == (0, "", "no due items in the outbox\n")


def test_a_retry_says_what_it_did_or_why_not(stub, muster):
    stub.on("POST", "/admin/outbox/o1/retry", 200, ITEM)
    assert muster("admin", "outbox", "retry", "o1").out == "outbox/o1 is due again\n"
    stub.on("POST", "/admin/outbox/o2/retry", *problem(409, "outbox item o2 is done, not dead"))
    done = muster("admin", "outbox", "retry", "o2")
    assert (done.code, done.err) == (4, "error: outbox item o2 is done, not dead\n")


def test_an_unknown_part_of_admin_is_wrong_usage(stub, muster):
    assert muster("admin", "chek").code == 2
