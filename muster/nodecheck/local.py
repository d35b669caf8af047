"""What one node can do by itself: memory that keeps what is written, matrix products that come out the same, the way to
the devices. With PyTorch on CUDA where there is any, else on the processor, else NumPy, else plain Python."""

import time
from collections.abc import Iterator
from typing import Any, Protocol

from muster.nodecheck.measured import Measured

MIB = 2**20


class Bench(Protocol):
    """`kind` is torch, numpy or plain."""

    kind: str

    def measure(self, seconds: float) -> Iterator[Measured]: ...


def choose(wanted: str) -> Bench:
    """The best that is installed, or the wanted one. Raises ImportError when that is not."""
    for kind in ("torch", "numpy", "plain") if wanted == "auto" else (wanted,):
        try:
            if kind == "torch":
                import torch

                return Torch(torch)
            if kind == "numpy":
                import numpy

                return Numpy(numpy)
        except ImportError:
            if wanted != "auto":
                raise
    return Plain()


class Torch:
    kind = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def measure(self, seconds: float) -> Iterator[Measured]:
        torch = self._torch
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        for index in range(count):
            device = torch.device("cuda", index)
            free, _ = torch.cuda.mem_get_info(index)
            yield self._memory(device, int(free * 0.8), seconds, index)
            yield self._products(device, 8192, torch.bfloat16, seconds, index)
            yield from self._pcie(device, index)
        if not count:
            device = torch.device("cpu")
            yield self._memory(device, 256 * MIB, seconds, None)
            yield self._products(device, 768, torch.float32, seconds, None)

    def _memory(self, device: Any, size: int, seconds: float, index: int | None) -> Measured:
        """Patterns that set and clear every bit, written and read back."""
        torch = self._torch
        block = torch.empty(size // 8, dtype=torch.int64, device=device)
        wrong, moved, began = 0, 0, time.perf_counter()
        while True:
            for pattern in (0x5555555555555555, -0x5555555555555556, 0, -1):
                block.fill_(pattern)
                wrong += int((block != pattern).sum().item())
                moved += 2 * block.numel() * 8
            if time.perf_counter() - began >= seconds:
                break
        rate = moved / (time.perf_counter() - began) / 1e9
        message = f"{wrong} words came back other than they were written" if wrong else ""
        return Measured("memory", rate, "GB/s", ok=not wrong, device=index, message=message)

    def _products(self, device: Any, size: int, dtype: Any, seconds: float, index: int | None) -> Measured:
        """The same product again and again: bit for bit the same, or something is wrong."""
        torch = self._torch
        generator = torch.Generator(device="cpu").manual_seed(7)
        left = torch.randn(size, size, generator=generator).to(device=device, dtype=dtype)
        right = torch.randn(size, size, generator=generator).to(device=device, dtype=dtype)
        first = left @ right
        wrong, rounds, began = 0, 0, time.perf_counter()
        while True:
            wrong += not torch.equal(left @ right, first)
            rounds += 1
            if time.perf_counter() - began >= seconds:
                break
        rate = 2 * size**3 * rounds / (time.perf_counter() - began) / 1e12
        message = f"{wrong} of {rounds} products came out different" if wrong else ""
        return Measured("matmul", rate, "TFLOP/s", ok=not wrong, device=index, message=message)

    def _pcie(self, device: Any, index: int) -> Iterator[Measured]:
        torch = self._torch
        here = torch.empty(256 * MIB, dtype=torch.uint8).pin_memory()
        there = torch.empty_like(here, device=device)
        for name, target, source in (("pcie-to-device", there, here), ("pcie-from-device", here, there)):
            target.copy_(source)
            torch.cuda.synchronize(device)
            began = time.perf_counter()
            for _ in range(20):
                target.copy_(source, non_blocking=True)
            torch.cuda.synchronize(device)
            yield Measured(name, 20 * here.numel() / (time.perf_counter() - began) / 1e9, "GB/s", device=index)


class Numpy:
    kind = "numpy"

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def measure(self, seconds: float) -> Iterator[Measured]:
        np = self._numpy
        block = np.empty(16 * MIB, dtype=np.uint64)
        wrong, moved, began = 0, 0, time.perf_counter()
        while True:
            for pattern in (0x5555555555555555, 0xAAAAAAAAAAAAAAAA, 0, 0xFFFFFFFFFFFFFFFF):
                block.fill(pattern)
                wrong += int(np.count_nonzero(block != np.uint64(pattern)))
                moved += 2 * block.nbytes
            if time.perf_counter() - began >= seconds:
                break
        message = f"{wrong} words came back other than they were written" if wrong else ""
        yield Measured("memory", moved / (time.perf_counter() - began) / 1e9, "GB/s", ok=not wrong, message=message)
        size = 512
        randoms = np.random.default_rng(7)
        left, right = randoms.standard_normal((2, size, size), dtype=np.float32)
        first = left @ right
        wrong, rounds, began = 0, 0, time.perf_counter()
        while True:
            wrong += not np.array_equal(left @ right, first)
            rounds += 1
            if time.perf_counter() - began >= seconds:
                break
        rate = 2 * size**3 * rounds / (time.perf_counter() - began) / 1e12
        message = f"{wrong} of {rounds} products came out different" if wrong else ""
        yield Measured("matmul", rate, "TFLOP/s", ok=not wrong, message=message)


class Plain:
    kind = "plain"

    def measure(self, seconds: float) -> Iterator[Measured]:
        size = 32 * MIB
        wrong, moved, began = 0, 0, time.perf_counter()
        while True:
            for pattern in (b"\x55", b"\xaa", b"\x00", b"\xff"):
                block = bytearray(pattern) * size
                wrong += size - block.count(pattern)
                moved += 2 * size
            if time.perf_counter() - began >= seconds:
                break
        message = f"{wrong} bytes came back other than they were written" if wrong else ""
        yield Measured("memory", moved / (time.perf_counter() - began) / 1e9, "GB/s", ok=not wrong, message=message)
