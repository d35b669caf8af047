"""Completing a launch template: placeholders, environments, ranks. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.complete import Site, complete, expand, inherited, rank_of
from muster.launch import LaunchTemplate, LogPattern
from tests.agents.cluster import make_assignment

SITE = Site(
    python="/usr/bin/python3",
    interface="eth0",
    address="10.0.0.1",
    dir="/d",
    logs="/l",
    report="/r",
    resume="/ckpt/step-5",
)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("%{python} -m x", "/usr/bin/python3 -m x"),
        ("%{dir}/%{dir}", "/d//d"),
        ("%{hostfile}", "/d/hostfile"),
        ("%{resume}", "/ckpt/step-5"),
        ("%%{python}", "%{python}"),
        ("100% {x} %d", "100% {x} %d"),
        ("", ""),
    ],
)
def test_placeholders(text: str, result: str) -> None:
    assert expand(text, SITE.values()) == result


@pytest.mark.parametrize("text", ["%{pyhton}", "%{}", "%{python", "x%{"])
def test_an_unknown_placeholder_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="does not know"):
        expand(text, SITE.values())


@given(st.text(alphabet="%{}ab python"))
def test_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert expand(text.replace("%{", "%%{"), SITE.values()) == text


def test_each_process_gets_the_common_environment_its_own_and_its_rank() -> None:
    template = {
        "processes": (("%{python}", "a"), ("%{python}", "b")),
        "process_env": ({"RANK": "2"}, {"RANK": "3", "A": "own"}),
        "env": {"A": "%{address}"},
        "ranks": 2,
        "first_rank": 2,
    }
    one, two = complete(make_assignment(template=template, token="t"), SITE, {"PATH": "/bin", "A": "base"}, "/work")
    assert (one.argv, one.rank, one.stream, one.cwd) == (("/usr/bin/python3", "a"), 2, "rank-2", "/work")
    assert (two.argv, two.rank, two.stream) == (("/usr/bin/python3", "b"), 3, "rank-3")
    common = {"PATH": "/bin", "PYTHONUNBUFFERED": "1", "MUSTER_WORKER_UID": "w1", "MUSTER_TOKEN": "t"}
    assert one.env == {**common, "A": "10.0.0.1", "RANK": "2"}
    assert two.env == {**common, "A": "own", "RANK": "3"}


@pytest.mark.parametrize(
    ("processes", "ranks", "pattern", "expected"),
    [(1, 1, None, 4), (2, 2, None, 4), (1, 8, None, None), (1, 1, LogPattern("x"), None)],
    ids=["one rank", "several", "a launcher of many", "a launcher of one"],
)
def test_a_process_has_a_rank_unless_it_launches_ranks_itself(
    processes: int, ranks: int, pattern: LogPattern | None, expected: int | None
) -> None:
    template = LaunchTemplate(
        framework="x", processes=(("a",),) * processes, ranks=ranks, first_rank=4, log_pattern=pattern
    )
    assert rank_of(template, 0) == expected


def test_only_harmless_variables_are_inherited() -> None:
    environ = {"PATH": "/bin", "HOME": "/root", "MUSTER_TOKEN_FILE": "/t", "AWS_SECRET_ACCESS_KEY": "s"}
    assert inherited(environ) == {"PATH": "/bin", "HOME": "/root"}
