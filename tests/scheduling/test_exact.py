"""The planner beside an exact solver on small clusters: never a false no, and hardly ever a domain too many."""

import random

import pytest

from benchmarks.exact import Answer, Case, Shape, ask, compare, draw, solve


def test_never_a_no_where_a_placement_exists_and_few_racks_too_many():
    dice = random.Random(20)
    score, refused = compare([draw(dice) for _ in range(120)])
    assert not refused
    assert (score.false_no, score.false_yes, score.more_blocks) == (0, 0, 0)
    assert score.possible > 60, "otherwise it says little"
    assert score.racks <= 1.02 * score.best_racks


@pytest.mark.parametrize(
    ("sizes", "workers", "best"),
    [
        ({"b0": [5], "b1": [2, 1]}, 6, Answer(2, 2)),  # one whole rack and one of the other block's
        ({"b0": [2, 2, 2], "b1": [5], "b2": [4]}, 9, Answer(2, 2)),  # not the block with the most room
        ({"b0": [3, 3], "b1": [3, 3]}, 12, Answer(2, 4)),
    ],
)
def test_a_gang_that_no_block_holds_spans_the_fewest_racks_of_the_fewest_blocks(sizes, workers, best):
    nodes = tuple(
        (block, f"{block}r{rack}", 8, 16)
        for block, racks in sizes.items()
        for rack, count in enumerate(racks)
        for _ in range(count)
    )
    case = Case(nodes, (Shape("a", workers, 8, 1),), 1, None, None)
    assert solve(case) == best
    assert ask(case) == best


def test_roles_that_fit_in_fewer_racks_lie_in_fewer():
    nodes = tuple(("b0", f"b0r{rack}", 8, 16) for rack, count in enumerate((2, 3, 5)) for _ in range(count))
    case = Case(nodes, (Shape("trainer", 4, 8, 1), Shape("rollout", 4, 8, 1)), 1, None, None)
    assert ask(case) == solve(case) == Answer(1, 2)
