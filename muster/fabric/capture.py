"""A description of a fabric, told apart by what it looks like; and one by its named format."""

from collections.abc import Callable
from typing import Final

from muster.fabric import csvtable, infiniband, kubernetes, nccl_xml, ranktable, slurm
from muster.inspection import Inspection
from muster.plaintext import clean

Reader = Callable[[str, Inspection], bool]
FORMATS: Final[dict[str, Reader]] = {
    "slurm": slurm.read,
    "ibnetdiscover": infiniband.read,
    "topograph": slurm.read,
    "ranktable": ranktable.read,
    "labels": kubernetes.read_labels,
    "csv": csvtable.read,
}
_ORDER: Final[tuple[Reader, ...]] = (
    nccl_xml.read,
    infiniband.read,
    ranktable.read,
    kubernetes.read_labels,
    slurm.read,
    csvtable.read,
)


def read(text: str) -> Inspection:
    found = Inspection()
    if not any(reader(text, found) for reader in _ORDER):
        found.half("no description of a fabric was recognised" if text.strip() else "the file is empty")
    return found


def import_from(name: str, raw: bytes) -> Inspection:
    """What a file in the format `name` tells. Never raises for what is in it. KeyError: no such format."""
    plain, found = clean(raw), Inspection()
    try:
        if not FORMATS[name](plain.text, found):
            found.half(f"this is not {name}")
    except (ValueError, TypeError, AttributeError, RecursionError, LookupError) as error:
        if name not in FORMATS:
            raise
        found.half(f"not understood: {type(error).__name__}: {error}"[:200])
    for problem in plain.problems:
        found.half(problem)
    return found
