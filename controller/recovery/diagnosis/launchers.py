"""Exits that launchers and schedulers print: torchrun, srun, mpirun, shells. Their own tracebacks are no cause."""

import re
from typing import Final

from msgspec.structs import replace

from controller.recovery.diagnosis.types import Exit, Line, Stream
from controller.recovery.torchrun import failures

_SRUN: Final = re.compile(r"srun: error: (?P<node>[\w.,\[\]-]+): tasks? (?P<ranks>[\d,\[\]-]+): (?P<how>.*)")
_MPI: Final = re.compile(
    r"process rank (?P<rank>\d+) with PID \S+ on (?:node )?(?P<node>\S+) exited on signal (?P<signal>\d+)"
)
_MPI_CODE: Final = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s*\n\s*Exit code:\s+(?P<code>\d+)")
_LAUNCHER: Final = re.compile(
    r"torch/distributed/elastic/|torch\.distributed\.elastic|ChildFailedError|"
    r"Sending process \d+ closing signal|torchrun|launch_agent|torch/distributed/(run|launcher)"
)
_TRACE: Final = "Traceback (most recent call last):"
_WORDS: Final = {"segmentation fault": 11, "killed": 9, "aborted": 6, "bus error": 7, "terminated": 15,
                 "floating point exception": 8, "illegal instruction": 4}  # fmt: skip


def exits(stream: Stream) -> list[Exit]:
    """What a launcher says in this stream of how ranks ended, the first seen first."""
    return [*_torchrun(stream), *_srun(stream), *_mpirun(stream)]


def _torchrun(stream: Stream) -> list[Exit]:
    found: list[Exit] = []
    for order, one in enumerate(failures(stream.text, 0)):
        line = next((line for line in stream.lines if f"exitcode: {one.code}" in line.text), None) or next(
            (line for line in reversed(stream.lines) if f": {one.code} (pid" in line.text), stream.lines[-1]
        )
        found.append(
            Exit(rank=one.rank, code=one.code if one.code >= 0 else None, signal=-one.code if one.code < 0 else None,
                 order=order, said=line.text.strip(), file=stream.file, number=line.number, at=line.at, root=one.root)
        )  # fmt: skip
    return found


def _srun(stream: Stream) -> list[Exit]:
    found: list[Exit] = []
    for line in stream.lines:
        if match := _SRUN.search(line.text):
            ranks = [int(rank) for rank in re.findall(r"\d+", match["ranks"])]
            how = match["how"].lower()
            code = re.search(r"exit code (\d+)", how)
            signal = next((number for word, number in _WORDS.items() if word in how), None)
            oom = "out of memory" in how
            one = Exit(rank=ranks[0], node=match["node"], code=int(code[1]) if code else None,
                       signal=9 if oom else signal, oom=oom, order=len(found), said=line.text.strip(), file=stream.file,
                       number=line.number, at=line.at)  # fmt: skip
            found.append(one)
    return found


def _mpirun(stream: Stream) -> list[Exit]:
    found = []
    for match in (*_MPI.finditer(stream.text), *_MPI_CODE.finditer(stream.text)):
        named = match.groupdict()
        said = match[0].replace("\n", " ")
        found.append(
            Exit(rank=int(match["rank"]), node=named.get("node") or "", said=said, file=stream.file, root=True,
                 signal=int(named["signal"]) if named.get("signal") else None,
                 code=int(named["code"]) if named.get("code") else None)
        )  # fmt: skip
    return found


def without_launcher(stream: Stream) -> Stream:
    """The stream without the launcher's own words: its traceback comes last and would hide its ranks'."""
    kept: list[Line] = []
    block: list[Line] = []
    summary = False
    for line in stream.lines:
        if line.text.strip() == _TRACE:
            kept += block
            block = [line]
        elif block and (line.text[:1] in (" ", "\t") or not line.text.strip()):
            block.append(line)
        elif block:
            if not _LAUNCHER.search("\n".join(one.text for one in (*block, line))):
                kept += [*block, line]
            else:
                summary = summary or "ChildFailedError" in line.text
            block = []
        elif not _LAUNCHER.search(line.text) and not summary:
            kept.append(line)
    return replace(stream, lines=tuple(kept + block))
