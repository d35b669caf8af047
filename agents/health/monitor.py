"""Health of this node: the kernel's lines as they come, the checks in their periods, and what follows from both.

What is seen (devices, NICs) and what is wrong (conditions) are told to the controller by `agents.node`; evidence goes to the
workers that have the device. Nothing here blocks the agent: checks run in a process of their own.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from agents.config import AgentConfig
from agents.devices import inventory, virtual
from agents.health import judging, kernel_watch
from agents.health.book import Book
from agents.health.check import Answer, Outcome, Request, Scene, wrong
from agents.health.checks.registry import BY_NAME, CHECKS
from agents.health.ear import LOOK, Deaf, listen
from agents.health.kernel_log import KernelLog
from agents.health.prober import Prober, command
from agents.health.state import Remembered, load, save
from agents.health.tasks import Tasks
from agents.runtime.children import Children
from muster import faults
from muster.clock import Clock
from muster.conditions import Condition
from muster.evidence import Evidence, Source
from muster.inspection import FoundEvent, Inspection
from muster.protocol import Inventory, NodeTask, TaskResult

log = logging.getLogger("muster.agent")

KEEP: Final = 15.0
"""Seconds after which a cursor that has moved is kept, though nothing followed from it."""
SKEW: Final = 1.25
"""Seconds by which this clock may differ from the API's: a quarter of a lease's renewal in production."""
PATIENCE: Final = 45.0
"""Seconds for one run of the checks, with all tools that hang."""
HOLDS: Final = {"pcie-errors": 600.0, "out-of-memory": 600.0, "host-memory": 600.0, "rdma-ports": 30.0}
"""Checks that see only what is new remember it for so many seconds."""

Witness = Callable[[Evidence], None]


class Monitor:
    """`held` tells which devices workers have; `witness` hears every kernel event with its time and what follows;
    `changed` is called whenever there is something to tell."""

    def __init__(
        self,
        config: AgentConfig,
        have: Inventory,
        boot_id: str,
        *,
        clock: Clock,
        children: Children,
        held: Callable[[], Mapping[int, str]],
        witness: Witness,
        changed: Callable[[], None],
    ) -> None:
        self._config, self._clock, self._children = config, clock, children
        self._held, self._witness, self._changed = held, witness, changed
        self._path = config.directory / "health.json"
        before = load(self._path)
        self._fresh_boot = before.boot_id not in ("", boot_id)
        self._kept = Remembered(
            boot_id=boot_id,
            cursor=before.cursor,
            latched=() if self._fresh_boot else before.latched,
            known=before.known,
            devices=before.devices,
            nics=before.nics,
            results=before.results,
            memory={} if self._fresh_boot else before.memory,
        )
        self._book = Book(self._kept.latched)
        self._kernel = KernelLog()
        self._prober = Prober(config.directory, children)
        self._virtual = bool(config.virtual_devices)
        self._given = have if self._virtual else replace(have, devices=before.devices, nics=before.nics)
        self._found: Inspection | None = None
        self._looks = 0
        self._due = {check.name: 0.0 for check in CHECKS if self._wanted(check.virtual)}
        self._broken = faults.Faults()
        self._dirty, self._saved_at = True, 0.0
        self._skewed = False
        self._look_now = asyncio.Event()
        self._cursor_moved = False
        self.tasks = Tasks(self, clock=clock, results=self._kept.results)
        if self._virtual:
            self._kept.known = inventory.known_of(have)
        self._told: tuple[Inventory, tuple[Condition, ...]] | None = None

    def _wanted(self, virtual_too: bool) -> bool:
        return self._config.health != "off" and (virtual_too or not self._virtual or self._config.health == "all")

    # -- what there is to tell -----------------------------------------------------------------------

    def conditions(self) -> tuple[Condition, ...]:
        return self._book.conditions()

    def inventory(self) -> Inventory:
        """Devices with a condition that keeps new work away are not healthy, and say why."""
        return inventory.compose(self._given, self._found, self._kept.known, self.conditions(), self._virtual)

    def news(self) -> tuple[Inventory | None, tuple[Condition, ...] | None, tuple[TaskResult, ...]]:
        """What has changed since the last `told`."""
        have, wrong_now, results = self.inventory(), self.conditions(), self.tasks.untold()
        if self._told is None:
            return have, wrong_now, results
        return (
            have if have != self._told[0] else None,
            wrong_now if _outlines(wrong_now) != _outlines(self._told[1]) else None,
            results,
        )

    def greeted(self) -> tuple[Inventory, tuple[Condition, ...]]:
        """What a hello says; it counts as told, since a hello that is not taken is said again."""
        self._told = (self.inventory(), self.conditions())
        return self._told

    def pending(self) -> bool:
        if not self._dirty or self._told is None:
            return False
        self._dirty = any(one not in (None, ()) for one in self.news())
        return self._dirty

    def told(
        self, have: Inventory | None, wrong_then: tuple[Condition, ...] | None, results: tuple[TaskResult, ...]
    ) -> None:
        """This is committed at the controller."""
        if self._told is not None:
            self._told = (have or self._told[0], self._told[1] if wrong_then is None else wrong_then)
        self.tasks.told(results)

    # -- running -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. Health that fails must not take the agent with it."""
        jobs = (self._watch_kernel, self._check, self.tasks.run)
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(self._for_ever(job))

    async def first_look(self) -> None:
        """Before the controller is told of this node, so that it never seems to have nothing. Where something was found
        before, that is said until the next look."""
        if not self._virtual and not self._kept.devices:
            await self._probe([])

    def close(self) -> None:
        self._prober.close()

    async def _for_ever(self, job: Callable[[], Any]) -> None:
        while True:
            try:
                await job()
            except Exception:
                log.exception("health: a part failed and begins again")
            await asyncio.sleep(5.0)

    async def _watch_kernel(self) -> None:
        wanted = self._config.kernel_log
        if wanted == "auto" and self._virtual:
            wanted = str(self._config.directory / faults.KERNEL_LOG)
        try:
            await listen(wanted, self._kept.cursor, self._take, fresh_boot=self._fresh_boot, children=self._children)
        except Deaf as error:
            found = [wrong("CheckFailed", "KernelLogUnreadable", f"the kernel's log cannot be read: {error}")]
            self._book.found("kernel-log", found, self._clock.now())
            self._tell()
            await asyncio.Event().wait()

    def _bear_witness(self, event: FoundEvent, at: float, condition: Condition | None) -> None:
        device = judging.device_of(event, self._kept.known)
        data = {"code": event.code, "severity": event.severity, "action": event.action or ""}
        if condition is not None:
            data["remedy"] = condition.remedy
        self._witness(Evidence(source=Source.KERNEL, at=at, device=device, text=event.text[:1000], data=data))

    def _take(self, source: kernel_watch.Source) -> None:
        """Every line once: what follows from it and how far was read are kept in one step."""
        news = False
        for line in source.lines():
            for event in self._kernel.feed(line.text):
                judged = judging.judge(event, line.at, self._kept.known)
                condition = self._book.say(judged) if judged is not None else None
                news |= condition is not None
                self._bear_witness(event, line.at, condition)
            self._kept.cursor, self._cursor_moved = line.cursor, True
        if self._kept.cursor is None and source.cursor is not None:
            self._kept.cursor, news = source.cursor, True  # what comes while the agent is away is read later
        if news:
            self._save()
            self._tell()
        elif self._cursor_moved and self._clock.boottime() - self._saved_at > KEEP:
            self._save()

    def heard_time(self, at: float, *, on_the_way: float) -> None:
        """The API's time, in an answer to what was sent `on_the_way` seconds ago: how far this clock is off at least."""
        off = self._clock.now() - at
        least = max(0.0, abs(off) - max(0.0, on_the_way))
        skewed = least > SKEW
        if skewed != self._skewed:
            self._skewed = skewed
            message = f"this clock is {'ahead of' if off > 0 else 'behind'} the controller's by {abs(off):.1f} s"
            found = [wrong("Clock", "ClockSkew", message)] if skewed else []
            self._book.found("clock-skew", found, self._clock.now())
            self._tell()

    def look_now(self) -> None:
        """All checks are due at once."""
        self._due = dict.fromkeys(self._due, 0.0)
        self._look_now.set()

    async def _check(self) -> None:
        while True:
            self._look_now.clear()
            await self.check_due()
            pause = LOOK if self._virtual else max(0.2, min(self._due.values(), default=60.0) - self._clock.boottime())
            with suppress(TimeoutError):
                async with asyncio.timeout(min(60.0, pause)):
                    await self._look_now.wait()

    async def check_due(self) -> None:
        """Those whose time has come; on virtual devices also whenever they were broken or mended."""
        now = self._clock.boottime()
        if self._virtual:
            broken = faults.read(self._config.directory)
            if broken != self._broken:
                self._broken, self._looks = broken, 0
                self._due = dict.fromkeys(self._due, 0.0)
        due = [name for name, at in self._due.items() if at <= now]
        if not due:
            return
        for name in due:
            hurry = self._virtual and (self._broken.devices or self._broken.ports)
            self._due[name] = now + (1.0 if hurry else BY_NAME[name].period)
        here = [name for name in due if self._virtual and BY_NAME[name].virtual]
        if here:
            self._look_at_virtual(here)
        if away := [name for name in due if name not in here]:
            await self._probe(away)
        self._book.expire(self._clock.now())
        self._tell()

    def _look_at_virtual(self, names: list[str]) -> None:
        devices = self._given.devices
        self._found = virtual.look(devices, self._broken, self._looks)
        self._looks += 1
        scene = Scene(
            now=self._clock.now(), found=self._found, known=self._kept.known, expected=self._config.expected_devices,
            held=tuple(self._held()), folder=str(self._config.directory),
        )  # fmt: skip
        for name in names:
            memory = self._kept.memory.setdefault(name, {})
            conditions = BY_NAME[name].run(scene, memory)
            self._take_outcome(Outcome(check=name, conditions=tuple(conditions), memory=memory))

    async def _probe(self, names: list[str]) -> None:
        request = Request(
            checks=tuple(names),
            look=self._how_to_look(names),
            now=self._clock.now(),
            known=self._kept.known,
            expected=self._config.expected_devices,
            held=tuple(self._held()),
            folder=str(self._config.directory),
            plugins=self._config.plugins,
            memory={name: self._kept.memory.get(name, {}) for name in names},
        )
        try:
            answer = await self._prober.ask(request, PATIENCE)
        except (OSError, TimeoutError) as error:
            what = "hangs and was left behind" if isinstance(error, TimeoutError) else f"cannot be done: {error}"
            trouble = wrong("CheckFailed", "ChecksHang", f"looking at the machine {what}")
            self._book.found("probe", [trouble], self._clock.now())
            return
        self._book.found("probe", [], self._clock.now())
        for line in answer:
            self._take_answer(line)
        self._save()

    def _how_to_look(self, names: list[str]) -> Literal["all", "ports", "none"]:
        """Devices are asked with their tools, which costs something; ports are only read."""
        if self._virtual:
            return "none"
        if not names or any(name.startswith("device-") for name in names):
            return "all"
        return "ports" if "rdma-ports" in names else "none"

    def _take_answer(self, line: bytes) -> None:
        try:
            answer = msgspec.json.decode(line, type=Answer)
        except ValueError as error:
            log.warning("health: an answer that is not understood: %s", error)
            return
        if answer.seen is not None:
            seen = {device.index for device in answer.seen.devices}
            known = inventory.trimmed(answer.known, self._config.expected_devices, seen)
            self._found, self._kept.known = answer.seen, known
        if answer.ports is not None and self._found is not None:
            rails = {nic.name: nic.rail for nic in self._found.nics}
            told = {nic.name for nic in answer.ports}
            for nic in answer.ports:
                nic.rail = rails.get(nic.name)
            self._found.nics = answer.ports + [nic for nic in self._found.nics if nic.name not in told]
        if answer.outcome is not None:
            self._take_outcome(answer.outcome)

    def _take_outcome(self, outcome: Outcome) -> None:
        self._kept.memory[outcome.check] = outcome.memory
        now = self._clock.now()
        if outcome.trouble:
            message = f"check {outcome.check}: {outcome.trouble}"
            trouble = wrong("CheckFailed", "CheckFailed", message, "info", subject=outcome.check)
            self._book.found(f"{outcome.check}!", [trouble], now)
            return
        self._book.found(f"{outcome.check}!", [], now)
        for one in self._book.found(outcome.check, outcome.conditions, now, HOLDS.get(outcome.check, 0.0)):
            if one.blocking:
                data = {"code": one.reason, "severity": one.severity, "remedy": one.remedy}
                self._witness(Evidence(source=Source.DEVICE, at=now, device=one.device, text=one.message, data=data))

    # -- tasks of a repair ---------------------------------------------------------------------------

    def do(self, tasks: tuple[NodeTask, ...]) -> None:
        self.tasks.want(tasks)

    def keep_results(self, results: dict[str, TaskResult]) -> None:
        """Raises OSError: then the task is not begun."""
        self._kept.results = results
        save(self._path, self._kept)
        self._tell()

    async def reset(self, devices: tuple[int, ...]) -> str:
        """Empty when done; else why not."""
        held = sorted(set(devices) & set(self._held()))
        if held:
            return f"device {', '.join(map(str, held))} is held by a worker"
        if self._virtual:
            faults.mend(self._config.directory, devices)
        else:
            request = self._config.directory / "reset-request.json"
            names = [one for one in self._kept.known if one.index in devices]
            request.write_bytes(msgspec.json.encode(names))
            answer = await self._children.output(command("resetting", "main(sys.argv[1])", request), timeout=300.0)
            if answer.strip() != b"ok":
                return answer.decode(errors="replace").strip()[:500] or "the reset said nothing"
        self._book.forget(devices)
        self._kernel = KernelLog()  # what it remembers of lost devices is over, too
        self._save()
        return ""

    async def check_anew(self, devices: tuple[int, ...], *, node: bool) -> tuple[Condition, ...]:
        """Forget what the kernel said, look at everything, and tell what still blocks."""
        self._book.forget(devices, node=node)
        self.look_now()
        await self.check_due()
        self._save()
        self._tell()
        return tuple(one for one in self.conditions() if one.blocking)

    # ------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._dirty = True
        self._changed()

    def _save(self) -> None:
        self._kept.latched = self._book.latched()
        if not self._virtual:
            offered = self.inventory()
            self._kept.devices, self._kept.nics = offered.devices, offered.nics
        try:
            save(self._path, self._kept)
            self._saved_at, self._cursor_moved = self._clock.boottime(), False
        except OSError as error:
            log.warning("health: %s cannot be kept: %s", self._path, error)


def _outlines(conditions: tuple[Condition, ...]) -> list[object]:
    """What is worth a word to the controller: not that it is still so, and a count only by its magnitude."""
    return [(one.key, one.severity, one.message, one.count.bit_length()) for one in conditions]
