"""The books of the queues: who may use how much of each accelerator kind, and who uses it.

Queues are a tree. What a queue does not use of its nominal quota, others may borrow (up to its `lendLimit`), and it may
borrow beyond its own (up to its `borrowLimit`). So the load that a queue puts upon its parent is what it uses, or
what it does not lend if that is more; at the root the load of all must not exceed the quota of all. A queue without a
quota in its line is outside the books: it is never refused, and nothing of it is lent.

The share of a queue is what it borrows, as a part of all there is, by its weight: the largest over the kinds.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from controller.records import QueueRecord
from controller.scheduling.types import GangRequest

ROOT = ""

Demand = Mapping[str, int]


class Account(Struct):
    """One queue of the tree, by kind: its own quota, that of its whole subtree, and its load."""

    parent: str | None
    weight: float
    nominal: dict[str, int]
    borrow: dict[str, int]
    lend: dict[str, int]
    subtree: dict[str, int]
    load: dict[str, int]

    def upward(self, kind: str) -> int:
        """What the parent sees."""
        load = self.load.get(kind, 0)
        if kind in self.lend:
            return max(load, self.subtree.get(kind, 0) - self.lend[kind])
        return load


class Book:
    """Mutable: a plan books in thought."""

    def __init__(self, queues: Mapping[str, QueueRecord]) -> None:
        self.accounts = _accounts(queues)
        self._lines = {name: _line(self.accounts, name) for name in self.accounts}
        for name in sorted(self.accounts, key=lambda name: -len(self._lines[name])):
            account = self.accounts[name]
            if account.parent is not None:
                for kind in account.lend:
                    parent = self.accounts[account.parent]
                    parent.load[kind] = parent.load.get(kind, 0) + account.upward(kind)

    def counts(self, queue: str) -> bool:
        """Whether a queue is in the books."""
        return queue in self.accounts

    def line(self, queue: str) -> tuple[str, ...]:
        """A queue and those above it."""
        return self._lines.get(queue, ())

    def has_children(self, queue: str) -> bool:
        return any(account.parent == queue for account in self.accounts.values())

    def kinds(self) -> Mapping[str, int]:
        """All quota by kind."""
        return self.accounts[ROOT].subtree

    def add(self, queue: str, demand: Demand, sign: int = 1) -> None:
        if queue not in self.accounts:
            return
        for kind, amount in demand.items():
            change = sign * amount
            for name in self._lines[queue]:
                account = self.accounts[name]
                before = account.upward(kind)
                account.load[kind] = account.load.get(kind, 0) + change
                change = account.upward(kind) - before

    def used(self, queue: str, kind: str) -> int:
        account = self.accounts.get(queue)
        return account.load.get(kind, 0) if account else 0

    def nominal(self, queue: str, kind: str) -> int:
        account = self.accounts.get(queue)
        return account.subtree.get(kind, 0) if account else 0

    def borrowed(self, queue: str, kind: str) -> int:
        return max(0, self.used(queue, kind) - self.nominal(queue, kind))

    def borrows(self, queue: str) -> bool:
        return queue in self.accounts and any(self.borrowed(queue, kind) for kind in self.kinds())

    def short(self, queue: str, demand: Demand) -> tuple[str, str, int, int] | None:
        """Where a demand is more than the books allow: (the queue whose limit it is, the kind, what would be used,
        what may be); None when it is allowed."""
        if queue not in self.accounts:
            return None
        for kind, amount in demand.items():
            if kind not in self.kinds():
                continue
            change = amount
            for name in self._lines[queue]:
                account = self.accounts[name]
                after = account.load.get(kind, 0) + change
                limit = account.subtree.get(kind, 0)
                if name == ROOT or kind in account.borrow:
                    limit += account.borrow.get(kind, 0)
                    if after > limit:
                        return name, kind, after, limit
                change = _upward(account, kind, after) - account.upward(kind)
        return None

    def within_nominal(self, queue: str, demand: Demand) -> bool:
        """Whether the queue would still be inside its own quota."""
        return queue in self.accounts and all(
            self.used(queue, kind) + amount <= self.nominal(queue, kind)
            for kind, amount in demand.items()
            if kind in self.kinds()
        )

    def share(self, queue: str, demand: Demand | None = None, beside: str | None = None) -> float:
        """The share of a queue, with `demand` added. `beside` another queue it is that of the two branches that meet
        in their nearest common ancestor."""
        if queue not in self.accounts or queue == ROOT:
            return 0.0
        name = queue if beside is None else self._branch(queue, beside)
        account = self.accounts[name]
        shares = [0.0]
        for kind, total in self.kinds().items():
            over = self.borrowed(name, kind)
            if demand and kind in demand:
                over = max(0, self.used(name, kind) + demand[kind] - self.nominal(name, kind))
            shares.append(over / (max(total, 1) * max(account.weight, 1e-9)))
        return max(shares)

    def _branch(self, queue: str, beside: str) -> str:
        others = set(self._lines.get(beside, ()))
        inner = [name for name in self._lines[queue] if name not in others]
        return inner[-1] if inner else queue


def demand_of(request: GangRequest, option: int, workers: int | None = None) -> dict[str, int]:
    """Devices by kind of a gang, by its kind's place in the manifest."""
    if request.roles:
        found: dict[str, int] = {}
        for role in request.roles:
            if role.device is not None:
                found[role.device.type] = found.get(role.device.type, 0) + role.device.count * role.workers
        return found
    device, wanted = request.options[option]
    if device is None:
        return {}
    if request.charge is not None:
        return {device.type: request.charge}
    return {device.type: device.count * (wanted if workers is None else workers)}


def _upward(account: Account, kind: str, load: int) -> int:
    if kind in account.lend:
        return max(load, account.subtree.get(kind, 0) - account.lend[kind])
    return load


def _accounts(queues: Mapping[str, QueueRecord]) -> dict[str, Account]:
    root = Account(None, 1.0, {}, {}, {}, {}, {})
    accounts = {ROOT: root}
    lines = {name: _ancestors(queues, name) for name in queues}
    counted = {name for name, line in lines.items() if any("quota" in queues[other].spec for other in line)}
    for name in sorted(counted):
        spec: Mapping[str, Any] = queues[name].spec
        parent = spec.get("parent")
        accounts[name] = Account(
            parent=parent if parent in counted and parent in lines[name] else ROOT,
            weight=float(spec.get("weight", 1)),
            nominal=dict(spec.get("quota") or {}),
            borrow=dict(spec.get("borrowLimit") or {}),
            lend=dict(spec.get("lendLimit") or {}),
            subtree={},
            load={},
        )
    for name in sorted(counted):
        for ancestor in _line(accounts, name):
            for kind, amount in accounts[name].nominal.items():
                subtree = accounts[ancestor].subtree
                subtree[kind] = subtree.get(kind, 0) + amount
    return accounts


def _ancestors(queues: Mapping[str, QueueRecord], name: str) -> tuple[str, ...]:
    """A queue and those above it; a circle ends where it closes."""
    line: list[str] = []
    at: str | None = name
    while at is not None and at in queues and at not in line:
        line.append(at)
        at = queues[at].spec.get("parent")
    return tuple(line) if at is None or at not in line else (name,)


def _line(accounts: Mapping[str, Account], name: str) -> tuple[str, ...]:
    line: list[str] = [name]
    while (parent := accounts[line[-1]].parent) is not None and parent not in line:
        line.append(parent)
    return tuple(line)
