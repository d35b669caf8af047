"""The Queue: where jobs wait, and what they may use."""

from typing import Literal

from pydantic import Field

from muster.resources.meta import API_VERSION, Metadata, Model
from muster.resources.quantities import Duration


class QueueSpec(Model):
    """Thin for now: an order of its own and a default limit, so that starts can be dated."""

    weight: int = Field(default=1, ge=0, le=1_000_000)
    default_time_limit: Duration | None = None
    stopped: bool = False
    """A stopped queue accepts jobs and starts none."""


class Queue(Model):
    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["Queue"] = "Queue"
    metadata: Metadata
    spec: QueueSpec = Field(default_factory=QueueSpec)
