"""A user's own trace on a cluster on paper: rows, clusters, waits, and what is told of what cannot be used."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.main import run as muster
from controller.scheduling.index import ClusterIndex, build
from controller.simulate import rows
from controller.simulation.blueprint import BadBlueprint, from_document
from controller.simulation.outlook import Outlook, run, spread
from controller.simulation.trace import BrokenRow, Kinds, TraceJob, missing_columns, read

ROOT = Path(__file__).parents[2]
KINDS = Kinds({"h100": 8}, frozenset({"default", "research"}))
CLUSTER: dict[str, Any] = {
    "nodes": [
        {"name": "gpu", "count": 4, "accelerators": [{"type": "H100", "count": 8}], "fabric": {"leaf": 2, "block": 2}}
    ],
    "queues": [{"name": "research", "quota": {"h100": 8}}],
}


def cluster(**changes: Any) -> ClusterIndex:
    made = from_document(CLUSTER | changes)
    return build(made.records, levels=made.levels)


def job(name: str, submitted: float, duration: float, workers: int = 1, devices: int = 8, **spec: Any) -> TraceJob:
    fields = {"workers": workers, "accelerators": [{"type": "h100", "count": devices}], "cpu": "0", "memory": "0"}
    wish = {"command": ["x"], "queue": "default", **fields, **spec}
    return TraceJob(name=name, namespace="default", submitted=submitted, duration=duration, spec=wish)


# -- traces --------------------------------------------------------------------------------------------


def test_own_rows_and_those_of_known_data_sets() -> None:
    found, broken = read(
        [
            (2, {"name": "a", "submitted": "100", "duration": "2h", "workers": "2", "devices": "4", "timeLimit": "1h"}),
            (3, {"timestamp": "1970-01-01 00:00:50", "duration": "66.0", "num_gpus": "20", "gpu_time": "1320"}),
            (4, {"name": "pod", "creation_time": "7", "deletion_time": "90", "scheduled_time": "10", "num_gpu": "1"}),
            (5, {"name": "a", "submitted": 200, "duration": 5, "queue": "research", "required": "leaf"}),
        ],
        KINDS,
    )
    assert broken == []
    assert [(one.name, one.submitted, one.duration) for one in found] == [
        ("pod", 7.0, 80.0),
        ("job-3", 50.0, 66.0),
        ("a", 100.0, 7200.0),
        ("a.2", 200.0, 5.0),
    ]
    philly, own, last = found[1].spec, found[2].spec, found[3].spec
    assert (philly["workers"], philly["accelerators"]) == (3, [{"type": "h100", "count": 7}])
    assert (own["workers"], own["accelerators"], own["timeLimit"]) == (2, [{"type": "h100", "count": 4}], "3600.000s")
    assert (last["queue"], last["topology"], "accelerators" in last) == ("research", {"required": "leaf"}, False)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"submitted": "x", "duration": 1}, "submitted: expected seconds or a date and time, found 'x'"),
        ({"submitted": 1}, "duration: it is missing"),
        ({"submitted": "nan", "duration": 1}, "submitted: expected a time"),
        ({"submitted": 1, "duration": -1}, "duration: expected 0 to"),
        ({"submitted": 1, "duration": "soon"}, "duration: expected seconds or a duration like 2h30m"),
        ({"submitted": 1, "duration": 1, "workers": 0}, "workers: expected a whole number from 1"),
        ({"submitted": 1, "duration": 1, "devices": 1.5}, "devices: expected a whole number from 0"),
        ({"submitted": 1, "duration": 1, "memory": "lots"}, "memory: "),
        ({"submitted": 1, "duration": 1, "queue": "nowhere"}, "queue: the cluster has no queue 'nowhere'"),
        ({"submitted": 1, "duration": 1, "minWorkers": 2}, "minWorkers: expected at most the 1 workers"),
        ({"creation_time": 5, "scheduled_time": 5, "deletion_time": 4}, "deletion_time: it ends before it begins"),
        ({"submitted": 1, "duration": 1, None: ["y"]}, "it has more fields than the first line"),
        ([1, 2], "expected one job, found [1, 2]"),
    ],
)
def test_a_broken_row_is_told_with_its_line_and_field(row: Any, said: str) -> None:
    found, broken = read([(7, row)], KINDS)
    assert found == []
    assert str(broken[0]).startswith(f"line 7: {said}")


@given(st.lists(st.dictionaries(st.sampled_from(["submitted", "duration", "gpus", "workers"]), st.text(max_size=6))))
def test_whatever_stands_in_a_row_it_is_a_job_or_broken(found: list[dict[str, str]]) -> None:
    jobs, broken = read(list(enumerate(found)), KINDS)
    assert len(jobs) + len(broken) == len(found)
    assert all(isinstance(one, BrokenRow) for one in broken)


def test_files_are_csv_or_json_lines_gzipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfsubmitted, duration\n1,2\n\xff,3\n")
    assert [line for line, _ in rows(tmp_path / "a.csv")] == [2, 3]
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write('{"submitted": 1, "duration": 2}\n\n{broken\n')
    assert [(line, isinstance(row, dict)) for line, row in rows(tmp_path / "b.jsonl.gz")] == [(1, True), (3, False)]
    assert missing_columns(["name", "time", "application"]) == ["duration"]


# -- clusters ------------------------------------------------------------------------------------------


def test_a_group_of_nodes_is_laid_on_the_fabric() -> None:
    index = cluster()
    labels = [index.nodes[f"gpu-{number}"].labels for number in range(4)]
    assert [one["muster.dev/leaf"] for one in labels] == ["gpu-leaf-0"] * 2 + ["gpu-leaf-1"] * 2
    assert {one["muster.dev/block"] for one in labels} == {"gpu-block-0"}
    assert sorted(index.queues) == ["default", "research"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": []}, "expected at least one node"),
        ({"nodes": [{"name": "a"}]}, "missing required field `count`"),
        ({"nodes": [{"name": "a", "count": -1}]}, "group a: count: expected 0 to"),
        ({"nodes": [{"name": "a", "count": 1, "fabric": {"rack": 2}}]}, "unknown level 'rack'; levels: block, leaf"),
        ({"nodes": [{"name": "a", "count": 1, "fabric": {"leaf": 0}}]}, "leaf: expected at least 1"),
        ({"nodes": [{"name": "a", "count": 1, "cpu": "many"}]}, "group a: "),
        ({"nodes": [{"name": "a", "count": 1}, {"name": "a", "count": 1}]}, "two groups are called a"),
        ({"queues": [{"quota": {"h100": 1}}]}, "queues[0]: name: expected a name"),
        ({"queues": [{"name": "q", "quota": {"h100": "all"}}]}, "queues[0]: quota: expected devices by kind"),
        ({"quees": []}, "unknown field `quees`"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadBlueprint) as refused:
        cluster(**changes)
    assert said in str(refused.value)


# -- the run -------------------------------------------------------------------------------------------


def test_waits_makespan_and_utilisation_by_hand() -> None:
    jobs = [
        job("all", 100, 60, workers=4),
        job("half", 110, 100, workers=2),
        job("limited", 110, 500, timeLimit="100s"),
        job("never", 120, 10, workers=5),
    ]
    found = run(cluster(), jobs)
    assert (found.jobs, found.started, found.finished, found.never_started, found.limited) == (4, 3, 3, 1, 1)
    assert (found.waits.longest, found.waits.p50, found.makespan) == (50.0, 50.0, 160.0)
    assert found.utilisation == {"h100": round(100 * (32 * 60 + 24 * 100) / (32 * 160), 2)}
    assert found.unplaced == ["default/never"]
    assert found.queues["default"].jobs == 4


def test_quota_holds_jobs_back_and_planning_seldom_makes_them_later() -> None:
    jobs = [job(f"r{number}", 0, 100, queue="research") for number in range(3)]
    assert run(cluster(), jobs).makespan == 300.0
    free = cluster(queues=[{"name": "research"}])
    assert run(free, jobs).makespan == 100.0
    seldom = run(free, [job("a", 5, 10), job("b", 7, 10)], step=60)
    assert (seldom.waits.longest, seldom.plans) == (58.0, 3)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 5), st.integers(1, 8)), min_size=1, max_size=15
    )
)
def test_every_job_that_fits_the_empty_cluster_ends_and_the_books_add_up(found: list[tuple[int, ...]]) -> None:
    jobs = sorted(
        (job(f"j{n}", at, length, workers, devices) for n, (at, length, workers, devices) in enumerate(found)),
        key=lambda one: one.submitted,
    )
    fits = [one for one in jobs if one.spec["workers"] <= 4]
    outlook: Outlook = run(cluster(), jobs)
    assert outlook.finished == len(fits)
    work = sum(one.duration * one.spec["workers"] * one.spec["accelerators"][0]["count"] for one in fits)
    assert outlook.utilisation["h100"] == pytest.approx(100 * work / (32 * outlook.makespan or 1), abs=0.01)


def test_percentiles_are_values_that_were_there() -> None:
    found = spread(float(number) for number in range(1, 101))
    assert (found.p50, found.p90, found.p99, found.longest, found.mean) == (50.0, 90.0, 99.0, 100.0, 50.5)
    assert spread([]).p50 is None


@pytest.mark.processes
def test_the_command_with_a_change_beside_it_and_a_row_that_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "t.csv").write_text("submitted,duration,gpus\n0,1h,32\n1,1h,32\n2,1h,0.5\n")
    (tmp_path / "c.yaml").write_text(json.dumps(CLUSTER))
    words = ["simulate", "--trace", str(tmp_path / "t.csv"), "--cluster", str(tmp_path / "c.yaml")]
    assert muster([*words]) == 1
    assert "t.csv: line 4: gpus: expected a whole number" in capfd.readouterr().err
    assert muster([*words, "--on-error", "skip", "--add-nodes", "4", "--like", "gpu", "--json"]) == 0
    out, err = capfd.readouterr()
    said = json.loads(out)
    assert [said["outlook"][name]["makespan"] for name in ("today", "changed")] == [7200.0, 3601.0]
    assert said["broken"][0]["line"] == 4
    assert "skipped 1 of 3 rows" in err
