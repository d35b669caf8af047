"""One worker on this node: looks at its diary and its shim, decides (decide.py), acts, and says what it sees.

Each worker is a task of its own, so a mount that hangs or a process that will not die holds up nobody else.
Nothing is kept only in memory that the end of a worker depends on: a new agent folds the same diary.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agents.runtime import diary, prepare, sweep
from agents.runtime.children import Children
from agents.runtime.containers.boxes import name_of
from agents.runtime.containers.pulling import Images, NoImage
from agents.runtime.decide import Act, Seen, Wanted, decide
from agents.runtime.fingerprint import fingerprint
from agents.runtime.folder import Folder
from agents.runtime.hooks import Hooks, environment
from agents.runtime.hooks import run as run_hook
from agents.runtime.link import ShimLink
from agents.runtime.release import held, until_free
from agents.runtime.telling import Telling
from agents.runtime.threads import in_thread
from agents.runtime.users import User
from agents.shims.cgroup import Groups
from agents.shims.processes import descendants
from muster.clock import Clock
from muster.protocol import Assignment, WorkerReport
from muster.states import WorkerPhase

log = logging.getLogger("muster.agent")

SHIM = Path(__file__).parent.parent / "shim.py"
PREPARE_TIMEOUT = 30.0
WAIT = 0.5
"""Seconds between looks whether another namespace has left."""
SHIM_START_TIMEOUT = 30.0
UNSHIPPED_PATIENCE = 600.0
"""Seconds that logs of a worker nobody lists any more wait for a log store that does not take them."""


class NotWanted(Exception):
    """The worker was called off while it was being prepared."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What all workers of a node share. `archive` is the folder of ended workers' diaries. `lease_from` is the boottime from which the node's lease runs; `leased` is set
    while it is being renewed."""

    name: str
    archive: Path
    node: prepare.Node
    clock: Clock
    children: Children
    lease_from: Callable[[], float]
    leased: asyncio.Event
    changed: Callable[[], None]
    in_the_way: Callable[[Assignment], str]
    images: Images
    hooks: Hooks


class Worker:
    """`wake` it when anything about it may have changed. `report` is what the controller is to know."""

    def __init__(self, folder: Folder, assignment: Assignment, around: Surroundings) -> None:
        self.uid, self.folder, self.assignment = assignment.worker_uid, folder, assignment
        self.wanted = Wanted(desired=None)
        self.history = diary.fold(diary.read(folder.diary))
        self.forgotten = False
        self._around = around
        self._woken = asyncio.Event()
        self._link = ShimLink(folder.path, self.wake)
        self._refused: tuple[int, prepare.Refusal] | None = None
        self._unlisted_at: float | None = None
        self._told_to_stop: Wanted | None = None
        self._waits = self._doing = ""
        self._prologue_over = False
        self._examining = self._examined = ""
        self._looking: asyncio.Task[None] | None = None
        self._printing: asyncio.Task[None] | None = None
        self.telling = Telling(folder, assignment, around.name, around.children, around.clock, self._news, self._user)
        self.report = self._describe(around.clock.now())

    # -- what others tell it -------------------------------------------------------------------------

    def want(self, wanted: Wanted, assignment: Assignment | None = None) -> None:
        """`assignment` must have been saved already."""
        if assignment is not None:
            self.assignment = self.telling.assignment = assignment
            if assignment.examine and assignment.examine != self._examining:
                self._examining = assignment.examine
                self._looking = asyncio.create_task(self._examine(assignment.examine))
        if wanted.desired == "" and self.wanted.desired != "":
            self._unlisted_at = self._around.clock.boottime()
        if wanted != self.wanted:
            self.wanted = wanted
            self.wake()

    def wake(self) -> None:
        self._woken.set()

    def acknowledged(self, report: WorkerReport, version: int) -> None:
        """The controller has `report`. An end that it knows is remembered, so that it is told once."""
        self.telling.acked = max(self.telling.acked, version)
        if report.phase == WorkerPhase.EXITED:
            try:
                self.folder.acked.touch()
            except OSError as error:
                log.warning("worker %s: its end may be told again: %s", self.uid, error)
            self.wake()

    def renewed(self) -> None:
        """The lease has moved: so does the deadline at which the shim kills."""
        self._link.send(do="deadline", at=self._deadline())

    async def _fingerprint(self, assignment: Assignment) -> None:
        """Of the gang's first worker: the others have the same."""
        spec = assignment.origin.spec if assignment.origin is not None else {}
        template = assignment.template
        python = prepare.find_python(template.env.get("PATH", self._around.node.environ.get("PATH", os.defpath)))
        image = template.how.container.image if template.how.container is not None else ""
        folder, env = self.folder.work / template.workdir, {str(k): str(v) for k, v in (spec.get("env") or {}).items()}
        try:
            found = await in_thread(lambda: fingerprint(folder, env, python, image), timeout=PREPARE_TIMEOUT)
        except (TimeoutError, OSError) as error:
            log.info("worker %s: what it runs cannot be told apart: %s", self.uid, error)
            return
        self.telling.runs(found)

    async def _examine(self, look: str) -> None:
        """An agent that is new looks again: what it finds twice is told once."""
        try:
            self.history = diary.fold(diary.read(self.folder.diary))
            await self.telling.examine(look, self.processes())
        except Exception:
            log.exception("worker %s: it could not be looked at", self.uid)
        self._examined = look
        self._say()

    def _user(self) -> User | None:
        """Raises LookupError."""
        return self._around.node.users.of(self.assignment.namespace)

    def occupies(self) -> bool:
        """Whether something of it runs, or is about to."""
        return not self.history.over and (self.history.shim_pid is not None or self._link.connected)

    # -- sessions ------------------------------------------------------------------------------------

    def first_rank(self) -> int:
        return self.assignment.template.first_rank

    def start_beside(
        self, rank: int | None, argv: tuple[str, ...], env: dict[str, str], *, tty: bool, descriptors: list[int]
    ) -> bool:
        """A command in the environment and folder of the process that has `rank`. False when there is no shim."""
        processes, container = len(self.assignment.template.processes), self.assignment.template.how.container
        process = 0 if rank is None else min(max(0, rank - self.first_rank()), processes - 1)
        engine = self._around.node.engine
        if container is not None and engine is not None:
            argv = engine.enter(name_of(self.uid, process), argv, sorted(env), tty=tty)
        return self._link.send_with(descriptors, do="exec", process=process, argv=argv, env=env, tty=tty)

    def processes(self) -> set[int]:
        """Pids of everything that lives below its shim."""
        return descendants(self.history.shim_pid) if self.history.shim_pid is not None else set()

    # -- the task ------------------------------------------------------------------------------------

    async def run(self) -> None:
        while not self.forgotten:
            self._woken.clear()
            try:
                acted = await self._step()
            except Exception:
                log.exception("worker %s: this step failed and is tried again", self.uid)
                acted = False
                await asyncio.sleep(1.0)
                continue
            if not acted and not self.forgotten:
                await self._woken.wait()
        for task in (self._looking, self._printing):
            if task is not None:
                task.cancel()
        self._link.close()
        self.telling.close()

    async def _step(self) -> bool:
        """Look, act, tell. True when there may be more to do at once."""
        shim = await self._look()
        act = decide(self.wanted, self._seen(shim))
        log.debug("worker %s: wanted %s, shim %s: %s", self.uid, self.wanted, shim, act)
        if act is not Act.NOTHING:
            await self._act(act)
            if self.forgotten:
                return False
            self.history = diary.fold(diary.read(self.folder.diary))
        self._say()
        if self.history.over and not self.telling.concluded:
            await self._release()
            await self._epilog()
            await self.telling.conclude(self.history)
            self._say()
        return act in (Act.PREPARE, Act.SWEEP, Act.CONCLUDE) and not self._waits

    async def _look(self) -> bool:
        """Read the diary; reach the shim. True when there is one. Gone is only what has let go of its lock, and the
        diary is read after that."""
        present = self._link.connected or await self._link.wait(SHIM_START_TIMEOUT, self._shim_gone)
        self.history = diary.fold(diary.read(self.folder.diary))
        return present

    def _shim_gone(self) -> bool:
        with self.folder.alone() as alone:
            return alone

    def _seen(self, shim: bool) -> Seen:
        return Seen(
            history=self.history,
            shim=shim,
            refused=self._refused[0] if self._refused else None,
            settled=self.folder.acked.exists() and (self.telling.shipped() or self._patience_is_over()),
        )

    def _patience_is_over(self) -> bool:
        return self._unlisted_at is not None and self._around.clock.boottime() > self._unlisted_at + UNSHIPPED_PATIENCE

    async def _act(self, act: Act) -> None:
        self._waits = ""
        if act is Act.PREPARE:
            other = self._around.in_the_way(self.assignment)
            self._waits = f"waits until namespace {other}, which runs as the same Unix user, has left" if other else ""
            if other:
                asyncio.get_running_loop().call_later(WAIT, self.wake)
            else:
                await self._prepare()
        elif act is Act.GO:
            self._link.send(do="go")
        elif act is Act.REPLACE:
            self._link.send(do="stop", grace=0, why=diary.REPLACED)
        elif act is Act.STOP:
            await self._stop()
        elif act is Act.SWEEP:
            await self._sweep()
        elif act is Act.CONCLUDE:
            self._write("refused", problem="", message="stopped before it was started")
        elif act is Act.FORGET:
            self.forgotten = True
            self.folder.archive(self._around.archive)

    async def _stop(self) -> None:
        """A worker that is not listed any more is somebody else's by now: no grace."""
        if self._told_to_stop == self.wanted and self.history.stopped:
            return
        first = self._told_to_stop is None and not self._examined
        if first and self.assignment.failing and self.wanted.desired == "stop":
            await self.telling.take_stacks(self.processes())
        self._told_to_stop = self.wanted
        grace = self.assignment.grace if self.wanted.desired == "stop" else 0.0
        why = self.assignment.stop_reason if self.wanted.desired == "stop" else "not wanted any more"
        self._link.send(do="stop", grace=grace, why=why or "asked by the controller")

    async def _prepare(self) -> None:
        assignment = self.assignment
        self._refused = None
        self._say()
        try:
            await self._start_shim(assignment)
        except NotWanted:
            return
        except prepare.Refusal as refusal:
            log.warning("worker %s cannot be launched: %s: %s", self.uid, refusal.code, refusal.message)
            self._refused = (assignment.revision, refusal)
            if refusal.code != "PORT_BUSY":
                await self._end_waiting_shim()
                self._write("refused", problem=refusal.code, message=refusal.message)

    async def _end_waiting_shim(self) -> None:
        self._link.send(do="stop", grace=0, why="the worker cannot be launched")
        while not self._shim_gone():
            await asyncio.sleep(0.01)

    async def _start_shim(self, assignment: Assignment) -> None:
        """Raises Refusal."""
        around = self._around
        await around.leased.wait()
        await self._get_image()
        await self._prolog()
        deadline = self._deadline()
        try:
            await in_thread(
                lambda: prepare.prepare(self.folder, assignment, around.node, deadline), timeout=PREPARE_TIMEOUT
            )
        except TimeoutError:
            raise prepare.Refusal("WORKDIR_MISSING", f"{assignment.template.workdir} does not answer") from None
        argv = (sys.executable, "-I", "-S", str(SHIM), str(self.folder.path))
        try:
            _, exited = around.children.spawn(argv, stderr=self.folder.errors)
        except OSError as error:
            raise prepare.Refusal("LAUNCH_FAILED", f"the shim could not be started: {error}") from error
        try:
            await self.telling.first_stock()  # beside the shim's start, which takes as long
        finally:
            there = await self._link.wait(SHIM_START_TIMEOUT, exited.done) or self._link.connect()
        if assignment.index == 0 and self._printing is None:
            self._printing = asyncio.create_task(self._fingerprint(assignment))
        if not there:
            raise prepare.Refusal("LAUNCH_FAILED", f"the shim did not come up: {_last_line(self.folder.errors)}")

    async def _prolog(self) -> None:
        """Once for each worker, however often it is prepared. Raises Refusal."""
        around, hooks = self._around, self._around.hooks
        if not hooks.prolog or self._prologue_over:
            return
        env = environment("prolog", self.assignment, around.name, self._user())
        if error := await run_hook(around.children, hooks.prolog, env, hooks.timeout):
            raise prepare.Refusal("PROLOG_FAILED", error)
        self._prologue_over = True

    async def _release(self) -> None:
        """Until its devices are free, or patience is over."""
        mine = [one for one in self._around.node.inventory().devices if one.index in self.assignment.devices]
        starts = [one.start for one in self.history.started if one.start is not None]
        if not starts or self.history.boot_id != self._around.node.boot_id or all(one.virtual for one in mine):
            return
        if error := await until_free(lambda: held(mine, min(starts))):
            log.warning("worker %s: %s", self.uid, error)
            self.telling.condition(error, "DEVICE_HELD")

    async def _epilog(self) -> None:
        """Before its end is told, so that its devices are offered again only after it."""
        around, hooks = self._around, self._around.hooks
        if not hooks.epilog or not self.history.went:
            return
        with suppress(LookupError):
            env = environment("epilog", self.assignment, around.name, self._user())
            if error := await run_hook(around.children, hooks.epilog, env, hooks.timeout):
                log.warning("worker %s: %s", self.uid, error)
                self.telling.condition(error, "EPILOG_FAILED")

    async def _get_image(self) -> None:
        """Before anything else, so that the barrier waits for it on every node. Raises Refusal, and NotWanted when the
        worker is called off meanwhile."""
        container, engine = self.assignment.template.how.container, self._around.node.engine
        if container is None or engine is None:
            return
        pulling = asyncio.ensure_future(
            self._around.images.ready(engine, container.image, container.pull, self._progress)
        )
        try:
            while not pulling.done():
                self._woken.clear()
                woken = asyncio.ensure_future(self._woken.wait())
                await asyncio.wait((pulling, woken), return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                if self.wanted.desired in ("", "stop") and not pulling.done():
                    raise NotWanted
            pulling.result()
        except NoImage as error:
            raise prepare.Refusal("IMAGE_PULL", str(error)) from None
        finally:
            pulling.cancel()
            self._doing = ""

    def _progress(self, text: str) -> None:
        self._doing = text
        self._say()

    async def _remove_containers(self) -> None:
        """What the shim would have done. Raises OSError."""
        engine, template = self._around.node.engine, self.assignment.template
        if template.how.container is None or engine is None or not engine.daemon:
            return
        for number in range(len(template.processes)):
            while True:
                _, exited = self._around.children.spawn(engine.remove(name_of(self.uid, number)), home=True)
                if await exited == 0:
                    break
                await asyncio.sleep(WAIT)

    async def _sweep(self) -> None:
        groups = Groups(self.uid, make=False)

        def find() -> set[int]:
            members = groups.members()
            return sweep.remains(
                sweep.running(),
                marked=lambda pid: pid in members or sweep.belongs(pid, self.uid),
                started=self.history.started if self.history.boot_id == self._around.node.boot_id else (),
                agent=os.getpid(),
                known=self._around.children.known(),
            )

        killed = await sweep.sweep(find)
        await self._remove_containers()
        groups.close()
        log.warning("worker %s: its shim is gone; %d processes of it were left and are dead", self.uid, killed)
        self._write("vanished", message=f"its shim was gone; {killed} processes that were left have been killed")

    def _write(self, event: str, **fields: object) -> None:
        """Into the diary, which is ours only while no shim has the folder."""
        clock = self._around.clock
        with self.folder.alone() as alone:
            if alone:
                diary.append(self.folder.diary, event, at=clock.now(), boottime=clock.boottime(), **fields)

    def _deadline(self) -> float | None:
        fence = self.assignment.fence
        return None if fence is None else self._around.lease_from() + fence

    # -- what it says --------------------------------------------------------------------------------

    def _news(self) -> None:
        self._around.changed()

    def _say(self) -> None:
        report = self._describe(self.report.at)
        if report != self.report:
            self.report = report
            self.telling.version += 1
            self._around.changed()

    def _describe(self, since: float) -> WorkerReport:
        """`since`: when its phase began, where the diary does not say."""
        h = self.history
        report = WorkerReport(
            worker_uid=self.uid,
            attempt=self.assignment.attempt,
            epoch=self.assignment.epoch,
            phase=WorkerPhase.PREPARING,
            at=since,
            revision=h.revision or self.assignment.revision,
            exits=h.exits,
            examined=self._examined,
            message=h.message
            or self._waits
            or self._doing
            or (f"output is being lost: {h.log_error}" if h.log_error else ""),
            problem=h.problem,
        )
        if h.over:
            if self.telling.concluded:
                return replace(report, phase=WorkerPhase.EXITED, at=h.over_at)
            if h.running_at is None:
                return report
        if h.running_at is not None:
            return replace(report, phase=WorkerPhase.RUNNING, at=h.running_at)
        if self._link.connected and not h.stopped and h.ready_at is not None:
            return replace(report, phase=WorkerPhase.READY, at=h.ready_at)
        if self._refused is not None:
            revision, refusal = self._refused
            return replace(
                report,
                revision=revision,
                problem=refusal.code,
                message=refusal.message,
                busy_ports=refusal.busy_ports,
            )
        return replace(report, revision=self.assignment.revision)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")[:500]
