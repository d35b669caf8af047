"""An outlook for people: a table, and a picture."""

from collections.abc import Mapping
from typing import Any

from controller.simulation.outlook import Outlook, Spread

Row = tuple[str, ...]


def report(found: Mapping[str, Outlook], *, skipped: int) -> str:
    """One column for each variant of the cluster."""
    outlooks = list(found.values())
    rows: list[Row] = [("", *found)] if len(found) > 1 else []
    rows += [
        ("nodes", *(str(one.nodes) for one in outlooks)),
        ("devices", *(", ".join(f"{n} {kind}" for kind, n in one.devices.items()) or "none" for one in outlooks)),
        ("jobs", *(f"{one.jobs}{f' ({skipped} rows skipped)' if skipped else ''}" for one in outlooks)),
        ("finished", *(str(one.finished) for one in outlooks)),
        ("never started", *(str(one.never_started) for one in outlooks)),
        ("ended by their limit", *(str(one.limited) for one in outlooks)),
        ("evictions", *(str(one.evictions) for one in outlooks)),
        ("makespan", *(length(one.makespan) for one in outlooks)),
    ]
    for kind in sorted({kind for one in outlooks for kind in one.utilisation}):
        rows.append((f"utilisation {kind}", *(f"{one.utilisation.get(kind, 0.0):.1f} %" for one in outlooks)))
    rows += _spread("wait", [one.waits for one in outlooks])
    rows += _spread("submission to end", [one.completion for one in outlooks])
    queues = sorted({queue for one in outlooks for queue in one.queues})
    for queue in queues if len(queues) > 1 else ():
        rows += _spread(f"wait in {queue}", [one.queues[queue].waits for one in outlooks], only=("p50", "p99"))
    lines = aligned(rows)
    for name, one in found.items():
        if one.unplaced:
            more = f" and {one.never_started - len(one.unplaced)} more" if one.never_started > len(one.unplaced) else ""
            lines.append(f"never started{f' ({name})' if len(found) > 1 else ''}: {', '.join(one.unplaced)}{more}")
    return "\n".join(lines)


def _spread(title: str, spreads: list[Spread], only: Row = ("mean", "p50", "p90", "p99", "longest")) -> list[Row]:
    names = {"mean": "mean", "p50": "P50", "p90": "P90", "p99": "P99", "longest": "longest"}
    return [(f"{title}, {names[name]}", *(length(getattr(one, name)) for one in spreads)) for name in only]


def aligned(rows: list[Row]) -> list[str]:
    sizes = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{size}}" for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]


def length(seconds: float | None) -> str:
    """`12s`, `5.2m`, `3.4h`, `2.1d`."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


def picture(found: Mapping[str, Outlook], path: str) -> None:
    """Devices in use and jobs that wait, over time. Raises OSError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, sharex=True, figsize=(10, 6), layout="constrained")
    for name, one in found.items():
        hours = [moment.at / 3600 for moment in one.moments]
        axes[0].step(hours, [moment.used for moment in one.moments], where="post", label=name)
        axes[1].step(hours, [moment.waiting for moment in one.moments], where="post", label=name)
        axes[0].axhline(sum(one.devices.values()), linestyle=":", linewidth=1, color="grey")
    axes[0].set_ylabel("devices in use")
    axes[1].set_ylabel("jobs that wait")
    axes[1].set_xlabel("hours since the first submission")
    for each in axes:
        each.grid(alpha=0.3)
        each.legend()
    options: dict[str, Any] = {"dpi": 120}
    try:
        figure.savefig(path, **options)
    except ValueError as error:  # a format that matplotlib does not know
        raise OSError(f"{path}: {error}") from None
    finally:
        pyplot.close(figure)
