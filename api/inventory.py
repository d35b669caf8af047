"""The cluster's nodes as the planner sees them, kept between submissions: nodes change seldom."""

import threading
from typing import TYPE_CHECKING

from controller.state import Store

if TYPE_CHECKING:
    from controller.scheduling.index import ClusterIndex


class Inventory:
    """Safe to share between threads. May be a moment behind: it only serves warnings and names of levels."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._index: ClusterIndex | None = None
        self._lock = threading.Lock()

    def changed(self) -> None:
        """A node or a queue has changed: read them anew when next asked."""
        self._index = None

    def index(self) -> "ClusterIndex":
        from controller.scheduling.index import build  # numpy takes its time, and a start should not

        with self._lock:
            index = self._index
            if index is None:
                with self._store.read() as r:
                    index = build([*r.nodes(), *r.queues()], revision=r.revision())
                self._index = index
            return index
