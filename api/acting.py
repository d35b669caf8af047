"""Who the request at hand is from, for what it writes: set where it is authenticated, read where the transaction begins.

A route runs in a thread with a copy of the context of its request, so one request never sees another's.
"""

from contextvars import ContextVar

from controller.state import Actor

acting: ContextVar[Actor | None] = ContextVar("acting", default=None)
