"""One log's last words: the kind of the end and the line that names it.

Python prints a chain of exceptions oldest first, and the oldest is the cause. A traceback after which the program
went on printing was a handled one; then what was printed last counts.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from controller.recovery.kinds import signature
from controller.recovery.signatures import Hit, Kind, hits

NEAR = 60
"""Lines before the end, or before the last traceback, in which a library may have named the cause."""
WENT_ON = 3
"""Lines printed after a traceback by which a program shows that it survived it (at exit, libraries warn in fewer)."""

_PREFIX = re.compile(r"^\[[\w-]*\d+\]:?\s?", re.MULTILINE)
_HEADER = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
EFFECTS = (Kind.PEERS, Kind.NETWORK_SETUP, Kind.TEARDOWN, Kind.USER_ERROR)
SPOILED_FILE = signature(Kind.CHECKPOINT_CORRUPT, r"(?!)", "a checkpoint could not be read")
DESERIALIZERS = re.compile(
    r"torch/(serialization|_weights_only_unpickler)\.py|torch/distributed/checkpoint/\w*(filesystem|reader|storage)\w*\.py|"
    r"numpy/lib/_?(npyio|format)\w*\.py|/zipfile\b|/pickle\.py|safetensors/|orbax/|tensorstore|h5py/|msgpack_serialize"
)
SAVES = re.compile(r", in _?(save|dump|write)\w*\s*$")
NOT_THE_CONTENT = re.compile(
    r"^\s*(?:[\w.]+\.)?(FileNotFoundError|PermissionError|IsADirectoryError|ImportError|ModuleNotFoundError|TypeError|"
    r"AttributeError|KeyError|MemoryError)\b|Unsupported (global|class)|not an allowed global|torch\.cuda\.is_available"
)


class Reading(Struct, frozen=True):
    """`hit` is None where no kind is known; `line` is the exception's line then, else empty. `chained`: from an
    uncaught exception or the like, so that the same program says it again the same way."""

    hit: Hit | None = None
    line: str = ""

    @property
    def kind(self) -> Kind | None:
        return self.hit.kind if self.hit else None


def read(log: str) -> Reading:
    """Pure. `log` is the tail of everything that one process printed."""
    lines = _PREFIX.sub("", log).splitlines()
    chain, first, after = _last_chain(lines)
    rest = [line for line in lines[after:] if line.strip()]
    if not chain or (len(rest) > WENT_ON and hits("\n".join(rest[WENT_ON:]))):
        return _closing(lines[-NEAR:] if not chain else rest)
    for text in chain:
        found = hits(text)
        if (not found or found[0].kind in EFFECTS) and _deserializing(lines[first:after], chain[0]):
            line = text.partition("\n")[0].strip()[:300]
            return Reading(Hit(SPOILED_FILE, line, 0), line)
        if found:
            return Reading(found[0], found[0].line)
    near = [
        hit for hit in hits("\n".join(lines[max(0, first - NEAR) : first] + rest)) if hit.kind is not Kind.USER_ERROR
    ]
    return Reading(near[0], near[0].line) if near else Reading(None, chain[0].partition("\n")[0].strip()[:300])


def _deserializing(lines: Sequence[str], exception: str) -> bool:
    """Whether it was raised where a library takes a file apart, for a reason that only the file's content can be."""
    frames = [line for line in lines if line.lstrip().startswith('File "')]
    if any(SAVES.search(line) for line in frames[-4:]):
        return False
    return bool(DESERIALIZERS.search("\n".join(frames[-4:]))) and not NOT_THE_CONTENT.search(exception)


def _closing(lines: Sequence[str]) -> Reading:
    """No traceback: causes first; between an error of its own and the loss of its peers the later word counts."""
    found = hits("\n".join(lines))
    causes = [hit for hit in found if hit.kind not in EFFECTS]
    best = causes[0] if causes else max(found, key=lambda hit: hit.position, default=None)
    return Reading(best, best.line if best else "")


def _last_chain(lines: Sequence[str]) -> tuple[list[str], int, int]:
    """(texts of the last traceback's exceptions, oldest first; index of its first line; index behind its last)."""
    headers = [index for index, line in enumerate(lines) if line.strip() == _HEADER]
    if not headers:
        return [], 0, 0
    at = len(headers) - 1
    text, after = _exception(lines, headers[at])
    chain, first = [text], headers[at]
    while at and _joined(lines, first):
        at -= 1
        chain.insert(0, _exception(lines, headers[at])[0])
        first = headers[at]
    return [text for text in chain if text], first, after


def _joined(lines: Sequence[str], header: int) -> bool:
    before = [line.strip() for line in lines[max(0, header - 4) : header] if line.strip()]
    return bool(before) and before[-1] in _CHAINED


def _exception(lines: Sequence[str], header: int) -> tuple[str, int]:
    """The exception below a traceback's frames with the lines of its message, and the index behind them."""
    index = header + 1
    while index < len(lines) and (not lines[index].strip() or lines[index][0] in " \t"):
        index += 1
    end = index + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t") and lines[end].strip():
        end += 1
    return "\n".join(lines[index:end]), min(end, len(lines))
