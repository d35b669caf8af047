"""Claims: who was promised which nodes, who is still on them, and until when."""

from msgspec.structs import replace
from starlette.testclient import TestClient

from api.services import Services
from controller.records import Claim
from muster.clock import iso
from muster.states import WorkerPhase
from tests.makers import make_attempt, make_job, make_node, make_worker


def test_a_claim_is_listed_with_its_owner_what_is_vacated_and_when_the_rest_is_due(
    admin: TestClient, here: Services
) -> None:
    low = make_job("low")
    attempt = make_attempt(low)
    stay, gone = (make_worker(attempt, index) for index in range(2))
    claim = Claim(nodes=("n0", "n1", "n1"), vacating=(stay.uid, gone.uid), made_at=100.0, deadline=160.0)
    high = make_job("high", claim=claim, priority=100, spec={"queue": "default"})

    def act(w) -> None:  # type: ignore[no-untyped-def]
        for name in ("n0", "n1"):
            w.put_node(make_node(name))
        w.insert_job(low)
        w.insert_attempt(attempt)
        w.insert_workers([stay, replace(gone, phase=WorkerPhase.EXITED)])
        w.insert_job(high)

    here.write(act)
    (one,) = admin.get("/api/v1/claims").json()["items"]
    assert (one["kind"], one["metadata"]["name"]) == ("Claim", "high")
    assert one["status"] == {
        "owner": "default/high",
        "queue": "default",
        "priority": 100,
        "nodes": ["n0", "n1"],
        "vacated": ["n1"],
        "leaving": [{"job": "default/low", "worker": "worker-0", "node": "n0"}],
        "madeAt": iso(100.0),
        "deadline": iso(160.0),
    }
    assert admin.get("/api/v1/namespaces/elsewhere/claims").json()["items"] == []
