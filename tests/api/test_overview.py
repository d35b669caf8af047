"""Answers for dashboards: the cluster at a glance, the fabric, incidents, progress; and the files of the dashboard itself."""

from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from api import dashboard_files
from api.services import Services
from muster.protocol import ProgressPoint
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.api.conftest import JOBS, manifest
from tests.makers import make_attempt, make_job, make_node, make_worker


def test_the_summary_counts_and_the_fabric_shows_who_holds_what(admin: TestClient, here: Services) -> None:
    job = make_job(phase=JobPhase.RUNNING, attempt_uid="job-train-a1")
    attempt = make_attempt(job, phase=AttemptPhase.RUNNING)
    node = make_node("n1", labels={"muster.dev/block": "b0", "muster.dev/leaf": "l0"})
    held = tuple(device.index for device in node.devices)[:1]

    def write(w):
        w.put_node(node)
        w.insert_job(job)
        w.insert_attempt(attempt)
        w.insert_worker(make_worker(attempt, node="n1", devices=held, phase=WorkerPhase.RUNNING))
        w.add_progress(
            attempt.uid,
            [ProgressPoint(step=1, at=1.0, loss=2.0, rank=0), ProgressPoint(step=2, at=2.0, loss=1.0, rank=0)],
        )

    here.write(write)
    admin.post(JOBS, json=manifest("later"))
    found = admin.get("/api/v1/summary").json()
    assert {one["phase"]: one["count"] for one in found["jobs"]} == {"Running": 1, "Queued": 1}
    assert found["devices"][0]["all"] == len(node.devices)
    assert found["devices"][0]["allocated"] == 1
    assert [one["count"] for one in found["waiting"]] == [1]
    fabric = admin.get("/api/v1/fabric").json()
    assert fabric["levels"] == ["block", "leaf"]
    (shown,) = fabric["nodes"]
    assert shown["path"] == ["b0", "l0"]
    assert shown["devices"] == "u" + "f" * (len(node.devices) - 1)
    assert fabric["jobs"][shown["jobs"][0]]["name"] == job.name
    points = admin.get(f"{JOBS}/{job.name}/progress").json()["items"]
    assert [(one["step"], one["loss"], one["attempt"]) for one in points] == [(1, 2.0, 1), (2, 1.0, 1)]
    assert admin.get("/api/v1/incidents").json()["items"] == []


class TestFiles:
    def app(self, folder: Path) -> TestClient:
        made = FastAPI()
        dashboard_files.mount(made, folder)
        return TestClient(made)

    def test_the_page_and_its_assets_come_with_a_policy_and_nothing_else_comes(self, tmp_path: Path) -> None:
        (tmp_path / "assets").mkdir()
        (tmp_path / "index.html").write_text("<html>")
        (tmp_path / "assets/a.js").write_text("1")
        (tmp_path / "secret.txt").write_text("x")
        client = self.app(tmp_path)
        answer = client.get("/")
        assert answer.text == "<html>"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert client.get("/assets/a.js").headers["content-type"].startswith("text/javascript")
        for path in (
            "/assets/b.js",
            "/assets/..%2fsecret.txt",
            "/assets/%2e%2e%2findex.html",
            "/secret.txt",
            "/assets/.x",
        ):
            assert client.get(path).status_code == 404, path

    def test_without_a_build_it_says_how_to_have_one(self, tmp_path: Path) -> None:
        answer = self.app(tmp_path).get("/")
        assert answer.status_code == 503
        assert "./run dashboard build" in answer.text
