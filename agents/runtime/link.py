"""The agent's connection to one shim: commands out, a bell back whenever the diary has grown."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

RETRY = (0.005, 0.01, 0.02, 0.05)
"""Seconds between tries to reach a shim that is starting; the last repeats."""


class ShimLink:
    """`on_bell` is called in the loop when the diary has grown, and when the shim is gone."""

    def __init__(self, folder: Path, on_bell: Callable[[], None]) -> None:
        self._folder, self._on_bell = folder, on_bell
        self._socket: socket.socket | None = None

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def connect(self) -> bool:
        """One try."""
        if self._socket is not None:
            return True
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._reach(sock)
        except OSError:
            sock.close()
            return False
        self._socket = sock
        asyncio.get_running_loop().add_reader(sock, self._readable)
        return True

    async def wait(self, timeout: float, gone: Callable[[], bool]) -> bool:
        """Until connected; False when `gone()` or after `timeout` seconds."""
        deadline, tries = asyncio.get_running_loop().time() + timeout, 0
        while not self.connect():
            if gone() or asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(RETRY[min(tries, len(RETRY) - 1)])
            tries += 1
        return True

    def send(self, **command: object) -> None:
        """A command that cannot be sent is sent again when the worker is next looked at."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(json.dumps(command).encode() + b"\n")

    def send_with(self, descriptors: list[int], **command: object) -> bool:
        """A command with descriptors, which the shim gets copies of. False when it cannot be sent now."""
        if self._socket is None:
            return False
        try:
            socket.send_fds(self._socket, [json.dumps(command).encode() + b"\n"], descriptors)
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _reach(self, sock: socket.socket) -> None:
        """By way of the folder's descriptor: a path may be longer than the 108 bytes of an address."""
        descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sock.setblocking(False)
            sock.connect(f"/proc/self/fd/{descriptor}/shim.sock")
        finally:
            os.close(descriptor)
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.geteuid():
            raise PermissionError(f"the shim of {self._folder} belongs to user {uid}")

    def _readable(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        self._on_bell()
