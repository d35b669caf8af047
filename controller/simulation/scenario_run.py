"""Plays one part of a scenario: its timeline on a world, with its checks at their times."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from msgspec.structs import replace

from controller.records import JobRecord
from controller.scheduling.index import unknown_level
from controller.scheduling.placement import segment_error
from controller.scheduling.planner import fits_empty
from controller.scheduling.requests import request_of
from controller.simulation.scenario_cast import LEVELS, Stage, add_node, habits_of, job_of, quota_spec, stage_of
from controller.simulation.scenario_keys import EVENT, UnknownKey, known, seconds
from controller.simulation.world import World
from controller.simulation.worldbook import Tally
from muster.states import JobPhase, NodePhase

FENCE, MARGIN = 300.0, 5.0
STEPS = 100_000


class Play:
    """One run. `world` is the cluster, `rejected` what was refused at submit, `zombies` who came back too late."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        self.part = part
        self.stage: Stage = stage_of(part)
        recovery = seconds(part.get("recovery_timeout", "600s"))
        self.world = World([*self.stage.nodes, *self.stage.queues, *self.stage.aside], LEVELS, recovery=recovery)
        self.world.tally = Tally()
        self.fence = seconds(part.get("fence_after", FENCE), 1.0) if "fence_after" in part else FENCE
        self.margin = seconds(part.get("fence_margin", MARGIN), 1.0) if "fence_margin" in part else MARGIN
        self.fields: dict[str, Mapping[str, Any]] = {}
        self.rejected: dict[str, str] = {}
        self.warnings: dict[str, str] = {}  # what a job was told at its submission
        self.zombies: dict[str, list[str]] = {}
        self.unreachable: dict[str, float] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._leaving = {str(event["left"]["job"]) for event in self._events() if "left" in event}

    # -- setting up -------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Mapping[str, Any]]:
        for event in self.part.get("timeline") or ():
            known("timeline", event, EVENT)
            if "t" not in event:
                raise UnknownKey("an event without its time t")
            yield event

    def begin(self) -> None:
        """Place what runs already, and put the rest on the clock."""
        for fields in self._running():
            self._run(self._changed(fields))
        self.world.check()
        wanted = self.part.get("submit_only")
        for fields in _in_order(self.part.get("submit") or ()):
            if wanted is None or fields["job"] in wanted:
                self._at(0.0, lambda fields=fields: self._submit(fields))  # type: ignore[misc]
        for event in self._events():
            if "submit" in event and wanted is not None and event["submit"]["job"] not in wanted:
                continue
            self._at(seconds(event["t"]), lambda event=event: self._happen(event))  # type: ignore[misc]

    def _running(self) -> Iterator[Mapping[str, Any]]:
        running = self.part.get("running") or ()
        generated = [running] if isinstance(running, dict) else [row for row in running if "generate" in row]
        yield from (row for row in running if not isinstance(running, dict) and "generate" not in row)
        for row in generated:
            known("running", row, {"generate"})
            yield from self._generated(row["generate"])

    def _generated(self, spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        shared = {key: value for key, value in spec.items() if key != "per_node"}
        for node in sorted(self.world.index.nodes):
            for row in spec["per_node"]:
                own = {key: value for key, value in row.items() if key not in ("count", "prefix")}
                for number in range(row.get("count", 1)):
                    name = f"{row.get('prefix', 'job')}-{node}-{number}"
                    yield {**shared, **own, "job": name, "holds": {node: shared.get("pods", 1)}}

    def _changed(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**fields, **(self.part.get("override") or {}).get(fields["job"], {})}

    def _run(self, fields: Mapping[str, Any]) -> None:
        job = job_of(fields, self.stage)
        holds = fields.get("holds")
        if not holds:
            raise UnknownKey(f"running job {job.name} holds nothing")
        self.fields[job.name] = fields
        nodes = [node for node, pods in holds.items() for _ in range(pods)]
        roles = job.spec.get("roles")
        if roles:
            job = replace(job, spec={**job.spec, "accelerators": roles[0]["accelerators"]})
        self.world.run(job, nodes, habits_of(fields, requeue=False, slow=job.name in self._leaving))

    # -- the clock --------------------------------------------------------------------------------------

    def _at(self, time: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time, next(self._order), act))

    def until(self, time: float) -> None:
        """Everything up to and including a time has happened, and the planner is quiescent."""
        for _ in range(STEPS):
            due = self.world.due()
            times = [at for at in (self._queue[0][0] if self._queue else None, due) if at is not None]
            if not times or min(times) > time + 1e-9:
                break
            now = max(self.world.now, min(times))
            self.world.pass_time(now)
            while self._queue and self._queue[0][0] <= now + 1e-9:
                heapq.heappop(self._queue)[2]()
            self.world.settle()
        self.world.pass_time(max(self.world.now, time))
        self.world.settle()

    # -- events -----------------------------------------------------------------------------------------

    def _submit(self, fields: Mapping[str, Any]) -> None:
        fields = self._changed(fields)
        name = str(fields["job"])
        self.fields[name] = fields
        try:
            job = job_of(fields, self.stage)
        except UnknownKey:
            raise
        except ValueError:
            self.rejected[name] = "INVALID"
            return
        error = self._refused(job)
        if error:
            self.rejected[name] = error
            return
        if structural := fits_empty(self.world.index, request_of(job)):
            self.warnings[name] = structural.message
        self.world.submit(job, habits_of(fields, requeue=True, slow=name in self._leaving))

    def _refused(self, job: JobRecord) -> str:
        """What the API would refuse the job with; empty when it is accepted."""
        request = request_of(job)
        levels = [request.required_level, request.preferred_level, *(role.required_level for role in request.roles)]
        levels.append(request.segment.level if request.segment else None)
        if any(unknown_level(self.world.index, level, "topology") for level in levels) or segment_error(request):
            return "INVALID_TOPOLOGY"
        return ""

    def _happen(self, event: Mapping[str, Any]) -> None:
        for key, value in event.items():
            if key in ("t", "reports_running"):
                continue
            getattr(self, f"_on_{key}")(value, event)

    def _on_submit(self, fields: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        self._submit(fields)

    def _on_cancel(self, name: str, event: Mapping[str, Any]) -> None:
        self.world.cancel(name)

    def _on_left(self, what: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        known("left", what, {"job", "nodes", "requeued"})
        nodes = what.get("nodes") or [worker.node for worker in self.world.workers(what["job"])]
        self.world.left(what["job"], nodes, bool(what.get("requeued", False)))

    def _on_node_dead(self, node: str, event: Mapping[str, Any]) -> None:
        for name in [node] if isinstance(node, str) else node:
            self.unreachable.pop(name, None)
            self.world.lose(name)

    def _on_link_lost(self, node: str, event: Mapping[str, Any]) -> None:
        lost_at = self.world.now
        self.unreachable[node] = lost_at
        self.world.set_node(node, NodePhase.UNKNOWN)

        def fence() -> None:
            if self.unreachable.get(node) == lost_at:
                del self.unreachable[node]
                self.world.lose(node)

        self._at(lost_at + self.fence + self.margin, fence)

    def _on_link_back(self, node: str, event: Mapping[str, Any]) -> None:
        """A node that was lost is told to stop whatever it still runs; only then is it offered again."""
        self.unreachable.pop(node, None)
        for job, attempt in (event.get("reports_running") or {}).items():
            number = int(str(attempt).rpartition("-")[2])
            mine = [worker.epoch for worker in self.world.workers(job) if worker.node == node]
            if number not in mine:
                self.zombies.setdefault(node, []).append(f"{job} attempt-{number}")
        self.world.set_node(node, NodePhase.READY)

    def _on_add_node(self, what: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        known("add_node", what, {"rack", "node", "units", "free"})
        nodes = {}  # type: ignore[var-annotated]
        add_node(nodes, what["rack"], what["node"], what.get("units", what.get("free", 1)), self.stage.unit, self.part)
        self.world.put(*nodes.values())

    def _on_cordon(self, node: str, event: Mapping[str, Any]) -> None:
        self.world.put(replace(self.world.index.nodes[node], cordoned=True))

    def _on_uncordon(self, node: str, event: Mapping[str, Any]) -> None:
        self.world.put(replace(self.world.index.nodes[node], cordoned=False))

    def _on_remove_node(self, node: str, event: Mapping[str, Any]) -> None:
        self.world.lose(node)

    def _on_succeeded(self, what: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        known("succeeded", what, {"job", "pods"})
        self.world.succeed(what["job"], int(what["pods"]))

    def _on_failed(self, name: str, event: Mapping[str, Any]) -> None:
        self.world.fail(name)

    def _on_relabel(self, what: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        known("relabel", what, {"node", "rack"})
        block, _, rack = str(what["rack"]).partition("/")
        node = self.world.index.nodes[what["node"]]
        self.world.put(replace(node, labels={**node.labels, "muster.dev/block": block, "muster.dev/rack": rack}))

    def _on_ends(self, what: object, event: Mapping[str, Any]) -> None:
        for name in what if isinstance(what, list) else [what]:
            self.world.finish(str(name))

    def _on_quota(self, what: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        for name, value in what.items():
            queue = self.world.index.queues[name]
            self.world.put(replace(queue, spec={**queue.spec, "quota": quota_spec(value, self.stage.kinds)}))

    # -- what people are told ---------------------------------------------------------------------------

    def state(self, name: str) -> str:
        """A job's state in a sentence: its phase, and which of its nodes is out of reach for how long."""
        job = self.world.jobs[name]
        silent = [worker.node for worker in self.world.workers(name) if worker.node in self.unreachable]
        told = [
            f"{node} unreachable {self.world.now - self.unreachable[node]:g}s, fence at {self.fence:g}s"
            for node in dict.fromkeys(silent)
        ]
        waits = {wait.job_uid: str(wait.code) for wait in self.world.plan.waits}
        phase = "PENDING" if job.phase is JobPhase.QUEUED else str(job.phase).upper()
        code = f", {waits[job.uid]}" if job.uid in waits else ""
        return f"{phase}{code}" + (f" ({'; '.join(told)})" if told else "")


def _in_order(rows: Any) -> list[Mapping[str, Any]]:
    """In the order of submission: as written, but nobody before whom he is `submitted_after`."""
    left, done, ordered = list(rows), set[str](), list[Mapping[str, Any]]()
    names = {row["job"] for row in left}
    while left:
        ready = [
            row for row in left if row.get("submitted_after") in done | {None} or row["submitted_after"] not in names
        ]
        if not ready:
            raise UnknownKey("submitted_after goes in a circle")
        ordered.append(ready[0])
        done.add(ready[0]["job"])
        left.remove(ready[0])
    return ordered
