"""A short random life of a cluster; `./run endure` lives longer ones."""

import pytest

from tests.simulation.endure import Life


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_breaks_whatever_happens_to_a_cluster(seed):
    life = Life(seed)
    while life.live() < 500:
        pass
    assert life.counts["submitted"] > 100
    assert life.counts["node lost"] > 5
