"""`muster goodput`."""

import re
from collections.abc import Callable
from typing import Any, Final

import click

from cli import options
from cli.api import connect, jobs_path
from cli.errors import Exit, Failure
from cli.names import job_name
from cli.output import Column, as_json, clean, colours, moment, now, say, span, table, terminal_width
from muster.clock import iso

Object = dict[str, Any]

WORDS: Final = {
    "productive": "steps that were kept",
    "lost": "steps that were done again",
    "recovering": "from failure to next first step",
    "stalled": "no step, not yet noticed",
    "saving": "writing checkpoints",
    "starting": "placed, before the first step",
    "queued": "waiting",
    "suspended": "suspended",
}
PARTS: Final = ("detect", "stop", "decide", "place", "launch", "load", "redo")
_UNITS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


@click.command(epilog="Examples:  muster goodput    muster goodput ddp-digits    muster goodput --by cause --since 7d")
@click.argument("job", required=False)
@options.namespace
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces; so it is without -n and a job.")
@click.option("-q", "--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--since", metavar="SPAN", default="30d", show_default=True, help="Jobs that ended in it: 12h, 7d, 4w.")
@click.option(
    "--by",
    type=click.Choice(("queue", "namespace", "user", "accelerator", "job", "cause", "node")),
    default="queue",
    help="How to sum up (by queue).",
)
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table", help="The form.")
@click.pass_context
def goodput(
    ctx: click.Context,
    job: str | None,
    namespace: str,
    all_namespaces: bool,
    queue: str | None,
    since: str,
    by: str,
    form: str,
) -> None:
    """Tell what the device time of jobs went to, and what getting over failures took: one job's receipt, or sums."""
    api = connect()
    if job is not None:
        found = api.get(jobs_path(namespace, job_name(job), "receipt"))
        say(as_json(found) if form == "json" else _receipt(found))
        return
    given = ctx.get_parameter_source("namespace") is click.core.ParameterSource.COMMANDLINE
    asked = {"namespace": namespace if given and not all_namespaces else None, "queue": queue, "by": by}
    found = api.get("/goodput", since=iso(now() - seconds(since)), **asked)
    say(as_json(found) if form == "json" else _sums(found))


def seconds(text: str) -> float:
    """Of 90m, 12h, 7d, 4w. Raises Failure."""
    match = re.fullmatch(r"(\d+)([mhdw])", text)
    if match is None:
        raise Failure(f"--since {text}: expected a number with m, h, d or w, e.g. 7d", code=Exit.USAGE)
    return float(match[1]) * _UNITS[match[2]]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _receipt(found: Object) -> str:
    held = found["deviceSeconds"]
    life = (moment(found["finishedAt"]) or 0.0) - (moment(found["createdAt"]) or 0.0)
    head = f"{clean(found['namespace'])}/{clean(found['name'])}: {found['outcome']} after {span(life)}"
    lines = [
        head,
        f"ETTR {_percent(found['ettr'])} on {found['devices']} {clean(found['accelerator'] or 'no')} devices",
        "",
        *_shares(held),
    ]
    if found["restarts"]:
        lines += ["", _restarts(found["restarts"])]
    return "\n".join(lines)


def _shares(held: dict[str, float]) -> list[str]:
    whole = sum(held.values()) or 1.0
    return [
        f"{bucket:<11} {held[bucket] / 3600:>11.3f} device-hours {held[bucket] / whole:>6.1%}  {words}"
        for bucket, words in WORDS.items()
        if held[bucket] or bucket == "productive"
    ]


def _restarts(restarts: list[Object]) -> str:
    columns = [
        Column("ATTEMPT", lambda one: one["attempt"]),
        Column("CAUSE", lambda one: clean(one["cause"])),
        *(Column(part.upper(), _of(part)) for part in PARTS),
    ]
    return table(columns, restarts, width=terminal_width(), colour=colours())


def _sums(found: Object) -> str:
    columns = [
        Column(found["by"].upper(), lambda one: clean(one["name"] or "-")),
        Column("JOBS", lambda one: one["jobs"]),
        Column("FAILURES", lambda one: one["failures"]),
        *_middle(found["by"]),
    ]
    items = [*found["items"], found["total"]]
    text = table(columns, items, width=terminal_width(), colour=colours())
    return text if found["live"] else f"{text}\nToo many jobs live to count them here: these are finished ones."


def _middle(by: str) -> list[Column]:
    if by == "node":
        return []
    mean = Column("MTTR", lambda one: span(one["mttrSeconds"]))
    if by == "cause":
        return [mean, *(Column(part.upper(), _of(part, "parts")) for part in PARTS)]
    hours = [Column(bucket.upper(), _hours(bucket)) for bucket in ("productive", "lost", "recovering", "queued")]
    return [
        Column("ETTR", lambda one: _percent(one["ettr"])),
        *hours,
        Column("MTTF", lambda one: span(one["mttfSeconds"])),
        mean,
    ]


def _of(part: str, inside: str | None = None) -> Callable[[Object], str]:
    return lambda one: span((one[inside] if inside else one).get(part))


def _hours(bucket: str) -> Callable[[Object], str]:
    return lambda one: f"{one['deviceSeconds'][bucket] / 3600:.1f}h"
