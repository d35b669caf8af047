"""What the executor relies on, of the fake server or, with KUBECONFIG, of a real one."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the client comes with the extra `kubernetes`")

from controller.executors.kubernetes.connection import MERGE, STRATEGIC, Refused
from tests.kubernetes.clusters import Ground, ground

pytestmark = pytest.mark.processes
JSON_PATCH = "application/json-patch+json"


@pytest.fixture(scope="module")
def here() -> Iterator[Ground]:
    with ground() as made:
        yield made


def pod(name: str, **more: Any) -> dict[str, Any]:
    spec = {
        "schedulerName": "muster",
        "restartPolicy": "Never",
        "containers": [{"name": "worker", "image": "registry.invalid/trainer:1"}],
        **more.pop("spec", {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def binding(name: str, node: str, **meta: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target}


def refused(code: int, reason: str = "", words: str = "") -> Any:
    class Check:
        def __enter__(self) -> None:
            self.raises = pytest.raises(Refused)
            self.info = self.raises.__enter__()

        def __exit__(self, *about: Any) -> bool:
            done = bool(self.raises.__exit__(*about))
            error = self.info.value
            assert error.code == code, (error.code, error.message)
            assert reason in ("", error.reason), (error.reason, error.message)
            assert words in error.message
            return done

    return Check()


def test_kubernetes_contract_objects_have_uids_and_versions_that_grow(here: Ground) -> None:
    made = here.api.call("POST", here.pods, pod("versions"))
    meta = made["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"]
    assert meta["namespace"] == here.namespace
    assert (made["status"]["phase"], made["spec"]["schedulerName"]) == ("Pending", "muster")
    again = here.api.call("PATCH", f"{here.pods}/versions", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert int(again["metadata"]["resourceVersion"]) > int(meta["resourceVersion"])
    same = here.api.call("PATCH", f"{here.pods}/versions", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    with refused(409, "AlreadyExists", "already exists"):
        here.api.call("POST", here.pods, pod("versions"))
    with refused(404, "NotFound", "not found"):
        here.api.call("GET", f"{here.pods}/nobody")


def test_kubernetes_contract_a_stale_writer_is_told_of_the_conflict(here: Ground) -> None:
    old = here.api.call("POST", here.pods, pod("stale"))
    here.api.call("PATCH", f"{here.pods}/stale", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    with refused(409, "Conflict"):
        here.api.call("PUT", f"{here.pods}/stale", old)
    wrong = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "labels": {"x": "y"}}}
    with refused(409, "Conflict"):
        here.api.call("PATCH", f"{here.pods}/stale", wrong, content_type=MERGE)
    with refused(409, "Conflict"):
        here.api.call("DELETE", f"{here.pods}/stale", {"preconditions": {"uid": wrong["metadata"]["uid"]}})


def test_kubernetes_contract_three_kinds_of_patches(here: Ground) -> None:
    path = f"{here.pods}/patched"
    here.api.call("POST", here.pods, pod("patched", labels={"a": "1", "b": "2"}, finalizers=["muster.dev/one"]))
    merged = here.api.call("PATCH", path, {"metadata": {"labels": {"a": None, "c": "3"}}}, content_type=MERGE)
    assert merged["metadata"]["labels"] == {"b": "2", "c": "3"}
    more = {"metadata": {"finalizers": ["muster.dev/two"]}}
    strategic = here.api.call("PATCH", path, more, content_type=STRATEGIC)
    assert sorted(strategic["metadata"]["finalizers"]) == ["muster.dev/one", "muster.dev/two"]
    steps = [
        {"op": "test", "path": "/metadata/labels/b", "value": "2"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]
    assert "finalizers" not in here.api.call("PATCH", path, steps, content_type=JSON_PATCH)["metadata"]
    with refused(422):
        here.api.call("PATCH", path, [{**steps[0], "value": "9"}], content_type=JSON_PATCH)


def test_kubernetes_contract_a_pod_that_makes_no_sense_is_refused_in_words(here: Ground) -> None:
    with refused(422, "Invalid", "containers"):
        here.api.call("POST", here.pods, pod("none", spec={"containers": []}))
    with refused(422, "Invalid"):
        here.api.call("POST", here.pods, pod("Upper"))
    with refused(422, "Invalid"):
        here.api.call("POST", here.pods, pod("labels", labels={"a": "not a value"}))
    mount = [{"name": "worker", "image": "x", "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]
    with refused(422, "Invalid", "nowhere"):
        here.api.call("POST", here.pods, pod("mounts", spec={"containers": mount}))
    with refused(403, "Forbidden", "service account"):
        here.api.call("POST", here.pods, pod("account", spec={"serviceAccountName": "nobody"}))
    with refused(404, "NotFound", "namespaces"):
        here.api.call("POST", "/api/v1/namespaces/muster-no-such-namespace/pods", pod("lost"))
    here.api.call("POST", here.pods, pod("fixed"))
    with refused(422, "Invalid"):
        here.api.call("PATCH", f"{here.pods}/fixed", {"spec": {"nodeName": here.nodes[0]}}, content_type=MERGE)


def test_kubernetes_contract_a_pod_is_bound_once(here: Ground) -> None:
    made = here.api.call("POST", here.pods, pod("bound"))
    path = f"{here.pods}/bound"
    with refused(409):
        here.api.call("POST", f"{path}/binding", binding("bound", here.nodes[0], uid="0000"))
    here.api.call("POST", f"{path}/binding", binding("bound", here.nodes[0], uid=made["metadata"]["uid"]))
    now = here.api.call("GET", path)
    assert now["spec"]["nodeName"] == here.nodes[0]
    assert {"PodScheduled": "True"}.items() <= {
        one["type"]: one["status"] for one in now["status"]["conditions"]
    }.items()
    with refused(409, words="already assigned"):
        here.api.call("POST", f"{path}/binding", binding("bound", here.nodes[1]))
    here.api.call("DELETE", path)
    with refused(409):
        here.api.call("POST", f"{path}/binding", binding("bound", here.nodes[1]))


def test_kubernetes_contract_deletion_waits_for_the_kubelet_and_for_finalizers(here: Ground) -> None:
    path = f"{here.pods}/ends"
    made = here.api.call("POST", here.pods, pod("ends", finalizers=["muster.dev/exits"]))
    here.api.call("POST", f"{path}/binding", binding("ends", here.nodes[0]))
    here.api.call("DELETE", path, {"gracePeriodSeconds": 20, "preconditions": {"uid": made["metadata"]["uid"]}})
    meta = here.api.call("GET", path)["metadata"]
    assert (bool(meta["deletionTimestamp"]), meta["deletionGracePeriodSeconds"]) == (True, 20)
    here.kubelet.kill(here.api.call("GET", path), 143)
    left = here.api.call("GET", path)
    assert left["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    with refused(422 if not here.fake else 403):
        here.api.call(
            "PATCH", path, {"metadata": {"finalizers": ["muster.dev/exits", "muster.dev/x"]}}, content_type=MERGE
        )
    here.api.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    with refused(404):
        here.api.call("GET", path)
    here.api.call("POST", here.pods, pod("never-bound"))
    here.api.call("DELETE", f"{here.pods}/never-bound")
    with refused(404):
        here.api.call("GET", f"{here.pods}/never-bound")


def test_kubernetes_contract_status_is_a_part_of_its_own(here: Ground) -> None:
    path = f"{here.pods}/parts"
    here.api.call("POST", here.pods, pod("parts"))
    here.api.call("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE)
    assert here.api.call("GET", path)["status"]["phase"] == "Pending"
    here.api.call("PATCH", f"{path}/status", {"status": {"phase": "Running", "message": "m"}}, content_type=MERGE)
    assert here.api.call("GET", path)["status"]["message"] == "m"


def test_kubernetes_contract_lists_are_chosen_and_paged(here: Ground) -> None:
    for number in range(7):
        labels = {"set": "paged", "odd": str(number % 2)}
        here.api.call("POST", here.pods, pod(f"page-{number}", labels=labels))
    names, token = [], ""
    while True:
        query = {"labelSelector": "set=paged", "limit": 3, "continue": token}
        page = here.api.call("GET", here.pods, query=query)
        assert len(page["items"]) <= 3
        names += [one["metadata"]["name"] for one in page["items"]]
        token = page["metadata"].get("continue") or ""
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)]
    for selector, count in (
        ("set=paged,odd=1", 3),
        ("set=paged,odd!=1", 4),
        ("set in (paged, other),odd", 7),
        ("set=paged,odd notin (0)", 3),
        ("set=paged,!odd", 0),
    ):
        assert len(here.api.call("GET", here.pods, query={"labelSelector": selector})["items"]) == count, selector
    by_field = {"fieldSelector": "metadata.name=page-3"}
    assert len(here.api.call("GET", here.pods, query=by_field)["items"]) == 1
    here.api.call("DELETE", here.pods, query={"labelSelector": "set=paged,odd=1"})
    assert len(here.api.call("GET", here.pods, query={"labelSelector": "set=paged"})["items"]) == 4


def watched(here: Ground, query: dict[str, Any], count: int, during: Any = None) -> list[dict[str, Any]]:
    answer = here.api.open(here.pods, {"watch": "true", "timeoutSeconds": 20, **query}, 30)
    if during:
        threading.Timer(0.1, during).start()
    found = []
    for line in answer:
        found.append(json.loads(line))
        if len(found) == count:
            break
    answer.close()
    return found


def test_kubernetes_contract_a_watch_goes_on_where_it_was(here: Ground) -> None:
    chosen = {"labelSelector": "set=watched"}
    version = here.api.call("GET", here.pods, query=chosen)["metadata"]["resourceVersion"]
    here.api.call("POST", here.pods, pod("watched", labels={"set": "watched"}))
    here.api.call("POST", here.pods, pod("other", labels={"set": "other"}))
    path = f"{here.pods}/watched"

    def more() -> None:
        here.api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        here.api.call("PATCH", path, {"metadata": {"labels": {"set": "no-more"}}}, content_type=MERGE)

    seen = watched(here, chosen | {"resourceVersion": version}, 3, more)
    assert [one["type"] for one in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert {one["object"]["metadata"]["name"] for one in seen} == {"watched"}
    again = watched(here, chosen | {"resourceVersion": seen[0]["object"]["metadata"]["resourceVersion"]}, 2)
    assert [one["type"] for one in again] == ["MODIFIED", "DELETED"]


def test_kubernetes_contract_owners_take_what_they_own_with_them(here: Ground) -> None:
    maps = f"/api/v1/namespaces/{here.namespace}/configmaps"
    owner = here.api.call("POST", maps, {"metadata": {"name": "owner"}})
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    here.api.call("POST", here.pods, pod("owned", ownerReferences=[ref]))
    here.api.call("DELETE", f"{maps}/owner", {"propagationPolicy": "Background"})

    def gone() -> bool:
        try:
            return bool(here.api.call("GET", f"{here.pods}/owned")["metadata"].get("deletionTimestamp"))
        except Refused as error:
            return error.code == 404

    here.until(gone)


def test_kubernetes_contract_an_eviction_asks_the_budget(here: Ground) -> None:
    path = f"{here.pods}/evicted"
    here.api.call("POST", here.pods, pod("evicted", labels={"app": "budget"}))
    here.api.call("POST", f"{path}/binding", binding("evicted", here.nodes[0]))
    here.kubelet.run(here.api.call("GET", path))
    budgets = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "budget"}}}
    here.api.call("POST", budgets, {"metadata": {"name": "keep"}, "spec": spec})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    with refused(429):
        here.api.call("POST", f"{path}/eviction", body)
    here.api.call("DELETE", f"{budgets}/keep")
    here.until(lambda: not here.api.call("GET", budgets)["items"])
    here.api.call("POST", f"{path}/eviction", body)
    assert here.api.call("GET", path)["metadata"]["deletionTimestamp"]


def test_kubernetes_contract_a_quota_refuses_with_its_name(here: Ground) -> None:
    space = f"{here.namespace}-quota"
    here.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    quotas, pods = f"/api/v1/namespaces/{space}/resourcequotas", f"/api/v1/namespaces/{space}/pods"
    try:
        here.api.call("POST", quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}})

        def refuses() -> bool:
            try:
                here.api.call("POST", pods, pod("too-many"))
            except Refused as error:
                return error.code == 403 and "exceeded quota: small" in error.message
            here.api.call("DELETE", f"{pods}/too-many")
            return False

        here.until(refuses)
    finally:
        here.api.call("DELETE", f"/api/v1/namespaces/{space}")


@pytest.fixture
def fake(here: Ground) -> Iterator[Ground]:
    if not here.fake:
        pytest.skip("a real server has no faults on demand")
    yield here
    here.door("clear")


def test_kubernetes_contract_faults_of_the_fake(fake: Ground) -> None:
    fake.door("fault", method="POST", path="/pods$", code=500, message="etcd is gone")
    with refused(500, "InternalError", "etcd is gone"):
        fake.api.call("POST", fake.pods, pod("fault"))
    fake.door("fault", method="POST", path="/pods$", code=504, after=True)
    with refused(504):
        fake.api.call("POST", fake.pods, pod("fault"))
    assert fake.api.call("GET", f"{fake.pods}/fault")["metadata"]["name"] == "fault"
    fake.door("fault", method="GET", path="/pods/fault$", code=429, retry_after=1, times=1)
    assert fake.api.call("GET", f"{fake.pods}/fault")["metadata"]["name"] == "fault"


def test_kubernetes_contract_a_watch_that_is_too_old_is_told_so(fake: Ground) -> None:
    version = fake.api.call("GET", fake.pods)["metadata"]["resourceVersion"]
    fake.door("compact")
    [seen] = watched(fake, {"resourceVersion": version}, 1)
    assert (seen["type"], seen["object"]["code"], seen["object"]["reason"]) == ("ERROR", 410, "Expired")
    page = fake.api.call("GET", fake.pods, query={"limit": 1})
    fake.door("compact")
    with refused(410, "Expired"):
        fake.api.call("GET", fake.pods, query={"limit": 1, "continue": page["metadata"]["continue"]})


def test_kubernetes_contract_bookmarks_carry_the_version_on(fake: Ground) -> None:
    fake.door("bookmark", seconds=0.05)
    version = fake.api.call("GET", fake.pods)["metadata"]["resourceVersion"]
    fake.api.call("POST", f"/api/v1/namespaces/{fake.namespace}/configmaps", {"metadata": {"name": "elsewhere"}})
    query = {"resourceVersion": version, "allowWatchBookmarks": "true", "labelSelector": "set=none"}
    seen = watched(fake, query, 3)
    assert {one["type"] for one in seen} == {"BOOKMARK"}
    assert int(seen[-1]["object"]["metadata"]["resourceVersion"]) > int(version)
