"""Every refusal says where, what was found, what is allowed, and what was probably meant."""

import json

import pytest

from muster.problems import FieldError, Problem, nearest


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FieldError("spec.workers", "required"), "spec.workers: required"),
        (FieldError("", "expected a mapping"), "expected a mapping"),
        (FieldError("spec.cpu", "expected cores", found="many"), "spec.cpu: expected cores (found 'many')"),
        (
            FieldError("kind", "unknown kind", found="Jub", allowed=("Job", "Queue"), suggestion="Job"),
            "kind: unknown kind (found 'Jub'); did you mean \"Job\"?",
        ),
        (FieldError("kind", "unknown kind", allowed=("Job", "Queue")), "kind: unknown kind; allowed: Job, Queue"),
        (FieldError("type", "unknown", allowed=tuple("abcdefghijklmnop")), "type: unknown"),
    ],
)
def test_one_finding_is_one_sentence(error: FieldError, sentence: str) -> None:
    assert error.sentence() == sentence


def test_a_finding_on_the_wire_leaves_out_what_it_does_not_know() -> None:
    assert FieldError("spec.cpu", "required", "REQUIRED").wire() == {
        "field": "spec.cpu",
        "code": "REQUIRED",
        "message": "required",
    }
    full = FieldError("a", "b", "C", found=0, allowed=("x",), suggestion="x").wire()
    assert full == {"field": "a", "code": "C", "message": "b", "found": 0, "allowed": ["x"], "suggestion": "x"}


def test_a_problem_document_is_rfc_9457_and_collects_its_findings() -> None:
    findings = (FieldError("spec.cpu", "required"), FieldError("spec.memory", "required"))
    wire = Problem(422, "NOT_VALID", "The manifest is not valid", errors=findings, extra={"jobs": ["a"]}).wire()
    assert wire["type"] == "https://muster.dev/problems/not-valid"
    assert (wire["status"], wire["code"], wire["jobs"]) == (422, "NOT_VALID", ["a"])
    assert wire["detail"] == "spec.cpu: required; spec.memory: required"
    assert [error["field"] for error in wire["errors"]] == ["spec.cpu", "spec.memory"]
    json.dumps(wire)


def test_a_problem_reads_as_its_detail_or_its_title() -> None:
    assert str(Problem(409, "X", "In conflict", "the name is taken")) == "the name is taken"
    assert str(Problem(409, "X", "In conflict")) == "In conflict"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("acceleratorz", "accelerators"), ("COMMAND", "command"), ("workersPerNode", None), ("", None), ("xyzzy", None)],
)
def test_the_nearest_word_is_found_or_nothing(word: str, meant: str | None) -> None:
    assert nearest(word, ["accelerators", "command", "checkpoint", "topology"]) == meant
