"""Forms of output beside tables: jsonpath as kubectl reads it, custom columns, orders; and watching."""

import pytest

from cli import forms, jsonpath
from cli.errors import Failure

DOCUMENT = {
    "kind": "JobList",
    "items": [
        {"metadata": {"name": "a", "labels": {"team.x/y": "red"}}, "status": {"phase": "Running", "step": 30, "at": "2026-03-01T00:00:00Z"}},
        {"metadata": {"name": "b"}, "status": {"phase": "Failed", "step": 4, "at": "2026-02-01T00:00:00Z"}},
        {"metadata": {"name": "c"}, "status": {"phase": "Running"}},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "JobList"),
        (".kind", "JobList"),
        ("kind", "JobList"),
        ("{.items[*].metadata.name}", "a b c"),
        ("{.items[0].metadata.name} and {.items[-1].metadata.name}", "a and c"),
        ("{.items[0:2].metadata.name}", "a b"),
        ("{.items[0,2].metadata.name}", "a c"),
        ("{..name}", "a b c"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.step}{"\\n"}{end}', "a\t30\nb\t4\nc\t\n"),
        ('{.items[?(@.status.phase=="Running")].metadata.name}', "a c"),
        ("{.items[?(@.status.step>10)].metadata.name}", "a"),
        ("{.items[?(@.status.step)].metadata.name}", "a b"),
        ("{.items[0].metadata.labels['team.x/y']}", "red"),
        ("{.items[0].metadata.labels.team\\.x/y}", "red"),
        ("{.items[0].status}", '{"phase": "Running", "step": 30, "at": "2026-03-01T00:00:00Z"}'),
        ("{.nothing}", ""),
        ("{$.kind}!", "JobList!"),
    ],
)
def test_jsonpath_as_kubectl_has_it(template, text):
    assert jsonpath.render(template, DOCUMENT) == text


@pytest.mark.parametrize(
    "template", ["{.items", "{.items[}", "{range .items[*]}{.a}", "{end}", "{.items[oops]}", "{.a b}"]
)
def test_a_template_that_is_none_says_why(template):
    with pytest.raises(Failure, match="jsonpath"):
        jsonpath.render(template, DOCUMENT)


def test_columns_of_ones_own_and_an_order(stub, muster):
    done = muster(
        "get",
        "jobs",
        "-o",
        "custom-columns=NAME:.metadata.name,PHASE:.status.phase,X:.no",
        "--sort-by",
        ".metadata.name",
    )
    assert done.code == 0
    assert done.out.splitlines()[:2] == ["NAME        PHASE    X", "ddp-digits  Running  <none>"]
    assert [one["metadata"]["name"] for one in forms.in_order(list(DOCUMENT["items"]), ".status.step")] == [
        "c",
        "b",
        "a",
    ]
    assert [one["metadata"]["name"] for one in forms.in_order(list(DOCUMENT["items"]), ".status.at")] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("form", "told"),
    [("yam", 'did you mean "yaml"?'), ("jsonpath=", "the template is missing"), ("custom-columns=A", "expected TITLE:PATH"), ("jsonpath={x", "is not closed")],
)  # fmt: skip
def test_a_form_that_is_none_is_refused(stub, muster, form, told):
    done = muster("get", "jobs", "-o", form)
    assert done.code == 2
    assert told in done.err


def test_selectors_of_fields_and_columns_of_labels(stub, muster):
    done = muster("get", "jobs", "--field-selector", "status.phase=Running", "-L", "team")
    assert stub.last("GET")["query"]["fieldSelector"] == "status.phase=Running"
    assert done.out.splitlines()[0].endswith("TEAM")
