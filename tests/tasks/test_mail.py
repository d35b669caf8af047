"""Mails through a server that takes what it is given."""

import socket
import threading

import pytest

from controller.tasks.backoff import Backoff
from controller.tasks.mail import Server, send, server_from
from tests.loop.world import World

TEXT = {"to": ["anna@example.org"], "subject": "default/train: failed", "text": "rank 3 was killed\nfor want of memory"}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.store.close()


def sink(answer=b"250 ok\r\n"):
    """(port, lines that it got): one session of SMTP, as far as a sender needs it."""
    server, lines = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        peer, _ = server.accept()
        with peer, peer.makefile("rb") as file:
            peer.sendall(b"220 sink\r\n")
            body = False
            for line in file:
                lines.append(line.decode().rstrip("\r\n"))
                if body and line == b".\r\n":
                    body = False
                elif body:
                    continue
                if line.upper().startswith(b"QUIT"):
                    peer.sendall(b"221 bye\r\n")
                    return
                body = line.upper().startswith(b"DATA")
                peer.sendall(b"354 go on\r\n" if body else answer)

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1], lines


def sent(world, server):
    world.store.transact(lambda w: w.enqueue("mail", TEXT, key="uid:failed:1"))
    (item,) = world.store.outbox_due(world.clock.now())
    send(world.store, server, item.id, item.next_at, clock=world.clock, backoff=Backoff())
    return world.store.outbox_item(item.id)


def test_a_mail_is_handed_over_once(world):
    port, lines = sink()
    item = sent(world, Server(host="127.0.0.1", port=port, tls=False, sender="muster@example.org"))
    assert item.state == "done"
    assert "Subject: [muster] default/train: failed" in lines
    assert "To: anna@example.org" in lines
    assert "rank 3 was killed" in lines


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (None, "MUSTER_SMTP_URL"),
        (Server(host="127.0.0.1", port=9, tls=False), "refused"),
    ],
)
def test_a_mail_that_cannot_be_sent_is_tried_again(world, server, why):
    item = sent(world, server)
    assert item.state == "due"
    assert why in item.error


def test_no_password_goes_over_a_plain_line(world):
    port, lines = sink()
    item = sent(world, Server(host="127.0.0.1", port=port, tls=False, user="u", password="secret"))
    assert "no TLS" in item.error
    assert not any("AUTH" in line for line in lines)


def test_the_servers_address_is_read_and_its_password_never_told():
    server = server_from({"MUSTER_SMTP_URL": "smtps://u:p%40ss@mail.example?from=a@b.c"})
    assert (server.port, server.tls, server.password, server.sender) == (465, True, "p@ss", "a@b.c")
    assert server_from({}) is None
    for bad in ("mail.example", "smtp://u:secret@:25", "smtp://u:secret@h:port"):
        with pytest.raises(ValueError, match="MUSTER_SMTP_URL") as caught:
            server_from({"MUSTER_SMTP_URL": bad})
        assert "secret" not in str(caught.value)
