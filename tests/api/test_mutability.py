"""The table says for every field of a manifest when a change takes effect."""

from typing import Any

import pytest

from muster.resources.job import JobSpec
from muster.resources.meta import Metadata
from muster.resources.mutability import MUTABILITY, When, changed, when


def test_every_field_of_a_manifest_is_in_the_table() -> None:
    missing = [info.alias for info in JobSpec.model_fields.values() if f"spec.{info.alias}" not in MUTABILITY]
    assert missing == []


def test_the_table_names_only_fields_that_exist() -> None:
    for path in MUTABILITY:
        root, *words = path.split(".")
        model: Any = JobSpec if root == "spec" else Metadata
        for word in words:
            fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
            assert word in fields, path
            model = next(
                (one for one in getattr(fields[word], "__args__", (fields[word],)) if one is not type(None)), None
            )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.priorityClass", When.LIVE),
        ("spec.recovery.maxRestarts", When.LIVE),
        ("spec.recovery.fenceAfter", When.NEXT_ATTEMPT),
        ("spec.checkpoint.directory", When.NEVER),
        ("spec.checkpoint.grace", When.NEXT_ATTEMPT),
        ("spec.env.A", When.NEXT_ATTEMPT),
        ("spec.unheardOf", When.NEVER),
        ("metadata.labels", When.LIVE),
    ],
)
def test_longer_paths_win(path: str, expected: When) -> None:
    assert when(path) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"workers": 1}, {"workers": 1}, []),
        ({"workers": 1}, {"workers": 2}, ["spec.workers"]),
        ({"env": {"A": "1"}}, {"env": {"A": "2", "B": "1"}}, ["spec.env"]),
        ({}, {"notify": {"webhook": "http://h/"}}, ["spec.notify"]),
        ({"recovery": {"a": 1, "b": 1}}, {"recovery": {"a": 2, "b": 1}}, ["spec.recovery.a"]),
        ({"checkpoint": {"directory": "/a", "grace": "1s"}}, {}, ["spec.checkpoint.directory", "spec.checkpoint.grace"]),
        ({"command": ["a"]}, {"script": "a"}, ["spec.command", "spec.script"]),
    ],
)  # fmt: skip
def test_what_changed_is_named_as_finely_as_the_table_tells_apart(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert changed(old, new) == expected
