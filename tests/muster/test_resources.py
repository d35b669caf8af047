"""Manifests: what is right is kept as written, what is wrong is refused with all that is wrong at once."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.problems import FieldError, Problem
from muster.resources.job import Job
from muster.resources.parse import parse, path_text
from muster.resources.queue import Queue

EXAMPLES = Path(__file__).parents[2] / "examples"

FULL: dict[str, Any] = {
    "apiVersion": "muster.dev/v1",
    "kind": "Job",
    "metadata": {"name": "llama-sft", "namespace": "research", "labels": {"team": "nlp", "muster.dev/tier": "a.b_c"}},
    "spec": {
        "queue": "research",
        "framework": "torchrun",
        "workers": 16,
        "ranksPerWorker": 8,
        "accelerators": [{"type": "h200", "count": 8}, {"type": "h100", "count": 8, "workers": 32}],
        "cpu": "96",
        "memory": "1Ti",
        "workdir": ".",
        "command": ["python", "train.py"],
        "env": {"OMP_NUM_THREADS": "8"},
        "timeLimit": "12h",
        "topology": {"required": "block", "preferred": "leaf"},
        "checkpoint": {"directory": "/ckpt/llama", "format": "auto", "every": "auto", "grace": "120s"},
        "progress": {"regex": r"step (?P<step>\d+) loss (?P<loss>\S+)"},
        "recovery": {"maxRestarts": 20, "noProgressLimit": 3, "fenceAfter": "never", "recoveryTimeout": "10m"},
        "notify": {"webhook": "https://hooks.example/x", "events": ["failed", "held"]},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """FULL with the value at a dotted path set, or removed when `value` is ...; numbers index lists."""
    document = copy.deepcopy(FULL)
    at: Any = document
    *steps, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for step in steps:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return document


def refused(document: object) -> tuple[FieldError, ...]:
    with pytest.raises(Problem) as caught:
        parse(document)
    assert caught.value.status == 422
    return caught.value.errors


def test_a_full_manifest_is_kept_as_it_was_written() -> None:
    job = parse(FULL)
    assert isinstance(job, Job)
    assert (job.spec.workers, job.spec.ranks_per_worker, job.spec.accelerators[1].workers) == (16, 8, 32)
    wire = job.wire()
    for section in ("checkpoint", "topology", "notify", "accelerators", "env"):
        assert wire["spec"][section] == FULL["spec"][section]
    assert parse(wire) == job


def test_what_is_not_said_has_its_default() -> None:
    job = parse({"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"script": "true"}})
    assert isinstance(job, Job)
    assert (job.metadata.namespace, job.spec.queue, job.spec.framework, job.spec.workers) == (
        "default",
        "default",
        "command",
        1,
    )
    assert (job.spec.recovery.max_restarts, job.spec.recovery.fence_after) == (20, None)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_each_example_is_valid(path: Path) -> None:
    assert all(isinstance(parse(document), Job) for document in yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("apiVersion", "v1", "apiVersion", "unknown"),
        ("apiVersion", ..., "apiVersion", "required"),
        ("kind", "Jop", "kind", "unknown kind"),
        ("kind", ..., "kind", "required"),
        ("metadata.name", ..., "metadata.name", "required"),
        ("metadata.name", "Llama", "metadata.name", "lower-case"),
        ("metadata.name", "a" * 64, "metadata.name", "63"),
        ("metadata.name", "-a", "metadata.name", "beginning"),
        ("metadata.namespace", "a/b", "metadata.namespace", "lower-case"),
        ("metadata.labels", {"team": "a b"}, "metadata.labels", "label 'team'"),
        ("metadata.labels", {"a/b/c": "x"}, "metadata.labels", "label key"),
        ("spec", ..., "spec", "required"),
        ("spec.workers", 0, "spec.workers", "greater than or equal to 1"),
        ("spec.workers", "many", "spec.workers", "integer"),
        ("spec.accelerators.0.count", 0, "spec.accelerators[0].count", "greater than or equal to 1"),
        ("spec.accelerators.1.type", ..., "spec.accelerators[1].type", "required"),
        ("spec.cpu", "lots", "spec.cpu", "expected cores"),
        ("spec.cpu", True, "spec.cpu", "expected cores"),
        ("spec.memory", "1TB", "spec.memory", "expected bytes"),
        ("spec.timeLimit", "0s", "spec.timeLimit", "above zero"),
        ("spec.timeLimit", "12", "spec.timeLimit", "expected a duration"),
        ("spec.command", [], "spec.command", "at least the name of a program"),
        ("spec.command", "python train.py", "spec.command", "list"),
        ("spec.script", "true", "spec", "exactly one of command and script"),
        ("spec.command", ..., "spec", "exactly one of command and script"),
        ("spec.env", {"A-B": "1"}, "spec.env", "'A-B' is not a name"),
        ("spec.env", {"A": "x\0"}, "spec.env", "zero byte"),
        ("spec.framework", "torchrum", "spec.framework", "not one of the allowed values"),
        ("spec.checkpoint.directory", "", "spec.checkpoint.directory", "expected a folder"),
        ("spec.checkpoint.directory", ..., "spec.checkpoint.directory", "required"),
        ("spec.progress.regex", "step (", "spec.progress.regex", "expected a regular expression"),
        ("spec.progress.regex", r"loss (?P<loss>\S+)", "spec.progress.regex", "a group named step"),
        ("spec.recovery.fenceAfter", "soon", "spec.recovery.fenceAfter", "expected a duration"),
        ("spec.notify.webhook", "ftp://x", "spec.notify.webhook", "http"),
        ("spec.notify.events", [], "spec.notify.events", "at least 1"),
        ("spec.queue", "a queue", "spec.queue", "lower-case"),
    ],
)
def test_each_slip_is_found_where_it_is(path: str, value: Any, field: str, words: str) -> None:
    (error,) = refused(changed(path, value))
    assert error.field == field
    assert words in error.message


@pytest.mark.parametrize(
    ("path", "key", "meant"),
    [
        ("spec.accelerator", "accelerator", "accelerators"),
        ("spec.max_per_node", "max_per_node", "maxPerNode"),
        ("spec.topology.requires", "requires", "required"),
        ("spec.accelerators.0.counts", "counts", "count"),
        ("spec.recovery.fence", "fence", "fenceAfter"),
        ("metadata.label", "label", "labels"),
    ],
)
def test_an_unknown_field_says_what_was_probably_meant(path: str, key: str, meant: str) -> None:
    (error,) = refused(changed(path, 1))
    assert (error.code, error.found, error.suggestion) == ("UNKNOWN_FIELD", key, meant)
    assert meant in error.allowed


def test_all_findings_come_at_once() -> None:
    document = changed("spec.workers", 0)
    document["spec"]["cpu"], document["metadata"]["name"] = "lots", "UPPER"
    assert {error.field for error in refused(document)} == {"metadata.name", "spec.workers", "spec.cpu"}


def test_a_wrong_word_says_what_is_allowed_and_meant() -> None:
    (error,) = refused(changed("spec.framework", "torchrum"))
    assert error.allowed is not None
    assert {"command", "torchrun", "vllm"} <= set(error.allowed)
    assert error.suggestion == "torchrun"


@pytest.mark.parametrize("document", [None, [], "kind: Job", 3, [FULL]])
def test_what_is_no_mapping_is_refused(document: object) -> None:
    (error,) = refused(document)
    assert "expected a mapping" in error.message


def test_what_was_found_is_cut_short() -> None:
    (error,) = refused(changed("spec.cpu", "9" * 10_000 + "x"))
    assert len(str(error.found)) <= 200


def test_a_queue_has_its_own_kind() -> None:
    queue = parse(
        {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": "night"}, "spec": {"weight": 3}}
    )
    assert isinstance(queue, Queue)
    assert (queue.spec.weight, queue.spec.stopped) == (3, False)


def test_a_path_is_written_as_people_write_it() -> None:
    assert path_text(("spec", "accelerators", 0, "count")) == "spec.accelerators[0].count"
    assert path_text(()) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "kind", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["spec.workers", "spec.env", "spec.accelerators", "spec.checkpoint", "metadata", "spec"]), JSON)
def test_any_value_anywhere_is_a_job_or_a_problem(path: str, value: Any) -> None:
    findings: tuple[FieldError, ...] | None = None
    try:
        parse(changed(path, value))
    except Problem as problem:
        findings = problem.errors
    assert findings is None or (findings and all(error.message for error in findings))
