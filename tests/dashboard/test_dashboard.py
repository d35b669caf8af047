"""The dashboard in a real browser, on a real cluster with real jobs: what its pages are for is done by clicking."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from api import dashboard_files
from tests.up.cluster import ROOT, Cluster, until

FOLDER = ROOT / "dashboard"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
BUILT = (dashboard_files.FOLDER / "index.html").exists()
pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BROWSER, reason="no chromium here (Debian: apt-get install chromium)"),
    pytest.mark.skipif(not BUILT, reason="the dashboard is not built here (./run dashboard build)"),
    pytest.mark.skipif(
        not (FOLDER / "node_modules/playwright-core").exists(), reason="npm packages come with ./run dashboard build"
    ),
]
LOOP = 'i=0; while true; do i=$((i+1)); echo "tick $i"; sleep 0.2; done'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("dashboard"))
    made.start("--agents", "4", "--devices", "h100:4")
    yield made
    made.close()


def test_a_user_goes_through_it(cluster, tmp_path):
    assert cluster.muster("submit", "--name", "seen", "-w", "2", "-g", "h100:4", "--", "sh", "-c", LOOP).returncode == 0
    assert cluster.muster("submit", "--name", "waits", "-w", "4", "-g", "h100:4", "--", "true").returncode == 0
    until("it runs", lambda: cluster.client().get("Job", "seen")["status"]["phase"] == "Running")
    shots = os.environ.get("MUSTER_SCREENSHOTS") or str(tmp_path)
    words = [
        "node",
        "walk.mjs",
        cluster.layout.read_state()["url"] + "/",
        cluster.layout.token.read_text().strip(),
        BROWSER,
        shots,
    ]
    walk = subprocess.Popen(words, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    api = 0
    seen = {}
    for line in walk.stdout:
        one = json.loads(line)
        if one["step"] == "waits":
            if one["found"] == "return":
                pass
            elif one["found"] == "lose":
                node = cluster.client().get("Job", "seen")["status"]["workers"][-1]["node"]
                assert cluster.muster("lab", "lose", node).returncode == 0
            else:
                api = api or cluster.processes()["api"]
                os.kill(api, signal.SIGKILL)  # its supervisor starts it again
            walk.stdin.write("go\n")
            walk.stdin.flush()
            continue
        seen.setdefault(one["step"], []).append(one["found"])
    walk.wait(60)
    assert "failed" not in seen, seen["failed"]
    assert seen["a wrong token is refused"] == ["this token is not known"]
    assert seen["live again by itself"] == [True]
    assert seen["errors"] == [[]]
    assert len(seen["page"]) == 24
    for page in seen["page"]:
        assert page["faults"] == [], page
        assert page["wide"] <= 0, page
