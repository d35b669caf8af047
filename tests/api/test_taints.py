"""Taints of nodes at the API's door."""

from starlette.testclient import TestClient

from api.services import Services
from tests.makers import make_node

PATH = "/api/v1/nodes/n0/taints"


def test_taints_are_set_whole_shown_and_told_once(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.put_node(make_node("n0")))
    body = {"taints": [{"key": "dedicated", "value": "ml"}, {"key": "broken"}, {"key": "broken"}]}
    for _ in range(2):
        node = admin.put(PATH, json=body).json()
    assert node["spec"]["taints"] == [{"key": "broken", "value": ""}, {"key": "dedicated", "value": "ml"}]
    told = [one["message"] for one in admin.get("/api/v1/events").json()["items"] if one["reason"] == "Tainted"]
    assert told == ["taints set by admin: broken, dedicated=ml"]
    assert admin.put(PATH, json={"taints": []}).json()["spec"]["taints"] == []


def test_what_is_wrong_is_refused(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.put_node(make_node("n0")))
    assert admin.put("/api/v1/nodes/n9/taints", json={"taints": []}).status_code == 404
    for body, says in (({}, "taints: required"), ({"taints": [{"key": "a b"}]}, "taints[0].key"), ([], "taints")):
        refused = admin.put(PATH, json=body)
        assert refused.status_code == 422
        assert says in refused.json()["detail"] or body == []
