"""What only a machine can do to a cluster: a disk that fills up, a wall clock that jumps, a cable that is pulled.

A disk and a cable of one's own need root; without it the soak does without a full disk, and cuts nodes off by its proxy.
"""

import os
import random
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

CLOCK = Path(__file__).parent / "wallclock"
"""A folder for PYTHONPATH: its sitecustomize adds what the file MUSTER_SOAK_CLOCK says to `time.time()`."""


def is_root() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None


class SmallDisk:
    """A file system of a few megabytes at `folder`, which can be filled to the last byte."""

    def __init__(self, folder: Path, megabytes: int = 24) -> None:
        self._folder, self._ballast = folder, folder / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        _do("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder))

    def fill(self) -> None:
        with suppress(OSError), self._ballast.open("ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        _do("umount", "-l", str(self._folder), check=False)


class WallClock:
    """The wall clock of every process that was started with `env`. Processes read it when they like: those that have
    anchored themselves see nothing, those that start meanwhile see the wrong time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "wallclock"
        self.env = {"MUSTER_SOAK_CLOCK": str(self._file)}
        self.jump(0.0)

    def jump(self, seconds: float) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(repr(seconds))
        new.replace(self._file)


class Cable:
    """A network namespace with one cable to this machine. `host` is this machine's end; `within` runs a program there."""

    def __init__(self, number: int) -> None:
        self._name, self._end = f"soak-{os.getpid()}-{number}", f"sk{os.getpid()}n{number}"[-13:]
        net = random.SystemRandom().randrange(1, 250)
        self.host, there = f"10.213.{net}.1", f"10.213.{net}.2"
        try:
            _do("ip", "netns", "add", self._name)
            _do("ip", "link", "add", self._end, "type", "veth", "peer", "name", "eth0", "netns", self._name)
            _do("ip", "addr", "add", f"{self.host}/30", "dev", self._end)
            _do("ip", "link", "set", self._end, "up")
            for words in (
                ("addr", "add", f"{there}/30", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _do("ip", "-n", self._name, *words)
        except subprocess.CalledProcessError:
            self.close()
            raise

    def within(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._name, *argv)

    def pull(self) -> None:
        _do("ip", "link", "set", self._end, "down")

    def plug(self) -> None:
        _do("ip", "link", "set", self._end, "up", check=False)

    def close(self) -> None:
        _do("ip", "link", "del", self._end, check=False)
        _do("ip", "netns", "del", self._name, check=False)


def _do(*words: str, check: bool = True) -> None:
    subprocess.run(words, check=check, capture_output=True, timeout=30)
