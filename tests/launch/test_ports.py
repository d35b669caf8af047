"""Blocks of ports: consecutive, outside the ephemeral range, fresh for each attempt, never somebody else's."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from controller.launch.ports import BLOCK, HIGHEST, LOWEST, NoPorts, choose_block, ports_needed
from tests.makers import make_job

USUAL = (32768, 60999)


def block(**changes: object) -> tuple[int, ...]:
    asked = {"host": "h", "size": BLOCK, "used": set(), "avoid": set(), "ephemeral": USUAL, "seed": "a", **changes}
    return choose_block(**asked)  # type: ignore[arg-type]


def test_a_worker_gets_a_block_with_a_master_port_and_some_of_its_own() -> None:
    assert ports_needed(make_job().spec) == BLOCK
    assert len(block()) == BLOCK


def test_the_same_seed_gives_the_same_block_and_another_attempt_gets_others() -> None:
    assert block() == block()
    assert len({block(seed=f"attempt-{number}")[0] for number in range(50)}) > 45


def test_two_hosts_do_not_draw_the_same_block_for_one_seed() -> None:
    assert block(host="one") != block(host="two")


def test_two_jobs_on_one_host_never_share_a_port() -> None:
    used: set[int] = set()
    for number in range(500):
        ports = block(used=used, seed="same")
        assert not used & set(ports), number
        used |= set(ports)


def test_a_port_that_was_found_taken_is_avoided() -> None:
    first = block()
    assert not set(first) & set(block(avoid=first[1:2]))


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=8),
    st.integers(1, 40),
    st.sets(st.integers(LOWEST, HIGHEST), max_size=200),
    st.tuples(st.integers(1024, 40_000), st.integers(0, 25_000)).map(lambda span: (span[0], span[0] + span[1])),
)
def test_a_block_is_consecutive_in_range_and_free(
    seed: str, size: int, taken: set[int], ephemeral: tuple[int, int]
) -> None:
    try:
        ports = block(seed=seed, size=size, used=taken, ephemeral=ephemeral)
    except NoPorts:
        free = [p for p in range(LOWEST, HIGHEST + 1) if p not in taken and not ephemeral[0] <= p <= ephemeral[1]]
        assert len(free) < (HIGHEST - LOWEST) // 2, "there was plenty"
        return
    assert ports == tuple(range(ports[0], ports[0] + size))
    assert ports[0] >= LOWEST
    assert ports[-1] <= HIGHEST
    assert not taken & set(ports)
    assert not any(ephemeral[0] <= port <= ephemeral[1] for port in ports)


@pytest.mark.parametrize(
    "changes",
    [
        {"ephemeral": (1024, 65535)},
        {"used": set(range(LOWEST, HIGHEST + 1))},
        {"avoid": set(range(LOWEST, HIGHEST + 1, BLOCK))},
        {"size": HIGHEST - LOWEST + 2},
    ],
)
def test_a_host_without_a_free_block_is_named(changes: dict[str, object]) -> None:
    with pytest.raises(NoPorts, match=r"^h has no \d+ consecutive free ports"):
        block(**changes)
