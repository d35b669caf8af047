"""The whole story with real processes, as `./run demo --light` tells it: its exit code is 0 only when all was true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_training_survives_rank_node_agent_and_control_plane_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": "/tmp"}
    command = [sys.executable, str(ROOT / "examples" / "story"), "--light"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    claims = re.search(r"^(\d+) of (\d+) claims held\.$", done.stdout, re.M)
    assert claims
    assert claims[1] == claims[2]
    assert int(claims[1]) > 30
    assert list(tmp_path.iterdir()) == [], "nothing is written where it was started"
