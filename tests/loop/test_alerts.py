"""What is amiss with the cluster itself is told once, by whichever leader, and once more when it is over."""

from tests.loop.world import World
from tests.makers import make_node


def told(world: World) -> list[tuple[str, str]]:
    with world.store.read() as r:
        return [(event.reason, event.message) for event in r.events(object_uid="cluster")]


def test_nodes_without_a_label_are_listed_once_and_when_they_have_it_that_is_told(world):
    bare = make_node("n9", labels={"muster.dev/block": "b0"}, cordoned=True)
    world.store.transact(lambda w: w.put_node(bare))
    for _ in range(3):
        world.step()
    alert = ("Alert", "nodes without a leaf: n9")
    assert told(world) == [alert]
    world.lead()
    world.step()
    assert told(world) == [alert], "a new leader knows what was told"
    world.store.transact(lambda w: w.patch_node("n9", labels={"muster.dev/block": "b0", "muster.dev/leaf": "b0-l1"}))
    for _ in range(2):
        world.step()
    assert told(world) == [alert, ("AlertOver", "nodes without a leaf: n9")]
