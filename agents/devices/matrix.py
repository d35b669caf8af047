"""Topology matrices: who reaches whom by what (`nvidia-smi topo -m`, `npu-smi info -t topo`)."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from muster.inspection import FoundNic, Inspection

_CELL: Final = re.compile(r"\s*(NV\d+|HCCS_SW|HCCS|XGMI|NODE|PIX|PXB|PHB|SYS|SOC|PSB|SIO|C2C|UB|X(?![A-Za-z])|-)")
_DEVICE: Final = re.compile(r"(?:GPU|NPU)(\d+)$")
_AFFINITY: Final = re.compile(r"[\d,-]+$|N/A$")
NEAREST: Final = ("PIX", "PXB", "PHB", "NODE")


class Row(NamedTuple):
    label: str
    cells: dict[str, str]
    rest: list[str]


class Matrix(NamedTuple):
    """`columns` of the header without affinities; `titles` of the affinity columns."""

    columns: list[str]
    titles: list[str]
    rows: list[Row]
    legend: dict[str, str]
    problems: list[str]


def parse(text: str) -> Matrix | None:
    """None when there is no header of a matrix."""
    lines = [line for line in text.split("\n") if line.strip()]
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        return None
    head, _, tail = lines[start].partition("CPU Affinity")
    columns = head.split()
    titles = [
        t
        for t in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
        if t in "CPU Affinity" + tail and "CPU Affinity" in lines[start]
    ]
    rows: list[Row] = []
    problems: list[str] = []
    for line in lines[start + 1 :]:
        label, _, rest = line.strip().partition(" ") if "\t" not in line.strip() else line.strip().partition("\t")
        if label in columns and not _is_header(line):
            row = _row(label, rest, columns)
            if row is None:
                problems.append(f"the row of {label} is torn")
            elif label not in [known.label for known in rows]:
                rows.append(row)
    legend = dict(re.findall(r"^\s*(NIC\d+):\s*(\S+)\s*$", text, re.MULTILINE))
    return Matrix(columns, titles, rows, legend, problems)


def _is_header(line: str) -> bool:
    words = line.partition("CPU Affinity")[0].split()
    return (
        bool(words)
        and bool(_DEVICE.match(words[0]))
        and not _CELL.match(" ".join(words[1:]) + " ")
        and (len(set(words)) == len(words))
        and not any(_AFFINITY.match(word) for word in words[1:])
    )


def _row(label: str, rest: str, columns: Sequence[str]) -> Row | None:
    cells: list[str] = []
    at = 0
    while len(cells) < len(columns):
        found = _CELL.match(rest, at)
        if not found:
            return None
        cells.append(found.group(1))
        at = found.end()
    return Row(label, dict(zip(columns, cells, strict=True)), rest[at:].split())


def components(indices: Iterable[int], linked: Callable[[int, int], bool]) -> list[list[int]]:
    """Groups of two or more that are linked, directly or through others; each sorted, in order of their first."""
    left, groups = sorted(set(indices)), []
    while left:
        group, edge = [left[0]], [left.pop(0)]
        while edge:
            here = edge.pop()
            near = [other for other in left if linked(here, other) or linked(other, here)]
            left = [other for other in left if other not in near]
            group += near
            edge += near
        if len(group) > 1:
            groups.append(sorted(group))
    return groups


def read(text: str, into: Inspection, vendor: str) -> bool:
    """False when there is no matrix."""
    matrix = parse(text)
    if matrix is None:
        return False
    for problem in matrix.problems:
        into.half(problem)
    if not matrix.rows:  # a header alone may be cut within a name
        into.half("the matrix has no rows")
        return True
    names = [name for name in matrix.columns if _DEVICE.match(name)]
    nics = [name for name in matrix.columns if not _DEVICE.match(name)]
    present = {row.label for row in matrix.rows}
    missing = [name for name in matrix.columns if name not in present]
    if missing:
        into.half(f"rows are missing: {', '.join(missing)}")
    if any(name.startswith("NIC") and name not in matrix.legend for name in nics):
        into.half("no legend names the NICs")
    if re.search(r"^Legend:", text, re.MULTILINE) and not re.search(
        r"^\s*(NV#|HCCS\w*|PIX)\s+= .*\n?", text, re.MULTILINE
    ):
        into.half("the legend ends in the middle")
    into.nics = [FoundNic(name=matrix.legend.get(name, name), details={"column": name}) for name in nics]
    for name in names:
        into.device(int(name[3:])).vendor = vendor
    for row in matrix.rows:
        if row.label in names:
            _device(row, matrix, nics, into)
    _groups(matrix, names, into)
    return True


def _device(row: Row, matrix: Matrix, nics: list[str], into: Inspection) -> None:
    device = into.device(int(row.label[3:]))
    told = dict(zip(matrix.titles, row.rest, strict=False))
    cpus, numa = told.get("CPU Affinity"), told.get("NUMA Affinity")
    device.cpus = cpus if cpus and cpus != "N/A" else None
    device.numa = int(numa) if numa and numa.isdigit() else None
    if numa and device.numa is None and numa != "N/A":
        device.details["numa_affinity"] = numa
    if "GPU NUMA ID" in told:
        device.details["gpu_numa_id"] = told["GPU NUMA ID"]
    if matrix.titles and not row.rest:
        into.half(f"the row of {row.label} has no affinity")
    best = min((NEAREST.index(row.cells[nic]) for nic in nics if row.cells[nic] in NEAREST), default=None)
    if nics:
        device.details["nearest_nic_level"] = "SYS" if best is None else NEAREST[best]
    if best is not None:
        device.nearest_nics = [matrix.legend.get(nic, nic) for nic in nics if row.cells[nic] == NEAREST[best]]
    device.details["links"] = {name: cell for name, cell in row.cells.items() if _DEVICE.match(name) and cell != "X"}


def _groups(matrix: Matrix, names: list[str], into: Inspection) -> None:
    cells = {(row.label, name): cell for row in matrix.rows for name, cell in row.cells.items()}
    prefix = names[0][:3] if names else "GPU"

    def joined(one: int, other: int) -> bool:
        return cells.get((f"{prefix}{one}", f"{prefix}{other}"), "").startswith(("NV", "HCCS", "UB"))

    into.groups = components((device.index for device in into.devices), joined)
    widths = sorted({int(cell[2:]) for cell in cells.values() if cell.startswith("NV")})
    into.node.details["link_widths"] = widths
    pairs: dict[str, list[list[int]]] = {}
    for (row, column), cell in sorted(cells.items()):
        one, other = _DEVICE.match(row), _DEVICE.match(column)
        if one and other and int(one.group(1)) < int(other.group(1)):
            pairs.setdefault(cell, []).append([int(one.group(1)), int(other.group(1))])
    into.node.details["pairs_by_link"] = {cell: sorted(found) for cell, found in pairs.items()}
    for number, group in enumerate(into.groups):
        for index in group:
            into.device(index).group = number
    alone = [device for device in into.devices if device.group is None]
    into.node.details["devices_without_link"] = [device.index for device in alone]
    if into.groups and len(into.devices) > 2:
        for device in alone:
            device.healthy = False
            device.problems.append(
                "no fast link to any peer while the others have it: not fit for jobs of many devices"
            )
