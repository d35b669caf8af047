"""What the jobs of one user may hold of a queue at a time."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from controller.scheduling.book import demand_of
from controller.scheduling.crews import charge
from controller.scheduling.types import GangRequest, Wait
from muster.reasons import Waiting

if TYPE_CHECKING:
    from controller.scheduling.cycle import Cycle


class Caps:
    """Devices by (queue, user, kind) of what runs and of what this plan has begun. Counted when a queue with a limit is asked for."""

    def __init__(self, cycle: "Cycle") -> None:
        self._cycle = cycle
        self._limits: dict[str, dict[str, Any]] = {
            name: limit for name, queue in cycle.index.queues.items() if (limit := queue.spec.get("userLimit"))
        }
        self._held: Counter[tuple[str, str, str]] | None = None

    def __bool__(self) -> bool:
        return bool(self._limits)

    def refusal(self, request: GangRequest) -> Wait | None:
        """Why the gang must wait for others of its user; None where there is room under the limit."""
        limits = self._limits.get(request.queue)
        if not limits:
            return None
        user, held = self._user(request), self._counted()
        short = []
        for option in range(1 if request.roles else len(request.options)):
            over = [
                (kind, held[request.queue, user, kind], amount, limits[kind])
                for kind, amount in demand_of(request, option, request.minimum).items()
                if kind in limits and held[request.queue, user, kind] + amount > limits[kind]
            ]
            if not over:
                return None
            short += over
        kind, used, amount, limit = short[0]
        who = f"user {user}" if user else "its user"
        message = (
            f"{who} holds {used} {kind} of queue {request.queue}; {amount} more would be {used + amount} of {limit}"
        )
        return Wait(
            job_uid=request.job_uid,
            code=Waiting.QUOTA,
            message=message,
            helps="other jobs of the same user end",
            numbers={"userUsed": used, "userLimit": limit, "needed": amount},
        )

    def allows(self, request: GangRequest, demand: Mapping[str, int]) -> bool:
        limits = self._limits.get(request.queue)
        if not limits:
            return True
        user, held = self._user(request), self._counted()
        return all(held[request.queue, user, kind] + n <= limits[kind] for kind, n in demand.items() if kind in limits)

    def add(self, request: GangRequest, demand: Mapping[str, int]) -> None:
        if request.queue in self._limits:
            for kind, amount in demand.items():
                self._counted()[request.queue, self._user(request), kind] += amount

    def _user(self, request: GangRequest) -> str:
        job = self._cycle.index.jobs.get(request.job_uid)
        return job.user if job else ""

    def _counted(self) -> Counter[tuple[str, str, str]]:
        if self._held is None:
            self._held = Counter()
            for crew in self._cycle.crews.values():
                if crew.request.queue in self._limits:
                    for kind, amount in charge(self._cycle.index, crew, crew.workers).items():
                        self._held[crew.request.queue, self._user(crew.request), kind] += amount
        return self._held
