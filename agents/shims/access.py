"""Keep a worker's processes from devices that are not theirs: the devices controller of cgroup v1, and on v2 a small
program of ours at its eBPF hook. Only what is listed is denied; where neither can be had, nothing is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "ppc64le": 361}.get(os.uname().machine)
PROG_LOAD, PROG_ATTACH, CGROUP_DEVICE, TYPE_DEVICE, ALLOW_MULTI = 5, 8, 15, 6, 2
MAJOR, MINOR = 4, 8
"""Where struct bpf_cgroup_dev_ctx has them."""


def numbers(path: str) -> tuple[int, int] | None:
    """Major and minor of a device's file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return os.major(status.st_rdev), os.minor(status.st_rdev)


def deny_v1(folder: str, denied: Sequence[tuple[int, int]]) -> None:
    """Raises OSError."""
    for major, minor in denied:
        with open(f"{folder}/devices.deny", "w") as file:
            file.write(f"c {major}:{minor} rwm")


def deny_v2(folder: str, denied: Sequence[tuple[int, int]]) -> None:
    """Raises OSError. The kernel keeps the program for as long as the group lives."""
    if BPF is None:
        raise OSError(38, "no bpf(2) on this architecture")
    program = _load(code(denied))
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(PROG_ATTACH, struct.pack("<IIII", group, program, TYPE_DEVICE, ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(program)


def code(denied: Sequence[tuple[int, int]]) -> bytes:
    """r2, r3 = major, minor; for each denied pair: if both are equal, return 0; return 1."""
    steps = [_step(0x61, 2, 1, MAJOR), _step(0x61, 3, 1, MINOR)]
    for major, minor in denied:
        steps += [_step(0x55, 2, offset=3, value=major), _step(0x55, 3, offset=2, value=minor)]
        steps += [_step(0xB7, 0, value=0), _step(0x95)]
    return b"".join([*steps, _step(0xB7, 0, value=1), _step(0x95)])


def _step(operation: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", operation, target | source << 4, offset, value)


def _load(program: bytes) -> int:
    text, license_ = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"GPL")
    at, name = ctypes.addressof(text), ctypes.addressof(license_)
    return _bpf(PROG_LOAD, struct.pack("<IIQQIIQII", CGROUP_DEVICE, len(program) // 8, at, name, 0, 0, 0, 0, 0))


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    found: int = libc.syscall(BPF, command, buffer, len(attributes))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def deny(folders: dict[str, str], denied: Sequence[tuple[int, int]]) -> bool:
    """`folders` by controller. Whether it is done."""
    if not denied:
        return True
    for controller, act in (("cgroup2", deny_v2), ("devices", deny_v1)):
        if controller in folders:
            with contextlib.suppress(OSError):
                act(folders[controller], denied)
                return True
    return False
