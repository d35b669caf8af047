"""Sessions with this node's workers: the agent calls its server back, and what the worker says goes over that
connection, which is the session's own. It lives on when the agent's stream breaks."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from agents.config import AgentConfig
from agents.runtime.worker import Worker
from agents.talk import attach, command, forward
from agents.talk.refusal import Refusal
from muster import channels
from muster.protocol import Session

log = logging.getLogger("muster.agent")

MOST: Final = 128
REMEMBERED: Final = 1000
LARGEST_FRAME: Final = 2**20

Talk = Callable[[Worker, Session, ClientConnection], Awaitable[None]]
KINDS: Final[Mapping[str, Talk]] = {"exec": command.talk, "attach": attach.talk, "portforward": forward.talk}


class Sessions:
    """`find` gives the worker of a uid."""

    def __init__(self, config: AgentConfig, find: Callable[[str], Worker | None]) -> None:
        self._config, self._find = config, find
        self._tasks: set[asyncio.Task[None]] = set()
        self._had: deque[str] = deque(maxlen=REMEMBERED)

    def open(self, offer: Session) -> None:
        """Once for each offer, however often it comes."""
        if offer.uid in self._had:
            return
        self._had.append(offer.uid)
        task = asyncio.get_running_loop().create_task(self._run(offer), name=f"session {offer.uid}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, offer: Session) -> None:
        url = self._config.stream_url.removesuffix("stream") + f"sessions/{offer.uid}"
        try:
            token = self._config.token_file.read_text().strip()
            async with connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                max_size=LARGEST_FRAME,
                max_queue=4,
                write_limit=2 * channels.PIECE,
                compression=None,
                proxy=None,
                close_timeout=1,
            ) as socket:
                await self._talk(offer, socket)
        except (OSError, WebSocketException, TimeoutError) as error:
            log.warning("session %s (%s) of worker %s broke: %s", offer.uid, offer.kind, offer.worker_uid, error)

    async def _talk(self, offer: Session, socket: ClientConnection) -> None:
        try:
            worker, talk = self._find(offer.worker_uid), KINDS.get(offer.kind)
            if len(self._tasks) > MOST:
                raise Refusal("TOO_MANY_SESSIONS", f"this node has {MOST} open sessions already")
            if talk is None:
                raise Refusal("UNKNOWN_KIND", f"this agent knows no sessions of kind {offer.kind!r}")
            if worker is None or not worker.history.went or worker.history.over:
                raise Refusal("NOT_RUNNING", "the worker is not running on this node any more")
            log.info("session %s: %s with worker %s", offer.uid, offer.kind, offer.worker_uid)
            await talk(worker, offer, socket)
        except Refusal as refusal:
            await socket.send(channels.status(code=refusal.code, message=str(refusal)))
