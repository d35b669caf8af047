"""Recorded outputs that were cut, wrapped, coloured, wrongly encoded or mixed with junk: readers never fail, and no
device is made of what is broken."""

import json
import os
import random
import re
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.devices.captures import KINDS, read_capture
from muster.inspection import Inspection

FIXTURES = Path(__file__).parent / "fixtures"
HARDWARE = Path(os.environ.get("MUSTER_CAPTURES") or Path(__file__).parents[3] / "shared" / "hardware")
ESCAPES = ("\x1b[0m", "\x1b[1;31m", "\x1b[K", "\x1b[2J", "\x1b]0;title\x07", "\r")
ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "gb18030")


def _recorded() -> list[tuple[str, Path]]:
    """(kind, file): our own, and the shared ones where they are beside the project. No device comes out of fabrics."""
    found = [(path.stem, path) for path in sorted(FIXTURES.iterdir()) if path.stem in KINDS]
    if HARDWARE.is_dir():
        for sidecar in sorted(HARDWARE.glob("*/*.json")):
            told = json.loads(sidecar.read_text())
            if isinstance(told, dict) and told.get("kind") in KINDS and "file" in told:
                found.append((told["kind"], sidecar.parent / told["file"]))
    return found


RECORDED = _recorded()


@cache
def whole(kind: str, path: Path) -> Inspection:
    return read_capture(kind, path.read_bytes())


def names(found: Inspection) -> set[tuple[str | None, str | None]]:
    """How devices can be told apart: their vendor and address."""
    return {(device.vendor, device.bus) for device in found.devices if device.bus}


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, Path, bytes, bool]:
    """A capture after up to three accidents; whether lines may have been torn into others."""
    kind, path = draw(st.sampled_from(RECORDED))
    text = path.read_bytes().decode("utf-8", "replace")
    torn = False
    for accident in draw(st.lists(st.sampled_from(("cut", "wrap", "colour", "junk", "drop", "spaces")), max_size=3)):
        noise = random.Random(draw(st.integers(0, 2**32)))
        lines = text.split("\n")
        if accident == "cut":
            at = noise.randrange(len(text) + 1)
            text = text[:at] if noise.random() < 0.7 else text[at:]
        elif accident == "wrap":
            width, torn = noise.choice((20, 40, 60, 79, 100)), True
            text = "\n".join(line[i : i + width] for line in lines for i in range(0, max(1, len(line)), width))
        elif accident == "colour":
            text = "\n".join(
                f"{noise.choice(ESCAPES)}{line}\x1b[0m" if noise.random() < 0.5 else line for line in lines
            )
        elif accident == "junk":
            for _ in range(noise.randrange(1, 6)):
                junk = "".join(chr(noise.randrange(1, 0x2FF)) for _ in range(noise.randrange(200)))
                lines.insert(noise.randrange(len(lines) + 1), junk)
            text = "\n".join(lines)
        elif accident == "drop":
            text = "\n".join(line for line in lines if noise.random() < 0.9)
        else:
            text = text.replace("\t", "        ").replace("\n", "\r\n")
    raw = text.encode(draw(st.sampled_from(ENCODINGS)), "replace")
    if draw(st.booleans()):
        torn = True  # a byte more in an address is another address
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        raw = raw[:at] + draw(st.binary(max_size=8)) + raw[at:]
    return kind, path, raw, torn


@given(broken())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_broken_capture_never_fails_and_never_makes_a_device(case: tuple[str, Path, bytes, bool]) -> None:
    kind, path, raw, torn = case
    found, full = read_capture(kind, raw), whole(kind, path)
    assert len({device.index for device in found.devices}) == len(found.devices)
    if full.devices:
        assert len(found.devices) <= len(full.devices)
    if not torn:
        known = {bus for _, bus in names(full)}
        assert {bus for _, bus in names(found) if not any(_part(bus, other) for other in known)} == set()


def _part(bus: str, other: str) -> bool:
    """A device is the same when its address is, or what is left of it."""
    plain = re.sub(r"[^0-9a-f]", "", bus.lower())
    return plain in re.sub(r"[^0-9a-f]", "", other.lower())


@pytest.mark.parametrize("kind", ["nvidia_smi", "nvidia_q", "kernel_log", "rocm", "fabric"])
def test_ten_megabytes_of_junk_take_no_time_and_make_nothing(kind: str) -> None:
    noise = random.Random(kind)
    junk = (noise.randbytes(1 << 20).hex() + "\n|  0  NVIDIA\n[12.5] NVRM: Xid (PCI:").encode() * 5
    began = time.process_time()
    found = read_capture(kind, junk)
    assert time.process_time() - began < 10
    assert not found.devices
    assert not found.complete
