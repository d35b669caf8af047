"""Alerts and dashboards ask for what Muster really tells."""

import json
import re
import subprocess

import pytest

from tests.install.chart import CHART, ROOT
from tests.install.tools import promtool

METRIC = re.compile(r"\bmuster_[a-z_]+")
SUFFIX = re.compile(r"_(bucket|sum|count|total|created)$")


def told() -> set[str]:
    """Every name of a metric family in the programs."""
    sources = [ROOT / "api/metrics.py", ROOT / "api/census.py", ROOT / "controller/telemetry/server.py"]
    return {name for path in sources for name in re.findall(r'"(muster_[a-z_]+)"', path.read_text())}


def asked(text: str) -> set[str]:
    return {SUFFIX.sub("", name) for name in METRIC.findall(text)}


def test_prometheus_reads_the_alerts():
    done = subprocess.run([promtool(), "check", "rules", str(CHART / "alerts.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_ring_when_they_should():
    rules = ROOT / "tests/install/alerts_test.yaml"
    done = subprocess.run([promtool(), "test", "rules", rules.name], cwd=rules.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_ask_for_metrics_that_there_are():
    assert asked(re.sub(r"summary:.*|description:.*", "", (CHART / "alerts.yaml").read_text())) <= told()


@pytest.mark.parametrize("name", ["cluster", "control-plane"])
def test_dashboards_ask_for_metrics_that_there_are_and_panels_do_not_overlap(name):
    board = json.loads((CHART / "dashboards" / f"{name}.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {one for query in queries for one in asked(query)} <= told()
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
