"""What a pod takes from its node, by the rules of the Kubernetes scheduler. Pure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from controller.executors.kubernetes.quantity import amount

Amounts = dict[str, Decimal]


def takes(pod: Mapping[str, Any]) -> Amounts:
    """By resource: what its containers ask for together with those beside them that start before, or what a step
    before them asks for where that is more; and what its runtime adds. Nothing once it has ended."""
    spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return {}
    beside, peak = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            beside = sums([beside, own])
            own = {}
        peak = _larger(peak, sums([beside, own]))
    together = _larger(sums([beside, *map(_requests, spec.get("containers") or ())]), peak)
    whole = (spec.get("resources") or {}).get("requests") or {}
    together |= {name: amount(value) for name, value in whole.items()}
    return sums([together, {name: amount(value) for name, value in (spec.get("overhead") or {}).items()}])


def sums(taken: Iterable[Mapping[str, Decimal]]) -> Amounts:
    found = Amounts()
    for one in taken:
        for name, value in one.items():
            found[name] = found.get(name, Decimal(0)) + value
    return found


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in one | other}


def _requests(container: Mapping[str, Any]) -> Amounts:
    """A limit stands for a request that is not said."""
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(value) for name, value in both.items()}
