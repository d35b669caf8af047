"""Take stock of a checkpoint directory: `python -I -S stock.py DIRECTORY FORMAT [--prepare] [--as=UID:GID:GROUPS]`.

A process of its own, standard library only, since a mount may hang and a directory is only as trustworthy as
the job that writes it: metadata is read opcode by opcode, never unpickled. Prints one JSON object:
{"items": [{path, step, format, complete, size, modified_at, manifest, why}]}, newest step first, or
{"error": text, "errno": number}. `--prepare` makes the directory and tries to write into it.

Formats: `dcp` (torch.distributed.checkpoint: a folder with `.metadata` and the files that it names),
`marker` (a folder with a file `COMPLETE` that may list `NAME SIZE` lines); `auto` looks. The step is the last
number in the folder's name.
"""

from __future__ import annotations

import json
import os
import pickletools
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NEWEST = 64
"""Folders that are looked into, newest step first."""
WHOLE_METADATA = 8 * 2**20
"""Bytes of `.metadata` up to which the extent of every shard is checked; beyond, the names alone."""
LITERALS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1"}
STEP = re.compile(r"(\d+)\D*$")
LIKE_A_STEP = re.compile(r"(^|[-_.=])(step|iter|iteration|epoch|ckpt|checkpoint)[-_=]?\d+\D*$|^\d+$", re.IGNORECASE)
TEMPORARY = re.compile(r"^\.|(\.|_|-)(tmp|temp|partial|incomplete)\b", re.IGNORECASE)


def take(directory: str, format_: str) -> list[dict[str, Any]]:
    """Raises OSError when the directory cannot be read."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = STEP.search(entry.name)
            if match and entry.is_dir():
                found.append((int(match[1][-18:]), entry.name))
    items = []
    for step, name in sorted(found, reverse=True)[:NEWEST]:
        try:
            item = examine(os.path.join(directory, name), step, format_)
        except OSError as error:
            item = _item(os.path.join(directory, name), step, format_, {}, f"cannot be read: {error.strerror}")
        if item is not None:
            items.append(item)
    return items


def examine(path: str, step: int, format_: str) -> dict[str, Any] | None:
    """One folder; None when it is no checkpoint of this format. Raises OSError."""
    sizes = dict(_sizes(path))
    if format_ == "dcp" or (
        format_ == "auto" and any(name == ".metadata" or name.endswith(".distcp") for name in sizes)
    ):
        why, manifest = _dcp(path, sizes)
        return _item(path, step, "dcp", manifest, why)
    if format_ == "marker" or "COMPLETE" in sizes:
        why, manifest = _marker(path, sizes)
        return _item(path, step, "marker", manifest, why)
    if LIKE_A_STEP.search(os.path.basename(path)):
        return _item(path, step, "unknown", sizes, "there is neither .metadata (dcp) nor COMPLETE (marker)")
    return None


def extents(metadata: bytes) -> dict[str, int]:
    """What a dcp `.metadata` says of its files: the least size of each. Raises ValueError when it is cut short.

    It holds objects with the state {relative_path, offset, length}; strings that come again are fetched from
    the pickle's memo. Nothing is executed: opcodes are only read.
    """
    memo: dict[object, object] = {}
    atoms: list[object] = []
    for opcode, argument, _ in pickletools.genops(metadata):
        if opcode.name in LITERALS:
            atoms.append(argument)
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = atoms[-1] if atoms else None
        elif opcode.name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = atoms[-1] if atoms else None
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            atoms.append(memo.get(argument))
        elif opcode.name not in ("MARK", "FRAME"):
            atoms.append(None)
    sizes: dict[str, int] = {}
    for i, atom in enumerate(atoms):
        name = atoms[i + 1] if atom == "relative_path" and i + 1 < len(atoms) else None
        if isinstance(name, str):
            sizes[name] = max(sizes.get(name, 1), _end(atoms[i + 2 : i + 6]))
    return sizes


def _end(atoms: list[object]) -> int:
    """From `offset`, n, `length`, n."""
    if len(atoms) == 4 and atoms[0] == "offset" and atoms[2] == "length":
        return sum(number for number in (atoms[1], atoms[3]) if isinstance(number, int))
    return 0


def _dcp(path: str, sizes: dict[str, int]) -> tuple[str, dict[str, int]]:
    manifest = {name: size for name, size in sizes.items() if name == ".metadata" or name.endswith(".distcp")}
    if ".metadata" not in sizes:
        return "there is no .metadata: it is written last", manifest
    with open(os.path.join(path, ".metadata"), "rb") as file:
        data = file.read()
    try:
        needed = extents(data) if len(data) <= WHOLE_METADATA else _names(data)
    except ValueError:
        return ".metadata is cut short", manifest
    if not needed:
        return ".metadata names no files", manifest
    for name, least in sorted(needed.items()):
        if name not in sizes:
            return f"{name} is missing", manifest
        if sizes[name] < least:
            return f"{name} has {sizes[name]} bytes of at least {least}", manifest
    return "", manifest


def _names(metadata: bytes) -> dict[str, int]:
    return {name.decode(): 1 for name in re.findall(rb"__\d+_\d+\.distcp", metadata)}


def _marker(path: str, sizes: dict[str, int]) -> tuple[str, dict[str, int]]:
    if "COMPLETE" not in sizes:
        return "there is no file COMPLETE: it is written last", sizes
    with open(os.path.join(path, "COMPLETE"), errors="replace") as file:
        lines = [line.split() for line in file.read(2**20).splitlines()]
    listed = [(" ".join(words[:-1]), int(words[-1])) for words in lines if len(words) > 1 and words[-1].isdigit()]
    for name, size in listed:
        if name not in sizes:
            return f"{name} is missing", sizes
        if sizes[name] != size:
            return f"{name} has {sizes[name]} bytes of {size}", sizes
    return "", sizes


def _sizes(path: str, below: str = "") -> Iterator[tuple[str, int]]:
    """Relative names and sizes of all files, links to folders not followed."""
    with os.scandir(os.path.join(path, below)) as entries:
        for entry in entries:
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(path, name)
            elif entry.is_file():
                yield name, entry.stat().st_size


def _item(path: str, step: int, format_: str, manifest: dict[str, int], why: str) -> dict[str, Any]:
    if not why and TEMPORARY.search(os.path.basename(path)):
        why = "it still has a temporary name"
    last = next((name for name in (".metadata", "COMPLETE") if name in manifest), "")
    try:
        modified = os.stat(os.path.join(path, last)).st_mtime
    except OSError:
        modified = 0.0
    return {
        "path": path,
        "step": step,
        "format": format_,
        "complete": not why,
        "size": sum(manifest.values()),
        "modified_at": modified,
        "manifest": manifest if len(manifest) <= 4096 else {},
        "why": why,
    }


def prepare(directory: str) -> None:
    """Make the directory and try to write into it. Raises OSError."""
    os.makedirs(directory, exist_ok=True)
    probe = os.path.join(directory, f".muster-probe-{os.getpid()}")
    with open(probe, "wb") as file:
        file.write(b"muster")
    os.unlink(probe)


def become(text: str) -> None:
    """UID:GID:GROUP,GROUP: whose directory it is looks into it. Raises OSError."""
    uid, gid, groups = text.split(":")
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setgid(int(gid))
    os.setuid(int(uid))


def main() -> int:
    directory, format_ = sys.argv[1:3]
    for word in sys.argv[3:]:
        if word.startswith("--as="):
            become(word[5:])
    try:
        if "--prepare" in sys.argv[3:]:
            prepare(directory)
        answer: dict[str, Any] = {"items": take(directory, format_)}
    except OSError as error:
        answer = {"error": f"{directory}: {error.strerror}", "errno": error.errno}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
