"""The planner beside an exact solver: `./run bench exact [--clusters 1000] [--seed 0] [--json]`.

Random small clusters, partly in use, and one gang each: of one shape, in segments, or of two roles. HiGHS decides whether a
placement exists, and how few blocks and then racks it can span. The planner must never say no where one exists, and may
span at most 1 % more racks in the mean.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import machine
from controller.records import JobRecord, NodeRecord
from controller.scheduling.index import build
from controller.scheduling.planner import plan
from muster.protocol import Device
from muster.states import JobPhase

LEVELS: Final = ("block", "rack")
BLOCKS: Final = 1_000
"""What a block costs in racks: fewer blocks come first."""
NOW: Final = 1_000_000.0


class Shape(Struct, frozen=True):
    """What each of so many workers takes."""

    name: str
    workers: int
    devices: int
    cpu: int


class Case(Struct, frozen=True):
    """`nodes`: (block, rack, devices free, whole CPUs). `per_node` is of each role; `required` and `segment` as in a
    manifest."""

    nodes: tuple[tuple[str, str, int, int], ...]
    shapes: tuple[Shape, ...]
    per_node: int
    required: str | None
    segment: int | None


class Answer(Struct, frozen=True):
    """None: no placement."""

    blocks: int
    racks: int


def draw(dice: random.Random) -> Case:
    """Up to 3 blocks of up to 4 racks of up to 5 nodes with 0 to 8 free devices."""
    nodes: list[tuple[str, str, int, int]] = []
    for block in range(dice.randint(1, 3)):
        for rack in range(dice.randint(1, 4)):
            for _ in range(dice.randint(1, 5)):
                free = dice.choice((8, 8, 8, dice.randint(0, 8)))
                nodes.append((f"b{block}", f"b{block}r{rack}", free, dice.choice((16, 16, 8, 4))))
    kind = dice.random()
    per_node = dice.choice((1, 1, 2, 8))
    required = dice.choice((None, None, "block", "rack"))
    most = max(2, 3 * len(nodes) // 4 * min(per_node, 2))
    if kind < 0.25:
        shapes = [
            Shape("a", dice.randint(1, max(1, most // 2)), dice.choice((1, 2, 4, 8)), dice.choice((1, 4))),
            Shape("b", dice.randint(1, max(1, most // 2)), dice.choice((0, 1, 2, 4)), dice.choice((1, 2, 8))),
        ]
        return Case(tuple(nodes), tuple(shapes), per_node, required, None)
    size = dice.choice((2, 3)) if kind < 0.5 else None
    workers = dice.randint(1, most)
    if size:
        workers = max(1, workers // size) * size
    shape = Shape("a", workers, dice.choice((1, 2, 4, 8)), dice.choice((1, 4)))
    return Case(tuple(nodes), (shape,), per_node, required, size)


def solve(case: Case) -> Answer | None:
    """The optimum by HiGHS."""
    import highspy

    model = highspy.Highs()
    model.silent()
    blocks, racks = sorted({node[0] for node in case.nodes}), sorted({node[1] for node in case.nodes})
    in_block = {name: model.addBinary() for name in blocks}
    in_rack = {name: model.addBinary() for name in racks}
    lies: list[list[Any]] = []
    for shape in case.shapes:
        row = [model.addIntegral(lb=0, ub=shape.workers) for _ in case.nodes]
        model.addConstr(sum(row[1:], row[0]) == shape.workers)
        lies.append(row)
    for place, (block, rack, devices, cpu) in enumerate(case.nodes):
        here = [row[place] for row in lies]
        most = min(case.per_node, 64)
        model.addConstr(sum(x * s.devices for x, s in zip(here, case.shapes, strict=True)) <= devices)
        model.addConstr(sum(x * s.cpu for x, s in zip(here, case.shapes, strict=True)) <= cpu)
        for x in here:
            model.addConstr(x <= most * in_rack[rack])
        model.addConstr(in_rack[rack] <= in_block[block])
    if case.segment:
        for rack in racks:
            inside = [lies[0][place] for place, node in enumerate(case.nodes) if node[1] == rack]
            whole = model.addIntegral(lb=0, ub=case.shapes[0].workers)
            model.addConstr(sum(inside[1:], inside[0]) == whole * case.segment)
    levels = {"block": in_block, "rack": in_rack}
    if case.required:
        chosen = list(levels[case.required].values())
        model.addConstr(sum(chosen[1:], chosen[0]) == 1)
    model.minimize(sum(in_block.values()) * BLOCKS + sum(in_rack.values()))
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return Answer(*(round(sum(model.val(one) for one in level.values())) for level in (in_block, in_rack)))


def ask(case: Case) -> Answer | None:
    """What the planner of production makes of it. Raises AssertionError when its placement breaks a rule."""
    index = build([*_nodes(case), _job(case)], levels=LEVELS)
    decided = plan(index, NOW)
    if not decided.groups:
        return None
    held = [int(worker.node.removeprefix("n")) for worker in decided.groups[0].start.workers]
    assert len(held) == sum(shape.workers for shape in case.shapes), "not the whole gang"
    used = [case.nodes[place] for place in held]
    found = Answer(len({node[0] for node in used}), len({node[1] for node in used}))
    assert case.required != "block" or found.blocks == 1, "more than one block"
    assert case.required != "rack" or found.racks == 1, "more than one rack"
    if case.segment:
        starts = range(0, len(used), case.segment)
        assert all(len({node[1] for node in used[at : at + case.segment]}) == 1 for at in starts), "a segment is torn"
    return found


def _nodes(case: Case) -> list[NodeRecord]:
    return [
        NodeRecord(
            name=f"n{place}",
            uid=f"n{place}",
            labels={"muster.dev/block": block, "muster.dev/rack": rack},
            cpu_milli=cpu * 1000,
            memory=2**40,
            devices=tuple(Device(index=index, type="h100") for index in range(devices)),
        )
        for place, (block, rack, devices, cpu) in enumerate(case.nodes)
    ]


def _job(case: Case) -> JobRecord:
    spec: dict[str, Any] = {"maxPerNode": case.per_node, "memory": "1Mi", "topology": {}}
    if case.required:
        spec["topology"]["required"] = case.required
    if case.segment:
        spec["topology"]["segment"] = {"size": case.segment, "level": "rack"}
    shapes = [
        {"workers": shape.workers, "cpu": str(shape.cpu), "accelerators": _kinds(shape.devices)}
        for shape in case.shapes
    ]
    if len(shapes) == 1:
        spec |= shapes[0]
    else:
        roles = [shape | {"name": given.name} for shape, given in zip(shapes, case.shapes, strict=True)]
        spec |= {"roles": roles, "workers": sum(shape.workers for shape in case.shapes)}
    return JobRecord(uid="j", namespace="default", name="j", spec=spec, phase=JobPhase.QUEUED, queued_at=NOW)


def _kinds(devices: int) -> list[dict[str, Any]]:
    return [{"type": "h100", "count": devices}] if devices else []


class Score(Struct):
    """`worse`: racks beyond the optimum; `more_blocks`: placements with more blocks than needed."""

    cases: int = 0
    possible: int = 0
    false_no: int = 0
    false_yes: int = 0
    racks: int = 0
    best_racks: int = 0
    more_blocks: int = 0


def compare(cases: Sequence[Case]) -> tuple[Score, list[Case]]:
    """The score, and the cases in which the planner said no although there is a placement."""
    score, refused = Score(), []
    for case in cases:
        best, found = solve(case), ask(case)
        score.cases += 1
        score.possible += best is not None
        if best is None or found is None:
            score.false_no += best is not None
            score.false_yes += found is not None
            if best is not None:
                refused.append(case)
            continue
        score.racks += found.racks
        score.best_racks += best.racks
        score.more_blocks += found.blocks > best.blocks
    return score, refused


def main() -> int:
    reader = argparse.ArgumentParser(prog="./run bench exact", description=__doc__)
    reader.add_argument("--clusters", type=int, default=1000, metavar="N")
    reader.add_argument("--seed", type=int, default=0, metavar="N")
    reader.add_argument("--json", action="store_true", help="one JSON object on standard output, and nothing else")
    asked = reader.parse_args()
    dice = random.Random(asked.seed)
    score, refused = compare([draw(dice) for _ in range(asked.clusters)])
    over = 100.0 * (score.racks / score.best_racks - 1) if score.best_racks else 0.0
    figures = {name: getattr(score, name) for name in score.__struct_fields__} | {"racks_over_optimum_percent": over}
    if asked.json:
        print(json.dumps({"set_up": "exact", "seed": asked.seed, "machine": machine(), **figures}))
    else:
        for name, value in figures.items():
            print(f"{name:<28} {value:>10.3f}" if isinstance(value, float) else f"{name:<28} {value:>10}")
        for case in refused[:3]:
            print(f"said no although it fits: {case}")
    return 1 if score.false_no or score.false_yes or over > 1.0 else 0


if __name__ == "__main__":
    sys.exit(main())
