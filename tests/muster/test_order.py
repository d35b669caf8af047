"""Dependencies and arrays as manifests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.arrays import index_of, indices_of, size_of, values_of
from muster.problems import Problem
from muster.resources.job import Job
from muster.resources.parse import parse


def manifest(**spec: Any) -> dict[str, Any]:
    full = {"command": ["true"], **spec}
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": full}


def test_a_limit_behind_the_indices_is_the_parallelism() -> None:
    job = parse(manifest(array={"indices": "0-99%10"}, after=[{"job": "b"}]))
    assert isinstance(job, Job)
    wire = job.wire()
    assert wire["spec"]["array"] == {"indices": "0-99", "parallelism": 10}
    assert wire["spec"]["after"] == [{"job": "b", "condition": "succeeded"}]
    assert parse(wire) == job


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"array": {}}, "exactly one of indices and matrix"),
        ({"array": {"indices": "0-9", "matrix": {"A": ["1"]}}}, "exactly one of indices and matrix"),
        ({"array": {"indices": "9-0"}}, "9-0 is no range"),
        ({"array": {"indices": "0-9:0"}}, "0-9:0 is no range"),
        ({"array": {"indices": "-1"}}, "indices: expected such as"),
        ({"array": {"indices": "0-1000000"}}, "more than 10000 elements"),
        ({"array": {"indices": "0-9999999999"}}, "is no range"),
        ({"array": {"indices": "0-9%0"}}, "spec.array.parallelism"),
        ({"array": {"indices": "0-9%2", "parallelism": 3}}, "contradicts"),
        ({"array": {"matrix": {"A": ["1"] * 101, "B": ["1"] * 100}}}, "10100 elements are more than 10000"),
        ({"array": {"matrix": {"A": []}}}, "A: expected a list of at least one value"),
        ({"array": {"matrix": {"A B": ["1"]}}}, "'A B' is not a name"),
        ({"array": {"matrix": {"A": [True]}}}, "expected texts or numbers"),
        ({"array": {"paralelism": 2, "indices": "0-9"}}, 'did you mean "parallelism"?'),
        ({"after": [{"job": "b"}, {"job": "b"}]}, "the job b stands twice"),
        ({"after": [{"job": "b", "condition": "succeded"}]}, 'did you mean "succeeded"?'),
        ({"after": [{"job": "B"}]}, "spec.after[0].job"),
    ],
)
def test_what_is_wrong_is_said(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(manifest(**spec))
    found = [error.sentence() for error in caught.value.errors]
    assert any(sentence in one for one in found), found


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=50))
def test_indices_are_ascending_and_each_once(wanted: set[int]) -> None:
    text = ",".join(str(one) for one in wanted)
    assert indices_of(text) == sorted(wanted)
    array = {"indices": text}
    assert [index_of(array, place) for place in range(size_of(array))] == sorted(wanted)


@given(st.dictionaries(st.sampled_from("ABCD"), st.lists(st.text(max_size=2), min_size=1, max_size=4), min_size=1))
def test_a_matrix_has_every_combination_once(matrix: dict[str, list[str]]) -> None:
    unique = {name: list(dict.fromkeys(values)) for name, values in matrix.items()}
    array = {"matrix": unique}
    found = {tuple(values_of(array, place).items()) for place in range(size_of(array))}
    assert len(found) == size_of(array)
    assert all(list(dict(one)) == list(unique) for one in found)
