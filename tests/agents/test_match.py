"""Progress by the job's own expression, and expressions that never end."""

import asyncio
import re
import subprocess
import sys

import pytest

from agents.runtime.children import Children
from agents.runtime.match import find
from agents.runtime.matcher import SCRIPT, Matcher
from muster.protocol import ProgressPoint

REGEX = r"step (?P<step>\d+) loss (?P<loss>\S+)"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("step 3 loss 0.25", {"step": 3, "loss": 0.25}),
        ("[rank0] epoch 1 step 3 loss nan!", {"step": 3, "loss": "nan"}),
        ("step 3 loss inf", {"step": 3, "loss": "inf"}),
        ("step x loss 1", None),
        ("", None),
        ("step 3 loss 1" + "x" * 5000, {"step": 3, "loss": None}),
    ],
)
def test_lines(line: str, found: dict[str, object] | None) -> None:
    assert find(re.compile(REGEX.encode()), line.encode()) == found


def test_a_step_without_a_loss_is_progress() -> None:
    assert find(re.compile(rb"it (?P<step>\d+)"), b"it 9") == {"step": 9, "loss": None}


@pytest.mark.processes
def test_lines_in_pieces_are_found_once() -> None:
    points: list[ProgressPoint] = []

    async def feed() -> None:
        children = Children()
        matcher = Matcher(children, REGEX, lambda: 5.0, points.append)
        for piece in ("step 1 lo", "ss 0.5\nstep 2 loss", " 0.25\nnothing\n"):
            matcher.feed(piece)
        while len(points) < 2:
            await asyncio.sleep(0.01)
        matcher.close()
        matcher.feed("after the end")

    asyncio.run(asyncio.wait_for(feed(), 60))
    assert [(point.step, point.loss, point.at) for point in points] == [(1, 0.5, 5.0), (2, 0.25, 5.0)]


@pytest.mark.processes
def test_an_expression_that_never_ends_ends_only_its_own_process() -> None:
    line = b"a" * 60 + b"!\n"
    process = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), r"(?P<step>(a+)+)$"], input=line, capture_output=True, timeout=120
    )
    assert process.returncode < 0
