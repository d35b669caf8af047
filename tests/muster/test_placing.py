"""What a manifest may say of where its gang lies."""

from typing import Any

import pytest

from muster.problems import Problem
from muster.resources.job import Job
from muster.resources.parse import parse


def manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"command": ["true"], "workers": 4, "accelerators": [{"type": "h100", "count": 8}], **spec},
    }


def said(**spec: Any) -> list[str]:
    with pytest.raises(Problem) as caught:
        parse(manifest(**spec))
    return [error.sentence() for error in caught.value.errors]


def test_all_of_it_is_kept_as_written() -> None:
    spec = {
        "topology": {
            "required": "block",
            "segment": {"size": 2, "level": "leaf"},
            "split": "balanced",
            "rails": "match",
            "devices": "joined",
        },
        "nodeSelector": {"pool": "a"},
        "nodes": {"include": ["n1"], "exclude": ["n2"]},
        "preemption": {"allowed": False},
    }
    job = parse(manifest(**spec))
    assert isinstance(job, Job)
    wire = job.wire()["spec"]
    assert {name: wire[name] for name in spec} == spec


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"topology": {"segment": {"size": 3, "level": "leaf"}}}, "4 workers are no multiple of segments of 3"),
        ({"topology": {"segment": {"size": 0, "level": "leaf"}}}, "spec.topology.segment.size"),
        ({"topology": {"segment": {"size": 2}}}, "spec.topology.segment.level: required"),
        ({"topology": {"split": "balancd"}}, 'did you mean "balanced"?'),
        ({"topology": {"rail": "match"}}, 'did you mean "rails"?'),
        ({"topology": {"rails": "match"}, "accelerators": []}, "topology.rails: match needs accelerators"),
        ({"nodeSelector": {"a b": "c"}}, "label key 'a b'"),
        ({"nodeSelektor": {"a": "c"}}, 'did you mean "nodeSelector"?'),
        ({"nodes": {"include": ["n1"], "exclude": ["n1"]}}, "n1: both included and excluded"),
        ({"nodes": {"include": [""]}}, "spec.nodes.include[0]: expected the name of a node"),
        ({"preemption": {"allowed": "maybe"}}, "spec.preemption.allowed"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(spec: dict[str, Any], sentence: str) -> None:
    found = said(**spec)
    assert any(sentence in one for one in found), found
