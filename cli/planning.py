"""Answers of the planner as text. Pure: objects of the API in, lines out."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from cli.output import Column, moment, table, until
from cli.timeline import fact

Object = dict[str, Any]


def gangs(one: Object, *, width: int) -> str:
    """One line for each kind and level: how many workers of each size could start now in one domain."""
    rows = one["items"]
    if not rows:
        return "no node has accelerators"
    sizes = sorted({gang["devices"] for row in rows for gang in row["gangs"]})
    columns = [
        Column("ACCELERATOR", lambda row: row["accelerator"]),
        Column("LEVEL", lambda row: row["level"]),
        Column("DOMAINS", lambda row: row["domains"]),
        Column("FREE", lambda row: f"{row['free']}/{row['total']}"),
        *(Column(f"x {size}", partial(_workers, size=size)) for size in sizes),
        Column("LARGEST IN", lambda row: row["gangs"][-1]["domain"] if row["gangs"] else "", elastic=True),
    ]
    note = f"x N: workers of N devices each, of one gang in one domain, that could start now ({one['at'][11:19]} UTC)"
    return f"{table(columns, rows, width=width)}\n{note}"


def _workers(row: Object, size: int) -> object:
    return next((gang["workers"] for gang in row["gangs"] if gang["devices"] == size), "")


def whatif(one: Object, *, width: int, now: float) -> str:
    """What starts, who goes for it, and the starts of the others beside today's."""
    lines = [f"At revision {one['metadata']['resourceVersion']}, with the change:"]
    for start in one["starts"]:
        where = f" in {start['domain']}" if start["domain"] else ""
        lines += fact(f"  {name(start)}", f"would start now on {_some(start['nodes'])}{where}", width=width, column=26)
    for eviction in one["evictions"]:
        victims = ", ".join(name(victim) for victim in eviction["victims"])
        lines += fact(f"  {name(eviction)}", f"would have {victims} go, and start then", width=width, column=26)
    if not one["starts"] and not one["evictions"]:
        lines.append("  nothing would start now")
    if why := one.get("why"):
        lines += ["", *fact("It waits:", f"{why['code']}: {why['message']}", width=width)]
        lines += fact("Would help:", why["helps"], width=width) if why["helps"] else []
    rows = [row for row in one["jobs"] if row["today"] or row["then"]]
    if rows:
        lines += ["", table(_columns(now), rows, width=width)]
    if one["waiting"] > len(one["jobs"]):
        lines.append(f"and {one['waiting'] - len(one['jobs'])} more")
    return "\n".join(lines)


def _columns(now: float) -> list[Column]:
    return [
        Column("JOB", name),
        Column("TODAY", lambda row: start(row["today"], now)),
        Column("THEN", lambda row: start(row["then"], now)),
        Column("SOONER BY", _sooner),
        Column("BASIS", lambda row: (row["then"] or {}).get("basis")),
        Column("NOTE", lambda row: (row["then"] or {}).get("note"), elastic=True),
    ]


def name(one: Object) -> str:
    return str(one["name"]) if one["namespace"] == "default" else f"{one['namespace']}/{one['name']}"


def start(eta: Object | None, now: float) -> str:
    """`now`, `in 5m`, `after 2h` for a bound, `?` where nobody can say; empty for a job that does not wait."""
    if eta is None:
        return ""
    if eta["at"] is None:
        return "?"
    left = until(eta["at"], now)
    return left if left == "now" else f"{'after' if eta['bound'] else 'in'} {left}"


def _sooner(row: Object) -> str:
    today, then = ((moment(eta["at"]) if eta else None) for eta in (row["today"], row["then"]))
    if today is None or then is None or row["then"]["bound"] != row["today"]["bound"]:
        return ""
    seconds = round(today - then)
    if abs(seconds) < 1:
        return "0s"
    from muster.quantity import format_duration

    return format_duration(seconds) if seconds > 0 else f"-{format_duration(-seconds)}"


def _some(nodes: Iterable[str]) -> str:
    listed = list(nodes)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return ", ".join(listed[:8]) + more
