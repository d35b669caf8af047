"""The chart as helm renders it, by kind and name."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.install.tools import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "muster"
CASES = sorted(path.name for path in (CHART / "ci").glob("*.yaml"))


def run_helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *words], capture_output=True, text=True)


@cache
def rendered(values: str, *settings: str) -> tuple[dict[str, Any], ...]:
    done = run_helm("template", "m", str(CHART), "-n", "muster", "-f", str(CHART / "ci" / values), *settings)
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def of_kind(objects: tuple[dict[str, Any], ...], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] in kinds]


def pods(objects: tuple[dict[str, Any], ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(component, pod template) of everything that makes pods."""
    for one in of_kind(objects, "Deployment", "StatefulSet", "DaemonSet", "Job"):
        yield one["metadata"]["labels"]["app.kubernetes.io/component"], one["spec"]["template"]


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Of its one container, with a stand-in for what comes from secrets and fields."""
    (container,) = pod["spec"]["containers"]
    stand_ins = {
        "MUSTER_DATABASE_URL": "postgresql+psycopg://muster@db/muster",
        "MUSTER_REDIS_URL": "redis://redis:6379/0",
        "MUSTER_NODE": "node-1",
        "POD_IP": "10.0.0.7",
    }
    found = {one["name"]: one.get("value") or stand_ins.get(one["name"], "10.0.0.7") for one in container["env"]}
    return {name: value.replace("$(POD_IP)", "10.0.0.7") for name, value in found.items()}
