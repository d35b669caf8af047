"""What ranks say of themselves is untrusted: every line is taken for what it is worth, and none harms."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.reportfile import MAX_LINE, ReportReader, Said, parse_line
from muster.protocol import ProgressPoint

NOW = 1_700_000_000.0

LINES = [
    (
        '{"time": 1700000000.5, "rank": 1, "step": 7, "loss": 0.5}',
        ProgressPoint(step=7, at=NOW + 0.5, rank=1, loss=0.5),
    ),
    ('{"step": 7}', ProgressPoint(step=7, at=NOW)),
    ('{"progress": {"step": 7, "loss": 1}, "rank": 2}', ProgressPoint(step=7, at=NOW, rank=2, loss=1.0)),
    ('{"step": 7, "loss": "nan"}', ProgressPoint(step=7, at=NOW, bad="nan")),
    ('{"step": 7, "loss": NaN}', ProgressPoint(step=7, at=NOW, bad="nan")),
    ('{"step": 7, "loss": 1e999}', ProgressPoint(step=7, at=NOW, bad="inf")),
    ('{"step": 7, "time": 5}', ProgressPoint(step=7, at=NOW)),
    ('{"step": 7, "rank": "x"}', ProgressPoint(step=7, at=NOW)),
    ('{"step": 7, "phase": "save"}', ProgressPoint(step=7, at=NOW, phase="save")),
]


@pytest.mark.parametrize(("line", "point"), LINES)
def test_progress_lines(line: str, point: ProgressPoint) -> None:
    assert parse_line(line.encode(), NOW) == Said(point=point)


@pytest.mark.parametrize("line", ['{"checkpoint": "/c/step-1"}', '{"rank": 0, "checkpoint": {"path": "/c/step-1"}}'])
def test_checkpoint_lines(line: str) -> None:
    assert parse_line(line.encode(), NOW) == Said(checkpoint="/c/step-1")


def test_a_phase_alone_is_no_step_but_marks_where_it_began(tmp_path: Path) -> None:
    assert parse_line(b'{"phase": "load"}', NOW) == Said(phase="load")
    path = tmp_path / "report.jsonl"
    path.write_text('{"phase": "load"}\n{"step": 7}\n{"phase": "save"}\n')
    points = [said.point for said in ReportReader(path).read(NOW)]
    assert [(point.step, point.phase, point.mark) for point in points if point] == [
        (-1, "load", True),
        (7, "", False),
        (7, "save", True),
    ]


BAD = [
    "",
    "nonsense",
    "7",
    "[]",
    "{}",
    '{"step": -1}',
    '{"step": true}',
    '{"step": "7"}',
    '{"step": 1e3}',
    '{"checkpoint": 5}',
]
BAD += [
    '{"checkpoint": ""}',
    '{"step": 99999999999999999999}',
    "[" * 5000,
    '{"step": 7, "x": "' + "a" * MAX_LINE + '"}',
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_malformed_lines(line: str) -> None:
    assert parse_line(line.encode(), NOW) is None


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.floats() | st.text(),
        lambda x: st.dictionaries(st.sampled_from(["step", "loss", "time", "rank", "progress", "checkpoint"]), x),
    ).map(lambda x: json.dumps(x).encode())
)
def test_no_line_raises(line: bytes) -> None:
    parse_line(line, NOW)


def test_the_reader_goes_on_where_it_was_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    reader = ReportReader(path)
    assert reader.read(NOW) == []
    path.write_text('{"step": 1}\nbad\n{"step": 2}\n{"st')
    assert [said.point.step for said in reader.read(NOW) if said.point] == [1, 2]
    assert reader.malformed == 1
    with path.open("a") as file:
        file.write('ep": 3}\n')
    assert [said.point.step for said in reader.read(NOW) if said.point] == [3]
    assert reader.read(NOW) == []


def test_a_file_that_was_truncated_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    reader = ReportReader(path)
    path.write_text('{"step": 1}\n{"step": 2}\n')
    reader.read(NOW)
    path.write_text('{"step": 3}\n')
    assert [said.point.step for said in reader.read(NOW) if said.point] == [3]


def test_an_endless_line_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    path.write_bytes(b"x" * 2**20 * 3 + b'\n{"step": 1}\n')
    reader = ReportReader(path)
    found: list[Said] = []
    for _ in range(4):
        found += reader.read(NOW)
        assert len(reader._rest) <= MAX_LINE + 1
    assert [said.point.step for said in found if said.point] == [1]


@pytest.mark.parametrize("trick", ["a link", "a pipe", "a folder"])
def test_only_a_real_file_is_read(tmp_path: Path, trick: str) -> None:
    path = tmp_path / "report.jsonl"
    if trick == "a link":
        (tmp_path / "secret").write_text('{"step": 1}\n')
        path.symlink_to(tmp_path / "secret")
    elif trick == "a pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert ReportReader(path).read(NOW) == []
