"""The ban on clocks, randomness and I/O in the pure rooms finds what it is there for."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUFF = shutil.which("ruff", path=str(Path(sys.executable).parent))

pytestmark = pytest.mark.skipif(RUFF is None, reason="ruff comes with the extra `lint`")


def findings(program: str) -> str:
    command = [RUFF or "", "check", "--config", str(ROOT / "ruff-pure.toml"), "--no-cache", "-"]
    return subprocess.run(command, input=program, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.mark.parametrize(
    "program",
    [
        "import time\n",
        "from time import monotonic\n",
        "import random\n",
        "import secrets\n",
        "from uuid import uuid4\n",
        "import os\n",
        "from pathlib import Path\n",
        "import subprocess\n",
        "import logging\n",
        "from datetime import datetime\nx = datetime.now()\n",
        "import datetime as d\nx = d.datetime.utcnow()\n",
        "from datetime import date\nx = date.today()\n",
        "import numpy as np\nx = np.random.default_rng()\n",
        "from numpy.random import default_rng\n",
    ],
)
def test_a_clock_a_die_or_the_outside_is_found(program: str) -> None:
    assert "TID251" in findings(program)


def test_what_a_pure_room_needs_passes() -> None:
    program = "import math\nfrom pathlib import PurePath\n\nimport numpy as np\n\nx = np.zeros(3), PurePath, math.inf\n"
    assert "TID251" not in findings(program)


def test_every_pure_room_is_checked_by_the_script() -> None:
    script = (ROOT / "run").read_text()
    for room in ("scheduling", "recovery", "launch", "simulation", "lifecycle.py"):
        assert f"controller/{room}" in script
