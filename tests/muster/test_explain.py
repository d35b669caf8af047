"""`muster explain` and the tables of the docs tell what the models say."""

from pathlib import Path

import pytest

from muster.resources.explain import BEGIN, END, fields, find, table
from muster.resources.parse import KINDS

DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_means(kind: str) -> None:
    assert [one.path for one in fields(kind) if not one.about] == []


def test_the_table_of_the_docs_is_the_models() -> None:
    text = DOCS.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == table("Job"), (
        "run `python -m muster.resources.explain docs/jobs.md`"
    )


def test_a_field_is_told_with_what_is_inside_it() -> None:
    own, *inside = find("job.spec.topology")
    assert (own.type, own.when) == ("mapping", "next attempt")
    assert [one.path for one in inside][:2] == ["spec.topology.required", "spec.topology.preferred"]
    assert find("jobs.spec.array.parallelism")[0].when == "live"
    assert find("priorityclasses.spec.preempts")[0].allowed == ("lower", "never")
    assert [one.path for one in find("queue")] == ["metadata", "spec"]


@pytest.mark.parametrize(
    ("words", "says"),
    [("job.spec.topologie", 'did you mean "spec.topology"?'), ("jop", 'did you mean "Job"?'), ("x.y", "known: Job")],
)
def test_an_unknown_field_is_told_with_the_nearest(words: str, says: str) -> None:
    with pytest.raises(LookupError) as caught:
        find(words)
    assert says in str(caught.value)
