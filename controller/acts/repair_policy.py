"""How nodes are repaired: settings, from `MUSTER_REPAIR` as JSON."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct


class RepairPolicy(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`mode`: on, off, or dry-run (everything is only said). `breaker`: the share of the nodes that automatic cordons may
    hold; one is always allowed. `drain`: auto stops work at once for a fatal condition and lets it finish for an
    error; now and finish do the same for both. `patience`: seconds for which an error must last before anything is
    done. `reboot` and `ticket` are hooks: a URL that gets a POST, or a command that gets MUSTER_NODE and others in its
    environment. After `resets` and `reboots` that did not help a node needs people. `resetTimeout`, `rebootTimeout` and
    `checkTimeout` in seconds. `lemon`: so many failures of several jobs within a day make a node one; 0: never."""

    mode: Literal["on", "off", "dry-run"] = "on"
    breaker: float = 0.3
    drain: Literal["auto", "now", "finish"] = "auto"
    patience: float = 10.0
    reboot: str = ""
    ticket: str = ""
    resets: int = 1
    reboots: int = 2
    reset_timeout: float = 600.0
    reboot_timeout: float = 1800.0
    check_timeout: float = 300.0
    lemon: int = 3


def from_environment(environ: Mapping[str, str]) -> RepairPolicy:
    """Raises ValueError that says what is wrong."""
    text = environ.get("MUSTER_REPAIR", "")
    if not text:
        return RepairPolicy()
    try:
        policy = msgspec.json.decode(text, type=RepairPolicy)
    except msgspec.MsgspecError as error:
        raise ValueError(f"MUSTER_REPAIR: {error}") from None
    if not 0 <= policy.breaker <= 1:
        raise ValueError(f"MUSTER_REPAIR: breaker: expected a share from 0 to 1, found {policy.breaker}")
    return policy
