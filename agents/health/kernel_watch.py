"""Lines of the kernel, each once, each with its time: /dev/kmsg, else the journal, else dmesg, or a file in their place.

A cursor says how far has been read. It belongs to one boot: after a boot (of a node whose agent knew the one before)
everything since is read, without any cursor only what comes from now on.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

KMSG: Final = "/dev/kmsg"
RECORD: Final = 16 * 1024
_HEAD: Final = re.compile(r"^(\d+),(\d+),(\d+),[^;]*;(.*)$")
_RAW: Final = re.compile(r"^(?:<\d+>)?\[\s*(\d+)\.(\d+)\] ?(.*)$")
CHUNK: Final = 256 * 1024


class Line(NamedTuple):
    """`at` in UTC seconds; `cursor` names the place behind this line."""

    at: float
    text: str
    cursor: str


class Times(NamedTuple):
    """UTC now, and seconds since the boot on the kernel log's clock (CLOCK_MONOTONIC)."""

    now: float
    since_boot: float


def system_times() -> Times:
    return Times(time.time(), time.clock_gettime(time.CLOCK_MONOTONIC))


class Source(Protocol):
    """Where lines come from. `descriptor` can be waited for; None: ask now and then."""

    name: str
    descriptor: int | None

    @property
    def cursor(self) -> str | None:
        """Behind what was read, or was there before; None: not known yet."""

    def lines(self) -> Iterator[Line]:
        """What is there now, without waiting."""

    def close(self) -> None: ...


class Kmsg:
    """/dev/kmsg gives one record a read: `priority,sequence,microseconds,flags;message` and indented details."""

    name = KMSG

    def __init__(
        self, cursor: str | None, *, fresh_boot: bool, path: str = KMSG, times: Callable[[], Times] = system_times
    ) -> None:
        """Raises OSError when it may not be read."""
        self.descriptor: int | None = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._times = times
        self.cursor: str | None = None if fresh_boot else cursor
        with suppress(OSError):
            os.lseek(self.descriptor, 0, os.SEEK_SET)
        if cursor is None and not fresh_boot:
            for _ in self.lines():  # what was there before anybody looked only says where the end is
                pass

    def lines(self) -> Iterator[Line]:
        while self.descriptor is not None:
            try:
                record = os.read(self.descriptor, RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # what was not read in time has been overwritten: go on with the oldest
                continue
            except OSError:
                return
            if not record:
                return
            line = parse(record.split(b"\n", 1)[0].decode(errors="replace"), self._times())
            if line is not None and int(line.cursor) > int(self.cursor or -1):
                self.cursor = line.cursor
                yield line

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def parse(record: str, times: Times) -> Line | None:
    """The first line of a record of /dev/kmsg."""
    found = _HEAD.match(record)
    if found is None:
        return None
    since = int(found.group(3)) / 1e6
    return Line(times.now - max(0.0, times.since_boot - since), found.group(4), found.group(2))


class File:
    """A file that grows by lines in the form of /dev/kmsg, or by bare ones, which are of the time at which they are
    seen. The cursor is the offset."""

    descriptor: int | None = None

    def __init__(self, path: Path, cursor: str | None, *, times: Callable[[], Times] = system_times) -> None:
        self.name, self._path, self._times = str(path), path, times
        self._offset = int(cursor) if cursor and cursor.isdigit() else self._size()

    @property
    def cursor(self) -> str:
        return str(self._offset)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def lines(self) -> Iterator[Line]:
        size = self._size()
        if size < self._offset:
            self._offset = 0
        if size == self._offset:
            return
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(CHUNK)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == CHUNK:
            whole = len(data)  # no line is so long
        times = self._times()
        for raw in data[:whole].splitlines(keepends=True):
            self._offset += len(raw)
            text = raw.decode(errors="replace").rstrip("\r\n")
            line = parse(text, times)
            yield Line(line.at if line else times.now, line.text if line else text, str(self._offset))

    def close(self) -> None:
        pass


Start = Callable[[tuple[str, ...], int], Callable[[], None]]
"""Starts a command with a descriptor as its standard output; returns what ends it. Raises OSError."""


class Follower:
    """`journalctl -k -f` or `dmesg -w`: a child whose lines are read as they come."""

    def __init__(
        self,
        cursor: str | None,
        *,
        fresh_boot: bool,
        command: tuple[str, ...],
        start: Start,
        times: Callable[[], Times] = system_times,
    ) -> None:
        """Raises OSError when it cannot be started."""
        self.name, self._times, self._rest = command[0], times, b""
        self._journal = command[0].endswith("journalctl")
        self._after = -1.0
        if self._journal:
            after = (f"--after-cursor={cursor}",) if cursor else ("-n", "0")
            command = (*command, "-k", "-f", "-o", "json", *(("-n", "all") if fresh_boot else after))
        else:
            if not fresh_boot:
                self._after = float(cursor) if cursor else times().since_boot
                self.cursor = str(self._after)
            command = (*command, "--follow", "--raw")
        read, write = os.pipe()
        os.set_blocking(read, False)
        try:
            self._end = start(command, write)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        self.descriptor: int | None = read

    def lines(self) -> Iterator[Line]:
        while self.descriptor is not None:
            try:
                data = os.read(self.descriptor, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.close()  # it has ended: nothing more comes, and nobody waits for it
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for raw in lines:
                line = self._entry(raw) if self._journal else self._raw(raw.decode(errors="replace"))
                if line is not None:
                    self.cursor = line.cursor
                    yield line

    def _entry(self, raw: bytes) -> Line | None:
        try:
            entry = msgspec.json.decode(raw)
            message = entry["MESSAGE"]
            text = bytes(message).decode(errors="replace") if isinstance(message, list) else str(message)
            return Line(int(entry["__REALTIME_TIMESTAMP"]) / 1e6, text, str(entry["__CURSOR"]))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return None

    def _raw(self, text: str) -> Line | None:
        found = _RAW.match(text)
        if found is None:
            return None
        since = float(f"{found.group(1)}.{found.group(2)}")
        if since <= self._after:
            return None
        times = self._times()
        return Line(times.now - max(0.0, times.since_boot - since), found.group(3), str(since))

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            self._end()


def open_source(wanted: str, cursor: str | None, *, fresh_boot: bool, start: Start) -> tuple[Source | None, list[str]]:
    """`wanted` is auto, none, kmsg, journal, dmesg, or the path of a file. Without a source: why there is none."""
    problems: list[str] = []
    if wanted == "none":
        return None, problems
    if "/" in wanted and wanted != KMSG:
        return File(Path(wanted), cursor), problems
    ways = {"auto": ("kmsg", "journal", "dmesg"), KMSG: ("kmsg",)}.get(wanted, (wanted,))
    for way in ways:
        try:
            if way == "kmsg":
                return Kmsg(_of(cursor, way), fresh_boot=fresh_boot), problems
            program = shutil.which("journalctl" if way == "journal" else "dmesg")
            if program is None:
                raise FileNotFoundError(2, "not installed")
            return Follower(_of(cursor, way), fresh_boot=fresh_boot, command=(program,), start=start), problems
        except OSError as error:
            problems.append(f"kernel log by {way}: {error.strerror or error}")
    return None, problems


def _of(cursor: str | None, way: str) -> str | None:
    """A cursor of another way is none: nothing old is read again."""
    fits = {"kmsg": r"\d+", "journal": r"s=.*", "dmesg": r"\d+\.\d+"}[way]
    return cursor if cursor and re.fullmatch(fits, cursor) else None
