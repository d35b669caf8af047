"""What a measurement gives: a figure with its unit, and what was wanted of it."""

from typing import Any

from msgspec import Struct, to_builtins


class Figure(Struct, frozen=True):
    """`wanted` is what it should be (empty: it stands beside another one), `holds` whether it is."""

    part: str
    name: str
    value: float
    unit: str
    wanted: str = ""
    holds: bool | None = None

    def line(self) -> str:
        verdict = "" if self.holds is None else "" if self.holds else "  MISSED"
        return (
            f"{self.name:<62} {self.value:>10,.{0 if self.value >= 20 else 1}f} {self.unit:<8} {self.wanted}{verdict}"
        )

    def wire(self) -> dict[str, Any]:
        return to_builtins(self)  # type: ignore[no-any-return]


def at_least(part: str, name: str, value: float, unit: str, least: float) -> Figure:
    return Figure(part, name, value, unit, f">= {least:,.0f}", value >= least)


def below(part: str, name: str, value: float, unit: str, most: float) -> Figure:
    return Figure(part, name, value, unit, f"< {most:,.0f}", value < most)


def beside(part: str, name: str, value: float, unit: str) -> Figure:
    return Figure(part, name, value, unit)


def percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]
