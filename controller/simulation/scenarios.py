"""`python -m controller.simulation.scenarios FILE...`: plays every scenario of Markdown or YAML files.

One line a part: its name, ok or what is wrong. The exit code is 0 when all hold, 1 when some do not, 2 when a file
cannot be read as scenarios. A part is played twice, the second time with its nodes in the opposite order: both must
come to the same end.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from controller.simulation.scenario_checks import verify
from controller.simulation.scenario_keys import PART, SCENARIO, UnknownKey, known, seconds
from controller.simulation.scenario_run import Play

BLOCK = re.compile(r"^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)


class Result(Struct, frozen=True):
    """What became of one part; no problems: it holds."""

    name: str
    problems: tuple[str, ...]


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: scenarios FILE...", file=sys.stderr)
        return 2
    failed = total = 0
    for path in arguments:
        try:
            scenarios = list(read(path))
        except (OSError, yaml.YAMLError, UnknownKey) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        for scenario in scenarios:
            for result in play(scenario):
                total += 1
                failed += bool(result.problems)
                print(f"{result.name}: {'; '.join(result.problems) or 'ok'}", flush=True)
    print(f"{total - failed} of {total} parts hold")
    return 1 if failed or not total else 0


def read(path: str) -> Iterator[dict[str, Any]]:
    """The scenarios of a file: the YAML blocks of a Markdown file, or the documents of a YAML file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = BLOCK.findall(text) if path.lower().endswith((".md", ".markdown")) else [text]
    for block in blocks:
        for document in yaml.safe_load_all(block):
            if document is None:
                continue
            if not isinstance(document, dict):
                raise UnknownKey(f"a scenario is a mapping, found {type(document).__name__}")
            yield document


def play(scenario: Mapping[str, Any]) -> Iterator[Result]:
    """Every part of a scenario. One that cannot be played is a part that does not hold."""
    name = str(scenario.get("id", "?"))
    try:
        parts = list(parts_of(scenario))
    except (UnknownKey, KeyError, TypeError, AttributeError) as error:
        yield Result(name, (f"cannot be read: {error}",))
        return
    for label, part in parts:
        yield Result(f"{name}{'.' if label else ''}{label}", tuple(_problems(part)))


def parts_of(scenario: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(label, everything that the part says or inherits)."""
    known(f"scenario {scenario.get('id')}", scenario, SCENARIO)
    shared = {key: value for key, value in scenario.items() if key not in ("id", "parts", "checks", "variant")}
    rows = scenario.get("parts") or []
    by_label: dict[str, dict[str, Any]] = {}
    if "checks" in scenario or not rows:
        by_label[""] = {**shared, "checks": scenario.get("checks") or []}
    for number, row in enumerate(rows):
        known(f"part {row.get('part')}", row, PART)
        by_label[str(row.get("part", number))] = _part(shared, row, by_label)
    for label, part in list(by_label.items()):
        variant = part.pop("variant", None) or (scenario.get("variant") if label == "" else None)
        if variant is not None:
            known("variant", variant, PART)
            by_label[f"{label}variant"] = _part(part, variant, by_label)
    for label, part in by_label.items():
        if not part.get("checks"):
            raise UnknownKey(f"part {label!r} checks nothing")
        yield label, part


def _part(shared: Mapping[str, Any], row: Mapping[str, Any], before: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    part = {**shared, **row, "override": {**(shared.get("override") or {}), **(row.get("override") or {})}}
    if "timeline_same_as" in row:
        part["timeline"] = before[str(row["timeline_same_as"])]["timeline"]
    if "continues" in row:
        first = before[str(row["continues"])]
        part = {**first, **row, "override": {**(first.get("override") or {}), **(row.get("override") or {})}}
        for key in ("submit", "timeline"):
            if key in row and key in first:
                part[key] = [*first[key], *row[key]]
    return part


def _problems(part: Mapping[str, Any]) -> Iterator[str]:
    ends = []
    for turned in (False, True):
        try:
            world = Play(_turned(part) if turned else part)
            world.begin()
            for check in sorted(part["checks"], key=lambda check: seconds(check.get("at", 0))):
                world.until(seconds(check.get("at", 0)))
                if not turned:
                    yield from (f"at {check.get('at', 0)}: {problem}" for problem in verify(world, check))
        except (UnknownKey, AssertionError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            yield f"{type(error).__name__}: {error}"
            return
        ends.append({name: [w.node for w in world.world.workers(name)] for name in sorted(world.world.jobs)})
    if ends[0] != ends[1]:
        yield "another order of the nodes gives another end"


def _turned(part: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the nodes in the opposite order."""
    turned = dict(part)
    for key in ("racks", "devices", "nvl"):
        if part.get(key):
            turned[key] = dict(reversed(list(part[key].items())))
    if part.get("racks"):
        turned["racks"] = {path: dict(reversed(list(nodes.items()))) for path, nodes in turned["racks"].items()}
    return turned


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
