"""A broker that hangs holds up nobody but itself."""

import threading

from controller.state import StoreUnavailable
from controller.tasks.sender import Sender


def test_who_asks_while_something_is_being_sent_is_passed_over_and_not_held_up():
    go_on, sent = threading.Event(), []

    def send(now):
        sent.append(now)
        assert go_on.wait(60)

    sender = Sender(send)
    for now in (1.0, 2.0, 3.0):
        sender(now)
    assert not sender.wait(0.01)
    go_on.set()
    assert sender.wait(60)
    sender(4.0)
    assert sender.wait(60)
    assert sent == [1.0, 4.0]


def test_a_database_that_is_away_ends_one_try_only():
    tries = []

    def send(now):
        tries.append(now)
        raise StoreUnavailable("gone")

    sender = Sender(send)
    for now in (1.0, 2.0):
        sender(now)
        assert sender.wait(60)
    assert tries == [1.0, 2.0]
