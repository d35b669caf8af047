"""All checks, in the order in which they are told."""

from typing import Final

from agents.health.check import Check
from agents.health.checks import devices, host, mounts, ports, site

CHECKS: Final[tuple[Check, ...]] = (*devices.CHECKS, *ports.CHECKS, *host.CHECKS, *mounts.CHECKS, *site.CHECKS)
BY_NAME: Final = {check.name: check for check in CHECKS}
