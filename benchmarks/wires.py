"""Lean clients for load: HTTP with one kept connection, server-sent events, and WebSockets, on asyncio alone. They cost
a fraction of what the server does, so that what is measured is the server."""

import asyncio
import base64
import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class Address:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80


class Http:
    """One connection that is kept. Not for several tasks at once."""

    def __init__(self, url: str, token: str) -> None:
        self._at, self._token = Address(url), token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def prepared(self, method: str, path: str, body: object = None, **headers: str) -> bytes:
        """The bytes of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._at.host}", f"Authorization: Bearer {self._token}"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._at.host, self._at.port, limit=2**24)
        assert self._reader is not None
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return int(head[9:12]), await self._reader.readexactly(int(length))

    async def json(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        status, content = await self.send(self.prepared(method, path, body, **headers))
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {content[:500].decode(errors='replace')}")
        return json.loads(content)

    def close(self) -> None:
        """The next request opens another connection."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class Events(asyncio.Protocol):
    """A stream of server-sent events. `heard` gets each piece as it comes."""

    def __init__(self, request: bytes, heard: Callable[[bytes], None]) -> None:
        self._request, self._heard = request, heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._heard(data)


class Socket(asyncio.Protocol):
    """A WebSocket's client: text frames up (masked with zeros, so that they go as they are), frames down to `heard`."""

    def __init__(self, url: str, token: str, heard: Callable[[bytes], None]) -> None:
        self.address, self._token, self._heard = Address(url), token, heard
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer, self._open = bytearray(), False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /agent/v1/stream HTTP/1.1", f"Host: {self.address.host}", "Upgrade: websocket"]
        lines += ["Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        self._transport.write("\r\n".join([*lines, f"Authorization: Bearer {self._token}", "", ""]).encode())

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.opened, self.closed):
            if not future.done():
                future.set_result(None)

    def send(self, text: bytes) -> None:
        length = len(text)
        if length < 126:
            head = bytes((0x81, 0x80 | length))
        elif length < 65536:
            head = bytes((0x81, 0x80 | 126)) + length.to_bytes(2, "big")
        else:
            head = bytes((0x81, 0x80 | 127)) + length.to_bytes(8, "big")
        self._transport.write(head + b"\0\0\0\0" + text)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head[:20]:
                raise RuntimeError(head.decode(errors="replace"))
            self._buffer, self._open = bytearray(rest), True
            self.opened.set_result(None)
        while (frame := self._frame()) is not None:
            kind, payload = frame
            if kind == 0x9:
                self._transport.write(bytes((0x8A, 0x80 | len(payload))) + b"\0\0\0\0" + payload)
            elif kind == 0x1:
                self._heard(payload)

    def _frame(self) -> tuple[int, bytes] | None:
        """The kind and the payload of the next frame, when it is all there. Servers send whole messages unmasked."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, at = buffer[1], 2
        if length == 126:
            length, at = int.from_bytes(buffer[2:4], "big"), 4
        elif length == 127:
            length, at = int.from_bytes(buffer[2:10], "big"), 10
        if len(buffer) < at + length or (buffer[1] >= 126 and len(buffer) < at):
            return None
        kind, payload = buffer[0] & 0xF, bytes(buffer[at : at + length])
        del buffer[: at + length]
        return kind, payload

    def close(self) -> None:
        self._transport.close()
