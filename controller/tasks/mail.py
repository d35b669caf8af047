"""One mail: an idempotent step on one outbox item, through the server that operators name.

`MUSTER_SMTP_URL`: smtp://[USER:PASSWORD@]HOST[:PORT][?from=ADDRESS], or smtps:// for TLS from the start. With smtp:// TLS
is used where the server offers it, and always before a password is sent.
"""

import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from msgspec import Struct

from controller.state.store import Store
from controller.tasks.backoff import Backoff, delay
from muster.clock import Clock

log = structlog.get_logger("muster.tasks")

SECONDS: Final = 20.0
LONGEST_ERROR: Final = 500


class Server(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = ""
    sender: str = "muster@localhost"


def server_from(environ: Mapping[str, str]) -> Server | None:
    """None when there is none. Raises ValueError naming the variable, and never the password."""
    text = environ.get("MUSTER_SMTP_URL")
    if not text:
        return None
    try:
        url = urlsplit(text)
        tls, port = url.scheme == "smtps", url.port
    except ValueError:
        url, tls, port = urlsplit(""), False, None
    if url.scheme not in ("smtp", "smtps") or not url.hostname:
        raise ValueError("MUSTER_SMTP_URL: expected smtp://[USER:PASSWORD@]HOST[:PORT][?from=ADDRESS] or smtps://...")
    sender = parse_qs(url.query).get("from", ["muster@localhost"])[0]
    return Server(host=url.hostname, port=port or (465 if tls else 25), tls=tls, user=unquote(url.username or ""),
                  password=unquote(url.password or ""), sender=sender)  # fmt: skip


def send(
    store: Store,
    server: Server | None,
    id: str,  # noqa: A002
    turn: float,
    *,
    clock: Clock,
    backoff: Backoff,
) -> None:
    """Raises StoreError only. An item that is done, dead, gone or due at another time than `turn` is left alone."""
    item = store.outbox_item(id)
    if item is None or item.state != "due" or item.next_at != turn:
        return
    try:
        if server is None:
            raise ValueError("no mail server is set here (MUSTER_SMTP_URL)")
        _deliver(server, _message(server, item.payload, item.key))
    except Exception as error:  # whatever a server or an address can do wrong is this item's failure
        why = f"{type(error).__name__}: {error}"
        dead = store.outbox_failed(id, why[:LONGEST_ERROR], clock.now() + delay(backoff, item.tries + 1))
        log.warning("mail failed", id=id, key=item.key, failures=item.tries + 1, given_up=dead, error=why)
        return
    store.outbox_done(id)
    log.info("mail sent", id=id, key=item.key)


def _message(server: Server, payload: Mapping[str, Any], key: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = server.sender, ", ".join(payload["to"])
    message["Subject"] = " ".join(f"[muster] {payload['subject']}".split())
    message["Message-ID"] = make_msgid(
        idstring="".join(c if c.isalnum() else "." for c in key), domain="muster.invalid"
    )
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(str(payload["text"]))
    return message


def _deliver(server: Server, message: EmailMessage) -> None:
    context = ssl.create_default_context()
    if server.tls:
        with smtplib.SMTP_SSL(server.host, server.port, timeout=SECONDS, context=context) as smtp:
            _hand_over(smtp, server, message)
        return
    with smtplib.SMTP(server.host, server.port, timeout=SECONDS) as smtp:
        smtp.ehlo()
        if smtp.has_extn("starttls"):
            smtp.starttls(context=context)
            smtp.ehlo()
        elif server.user:
            raise ValueError("the mail server offers no TLS, so no password is sent to it")
        _hand_over(smtp, server, message)


def _hand_over(smtp: smtplib.SMTP, server: Server, message: EmailMessage) -> None:
    if server.user:
        smtp.login(server.user, server.password)
    smtp.send_message(message)
