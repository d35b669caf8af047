"""Texts that people, templates and enemies write."""

from pathlib import Path

import pytest

from cli.errors import Failure
from cli.manifests import LIMIT, ManifestError, absolute, documents, load

JOB = "apiVersion: muster.dev/v1\nkind: Job\nmetadata: {name: a}\nspec: {command: [x]}\n"


def read(text, folder="/home/ada"):
    return documents(text.encode() if isinstance(text, str) else text, "job.yaml", Path(folder))


def test_several_documents_each_with_its_line():
    found = read(f"{JOB}---\n# nothing\n---\n{JOB.replace('name: a', 'name: b')}")
    assert [(one.name, one.source) for one in found] == [("a", "job.yaml:1"), ("b", "job.yaml:8")]


def test_json_is_yaml_too():
    assert read('{"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 2}}')[0].document["spec"] == {
        "weight": 2
    }


def test_a_byte_order_mark_is_no_harm():
    assert read("\ufeff" + JOB)[0].name == "a"


def test_dates_and_times_stay_what_was_written():
    assert read(JOB + "  \n".join(["labels: {day: 2026-01-01}"]))[0].document["labels"] == {"day": "2026-01-01"}


BOMB = "a: &a [x, x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(9))

BAD = {
    "a tab": ("kind: Job\n\tmetadata: {}\n", "job.yaml:2:1: found a tab character"),
    "a mapping that is not closed": ("kind: {Job\n", "job.yaml:2:1: "),
    "an alias": (BOMB, "job.yaml:2: aliases (*a) are not taken here; write the value out"),
    "deep nesting": ("x: " + "[" * 40 + "]" * 40, "job.yaml:1: nested more than 32 deep"),
    "very deep nesting": ("x: " + "[" * 90_000, "job.yaml:1"),
    "many values": ("x: [" + "1," * 60_000 + "]", "job.yaml:1: more than 50000 values"),
    "too many bytes": ("#" * (LIMIT + 1), "job.yaml: larger than 1 MiB"),
    "no UTF-8": (b"kind: \xff\n", "job.yaml: not UTF-8 text (byte 6)"),
    "a control character": ("kind: a\x00b", "job.yaml: "),
    "a text only": ("hello", "job.yaml:1: expected a mapping with apiVersion, kind, metadata and spec"),
    "no kind": ("metadata: {name: a}", "job.yaml:1: kind: required, e.g. Job"),
    "no name": ("kind: Job\nmetadata: {}", "job.yaml:1: metadata.name: required, a text"),
    "a number as name": ("kind: Job\nmetadata: {name: 7}", "job.yaml:1: metadata.name: required, a text"),
    "a namespace that is no text": (
        "kind: Job\nmetadata: {name: a, namespace: [b]}",
        "job.yaml:1: metadata.namespace: expected a text",
    ),
    "a Python object": ("!!python/object/apply:os.system [id]", "job.yaml:1:1: could not determine a constructor"),
    "not a number": (JOB + "x: .nan", "job.yaml:1: holds a value that JSON has not"),
    "bytes": (JOB + "x: !!binary aGk=", "job.yaml:1: holds a value that JSON has not"),
    "a huge number": (JOB + "x: " + "9" * 5000, "job.yaml: "),
    "a list as key": (JOB + "? [a]\n: b", "job.yaml:5:3: found unhashable key"),
    "a key twice": (JOB + "kind: Queue", "job.yaml:5: the key 'kind' stands twice (first in line 2)"),
    "a key twice on one line": (JOB + "x: {a: 1, a: 2}", "job.yaml:5: the key 'a' stands twice (first in line 5)"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_text_is_refused_with_its_place(case):
    text, told = BAD[case]
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert caught.value.lines[0].startswith(told)


def test_relative_paths_become_absolute_against_the_folder_of_the_manifest():
    spec = {"workdir": "src/../train", "checkpoint": {"directory": "runs/ckpt", "format": "dcp"}, "command": ["./x"]}
    found = absolute({"kind": "Job", "spec": spec}, Path("/home/ada"))["spec"]
    assert found["workdir"] == "/home/ada/train"
    assert found["checkpoint"] == {"directory": "/home/ada/runs/ckpt", "format": "dcp"}
    assert found["command"] == ["./x"]
    assert spec["workdir"] == "src/../train", "what was given is not changed"


def test_a_job_that_names_no_workdir_works_in_the_folder_of_its_manifest():
    assert read(JOB)[0].document["spec"]["workdir"] == "/home/ada"


def test_absolute_paths_stay():
    spec = {"workdir": "/data", "checkpoint": {"directory": "/ckpt"}}
    assert absolute({"kind": "Job", "spec": spec}, Path("/home")) == {"kind": "Job", "spec": spec}


@pytest.mark.parametrize(
    "spec", [None, [], "x", {"workdir": 7}, {"checkpoint": [1]}, {"checkpoint": {"directory": {}}}]
)
def test_what_has_the_wrong_shape_is_left_for_the_server_to_refuse(spec):
    found = absolute({"kind": "Job", "spec": spec}, Path("/home"))["spec"]
    assert found == spec or {name: found[name] for name in spec} == spec


def test_a_folder_gives_its_manifests_in_order_and_nothing_else(tmp_path):
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt"):
        text = (
            '{"kind": "Queue", "metadata": {"name": "c"}}'
            if name == "c.json"
            else JOB.replace("name: a", f"name: {name[0]}")
        )
        (tmp_path / name).write_text(text)
    (tmp_path / "below.yaml").mkdir()
    assert [one.name for one in load([str(tmp_path)])] == ["a", "b", "c"]
    assert {one.folder for one in load([str(tmp_path)])} == {tmp_path}


def test_all_that_is_wrong_in_all_files_is_told_at_once(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: [")
    (tmp_path / "b.yaml").write_text("hello")
    with pytest.raises(Failure) as caught:
        load([str(tmp_path)])
    assert [line.partition(": ")[0].rpartition("/")[2] for line in caught.value.details] == ["a.yaml:2:1", "b.yaml:1"]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(Failure, match=r"no\.yaml: No such file"):
        load([str(tmp_path / "no.yaml")])


def test_an_empty_folder_is_no_manifest(tmp_path):
    with pytest.raises(Failure, match="no manifest in"):
        load([str(tmp_path)])
