"""Kinds of log lines, as data: what a line means, whoever printed it.

The order is the order of trust inside one log: a line that names a cause outranks a line that names an
effect. Patterns match kinds of messages (an exception class, an errno, a tool's fixed words), never one
program's sentence. Sources: Python's exception hierarchy; errno(3); PyTorch, NCCL and Gloo error texts as
their libraries print them; sysexits and shells for 126/127.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct


class Kind(StrEnum):
    DISK_FULL = "disk_full"
    STORAGE = "storage"
    HOST_OOM = "host_oom"
    GPU_OOM = "gpu_oom"
    PORT_IN_USE = "port_in_use"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    VICTIM = "collective"
    USER_ERROR = "user_error"


class Signature(Struct, frozen=True):
    """A kind of line, and in words what it says."""

    kind: Kind
    pattern: re.Pattern[str]
    says: str


def _signature(kind: Kind, pattern: str, says: str) -> Signature:
    return Signature(kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE), says)


USER_EXCEPTIONS: Final = (
    "ArithmeticError|AssertionError|AttributeError|FileExistsError|FileNotFoundError|FloatingPointError|ImportError|"
    "IndentationError|IndexError|IsADirectoryError|KeyError|LookupError|ModuleNotFoundError|NameError|NotADirectoryError|"
    "NotImplementedError|OverflowError|RecursionError|SyntaxError|TabError|TypeError|UnboundLocalError|UnicodeError|"
    "UnicodeDecodeError|UnicodeEncodeError|ValueError|ZeroDivisionError"
)

SIGNATURES: Final = (
    _signature(
        Kind.DISK_FULL,
        r"\bENOSPC\b|No space left on device|\bEDQUOT\b|Disk quota exceeded",
        "the disk or its quota is full",
    ),
    _signature(
        Kind.STORAGE, r"\bESTALE\b|Stale file handle|Read-only file system|Input/output error", "the storage failed"
    ),
    _signature(
        Kind.GPU_OOM,
        r"(CUDA|HIP|NPU|MUSA) out of memory|OutOfMemoryError: (CUDA|HIP|NPU)",
        "the device is out of memory",
    ),
    _signature(
        Kind.HOST_OOM,
        r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|oom-kill|Out of memory: Killed process",
        "the host is out of memory",
    ),
    _signature(Kind.PORT_IN_USE, r"\bEADDRINUSE\b|Address already in use", "a port was in use"),
    _signature(
        Kind.CHECKPOINT_CORRUPT,
        r"failed finding central directory|PytorchStreamReader failed|HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|unexpected EOF.*checkpoint",
        "a checkpoint could not be read",
    ),
    _signature(
        Kind.VICTIM,
        r"Connection (reset|closed|refused|aborted) by peer|ConnectionResetError|ConnectionRefusedError|ConnectionAbortedError|"
        r"ConnectionError|BrokenPipeError|EOFError|Broken pipe|gloo.*(closed|timed? ?out|reset)|Timed out waiting|"
        r"NCCL.*(timeout|remote|unhandled|aborted)|ncclRemoteError|ncclSystemError|Watchdog caught collective|TCPStore|"
        r"DistStoreError|DistNetworkError|RendezvousConnectionError|RendezvousClosedError|peer (has )?(gone|left|died)|HCCL.*time ?out|"
        r"SignalException.*got signal: 15|KeyboardInterrupt",
        "it lost its peers",
    ),
    _signature(
        Kind.USER_ERROR,
        rf"^(?:\[rank\d+\]:)?\s*(?:[\w.]+\.)?(?:{USER_EXCEPTIONS})\b(?::|\s*$)",
        "the program raised an error of its own",
    ),
    _signature(
        Kind.USER_ERROR,
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch for |shape mismatch|operands could not be broadcast|"
        r"Expected all tensors to be on the same device|device-side assert|index out of (range|bounds)|unrecognized arguments:|"
        r"the following arguments are required:",
        "the program does not fit its data or arguments",
    ),
    _signature(
        Kind.USER_ERROR,
        r"can't open file '.*': \[Errno 2\]|: (command )?not found$|No module named ",
        "the program or a part of it is missing",
    ),
)


def matches(text: str) -> list[tuple[int, Signature, str]]:
    """All kinds found in `text`: (position of the last line of the kind, signature, that line), in order of trust."""
    found = []
    for signature in SIGNATURES:
        hits = list(signature.pattern.finditer(text))
        if hits:
            found.append((hits[-1].start(), signature, line_at(text, hits[-1].start())))
    return found


def line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)].strip()
    return line if len(line) <= 300 else line[:297] + "..."
