"""A long random life of a cluster on the planner of production: `./run endure [--events N] [--seed S]`.

Gangs of every kind come, end, fail and are cancelled; nodes are lost, come back, are cordoned; quotas change; time passes.
After every event the plan must settle, and nothing may be held twice, torn, or above what there is; from time to
time the index must be what a cold one is, and its plan the same.
"""

import argparse
import random
import sys
import time
from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from controller.records import JobRecord, NodeRecord, QueueRecord
from controller.scheduling.index import build
from controller.scheduling.planner import plan
from controller.simulation.world import Habits, World, node_of, queue_of
from muster.protocol import Device
from muster.states import JOB_TERMINAL, JobPhase, NodePhase

LEVELS: Final = ("block", "rack")
LIVE: Final = 24
"""Jobs at once; the queues of a real cluster are longer, but not more various."""
COLD: Final = 250
"""Events between two comparisons with a cold index."""


def nodes() -> list[NodeRecord]:
    """Three blocks of two racks of three nodes, in two kinds, one node without labels."""
    made = []
    for number in range(18):
        labels = {"muster.dev/block": f"b{number // 6}", "muster.dev/rack": f"r{number // 3}"} if number < 17 else {}
        kind = "h100" if number // 6 < 2 else "h200"
        devices = tuple(Device(index=index, type=kind, group=index // 4) for index in range(8))
        made.append(node_of(f"n{number:02}", labels=labels, cpu_milli=64_000, memory=2**38, devices=devices))
    return made


def queues(dice: random.Random) -> list[QueueRecord]:
    quota = {"h100": dice.choice((16, 32, 48)), "h200": dice.choice((8, 16))}
    return [
        queue_of("default"),
        queue_of("research", quota=quota, weight=2),
        queue_of("product", quota={"h100": 96 - quota["h100"], "h200": 48 - quota["h200"]}),
    ]


def job(dice: random.Random, number: int) -> JobRecord:
    count = dice.choice((1, 2, 4, 8))
    workers = dice.choice((1, 1, 2, 3, 4, 6, 8))
    spec: dict[str, Any] = {
        "queue": dice.choice(("default", "research", "product")),
        "priority": dice.choice((0, 0, 0, 10, 100)),
        "workers": workers,
        "maxPerNode": dice.choice((1, 1, 8)),
        "accelerators": [{"type": dice.choice(("h100", "h100", "h200")), "count": count}],
        "cpu": dice.choice(("1", "4")),
        "topology": {},
    }
    if dice.random() < 0.3:
        spec["timeLimit"] = f"{dice.randint(1, 50)}m"
    match dice.randrange(8):
        case 0:
            spec["topology"]["required"] = dice.choice(LEVELS)
        case 1:
            spec["topology"]["preferred"] = dice.choice(LEVELS)
        case 2 if workers % 2 == 0:
            spec["topology"]["segment"] = {"size": 2, "level": "rack"}
        case 3 if workers > 1:
            spec |= {"minWorkers": 1, "checkpoint": {"directory": f"/c/{number}"}}
        case 4:
            spec["topology"]["split"] = "balanced"
        case 5:
            kinds = spec["accelerators"]
            spec["roles"] = [
                {"name": "head", "workers": 1, "accelerators": []},
                {"name": "hand", "workers": workers, "accelerators": kinds},
            ]
            spec["workers"] = workers + 1
        case 6:
            spec["preemption"] = {"allowed": False}
    return JobRecord(uid=f"j{number:07}", namespace="default", name=f"j{number:07}", spec=spec)


class Life:
    """One seeded life; `counts` says what happened."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = World([*nodes(), *queues(self.dice)], LEVELS)
        self.counts: Counter[str] = Counter()
        self._number = 0

    def live(self) -> int:
        """Events until the end of one more: something happens, then all that follows from it."""
        self.counts[self._happen()] += 1
        self.world.settle()
        self.world.check()
        self.world.index.check()
        self._forget()
        events = sum(self.counts.values())
        if events % COLD == 0:
            self._compare()
        return events

    def _happen(self) -> str:
        world, dice = self.world, self.dice
        running = [name for name in world.jobs if world.running(name)]
        what = dice.random()
        if what < 0.34 and len(world.jobs) < LIVE:
            self._number += 1
            world.submit(job(dice, self._number), Habits(work=dice.choice((None, 60.0, 600.0, 3600.0))))
            return "submitted"
        if what < 0.52:
            due = world.due()
            world.pass_time(max(world.now, due) if due is not None and dice.random() < 0.8 else world.now + 30.0)
            return "time passed"
        if what < 0.66 and running:
            world.finish(dice.choice(running))
            return "finished"
        if what < 0.74 and world.jobs:
            world.cancel(dice.choice(sorted(world.jobs)))
            return "cancelled"
        if what < 0.82 and running:
            world.fail(dice.choice(running))
            return "failed"
        if what < 0.97:
            return self._node()
        for queue in queues(dice):
            world.put(queue)
        return "quota changed"

    def _node(self) -> str:
        name = self.dice.choice(sorted(self.world.index.nodes))
        node = self.world.index.nodes[name]
        if node.phase is NodePhase.LOST:
            self.world.set_node(name, NodePhase.READY)
            return "node came back"
        if self.dice.random() < 0.4:
            self.world.lose(name)
            return "node lost"
        self.world.put(replace(node, cordoned=not node.cordoned))
        return "cordon changed"

    def _forget(self) -> None:
        """Finished jobs leave the books of the world."""
        for name in [name for name, one in self.world.jobs.items() if one.phase in JOB_TERMINAL]:
            del self.world.jobs[name]

    def _compare(self) -> None:
        """A cold index of the same records plans the same, in whatever order it is told of them."""
        records = self.world.index.records()
        self.dice.shuffle(records)
        cold = build(records, revision=self.world.index.revision, levels=LEVELS)
        warm, anew = plan(self.world.index, self.world.now), plan(cold, self.world.now)
        assert warm == anew, "a cold index plans otherwise"


def main() -> int:
    reader = argparse.ArgumentParser(prog="./run endure", description=__doc__)
    reader.add_argument("--events", type=int, default=1_000_000, metavar="N")
    reader.add_argument("--seed", type=int, default=0, metavar="S")
    asked = reader.parse_args()
    life, began, events = Life(asked.seed), time.monotonic(), 0
    while events < asked.events:
        events = life.live()
        if events % 10_000 == 0:
            print(f"{events} events, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for what, count in sorted(life.counts.items()):
        print(f"{what:<16} {count:>9}")
    running = sum(one.phase is JobPhase.RUNNING for one in life.world.jobs.values())
    print(f"{events} events in {time.monotonic() - began:.0f} s, nothing broken; {running} gangs run at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
