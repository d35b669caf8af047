"""RDMA ports: one that was up is down, one that comes and goes, one that makes errors."""

from typing import Any, Final

from agents.health.check import Check, Memory, Scene, grown, wrong
from muster.conditions import Condition
from muster.inspection import FoundNic

FLAPS, WINDOW, HOLD = 2, 300.0, 600.0
"""So many losses of the link within WINDOW seconds are flapping; it is remembered for HOLD seconds."""
ERRORS_A_RUN: Final = 1000


def ports(scene: Scene, memory: Memory) -> list[Condition]:
    """A port that has never been up is not in use; virtual functions follow their physical one."""
    found = []
    for nic in scene.found.nics:
        if nic.details.get("virtual_function") or isinstance(nic.details.get("device"), int):
            continue  # a device's own port is that device's matter
        state: dict[str, Any] = memory.setdefault(nic.name, {})
        up = (nic.state or "").lower() in ("active", "up")
        state["seen_up"] = state.get("seen_up", False) or up
        if state["seen_up"] and not up:
            message = f"port {nic.name} is {nic.state or 'without a state'}, phys state {nic.details.get('phys')}"
            found.append(wrong("RdmaPort", "PortDown", message, "error", subject=nic.name))
        found += _flapping(nic, state, scene.now, up)
        found += _errors(nic, state)
    known = {nic.name for nic in scene.found.nics}
    for name, state in memory.items():
        if name not in known and state.get("seen_up"):
            found.append(wrong("RdmaPort", "PortMissing", f"port {name} is not seen any more", "error", subject=name))
    return found


def _flapping(nic: FoundNic, state: dict[str, Any], now: float, up: bool) -> list[Condition]:
    """By the port's own counter where it has one, else by what was seen."""
    counters = nic.details.get("counters") or {}
    downed = counters.get("link_downed")
    seen = int(bool(state.get("was_up")) and not up)
    lost = grown(state, "link_downed", downed) if isinstance(downed, int) else seen
    state["was_up"] = up
    times = [at for at in state.get("losses", []) if now - at < HOLD] + [now] * min(lost, 10)
    state["losses"] = times[-20:]
    close = max((sum(at <= one < at + WINDOW for one in times) for at in times), default=0)
    if close >= FLAPS:
        message = f"port {nic.name} lost its link {close} times within {WINDOW / 60:g} min"
        return [wrong("RdmaPort", "PortFlapping", message, "error", subject=nic.name)]
    if times and up:
        return [wrong("RdmaPort", "PortLostLink", f"port {nic.name} lost its link once", subject=nic.name)]
    return []


def _errors(nic: FoundNic, state: dict[str, Any]) -> list[Condition]:
    counters = nic.details.get("counters") or {}
    bad = {
        name: more
        for name in ("symbol_error", "port_rcv_errors", "local_link_integrity_errors")
        if isinstance(counters.get(name), int) and (more := grown(state, name, counters[name])) >= ERRORS_A_RUN
    }
    if not bad:
        return []
    told = ", ".join(f"{name} +{more}" for name, more in bad.items())
    return [wrong("RdmaPort", "PortErrors", f"port {nic.name} makes errors: {told}", subject=nic.name)]


CHECKS: Final = (Check("rdma-ports", 10.0, 10.0, ports, virtual=True),)
