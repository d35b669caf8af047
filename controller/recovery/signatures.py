"""Kinds of log lines, as data: what a line means, whoever printed it.

The order is the order of trust where one text shows several kinds: a line that names a cause outranks one that
names an effect. Patterns match kinds of messages (an exception class, an errno, a tool's fixed words), never one
program's sentence. Sources: Python's exception hierarchy; errno(3); error texts as PyTorch, CUDA, NCCL, Gloo, HCCL,
safetensors and the NVIDIA and AMD kernel drivers print them; sysexits(3) and POSIX shells.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct


class Kind(StrEnum):
    """Its value is the category of the verdict."""

    DISK_FULL = "disk_full"
    DEVICE = "device_fault"
    NODE_SETUP = "node_misconfigured"
    SHARED_MEMORY = "shared_memory"
    HOST_OOM = "host_oom"
    GPU_LEFTOVER = "gpu_memory_leftover"
    GPU_OOM = "gpu_oom"
    PORT_IN_USE = "port_in_use"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    STORAGE = "storage"
    NAN = "not_a_number"
    DESYNC = "collective_mismatch"
    DEVICE_CODE = "device_code"
    PEERS = "collective"
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
FATAL_XIDS: Final = "46|48|54|62|64|74|79|95|109|110|119|120|136|140|143|145|149|150|155|158|167|169|17[1-3]"
"""Those after which the device or its node has to leave the job (NVIDIA's Xid catalogue)."""

SIGNATURES: Final = (
    _signature(
        Kind.DISK_FULL,
        r"\bENOSPC\b|No space left on device|\bEDQUOT\b|Disk quota exceeded",
        "the disk or its quota is full",
    ),
    _signature(
        Kind.DEVICE,
        r"uncorrectable (ECC|hardware) error|cudaErrorECCUncorrectable|fallen off the bus|GPU_IS_LOST|GPU is lost|"
        rf"\bXid\b[^\n]{{0,40}}?(\):|XID) ?({FATAL_XIDS})\b|^XID ({FATAL_XIDS})\b",
        "the device failed",
    ),
    _signature(
        Kind.NODE_SETUP,
        r"driver version is insufficient|system not yet initialized|cudaErrorSystemNotReady|"
        r"no CUDA-capable device is detected|NVML.*driver/library version mismatch|with error 4, .*vendor err 81",
        "the node's driver or fabric does not fit the job",
    ),
    _signature(
        Kind.SHARED_MEMORY,
        r"out of shared memory|killed by signal: Bus error|/dev/shm.*(full|too small)",
        "the shared memory (/dev/shm) is too small",
    ),
    _signature(
        Kind.GPU_LEFTOVER,
        r"out of memory[^\n]*\bProcess \d+ has [\d.]+ [KMGT]i?B memory in use",
        "another process still holds the device's memory",
    ),
    _signature(
        Kind.GPU_OOM,
        r"(CUDA|HIP|NPU|MUSA|XPU|device)( error:)? out of memory|OutOfMemoryError: (CUDA|HIP|NPU|XPU)",
        "the device is out of memory",
    ),
    _signature(
        Kind.HOST_OOM,
        r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|oom-kill|Out of memory: Killed process|"
        r"killed by signal: Killed|^Killed$",
        "the host is out of memory",
    ),
    _signature(Kind.PORT_IN_USE, r"\bEADDRINUSE\b|Address already in use", "a port was in use"),
    _signature(
        Kind.CHECKPOINT_CORRUPT,
        r"failed finding central directory|PytorchStreamReader failed|HeaderTooLarge|InvalidHeader|"
        r"MetadataIncompleteBuffer|CheckpointException.*(corrupt|missing)|checkpoint.*(unexpected EOF|truncated|corrupt)",
        "a checkpoint could not be read",
    ),
    _signature(
        Kind.CHECKPOINT_MISMATCH,
        r"(Missing|Unexpected) key.*state_dict|Error\(s\) in loading state_dict|"
        r"world size of \d+ but the current world size is \d+",
        "the checkpoint does not fit the program",
    ),
    _signature(
        Kind.STORAGE, r"\bESTALE\b|Stale file handle|Read-only file system|Input/output error", "the storage failed"
    ),
    _signature(
        Kind.NAN,
        r"\b(NaN|non-finite|not finite|inf or nan|nan or inf)\b.*\b(loss|grad|norm)|\b(loss|grad\w*|norm)\b.*\b(is|=|found|are) (NaN|inf)\b",
        "its numbers are not finite",
    ),
    _signature(
        Kind.DESYNC,
        r"Detected mismatch between collectives|Collective (sequence|op) mismatch",
        "its ranks do not call the same collectives",
    ),
    _signature(Kind.USER_ERROR, r"device-side assert|index out of (range|bounds)", "the program does not fit its data"),
    _signature(
        Kind.DEVICE_CODE,
        r"illegal memory access|unspecified launch failure|misaligned address|illegal instruction was encountered|"
        r"Memory access fault by GPU|HW Exception by GPU|CUBLAS_STATUS_|CUDNN_STATUS_|Failed to initialize NVML",
        "its code failed on the device",
    ),
    _signature(
        Kind.PEERS,
        r"Connection (reset|closed|refused|aborted)|ConnectionResetError|ConnectionRefusedError|ConnectionAbortedError|"
        r"ConnectionError|connection .*\blost\b|BrokenPipeError|EOFError|Broken pipe|No route to host|Socket Timeout|"
        r"gloo.*(closed|timed? ?out|reset)|Timed out waiting|[NR]CCL.*(timeout|remote|unhandled|abort|Got completion)|"
        r"ncclRemoteError|ncclSystemError|Watchdog caught collective|watchdog got stuck|TCPStore|DistStoreError|"
        r"DistNetworkError|DistBackendError|RendezvousConnectionError|RendezvousClosedError|"
        r"peer (has |is )?(gone|left|died|dead)|HCCL.*time ?out|hccl fftsplus|\bEI000[26]\b|stream sync(hronize)? timeout|"
        r"SignalException.*got signal: |KeyboardInterrupt",
        "it lost its peers",
    ),
    _signature(
        Kind.USER_ERROR,
        rf"^[ \t]*(?:[\w.]+\.)?(?:{USER_EXCEPTIONS})\b(?::|\s*$)",
        "the program raised an error of its own",
    ),
    _signature(
        Kind.USER_ERROR,
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch for |shape mismatch|shapes? .* (not aligned|invalid for)|"
        r"operands could not be broadcast|The size of tensor a .* must match|Expected all tensors to be on the same device|"
        r"unrecognized arguments:|the following arguments are required:|\berror: argument |no such option:|\bEI0009\b",
        "the program does not fit its data or arguments",
    ),
    _signature(
        Kind.USER_ERROR,
        r"can't open file '.*': \[Errno 2\]|: (command )?not found$|: No such file or directory$|No module named |"
        r"Syntax error: |syntax error near unexpected token",
        "the program or a part of it is missing or wrong",
    ),
)


class Hit(Struct, frozen=True):
    """Where a text shows a kind: the last such line, and the position of the match."""

    signature: Signature
    line: str
    position: int

    @property
    def kind(self) -> Kind:
        return self.signature.kind


def hits(text: str) -> list[Hit]:
    """All kinds that `text` shows, most trusted first."""
    last = ((signature, _last_start(signature.pattern, text)) for signature in SIGNATURES)
    return [Hit(signature, line_at(text, at), at) for signature, at in last if at >= 0]


def _last_start(pattern: re.Pattern[str], text: str) -> int:
    return max((match.start() for match in pattern.finditer(text)), default=-1)


def line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)].strip()
    return line if len(line) <= 300 else line[:297] + "..."
