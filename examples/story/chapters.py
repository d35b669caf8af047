"""The six steps of the story. Each does something to the cluster, waits for what must follow, and checks it."""

import datetime
import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
from embedded import Cluster, Object
from ranks import Rank, Watch, ranks_of
from tell import Narrator, StoryFailed, listed, until

ENDED = ("Succeeded", "Failed", "Cancelled")


class Story:
    """One job's way through all that befalls it."""

    def __init__(self, cluster: Cluster, tell: Narrator, trainer: str) -> None:
        self.cluster, self.tell, self.name = cluster, tell, f"{trainer}-digits"
        self.examples = cluster.copy_examples()
        self.runs = self.examples / "runs" / self.name
        self.planted: Path | None = None
        self.watch: Watch | None = None

    # -- 2. a gang in one leaf -------------------------------------------------------------------------

    def submit(self) -> None:
        tell, cluster = self.tell, self.cluster
        tell.chapter("A gang of 2 workers with 2 ranks each, all in one leaf of the fabric")
        tell.say(f"$ muster apply -f examples/{self.name}.yaml")
        tell.show(cluster.muster("apply", "-f", str(self.examples / f"{self.name}.yaml")))
        self.uid = cluster.job(self.name)["metadata"]["uid"]
        self.watch = Watch(self.uid)
        attempt = self._running(1)
        nodes = nodes_of(attempt)
        tell.say(f"Attempt 1 runs on {listed(nodes)}, epoch {attempt['epoch']}.")
        tell.claim(len(set(nodes)) == 2, "the gang has two different nodes")
        leaves = {cluster.leaf(node) for node in nodes}
        tell.claim(len(leaves) == 1, f"both lie in one leaf, {listed(sorted(leaves))}")
        self._in_fabric_order(attempt)
        tell.say("Waiting for the first checkpoints.")
        self._reach(25)

    def _in_fabric_order(self, attempt: Object) -> None:
        ranks = self._ranks(attempt)
        tell, nodes = self.tell, nodes_of(attempt)
        expected = [(rank, nodes[rank // 2]) for rank in range(4)]
        tell.claim(
            [(r.rank, r.node) for r in ranks] == expected, "ranks 0 to 3 follow the order of the nodes in the fabric"
        )
        tell.claim(nodes == sorted(nodes), "which is the order of the plan, first node first")
        devices = [worker["devices"] for worker in attempt["workers"]]
        tell.claim([len(set(each)) for each in devices] == [2, 2], f"each worker has two devices: {devices}")

    # -- 3. one rank is killed -------------------------------------------------------------------------

    def kill_a_rank(self) -> None:
        tell = self.tell
        tell.chapter("One rank is killed")
        before = self._latest()
        old = self._ranks(before)
        self._plant()
        victim = old[-1]
        os.kill(victim.pid, signal.SIGKILL)
        tell.say(f"kill -9 {victim.pid}: rank {victim.rank} on {victim.node} is dead.")
        after = self._next(before)
        resumed = self._resumed_right(after)
        tell.claim(
            not any(rank.alive() for rank in old), "the rest of the gang was stopped before: no old rank is alive"
        )
        after = self._running(after["number"])
        ended = self._attempt(before["number"])
        tell.say(f"Attempt {after['number']} runs. The verdict on attempt {ended['number']}: {why(ended)}")
        tell.claim(nodes_of(after) == nodes_of(before), f"it is back on the same nodes, {listed(nodes_of(after))}")
        self._fresh(before, after)
        self._tell_times(ended, after, resumed)

    def _plant(self) -> None:
        """A newer checkpoint that is only half there, as a crash in the middle of a save leaves it."""
        newest = self._newest()
        self.planted = newest.with_name("step-000299")
        shutil.copytree(newest, self.planted)
        files = [path for path in self.planted.iterdir() if path.suffix in (".distcp", ".npy")]
        largest = max(files, key=lambda path: path.stat().st_size)
        os.truncate(largest, largest.stat().st_size // 2)
        self.tell.say(f"A half-written newer checkpoint, {self.planted.name}, is planted beside {newest.name}.")

    def _resumed_right(self, attempt: Object) -> int:
        """Checks which checkpoint the new attempt resumes from; its step."""
        newest, resume = self._newest(), attempt["resume"] or {"path": "", "step": 0}
        self.tell.claim(
            Path(resume["path"]).name == newest.name,
            f"it resumes from the newest complete checkpoint, {newest.name} (found: {Path(resume['path']).name or 'none'})",
        )
        assert self.planted
        self.tell.claim(Path(resume["path"]) != self.planted, f"and passes over the half-written {self.planted.name}")
        return int(resume["step"])

    def _fresh(self, before: Object, after: Object) -> None:
        tell = self.tell
        tell.claim(after["epoch"] > before["epoch"], f"the epoch is new: {before['epoch']} -> {after['epoch']}")
        tell.claim(after["rendezvous"] != before["rendezvous"], f"the rendezvous id is new: {after['rendezvous']}")
        ports = [{port for worker in each["workers"] for port in worker["ports"]} for each in (before, after)]
        tell.claim(not ports[0] & ports[1], f"the ports are new: {sorted(ports[0])} -> {sorted(ports[1])}")

    # -- 4. a node is lost -----------------------------------------------------------------------------

    def lose_a_node(self) -> None:
        tell, cluster = self.tell, self.cluster
        tell.chapter("One node is lost: its agent, shims and ranks are killed and nothing starts again")
        self._reach(self.cluster.step(self.name) + 25)
        before = self._latest()
        lost, other = nodes_of(before)[1], nodes_of(before)[0]
        fence = float(cluster.job(self.name)["spec"]["recovery"]["fenceAfter"].removesuffix("s"))
        tell.say(f"$ muster lab lose {lost}")
        tell.show(cluster.muster("lab", "lose", lost))
        gone = time.time()
        tell.claim(not [r for r in ranks_of(self.uid) if r.node == lost], f"no rank is alive on {lost}")
        phases = self._phases_until_lost(lost)
        tell.claim(phases == ["Unknown", "Lost"], f"{lost} was Unknown first and Lost only after the fence")
        after = self._running(self._next(before)["number"])
        resumed = self._resumed_right(after)
        ended = self._attempt(before["number"])
        nodes = nodes_of(after)
        tell.say(
            f"Attempt {after['number']} runs on {listed(nodes)}. The verdict on attempt {ended['number']}: {why(ended)}"
        )
        tell.claim(not {lost, other} & set(nodes), f"a new pair of nodes: {listed(nodes)}")
        leaves = {cluster.leaf(node) for node in nodes}
        tell.claim(
            len(leaves) == 1 and cluster.leaf(lost) not in leaves, f"both in the other leaf, {listed(sorted(leaves))}"
        )
        waited = seconds(after["timeline"]["placedAt"]) - gone
        tell.claim(
            waited >= fence, f"it was placed {waited:.1f} s after the loss, not before the job's fence of {fence:g} s"
        )
        self._fresh(before, after)
        self._tell_times(ended, after, resumed)

    def _phases_until_lost(self, node: str) -> list[str]:
        """The phases that `node` goes through, told as they come."""
        seen = list[str]()

        def look() -> bool:
            found = self.cluster.nodes().get(node)
            phase = found["status"]["phase"] if found else "Ready"
            if found and phase != "Ready" and phase not in seen:
                seen.append(phase)
                self.tell.say(f"{node} is {phase}.")
            return phase == "Lost"

        until(f"{node} to be Lost", look, every=0.05)
        return seen

    # -- 5. Muster's own processes are killed ----------------------------------------------------------

    def kill_an_agent(self) -> None:
        tell, cluster = self.tell, self.cluster
        tell.chapter("One agent alone is killed: its ranks go on under their shim")
        before = self._latest()
        node = nodes_of(before)[0]
        self._reach(cluster.step(self.name) + 10)
        ranks = self._ranks(before)
        pids = cluster.kill(agent_of(node))
        tell.say(f"kill -9 {pids[agent_of(node)]}: the agent of {node} is dead.")
        tell.claim(all(rank.alive() for rank in ranks), f"the ranks of {node} live on")
        until("the agent to come back", lambda: cluster.back(agent_of(node), pids[agent_of(node)]))
        tell.say(f"The agent is back with pid {cluster.pid(agent_of(node))}.")
        self._unharmed(before, ranks)

    def kill_the_control_plane(self) -> None:
        tell, cluster = self.tell, self.cluster
        tell.chapter("The controller and the API are killed: nothing restarts")
        before = self._latest()
        ranks = self._ranks(before)
        pids = cluster.kill("controller", "api")
        tell.say(f"kill -9 {pids['controller']} {pids['api']}: controller and API are dead.")
        for name, old in pids.items():
            until(f"the {name} to come back", lambda name=name, old=old: cluster.back(name, old))  # type: ignore[misc]
        until("the API to answer", lambda: cluster.get("/nodes"))
        tell.say("Both are back.")
        self._unharmed(before, ranks)

    def _unharmed(self, before: Object, ranks: list[Rank]) -> None:
        """The same attempt, the same processes, and they go on."""
        tell, cluster = self.tell, self.cluster
        step = cluster.step(self.name)
        until("the training to go on", lambda: cluster.step(self.name) >= step + 10 or self._phase() in ENDED)
        until("all of its nodes to be Ready", lambda: self._nodes_ready(nodes_of(before)))
        after = self._latest()
        tell.claim(
            all(rank.alive() for rank in ranks),
            f"all {len(ranks)} ranks have kept their pids: {[r.pid for r in ranks]}",
        )
        tell.claim(
            after["uid"] == before["uid"], f"it is still attempt {after['number']}, at step {cluster.step(self.name)}"
        )

    def _nodes_ready(self, names: list[str]) -> bool:
        nodes = self.cluster.nodes()
        return bool(nodes) and all(nodes[name]["status"]["phase"] == "Ready" for name in names)

    # -- 6. the end ------------------------------------------------------------------------------------

    def succeed(self) -> None:
        tell = self.tell
        tell.chapter("The job succeeds")
        until("the job to end", lambda: self._phase() in ENDED, patience=600)
        attempts, phase = self.cluster.attempts(self.name), self._phase()
        if self.watch:
            self.watch.stop()
            tell.claim(
                not self.watch.together,
                f"ranks of two attempts were never alive together, in {self.watch.looks} looks at the process table",
            )
        tell.claim(phase == "Succeeded", f"the job is {phase}")
        tell.claim([a["reason"] for a in attempts][:2] == ["RankFailed", "NodeLost"], f"it took {len(attempts)} attempts: "
                   + ", ".join(f"{a['number']} {a['reason']}" for a in attempts))  # fmt: skip
        exits = [(e.get("rank"), e.get("code")) for worker in attempts[-1]["workers"] for e in worker["exits"]]
        tell.claim(bool(exits) and all(code == 0 for _, code in exits), "no exit code is lost, and each is 0, also those "
                   "of the ranks whose agent was killed")  # fmt: skip

    def compare(self) -> None:
        """Run the same once more, undisturbed and at full speed, and compare what came out."""
        tell = self.tell
        tell.chapter("The same training without any fault")
        calm = f"{self.name}-calm"
        text = (self.examples / f"{self.name}.yaml").read_text()
        text = text.replace(self.name, calm).replace("STEP_SECONDS: ", 'STEP_SECONDS: "0" # ')
        (self.examples / f"{calm}.yaml").write_text(text)
        self.cluster.muster("apply", "-f", str(self.examples / f"{calm}.yaml"))
        words = ("wait", f"job/{calm}", "--for", "phase=Succeeded", "--timeout", "10m")
        tell.say(f"$ muster {' '.join(words)}")
        self.cluster.muster(*words, patience=600)
        attempts = self.cluster.attempts(calm)
        tell.claim(
            self.cluster.job(calm)["status"]["phase"] == "Succeeded" and len(attempts) == 1, f"{calm} succeeded at once"
        )
        both = [self.runs, self.runs.with_name(calm)]
        curves = [np.array(json.loads((run / "losses.json").read_text())) for run in both]
        weights = [np.load(run / "weights.npz") for run in both]
        gap = float(np.abs(curves[0] - curves[1]).max())
        tell.claim(bool(np.array_equal(*curves)), f"the loss curves are equal bit for bit over {len(curves[0])} steps "
                   f"({curves[0][0]:.3f} -> {curves[0][-1]:.4f}; largest difference {gap:g})")  # fmt: skip
        same = {name: bool(np.array_equal(weights[0][name], weights[1][name])) for name in weights[0].files}
        count, gap = sum(weights[0][name].size for name in same), max(
            float(np.abs(weights[0][name] - weights[1][name]).max()) for name in same
        )  # fmt: skip
        tell.claim(all(same.values()), f"all {count} final weights are equal bit for bit (largest difference {gap:g})")

    def describe(self) -> None:
        self.tell.chapter(f"$ muster describe job {self.name}")
        self.tell.show(self.cluster.muster("describe", "job", self.name))

    # -- looking ---------------------------------------------------------------------------------------

    def _phase(self) -> str:
        return str(self.cluster.job(self.name)["status"]["phase"])

    def _attempt(self, number: int) -> Object:
        return next(attempt for attempt in self.cluster.attempts(self.name) if attempt["number"] == number)

    def _latest(self) -> Object:
        return self.cluster.attempts(self.name)[-1]

    def _next(self, before: Object) -> Object:
        """The attempt after `before`, once there is one."""

        def look() -> Object | None:
            latest = self._latest()
            return latest if latest["number"] > before["number"] else self._not_over()

        return until(f"an attempt after number {before['number']}", look)

    def _running(self, number: int) -> Object:
        def look() -> Object | None:
            found = [each for each in self.cluster.attempts(self.name) if each["number"] == number]
            return found[0] if found and found[0]["phase"] == "Running" else self._not_over()

        return until(f"attempt {number} to run", look)

    def _ranks(self, attempt: Object) -> list[Rank]:
        """The four ranks of a running attempt."""

        def look() -> list[Rank] | None:
            found = [rank for rank in ranks_of(self.uid) if rank.attempt == attempt["uid"]]
            return found if len(found) == 4 else self._not_over()

        return until("four rank processes", look)

    def _reach(self, step: int) -> None:
        until(f"step {step}", lambda: self.cluster.step(self.name) >= step or self._not_over())
        self.tell.say(f"The training is at step {self.cluster.step(self.name)}.")

    def _not_over(self) -> None:
        """None, to be asked again. Raises StoryFailed when the job has ended before its story."""
        job = self.cluster.job(self.name)["status"]
        if job["phase"] in ENDED:
            raise StoryFailed(f"the job ended too early, as {job['phase']}: {job.get('message')}")

    def _newest(self) -> Path:
        """The newest complete checkpoint, by the folder itself: the trainers name a folder when it is whole."""
        found = [path for path in (self.runs / "checkpoints").glob("step-*") if path != self.planted]
        return max(found, default=Path())

    def _tell_times(self, ended: Object, after: Object, resumed: int) -> None:
        was, now = ended["timeline"], after["timeline"]
        steps = [("detected", was["failedAt"], was["detectedAt"]), ("stopped", was["detectedAt"], was["endedAt"]),
                 ("decided", was["endedAt"], was["decidedAt"]), ("running again", was["decidedAt"], now["runningAt"])]  # fmt: skip
        parts = [f"{word} in {seconds(end) - seconds(start):.2f} s" for word, start, end in steps if start and end]
        redone = (ended.get("lastStep") or resumed) - resumed
        self.tell.say(f"The failure was {', '.join(parts)}; {redone} steps are done twice.")


def nodes_of(attempt: Object) -> list[str]:
    """In the order of the workers."""
    return [worker["node"] for worker in sorted(attempt["workers"], key=lambda worker: worker["index"])]


def agent_of(node: str) -> str:
    """What `muster up` calls the agent process of a node."""
    return f"agent-{node}"


def why(attempt: Object) -> str:
    return str((attempt.get("verdict") or {}).get("why") or attempt.get("message") or attempt.get("reason"))


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
