"""What a worker is about to run, in a few short texts: equal texts mean equal things, so that "it worked before" can be
answered. Nothing of it is a secret: names of variables count, and of their values only a digest over all.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

SOURCES: Final = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".cu", ".cpp", ".h", ".txt")
FILES: Final = 2000
BYTES: Final = 256 * 1024
"""Of one file; larger ones count by their size."""
SKIPPED: Final = frozenset({".git", "__pycache__", "node_modules", ".venv", "venv", "runs", "wandb", "checkpoints"})


def fingerprint(workdir: Path, environment: Mapping[str, str], python: str, image: str) -> dict[str, str]:
    """Reads at most `FILES` files of the folder; what cannot be read is left out."""
    found = {"code": _code(workdir), "environment": _environment(environment), "packages": _packages(python)}
    found |= {"image": image, "git": _head(workdir)}
    return {name: text for name, text in found.items() if text}


def _code(folder: Path) -> str:
    digest, count = hashlib.sha256(), 0
    for path in _sources(folder):
        with suppress(OSError):
            size = path.stat().st_size
            data = path.read_bytes() if size <= BYTES else str(size).encode()
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + hashlib.sha256(data).digest())
            count += 1
    return digest.hexdigest()[:16] if count else ""


def _sources(folder: Path) -> Iterator[Path]:
    count = 0
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SOURCES) and not os.path.islink(os.path.join(at, name)):
                yield Path(at, name)
                count += 1
            if count >= FILES:
                return


def _environment(environment: Mapping[str, str]) -> str:
    own = sorted((name, value) for name, value in environment.items() if not name.startswith("MUSTER_"))
    return hashlib.sha256(repr(own).encode()).hexdigest()[:16]


def _packages(python: str) -> str:
    """Names and versions of what is installed beside the interpreter."""
    with suppress(OSError):
        home = Path(python).parent.parent
        names = sorted(path.name for path in home.glob("lib/python3*/site-packages/*.dist-info"))
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] if names else ""
    return ""


def _head(folder: Path) -> str:
    """The commit that is checked out, without asking git."""
    for place in (folder, *folder.parents[:6]):
        with suppress(OSError):
            text = (place / ".git/HEAD").read_text().strip()
            if not text.startswith("ref: "):
                return text[:40]
            return (place / ".git" / text[5:]).read_text().strip()[:40]
    return ""
