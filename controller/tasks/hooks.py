"""One call of a repair's hook: it happens at most once, whatever is delivered again.

The claim is an answer without a time in the repair's row, written before the hook is called. Who finds one leaves the hook
alone: it was called, or is being called, or its caller died in the middle, and then nobody knows what came of it;
the repair's own deadline decides.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import structlog
from msgspec.structs import replace

from controller.acts.repair_policy import RepairPolicy
from controller.state import Writer
from controller.state.store import Store
from controller.state.types import OutboxItem
from controller.tasks.webhook import TIMEOUTS
from muster.clock import Clock
from muster.protocol import TaskResult
from muster.states import REPAIR_TERMINAL

log = structlog.get_logger("muster.tasks")

COMMAND_SECONDS: Final = 50.0
"""Less than the time after which an item is sent again."""
LONGEST: Final = 500


def run_hook(
    store: Store,
    client: httpx2.Client,
    id: str,  # noqa: A002
    turn: float,
    *,
    clock: Clock,
    policy: RepairPolicy,
) -> None:
    """Raises StoreError only: then the item is sent again, and the claim says whether the hook was called."""
    item = store.outbox_item(id)
    if item is None or item.state != "due" or item.next_at != turn:
        return
    task = str(item.payload.get("task", ""))
    if store.transact(lambda w: _claim(w, item, task)):
        result = replace(_call(item.payload, client, policy), uid=task, at=clock.now())
        log.info("repair hook", hook=item.payload["hook"], node=item.payload["node"], ok=result.ok, said=result.message)
        store.transact(lambda w: _answer(w, item, task, result))
    store.outbox_done(id)


def _claim(w: Writer, item: OutboxItem, task: str) -> bool:
    """False when the step is over, or somebody has claimed it."""
    repair = w.repair(str(item.payload.get("repair", "")))
    if repair is None or repair.phase in REPAIR_TERMINAL or repair.task != task or repair.answer is not None:
        return False
    w.patch_repair(repair.uid, answer=TaskResult(uid=task, ok=False, message="the hook is being called"))
    return True


def _answer(w: Writer, item: OutboxItem, task: str, result: TaskResult) -> bool:
    repair = w.repair(str(item.payload["repair"]))
    if repair is None or repair.task != task:
        return False
    w.patch_repair(repair.uid, answer=result)
    return True


def _call(payload: Mapping[str, Any], client: httpx2.Client, policy: RepairPolicy) -> TaskResult:
    """What the hook is stands in this process's own settings: no row can make it run something else."""
    hook = policy.reboot if payload["hook"] == "reboot" else policy.ticket
    if not hook:
        return TaskResult(uid="", ok=False, message=f"no {payload['hook']} hook is configured here")
    try:
        ok, said = _post(hook, payload, client) if hook.startswith(("http://", "https://")) else _run(hook, payload)
    except (
        Exception
    ) as error:  # whatever a URL, a resolver, a receiver or a program can do wrong is this hook's failure
        ok, said = False, f"{type(error).__name__}: {error}"
    return TaskResult(uid="", ok=ok, message=said.strip()[:LONGEST])


def _post(url: str, payload: Mapping[str, Any], client: httpx2.Client) -> tuple[bool, str]:
    headers = {"Idempotency-Key": str(payload["task"])}
    with client.stream("POST", url, json=dict(payload), headers=headers, timeout=TIMEOUTS) as answer:
        return answer.is_success, f"the receiver answered {answer.status_code} {answer.reason_phrase}".rstrip()


def _run(command: str, payload: Mapping[str, Any]) -> tuple[bool, str]:
    """Its words are split as a shell would; there is no shell. Names stand in its environment."""
    names = {"MUSTER_NODE": "node", "MUSTER_NODE_ADDRESS": "address", "MUSTER_REPAIR_UID": "repair",
             "MUSTER_REPAIR_TASK": "task", "MUSTER_REASON": "message"}  # fmt: skip
    env = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    env |= {name: str(payload.get(key, "")).replace("\0", "") for name, key in names.items()}
    done = subprocess.run(
        shlex.split(command),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    said = lines[-1] if lines else "it said nothing"
    return done.returncode == 0, said if done.returncode == 0 else f"ended with status {done.returncode}: {said}"
