"""What nodes can do together: the bandwidth of each pair, and of an all-reduce over all.

With PyTorch by its collectives (NCCL on CUDA, else gloo), otherwise by TCP: a ring of sockets whose ranks find each other
at the master's address.
"""

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

from muster.nodecheck.measured import Measured

MIB = 2**20
PATIENCE = 120.0
PIECE = 8 * MIB


class Mesh(Protocol):
    def measure(self, seconds: float) -> Iterator[Measured]: ...

    def close(self) -> None: ...


def join(kind: str, rank: int, world: int, node: str) -> Mesh:
    """Waits for the others. Raises OSError or RuntimeError when they do not come."""
    return Collectives(rank, world, node) if kind == "torch" else Sockets(rank, world, node)


def pairs(world: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(world) for other in range(one + 1, world)]


def ring_rate(size: int, world: int, seconds: float) -> float:
    """Bus bandwidth of an all-reduce in GB/s, as NCCL's tests count it: 2 (n-1)/n of the size for each rank."""
    return size * 2 * (world - 1) / world / seconds / 1e9


class Collectives:
    """PyTorch's process group."""

    def __init__(self, rank: int, world: int, node: str) -> None:
        import torch
        import torch.distributed as dist

        cuda = torch.cuda.is_available() and torch.cuda.device_count() > 0 and dist.is_nccl_available()
        self._torch, self._dist, self._rank, self._world = torch, dist, rank, world
        self._device = torch.device("cuda", 0) if cuda else torch.device("cpu")
        dist.init_process_group(
            "nccl" if cuda else "gloo", rank=rank, world_size=world, timeout=timedelta(seconds=PATIENCE)
        )
        names: list[Any] = [None] * world
        dist.all_gather_object(names, node)
        self._names = [str(name) for name in names]
        self._kind = "nccl" if cuda else "gloo"

    def measure(self, seconds: float) -> Iterator[Measured]:
        block = self._torch.ones(PIECE, dtype=self._torch.float32, device=self._device)
        for one, other in pairs(self._world):
            self._dist.barrier()
            if self._rank in (one, other):
                rate = self._exchange(block, other if self._rank == one else one, first=self._rank == one)
                if self._rank == one:
                    yield Measured("pair", rate, "GB/s", peer=self._names[other], message=self._kind)
        self._dist.barrier()
        yield self._reduce(block)

    def _exchange(self, block: Any, peer: int, *, first: bool, rounds: int = 4) -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            if first:
                self._dist.send(block, peer)
                self._dist.recv(block, peer)
            else:
                self._dist.recv(block, peer)
                self._dist.send(block, peer)
        self._settle()
        return float(2 * rounds * block.numel() * 4) / (time.perf_counter() - began) / 1e9

    def _reduce(self, block: Any, rounds: int = 4) -> Measured:
        block.fill_(1.0)
        self._dist.all_reduce(block)
        good = bool((block == float(self._world)).all().item())
        began = time.perf_counter()
        for _ in range(rounds):
            self._dist.all_reduce(block)
        self._settle()
        rate = ring_rate(block.numel() * 4 * rounds, self._world, time.perf_counter() - began)
        message = self._kind if good else "the sum over all ranks was wrong"
        return Measured("allreduce", rate, "GB/s", ok=good, message=message)

    def _settle(self) -> None:
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)

    def close(self) -> None:
        with suppress(Exception):
            self._dist.destroy_process_group()


class Sockets:
    """Plain TCP. Rank 0 listens at the master's port and tells everybody where the others listen."""

    def __init__(self, rank: int, world: int, node: str) -> None:
        self._rank, self._world = rank, world
        self._server = socket.create_server(("", 0), backlog=world)
        self._server.settimeout(PATIENCE)
        addresses = os.environ.get("MUSTER_NODE_ADDRESSES", "").split(",")
        mine = addresses[rank] if rank < len(addresses) and addresses[rank] else "127.0.0.1"
        here = {"rank": rank, "address": mine, "port": self._server.getsockname()[1], "node": node}
        self._lines: dict[int, socket.socket] = {}
        self._table = self._gather(here) if rank == 0 else self._ask(here)
        self._names = [one["node"] for one in self._table]

    def _gather(self, here: dict[str, Any]) -> list[dict[str, Any]]:
        """Everybody keeps its line to rank 0: barriers go over it."""
        table = [here]
        port = int(os.environ["MASTER_PORT"])
        with socket.create_server(("", port), backlog=self._world) as door:
            door.settimeout(PATIENCE)
            while len(table) < self._world:
                line, _ = door.accept()
                line.settimeout(PATIENCE)
                told = json.loads(_receive(line))
                self._lines[told["rank"]] = line
                table.append(told)
        table.sort(key=lambda one: int(one["rank"]))
        for line in self._lines.values():
            _send(line, json.dumps(table).encode())
        return table

    def _ask(self, here: dict[str, Any]) -> list[dict[str, Any]]:
        where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = socket.create_connection(where, timeout=PATIENCE)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)
        self._lines[0] = line
        _send(line, json.dumps(here).encode())
        return list(json.loads(_receive(line)))

    def _barrier(self) -> None:
        if self._rank == 0:
            for line in self._lines.values():
                _receive(line)
            for line in self._lines.values():
                _send(line, b"go")
        else:
            _send(self._lines[0], b"here")
            _receive(self._lines[0])

    def measure(self, seconds: float) -> Iterator[Measured]:
        for one, other in pairs(self._world):
            self._barrier()
            if self._rank == one:
                yield Measured("pair", self._call(other), "GB/s", peer=self._names[other], message="tcp")
            elif self._rank == other:
                self._answer()
        self._barrier()
        yield self._reduce()

    def _call(self, other: int, rounds: int = 4) -> float:
        block = bytes(PIECE)
        there = self._table[other]
        with socket.create_connection((there["address"], there["port"]), timeout=PATIENCE) as line:
            began = time.perf_counter()
            for _ in range(rounds):
                _send(line, block)
                _receive(line)
            return 2 * rounds * len(block) / (time.perf_counter() - began) / 1e9

    def _answer(self) -> None:
        line, _ = self._server.accept()
        with line:
            line.settimeout(PATIENCE)
            with suppress(EOFError):
                while True:
                    _send(line, _receive(line))

    def _reduce(self) -> Measured:
        """Every rank passes its block around the ring and adds up what comes by."""
        block = struct.pack("!I", self._rank + 1) * (MIB // 4)
        after = self._table[(self._rank + 1) % self._world]
        total, began = self._rank + 1, time.perf_counter()
        with socket.create_connection((after["address"], after["port"]), timeout=PATIENCE) as right:
            left, _ = self._server.accept()
            with left:
                left.settimeout(PATIENCE)
                for _ in range(self._world - 1):
                    _send(right, block)
                    block = _receive(left)
                    total += struct.unpack_from("!I", block)[0]
        wanted = self._world * (self._world + 1) // 2
        rate = ring_rate(len(block), self._world, time.perf_counter() - began)
        message = "tcp" if total == wanted else f"the sum over all ranks was {total}, not {wanted}"
        return Measured("allreduce", rate, "GB/s", ok=total == wanted, message=message)

    def close(self) -> None:
        for line in (*self._lines.values(), self._server):
            with suppress(OSError):
                line.close()


def _send(line: socket.socket, data: bytes) -> None:
    line.sendall(struct.pack("!Q", len(data)) + data)


def _receive(line: socket.socket) -> bytes:
    """Raises EOFError when the other end has gone."""
    size = struct.unpack("!Q", _exactly(line, 8))[0]
    if size > 2**31:
        raise OSError("a frame of an impossible size")
    return _exactly(line, size)


def _exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = line.recv_into(view[got:])
        if not count:
            raise EOFError
        got += count
    return bytes(data)
