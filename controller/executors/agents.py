"""The executor for nodes with an agent.

The intent *is* the worker rows: the API processes follow the change log and push to each node what it
should have, and they write what the agents see back into the same rows. So nothing is left to do here but
to wake them.
"""

from collections.abc import Callable, Iterable

from controller.executors.base import Intent, Observation


class AgentsExecutor:
    """`wake` tells the API processes that there is something new to read."""

    name = "agents"

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def reconcile(self, intents: Iterable[Intent]) -> None:
        if any(True for _ in intents):
            self._wake()

    def observe(self) -> list[Observation]:
        return []
