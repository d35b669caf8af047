"""The node's inventory, as the agent offers it."""

from agents.config import AgentConfig
from agents.devices import host
from agents.devices.virtual import virtual_devices
from muster.protocol import Inventory


def take(config: AgentConfig) -> Inventory:
    """Raises ValueError when the configuration names devices that do not exist."""
    return Inventory(
        address=config.address,
        host=host.network_id(),
        cpu_milli=config.cpu_milli or host.cpu_milli(),
        memory=config.memory or host.memory(),
        devices=virtual_devices(config.virtual_devices),
        labels=config.labels,
        interface=host.interface_of(config.address),
        ephemeral_ports=host.ephemeral_ports(),
    )
