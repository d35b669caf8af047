"""Every scenario file is played part by part; a file with an unknown key is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.simulation.scenario_keys import UnknownKey, seconds
from controller.simulation.scenarios import main, parts_of, play, read

HERE = Path(__file__).parent / "scenarios"
SHARED = Path(__file__).parents[3] / "shared" / "scheduling" / "scenarios.md"
FILES = [*sorted(HERE.glob("*.yaml")), *([SHARED] if SHARED.exists() else [])]


def _parts() -> list[Any]:
    return [
        pytest.param(
            {**scenario, "parts": [row]} if row else scenario, id=f"{scenario['id']}-{(row or {}).get('part')}"
        )
        for path in FILES
        for scenario in read(str(path))
        for row in (scenario.get("parts") or [None])
        if not {"timeline_same_as", "continues"} & set(row or {})
    ]


@pytest.mark.parametrize("scenario", _parts())
def test_a_scenario_holds(scenario: dict[str, Any]) -> None:
    for result in play(scenario):
        assert result.problems == (), result.name


def test_a_part_that_refers_to_another_is_played_with_its_timeline() -> None:
    first = {"part": "a", "timeline": [{"t": 0, "submit": {"job": "j"}}], "checks": [{"at": 0, "running_jobs": ["j"]}]}
    second = {"part": "b", "timeline_same_as": "a", "checks": [{"at": 0, "placed": {"j": {"n0": 1}}}]}
    scenario = {"id": "x", "racks": {"b0/r0": {"n0": 1}}, "parts": [first, second]}
    assert [(result.name, result.problems) for result in play(scenario)] == [("x.a", ()), ("x.b", ())]


@pytest.mark.parametrize(
    "part",
    [
        {"colour": 1},
        {"submit": [{"job": "j", "colour": 1}]},
        {"timeline": [{"t": 0, "explode": "n0"}]},
        {"checks": [{"at": 0, "colour": 1}]},
        {"checks": []},
        {"queues": {"q": {"colour": 1}}},
    ],
)
def test_a_key_that_the_runner_does_not_know_is_refused(part: dict[str, Any]) -> None:
    scenario = {"id": "x", "racks": {"b0/r0": {"n0": 1}}, "checks": [{"at": 0, "evictions": 0}], **part}
    assert any(result.problems for result in play(scenario))


def test_a_wrong_expectation_fails_and_says_what_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.md"
    file.write_text(
        "# T\n\n```yaml\nid: W\nracks: {b0/r0: {n0: 1}}\nsubmit: [{job: j}]\n"
        "checks: [{at: 0, pending: {j: CAPACITY}, evictions: 0}]\n```\n"
    )
    assert main([str(file)]) == 1
    assert "W: at 0: pending: j is Running, not CAPACITY" in capsys.readouterr().out


def test_a_file_that_is_no_scenario_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("- 1\n")
    assert main([str(file)]) == 2
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert main([]) == 2


@pytest.mark.parametrize(("text", "value"), [(5, 300.0), ("11s", 11.0), ("5m", 300.0), ("2h", 7200.0), ("3", 180.0)])
def test_times_are_minutes_unless_a_unit_is_written(text: object, value: float) -> None:
    assert seconds(text) == value


def test_an_unknown_unit_of_time_is_refused() -> None:
    with pytest.raises(UnknownKey):
        seconds("5 parsecs")


def test_a_variant_is_a_part_of_its_own() -> None:
    scenario = {
        "id": "x",
        "racks": {"b0/r0": {"n0": 1}},
        "timeline": [{"t": 0, "submit": {"job": "j"}}],
        "checks": [{"at": 0, "evictions": 0}],
        "variant": {"override": {"j": {"pods": 2}}, "checks": [{"at": 0, "pending": {"j": "CAPACITY"}}]},
    }
    assert [label for label, _ in parts_of(scenario)] == ["", "variant"]
    assert all(not result.problems for result in play(scenario))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(2, 4), st.integers(1, 11))
def test_a_gang_with_a_remainder_fits_wherever_it_can(rooms: list[int], size: int, pods: int) -> None:
    """Exact: whole segments in racks, and the rest in one rack beside them."""
    racks = {f"b0/r{rack}": {f"n{rack}-{node}": 1 for node in range(room)} for rack, room in enumerate(rooms) if room}
    if not racks:
        return
    whole, rest = divmod(pods, size)
    segments = sum(room // size for room in rooms)
    beside = any(room % size >= rest for room in rooms)
    fits = segments >= whole and (not rest or beside or segments > whole)
    wish = {"job": "j", "pods": pods, "segment": {"size": size, "level": "rack", "allow_remainder": True}}
    found = "running_jobs" if fits else "evictions"
    check = {"at": 0, found: ["j"] if fits else 0}
    (result,) = play({"id": "x", "unit": "node", "racks": racks, "submit": [wish], "checks": [check]})
    assert result.problems == (), (rooms, size, pods)
    if not fits:
        (result,) = play(
            {"id": "x", "racks": racks, "submit": [wish], "checks": [{"at": 0, "placed_on_any": {"j": 0}}]}
        )
        assert result.problems == (), (rooms, size, pods)
