"""The attempts of a job as a story with times: when each ran, why it ended, what its end cost."""

import signal
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from cli.columns import checkpoint_name
from cli.output import clean, moment, span

Object = dict[str, Any]
RAIL: Final = "  │ "
INDENT: Final = " " * len(RAIL)
LABEL: Final = 12
_ASKED_FOR: Final = frozenset(
    {"Succeeded", "Suspended", "Cancelled", "Preempted", "Resized", "Migrated", "Drained", "Superseded"}
)
"""Ends that are no failures: nothing was recovered from."""


def timeline(attempts: Sequence[Object], *, width: int, now: float) -> str:
    """All attempts, oldest first. Times of day are UTC; a date is written where it changes."""
    ordered = sorted(attempts, key=lambda one: int(one["number"]))
    blocks: list[str] = []
    day = ""
    for index, one in enumerate(ordered):
        after = ordered[index + 1] if index + 1 < len(ordered) else None
        today = (one["timeline"].get("placedAt") or "")[:10]
        if today and today != day:
            blocks.append(f"  {today} (times in UTC)")
            day = today
        blocks.append("\n".join(block(one, after, width=width, now=now)))
    return "\n".join(blocks)


def block(one: Object, after: Object | None, *, width: int, now: float) -> list[str]:
    """One attempt. `after` is the next one, from whose start the time of the relaunch is known."""
    rail = RAIL if after else INDENT
    lines = [_title(one)]
    for label, text in _facts(one, after, now):
        lines += [rail + line for line in fact(label, text, width=width - len(rail))]
    return lines


def fact(label: str, text: str, *, width: int, column: int = LABEL) -> list[str]:
    """`label` and a wrapped text beside it."""
    begin = f"{label:<{column}}"
    wrapped = textwrap.wrap(
        clean(text), width - len(begin), break_on_hyphens=False, break_long_words=True, drop_whitespace=True
    )
    return [f"{begin}{line}" if number == 0 else " " * len(begin) + line for number, line in enumerate(wrapped)]


def _title(one: Object) -> str:
    state = one["phase"]
    if state == "Ended":
        state = f"Ended, {one.get('reason') or 'reason unknown'}"
    scope = one.get("scope", "gang")
    return (
        f"  ● attempt {one['number']} · epoch {one['epoch']}"
        + (f" · {scope}" if scope != "gang" else "")
        + f" · {state}"
    )


def _facts(one: Object, after: Object | None, now: float) -> list[tuple[str, str]]:
    facts = [("nodes", _nodes(one)), ("from", _origin(one)), ("ran", _ran(one, now)), ("steps", _steps(one))]
    failed = one.get("reason") not in _ASKED_FOR
    if failed:
        facts.append(("failed", _first_failure(one)))
    facts += [("message", _message(one)), *_verdict(one)]
    if failed:
        facts += [("recovery", _recovery(one, after)), ("down", _down(one, after))]
    redone = one.get("redoneSteps") or 0
    facts.append(("redone", f"{redone} step{'s' if redone != 1 else ''} done twice" if redone else ""))
    return [(label, text) for label, text in facts if text]


def _nodes(one: Object) -> str:
    """`node-0 (devices 0-1), node-1 (devices 0-1)` in the order of the workers."""
    parts = []
    for worker in sorted(one.get("workers", ()), key=lambda each: (each.get("role", ""), each["index"])):
        devices = ranges(worker.get("devices") or ())
        word = "device" if devices.isdigit() else "devices"
        parts.append(worker["node"] + (f" ({word} {devices})" if devices else ""))
    return ", ".join(parts)


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,6` for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _origin(one: Object) -> str:
    resume = one.get("resume")
    return f"checkpoint {checkpoint_name(resume)}, step {resume['step']}" if resume else "the beginning, no checkpoint"


def clock(text: str | None) -> str:
    """`12:00:02.100` of a time on the wire."""
    return text[11:].rstrip("Z").partition("+")[0] if text else "?"


def _between(begin: str | None, end: str | None) -> float | None:
    start, stop = moment(begin), moment(end)
    return None if start is None or stop is None else stop - start


def _ran(one: Object, now: float) -> str:
    """When its ranks ran and for how long, and how long it took to launch them."""
    times = one["timeline"]
    began, placed = times.get("runningAt"), times.get("placedAt")
    over = times.get("endedAt")
    if not began:
        if over:
            return f"never; placed {clock(placed)}, ended {clock(over)} ({span(_between(placed, over))})"
        waiting = None if placed is None else now - (moment(placed) or now)
        return f"not yet; placed {clock(placed)}, {span(waiting)} ago"
    launched = f"launched in {span(_between(placed, began))}"
    if over:
        return f"{clock(began)} to {clock(over)} ({span(_between(began, over))}), {launched}"
    return f"{clock(began)} until now ({span(now - (moment(began) or now))}), {launched}"


def _steps(one: Object) -> str:
    first, last = one.get("firstStep"), one.get("lastStep")
    if last is None:
        return "none reported" if one["phase"] == "Ended" and one["timeline"].get("runningAt") else ""
    first = last if first is None else first
    loss = f", loss {one['loss']:.6g}" if one.get("loss") is not None else ""
    return f"{first} to {last} ({last - first + 1} done){loss}"


def _first_failure(one: Object) -> str:
    """The process that ended badly first: `rank 3 on node-1, killed by SIGKILL, at 12:00:41.000`."""
    bad = [
        (exit_.get("at") or "~", worker, exit_)
        for worker in one.get("workers", ())
        for exit_ in worker.get("exits") or ()
        if exit_.get("code") or exit_.get("signal") or exit_.get("oom")
    ]
    verdict = one.get("verdict") or {}
    if verdict.get("category") == "node_lost":  # ranks elsewhere that ended because of it are not what failed
        failed = one["timeline"].get("failedAt")
        return f"{', '.join(verdict.get('culpritNodes') or ())} went silent" + (
            f" at {clock(failed)}" if failed else ""
        )
    culprit = verdict.get("culpritRank")
    named = [each for each in bad if culprit is not None and each[2].get("rank") == culprit]
    if not (named or bad):
        failed = one["timeline"].get("failedAt")
        return f"at {clock(failed)}" if failed else ""
    at, worker, exit_ = min(named or bad, key=lambda each: each[0])
    who = "a process" if exit_.get("rank") is None else f"rank {exit_['rank']}"
    return f"{who} on {worker['node']}, {how(exit_)}" + (f", at {clock(at)}" if at != "~" else "")


def how(exit_: Object) -> str:
    """`exit code 1`, `killed by SIGKILL (9)`, `out of memory, killed by SIGKILL (9)`."""
    number = exit_.get("signal")
    if number:
        try:
            text = f"killed by {signal.Signals(number).name} ({number})"
        except ValueError:
            text = f"killed by signal {number}"
    else:
        text = f"exit code {exit_.get('code')}"
    return f"out of memory, {text}" if exit_.get("oom") else text


def _message(one: Object) -> str:
    """Only what the verdict does not say too."""
    message = str(one.get("message") or "")
    return "" if message == (one.get("verdict") or {}).get("why") else message


def _verdict(one: Object) -> list[tuple[str, str]]:
    verdict = one.get("verdict")
    if not verdict:
        return []
    at_fault = ", ".join(verdict.get("culpritNodes") or ())
    judged = {True: f"{at_fault} at fault", False: f"{at_fault} not at fault", None: at_fault}
    parts = [verdict["category"].replace("_", " "), verdict.get("certainty") or ""]
    parts += [judged[verdict.get("nodeAtFault")]] if at_fault else []
    heading = ", ".join(part for part in parts if part) + f" → {verdict['action'].replace('_', ' ')}"
    return [
        ("verdict", heading),
        ("", verdict["why"]),
        *(("evidence", line) for line in verdict.get("decidedBy") or ()),
    ]


def _recovery(one: Object, after: Object | None) -> str:
    """What the end cost in time: each part from the moment before it. What has not happened yet is left out."""
    times = one["timeline"]
    ended = times.get("endedAt")
    steps = [
        ("detect", _between(times.get("failedAt"), times.get("detectedAt"))),
        ("stop", _between(times.get("detectedAt"), ended)),
        ("decide", _between(ended, times.get("decidedAt"))),
        ("relaunch", _between(ended, after["timeline"].get("runningAt")) if after else None),
    ]
    return " · ".join(f"{word} {span(seconds)}" for word, seconds in steps if seconds is not None)


def _down(one: Object, after: Object | None) -> str:
    """From the failure until the next attempt ran."""
    lost = _between(one["timeline"].get("failedAt"), after["timeline"].get("runningAt")) if after else None
    return f"{span(lost)} from the failure until attempt {after['number']} ran" if after and lost is not None else ""
