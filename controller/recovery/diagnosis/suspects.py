"""From streams and exits to suspects, and the one that the others follow from.

Order of trust: the driver's and the kernel's words about a device or a machine; then whoever failed without being
told to, the earliest by its dates (by its place in the file where dates lack); then those who only lost the others.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from controller.recovery.diagnosis.launchers import exits, without_launcher
from controller.recovery.diagnosis.types import Exit, Line, Stream
from controller.recovery.logs import Reading, read
from controller.recovery.reading import ABRT, KILL, PIPE, TERM, TOLD_TO_END, VICTIMS, signal_name
from controller.recovery.signatures import Kind, hits

HARDWARE: Final = (Kind.DEVICE, Kind.HOST_FAULT)
RECENT: Final = 200
"""Lines of a driver or kernel that are read, the newest."""
_DRIVER: Final = re.compile(
    r"\bS?Xid\b|\bXID\b|NVRM|amdgpu|kernel:|\bmce:|[Ll]ockup|[Pp]anic|nvme|I/O error|Hardware Error|NODE FAIL|fallen off"
)


class Suspect(Struct, frozen=True, kw_only=True):
    """A process (or a machine) that went wrong. `number` is the line in `file` that tells it."""

    reading: Reading = Reading()
    rank: int | None = None
    node: str = ""
    exit: Exit | None = None
    file: str = ""
    number: int = 0
    at: float | None = None

    @property
    def kind(self) -> Kind | None:
        return self.reading.kind

    @property
    def signal(self) -> int | None:
        return self.exit.signal if self.exit else None

    @property
    def victim(self) -> bool:
        """Told to end, or it says itself that it lost its peers: launchers kill such ranks when they do not end."""
        if self.signal in (TERM, PIPE) or (self.exit is not None and self.exit.code in TOLD_TO_END):
            return True
        return self.kind in VICTIMS and self.signal in (None, ABRT, KILL) and not (self.exit and self.exit.oom)

    @property
    def who(self) -> str:
        where = f" on {self.node}" if self.node else ""
        return f"rank {self.rank}{where}" if self.rank is not None else f"a process{where}"

    @property
    def how(self) -> str:
        if self.exit is None:
            return "ended"
        if self.exit.oom:
            return "was killed for want of memory"
        if self.exit.signal:
            return f"was killed by {signal_name(self.exit.signal)}"
        return f"exited with {self.exit.code}"


def suspects(streams: Sequence[Stream], seen: Sequence[Exit]) -> list[Suspect]:
    named = [*seen, *(one for stream in streams for one in exits(stream))]
    bare = [without_launcher(stream) for stream in streams]
    readings = [(stream, read(stream.text)) for stream in bare if stream.lines]
    found = [_of_stream(stream, reading, named) for stream, reading in readings if reading.line or reading.hit]
    found += [_of_stream(stream, said, ()) for stream, reading in readings if (said := _driver(stream, reading))]
    told = {one.rank for one in found if one.rank is not None}
    shared = next((one for one in found if one.rank is None and one.kind not in (*HARDWARE, None)), None)
    for one in named:
        if _bad(one) and one.rank not in told:
            own = one.root and shared is not None and not one.signal
            found.append(
                Suspect(reading=shared.reading if own and shared else Reading(), rank=one.rank, node=one.node, exit=one,
                        file=shared.file if own and shared else one.file,
                        number=shared.number if own and shared else one.number, at=one.at)
            )  # fmt: skip
    return found


def culprit(found: Sequence[Suspect]) -> Suspect | None:
    hardware = [one for one in found if one.kind in HARDWARE]
    proven = [one for one in found if one.exit is not None and one.exit.oom]
    own = [one for one in found if not one.victim]
    pool = hardware or proven or own or list(found)
    dated = all(one.at is not None for one in pool)
    return min(pool, key=lambda one: _order(one, dated=dated), default=None)


def _order(one: Suspect, *, dated: bool) -> tuple[float, bool, int, bool, int, str, int]:
    first_seen = one.exit.order if one.exit else 0
    blamed = one.rank is None and (one.reading.hit is None or one.reading.hit.rank is None)
    place = one.number if not dated else 0
    return (
        (one.at or 0.0) if dated else 0.0,
        one.kind is None and not one.signal,
        first_seen,
        blamed,
        place,
        one.file,
        one.rank or 0,
    )


def _bad(one: Exit) -> bool:
    return bool(one.signal or one.code or one.oom)


def _of_stream(stream: Stream, reading: Reading, named: Iterable[Exit]) -> Suspect:
    line = _line(stream, reading.line)
    mine = [one for one in named if one.rank == stream.rank and stream.rank is not None and _bad(one)]
    node = stream.node or next((one.node for one in mine if one.node), "")
    return Suspect(reading=reading, rank=stream.rank, node=node, exit=mine[0] if mine else None, file=stream.file,
                   number=line.number if line else 0, at=line.at if line else None)  # fmt: skip


def _driver(stream: Stream, reading: Reading) -> Reading | None:
    """What a driver or kernel said of its hardware further up than a program's last words are looked for."""
    lines = [line.text for line in stream.lines if _DRIVER.search(line.text)][-RECENT:]
    if not lines or reading.kind in HARDWARE:
        return None
    hit = next((one for one in hits("\n".join(lines)) if one.kind in HARDWARE), None)
    return Reading(hit, hit.line) if hit else None


def _line(stream: Stream, text: str) -> Line | None:
    wanted = text.removesuffix("...")
    return next((line for line in reversed(stream.lines) if wanted and wanted in line.text), None)
