"""A real gang that saves when it is told to stop, gives half of itself up for a better one, and goes on from that checkpoint."""

import pytest

from tests.up.cluster import Cluster, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SAVING = """
step=0
[ -n "$MUSTER_RESUME_FROM" ] && step=$(basename "$MUSTER_RESUME_FROM" | tr -dc 0-9 | sed 's/^0*//')
echo "begin at ${step:-0} with $MUSTER_WORKERS"
save() {
    if [ "$MUSTER_WORKER_INDEX" = 0 ]; then
        folder=$MUSTER_CHECKPOINT_DIR/step-$((step + 100))
        mkdir -p "$folder" && echo x > "$folder/model" && : > "$folder/COMPLETE"
    fi
    exit 0
}
trap save TERM
while :; do sleep 0.1; done
"""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def job(name, folder=None, **spec):
    spec = {"accelerators": [{"type": "h100", "count": 8}], "recovery": {"killGrace": "1s"}, **spec}
    if folder:
        spec["checkpoint"] = {"directory": str(folder), "format": "marker", "grace": "20s"}
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_an_elastic_gang_makes_room_and_goes_on_from_what_it_saved(cluster, tmp_path):
    cluster.start()
    client = cluster.client()
    wide = job("wide", tmp_path / "ckpt", workers=2, minWorkers=1, script=SAVING)
    client.create(wide)

    def shape(name):
        status = client.get("Job", name)["status"]
        return status["phase"], len(status["workers"])

    until("both workers run", lambda: shape("wide") == ("Running", 2))
    client.create(job("high", workers=1, priorityClass="high", script="sleep 600"))
    until("the better one runs", lambda: shape("high") == ("Running", 1))
    until("the elastic one runs on", lambda: shape("wide") == ("Running", 1))
    attempts = client.parts("wide", "attempts")
    assert [one["reason"] for one in attempts] == ["Resized", None]
    assert attempts[1]["resume"]["step"] == 100
    until("it says where it begins", lambda: "begin at 100 with 1" in cluster.muster("logs", "wide").stdout)
    told = [event["reason"] for event in client.parts("wide", "events")]
    assert "Saved" in told
