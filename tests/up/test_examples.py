"""The examples of dependencies, arrays and roles on a real cluster, with real processes."""

import pytest

from tests.up.cluster import ROOT, Cluster, until

pytestmark = pytest.mark.processes


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    made.start()
    yield made
    made.close()


def log(cluster, *words):
    return cluster.muster("logs", *words).stdout


def test_a_pipeline_of_a_job_a_sweep_and_a_report_and_a_gang_of_roles(cluster):
    applied = cluster.muster("apply", "-f", ROOT / "examples" / "pipeline.yaml", "-f", ROOT / "examples" / "roles.yaml")
    assert applied.returncode == 0, applied.stderr
    client = cluster.client()

    def phases():
        return {
            one["metadata"]["name"]: one["status"]["phase"]
            for page in client.pages("/api/v1/namespaces/default/jobs")
            for one in page["items"]
        }

    names = ["prepare", "sweep", "sweep-0", "sweep-1", "sweep-2", "sweep-3", "report", "actors"]
    until(
        "all of it succeeds", lambda: {name: phases().get(name) for name in names} == dict.fromkeys(names, "Succeeded")
    )
    jobs = {
        one["metadata"]["name"]: one
        for page in client.pages("/api/v1/namespaces/default/jobs")
        for one in page["items"]
    }
    ended = {name: one["status"]["finishedAt"] for name, one in jobs.items()}
    begun = {name: one["status"]["startedAt"] for name, one in jobs.items()}
    assert all(begun[f"sweep-{index}"] >= ended["prepare"] for index in range(4))
    assert begun["report"] >= max(ended[f"sweep-{index}"] for index in range(4))
    assert [log(cluster, f"sweep-{index}").strip() for index in range(4)] == [
        f"learning rate {rate}, seed {seed}, element {index} of 4"
        for index, (rate, seed) in enumerate([("1e-4", 1), ("1e-4", 2), ("3e-4", 1), ("3e-4", 2)])
    ]
    assert "learner with actors at 127.0.0.1,127.0.0.1" in log(cluster, "actors", "--role", "learner")
    assert "learner with actors" in log(cluster, "actors"), "the first role is told first"
    actor = log(cluster, "actors", "--role", "actor", "--worker", "1")
    assert "actor 1 looks for 127.0.0.1:" in actor
