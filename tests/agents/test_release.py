"""Devices are given back when nobody uses them any more."""

import asyncio
import itertools
import os
from pathlib import Path

import pytest

from agents.runtime import release
from muster.protocol import Device

GPUS = tuple(Device(index=index, type="h100", vendor="nvidia", bus=f"00000000:1{index}:00.0") for index in range(2))


def test_who_came_after_the_worker_and_has_its_device_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = {10: 100, 20: 500, 30: 600, 40: 700}
    files = {10: "/dev/nvidia0", 20: "/dev/nvidia0", 30: "/dev/nvidia1", 40: "/dev/nvidia7"}
    for pid, file in files.items():
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        os.symlink(file, tmp_path / str(pid) / "fd" / "3")
    driver = tmp_path / "driver"
    for index in range(2):  # the driver's numbers are not ours
        (driver / f"0000:1{index}:00.0").mkdir(parents=True)
        (driver / f"0000:1{index}:00.0" / "information").write_text(f"Device Minor: \t {1 - index}\n")
    monkeypatch.setattr(release, "start_time", begun.get)
    assert release.held(GPUS, 400, tmp_path, driver) == {1: [20], 0: [30]}
    assert release.held(GPUS[:1], 650, tmp_path, driver) == {}
    virtual = (Device(index=0, type="h100", vendor="nvidia", virtual=True),)
    assert release.held(virtual, 0, tmp_path, driver) == {}


def test_which_file_is_a_devices() -> None:
    assert release.file_of(Device(index=3, type="x", vendor="mthreads")) == "/dev/mtgpu.3"
    assert release.file_of(Device(index=3, type="x", vendor="amd")) is None


def test_it_waits_and_then_says_who(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([{0: [7]}, {0: [7]}, {}])
    assert asyncio.run(release.until_free(lambda: next(looks), pause=0.001)) == ""
    ever = itertools.repeat({0: [7], 3: [8, 9]})
    said = asyncio.run(release.until_free(lambda: next(ever), patience=0.01, pause=0.001))
    assert said == "still held after 0.01 s: device 0 by pid 7; device 3 by pid 8, 9"
