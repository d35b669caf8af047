"""The Celery application: a Redis broker that may lose everything, because the outbox loses nothing."""

from functools import lru_cache
from typing import Final

from celery import Celery

TASKS: Final = {"webhook": "muster.webhook", "repair": "muster.repair", "mail": "muster.mail"}
"""The task that does an outbox item of each kind."""

VISIBILITY_SECONDS: Final = 60.0
"""An item that was handed on and is not done by then is sent again."""

REPLY_SECONDS: Final = 1.0
"""How long a sender waits for Redis."""

THREADS: Final = 4


@lru_cache(maxsize=4)
def make_app(redis_url: str) -> Celery:
    """The application of sender and worker. Connects only when first used."""
    app = Celery("muster", broker=redis_url, set_as_current=False)  # type: ignore[no-untyped-call]
    app.conf.update(
        task_default_queue="muster",
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_publish_retry=False,
        worker_pool="threads",
        worker_concurrency=THREADS,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_heartbeat=0,
        broker_connection_timeout=REPLY_SECONDS,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_SECONDS,
            "socket_connect_timeout": REPLY_SECONDS,
            "socket_timeout": 2 * REPLY_SECONDS,
            "socket_keepalive": True,
            # These are a sender's: it gives up at once, and the loop sends later. A worker tries for ever.
            "max_retries": 0,
            "interval_start": 0,
            "interval_step": 0,
        },
    )
    return app
