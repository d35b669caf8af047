"""`helm install` of the chart: what is rendered is sound, starts what it says, and may do no more than it must."""

import pytest

from agents import config as agent_config
from api import settings as api_settings
from controller import settings as controller_settings
from tests.install.chart import CASES, CHART, environment, of_kind, pods, rendered, run_helm

KUBERNETES = ("1.32", "1.35")


@pytest.mark.parametrize("values", CASES)
def test_it_is_clean_to_the_strict_linter(values):
    done = run_helm("lint", "--strict", str(CHART), "-f", str(CHART / "ci" / values))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", CASES)
@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_one_of_that_release_of_kubernetes(values, version):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in rendered(values):
        if not one["apiVersion"].startswith("monitoring.coreos.com"):
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("values", CASES)
def test_each_process_understands_the_environment_it_is_given(values):
    readers = {
        "api": api_settings.from_environment,
        "controller": controller_settings.from_environment,
        "worker": controller_settings.from_environment,
        "agent": agent_config.from_environment,
    }
    read = {part: readers[part](environment(pod)) for part, pod in pods(rendered(values)) if part in readers}
    assert {"api", "controller", "worker"} <= set(read)
    assert read["api"].lease == read["controller"].lease
    assert read["api"].url == "http://10.0.0.7:7070"
    assert read["controller"].metrics_port == 9090


def test_what_is_asked_for_is_what_comes():
    trial, production = rendered("trial-values.yaml"), rendered("production-values.yaml")
    parts = [part for part, _ in pods(trial)]
    assert sorted(parts) == ["agent", "api", "controller", "migrations", "postgresql", "redis", "worker"]
    assert sorted(part for part, _ in pods(production)) == ["agent", "api", "controller", "migrations", "worker"]
    assert {one["kind"] for one in production} >= {"Ingress", "ServiceMonitor", "PrometheusRule", "PodDisruptionBudget"}
    assert not of_kind(rendered("bare-metal-values.yaml"), "DaemonSet", "ClusterRole", "NetworkPolicy")
    assert [one["metadata"]["name"] for one in of_kind(production, "Secret")] == [], "its site has its own"
    controllers = next(
        one for one in of_kind(production, "Deployment") if one["metadata"]["name"] == "m-muster-controller"
    )
    assert controllers["spec"]["replicas"] == 3
    default = rendered("production-values.yaml", "--set", "controller.replicas=null")
    assert {one["spec"].get("replicas") for one in of_kind(default, "Deployment")} >= {3}


@pytest.mark.parametrize("values", CASES)
def test_services_and_budgets_find_their_pods_and_only_these(values):
    objects = rendered(values)
    labels = {part: pod["metadata"]["labels"] for part, pod in pods(objects)}
    for one in of_kind(objects, "Service", "PodDisruptionBudget"):
        selector = one["spec"]["selector"]
        selector = selector.get("matchLabels", selector)
        found = [part for part, has in labels.items() if selector.items() <= has.items()]
        assert found == [one["metadata"]["labels"]["app.kubernetes.io/component"]], one["metadata"]["name"]
    for service in of_kind(objects, "Service"):
        part = service["metadata"]["labels"]["app.kubernetes.io/component"]
        pod = next(pod for name, pod in pods(objects) if name == part)
        named = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


@pytest.mark.parametrize("values", CASES)
def test_nobody_is_root_but_the_agent_and_no_root_file_system_is_written(values):
    for part, pod in pods(rendered(values)):
        (container,) = pod["spec"]["containers"]
        if part == "agent":
            assert pod["spec"]["hostPID"]
            continue
        assert pod["spec"]["securityContext"]["runAsNonRoot"], part
        assert container["securityContext"]["readOnlyRootFilesystem"], part
        assert not container["securityContext"]["allowPrivilegeEscalation"], part
        assert container["resources"]["limits"]["memory"], part


def test_rights_are_named_one_by_one_and_stay_in_the_namespaces_that_were_named():
    trial, production = rendered("trial-values.yaml"), rendered("production-values.yaml")
    for role in of_kind(trial, "ClusterRole", "Role"):
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
    writes = {"create", "update", "patch", "delete"}
    bound = {one["roleRef"]["name"] for one in of_kind(production, "ClusterRoleBinding")}
    for role in of_kind(production, "ClusterRole"):
        if role["metadata"]["name"] in bound:
            touched = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
            assert not {name for name, verb in touched if verb in writes} & {"pods", "secrets", "services"}
    assert {one["metadata"]["namespace"] for one in of_kind(production, "RoleBinding")} == {"research", "serving"}
    accounts = {part: pod["spec"].get("serviceAccountName") for part, pod in pods(trial)}
    holders = {s["name"] for one in of_kind(trial, "ClusterRoleBinding", "RoleBinding") for s in one["subjects"]}
    assert holders == {accounts["controller"], accounts["api"]}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("api.replica=3", "replica"),
        ("log.level=loud", "log.level"),
        ("api.replicas=0", "api.replicas"),
        ("image.digest=latest", "image.digest"),
        ("jobNamespaces[0]=Research", "jobNamespaces"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(setting, words):
    done = run_helm("template", "m", str(CHART), "--set", f"postgresql.enabled=true,{setting}")
    assert done.returncode != 0
    assert words in done.stderr


def test_without_a_database_it_says_what_to_set():
    done = run_helm("template", "m", str(CHART))
    assert done.returncode != 0
    assert "database.existingSecret or database.url, or for a trial postgresql.enabled=true" in done.stderr


def test_its_version_is_that_of_the_program():
    chart, project = (CHART / "Chart.yaml").read_text(), (CHART.parents[1] / "pyproject.toml").read_text()
    version = next(line.split('"')[1] for line in project.splitlines() if line.startswith("version = "))
    assert f"appVersion: {version}" in chart
