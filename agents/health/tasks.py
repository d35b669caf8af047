"""What a repair asks of this node: each task once, whatever happens to the agent meanwhile.

A task's begin is on disk before it is acted upon. One that was begun by an agent that died is not begun again: it is
told as failed, and the repair goes on from there.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from msgspec.structs import replace

from muster.clock import Clock
from muster.conditions import Condition
from muster.protocol import NodeTask, TaskResult

log = logging.getLogger("muster.agent")


class Hands(Protocol):
    """What can be done to this node."""

    def keep_results(self, results: dict[str, TaskResult]) -> None: ...

    def reset(self, devices: tuple[int, ...]) -> Awaitable[str]: ...

    def check_anew(self, devices: tuple[int, ...], *, node: bool) -> Awaitable[tuple[Condition, ...]]: ...


class Tasks:
    def __init__(self, hands: Hands, *, clock: Clock, results: dict[str, TaskResult]) -> None:
        self._hands, self._clock = hands, clock
        self._results = {
            uid: one if one.at else _now(one, clock.now(), "the agent ended in the middle of it")
            for uid, one in results.items()
        }
        self._wanted: dict[str, NodeTask] = {}
        self._told: set[str] = set()
        self._news = asyncio.Event()

    def want(self, tasks: tuple[NodeTask, ...]) -> None:
        """Level-triggered: all that is asked of this node now."""
        self._wanted = {task.uid: task for task in tasks}
        gone = self._results.keys() - self._wanted.keys()
        self._results = {uid: one for uid, one in self._results.items() if uid not in gone}
        self._told -= gone
        self._news.set()

    def untold(self) -> tuple[TaskResult, ...]:
        return tuple(one for uid, one in self._results.items() if one.at and uid not in self._told)

    def told(self, results: tuple[TaskResult, ...]) -> None:
        self._told |= {one.uid for one in results}

    async def run(self) -> None:
        while True:
            self._news.clear()
            for task in list(self._wanted.values()):
                if task.uid not in self._results:
                    await self._once(task)
            await self._news.wait()

    async def _once(self, task: NodeTask) -> None:
        self._results[task.uid] = TaskResult(uid=task.uid, ok=False)
        self._hands.keep_results(dict(self._results))
        try:
            result = await self._do(task)
        except (OSError, TimeoutError, ValueError) as error:
            result = TaskResult(uid=task.uid, ok=False, message=f"{task.do}: {error or type(error).__name__}")
        self._results[task.uid] = replace(result, at=self._clock.now())
        log.info("task %s of a repair: %s", task.do, result.message or ("done" if result.ok else "failed"))
        self._hands.keep_results(dict(self._results))

    async def _do(self, task: NodeTask) -> TaskResult:
        match task.do:
            case "reset":
                trouble = await self._hands.reset(task.devices)
                return TaskResult(uid=task.uid, ok=not trouble, message=trouble or "the devices were reset")
            case "check":
                left = await self._hands.check_anew(task.devices, node=True)
                told = "; ".join(f"{one.where or 'node'}: {one.reason}" for one in left[:5])
                return TaskResult(uid=task.uid, ok=not left, message=told or "nothing is wrong")
            case other:
                return TaskResult(uid=task.uid, ok=False, message=f"this agent knows no task {other!r}")


def _now(one: TaskResult, now: float, why: str) -> TaskResult:
    return replace(one, at=now, message=why)
