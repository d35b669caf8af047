"""The executor for nodes with an agent.

The intent *is* the worker rows: the API processes follow the change log and push to each node what it
should have, and they write what the agents see back into the same rows. So there is nothing left to do.
"""

from collections.abc import Iterable

from controller.executors.base import Intent, Observation


class AgentsExecutor:
    """Complete by construction: a committed intent is a delivered one."""

    name = "agents"

    def reconcile(self, intents: Iterable[Intent]) -> None:
        """The API's follower delivers what the loop has committed."""

    def observe(self) -> list[Observation]:
        """What agents see is already in the store."""
        return []
