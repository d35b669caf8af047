"""The cluster's nodes as the planner sees them, kept between submissions: nodes change seldom."""

import threading
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.scheduling.types import GangRequest, Wait
from controller.state import Store

if TYPE_CHECKING:
    from controller.scheduling.index import ClusterIndex

KEPT: Final = 4096


class Ground:
    """The nodes at one time. Jobs are often alike, so what fits is kept by the shape of the gang."""

    def __init__(self, index: "ClusterIndex") -> None:
        self.index = index
        self._fits: dict[GangRequest, Wait | None] = {}

    def structural(self, request: GangRequest) -> Wait | None:
        """Why the gang would not fit even if nothing ran; None when it would."""
        from controller.scheduling.planner import fits_empty

        shape = replace(request, job_uid="", namespace="", name="", queued_at=0.0)
        if shape not in self._fits:
            if len(self._fits) >= KEPT:
                self._fits.clear()
            self._fits[shape] = fits_empty(self.index, shape)
        return self._fits[shape]


class Inventory:
    """Safe to share between threads. May be a moment behind: it only serves warnings and names of levels."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ground: Ground | None = None
        self._lock = threading.Lock()

    def changed(self) -> None:
        """A node or a queue has changed: read them anew when next asked."""
        self._ground = None

    def ground(self) -> Ground:
        """Reads the database when something has changed."""
        from controller.scheduling.index import build  # numpy takes its time, and a start should not

        with self._lock:
            ground = self._ground
            if ground is None:
                with self._store.read() as r:
                    ground = Ground(build([*r.nodes(), *r.queues()], revision=r.revision()))
                self._ground = ground
            return ground
