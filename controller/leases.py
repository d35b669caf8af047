"""Who is silent: judged by when this process saw a node's renewal count change, on its own CLOCK_BOOTTIME.

No clock of another machine and no wall clock enters, so that a jump of either moves nothing. A node that this
leader has never seen renew begins with one full lease.
"""

from collections.abc import Iterable

from msgspec import Struct

from controller.records import LeaseRecord, NodeRecord, WorkerRecord
from muster.protocol import Lease
from muster.states import NodePhase


class Sight(Struct):
    """What this leader saw of one node: the count, when it changed, and whether it has changed at all."""

    renewals: int
    at: float
    renewed: bool = False


class LeaseWatch:
    """Renewal counts and when they changed, for one term of one leader."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._seen: dict[str, Sight] = {}

    def observe(self, leases: Iterable[LeaseRecord], nodes: Iterable[str], boottime: float) -> None:
        """Take in the lease rows as they are now; the first look at a node starts one full lease."""
        for lease in leases:
            known = self._seen.get(lease.node)
            if known is None:
                self._seen[lease.node] = Sight(lease.renewals, boottime)
            elif known.renewals != lease.renewals:
                self._seen[lease.node] = Sight(lease.renewals, boottime, True)
        for node in nodes:
            self._seen.setdefault(node, Sight(-1, boottime))

    def silence(self, node: str, boottime: float) -> float:
        """Seconds since the last renewal that was seen (0 for a node never looked at)."""
        sight = self._seen.get(node)
        return boottime - sight.at if sight else 0.0

    def phase(self, node: NodeRecord, boottime: float) -> NodePhase:
        """The phase that the silence of the node means. Only a renewal brings a silent node back."""
        silence = self.silence(node.name, boottime)
        if silence >= self._lease.fence + self._lease.margin:
            return NodePhase.LOST
        if silence >= self._lease.unknown:
            return NodePhase.LOST if node.phase is NodePhase.LOST else NodePhase.UNKNOWN
        sight = self._seen.get(node.name)
        return NodePhase.READY if sight and sight.renewed else node.phase

    def fenced(self, worker: WorkerRecord, boottime: float) -> bool:
        """Its own fence and the margin have passed, so its shim has killed its ranks. Never, where the job said never."""
        return worker.fence is not None and self.silence(worker.node, boottime) >= worker.fence + self._lease.margin
