"""What is on its way to one agent."""

import asyncio

from api.hub import Hub, Outbox
from muster.launch import LaunchTemplate
from muster.protocol import Ack, Assignment, Desired, decode_down

TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))


def desired(generation: int, *uids: str) -> Desired:
    return Desired(
        generation=generation,
        assignments=tuple(
            Assignment(
                worker_uid=uid, attempt="a", job="j", job_uid="ju", namespace="n", scope="gang", number=1, epoch=1,
                role="worker", index=0, desired="run", revision=1, template=TEMPLATE,
            )
            for uid in uids
        ),
    )  # fmt: skip


async def sent(outbox: Outbox) -> list[object]:
    """Everything that would be sent now."""
    frames: list[object] = []
    while True:
        try:
            async with asyncio.timeout(0.01):
                frames.append(decode_down(await outbox.next()))
        except TimeoutError:
            return frames


def test_frames_go_in_order_and_before_what_is_desired() -> None:
    outbox = Outbox("n0", "boot")
    outbox.want(desired(3, "w"))
    outbox.post(Ack(seq=1))
    outbox.post(Ack(seq=2))
    assert asyncio.run(sent(outbox)) == [Ack(seq=1), Ack(seq=2), desired(3, "w")]


def test_of_what_is_desired_only_the_newest_goes() -> None:
    outbox = Outbox("n0", "boot")
    for generation in (3, 5, 4):
        outbox.want(desired(generation, f"w{generation}"))
    assert asyncio.run(sent(outbox)) == [desired(5, "w5")]


def test_nothing_older_is_ever_said_after_something_newer() -> None:
    async def story() -> list[list[object]]:
        outbox, said = Outbox("n0", "boot"), []
        for told in ([desired(5, "w")], [desired(4), desired(6, "w")], [desired(7)]):
            for one in told:
                outbox.want(one)
            said.append(await sent(outbox))
        return said

    assert asyncio.run(story()) == [[desired(5, "w")], [], [desired(7)]]


def test_a_stream_that_was_replaced_does_not_take_the_newer_one_with_it() -> None:
    hub, older, newer = Hub(), Outbox("n0", "boot"), Outbox("n0", "boot")
    hub.join(older)
    hub.join(newer)
    hub.leave(older)
    assert older.closing.is_set()
    assert hub.holds(newer)
    assert hub.nodes() == {"n0"}
    hub.leave(newer)
    assert hub.nodes() == frozenset()


def test_what_an_agent_was_told_and_has_not_got_is_said_again() -> None:
    outbox = Outbox("n0", "boot")
    outbox.want(desired(3, "w"))

    async def told() -> list[object]:
        frames = await sent(outbox)
        for at in (10.0, 11.0, 13.1):
            outbox.observed(2, at)
        frames += await sent(outbox)
        for at in (20.0, 30.0):
            outbox.observed(3, at)
        return frames + await sent(outbox)

    assert asyncio.run(told()) == [desired(3, "w")] * 2
