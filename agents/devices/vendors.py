"""All vendors, in the order in which their devices are numbered."""

from typing import Final

from agents.devices import amd, ascend, cambricon, gaudi, hygon, metax, mthreads, nvidia
from agents.devices.vendor import Vendor

VENDORS: Final[tuple[Vendor, ...]] = (
    nvidia.LIVE,
    amd.LIVE,
    ascend.LIVE,
    cambricon.LIVE,
    gaudi.LIVE,
    hygon.LIVE,
    metax.LIVE,
    mthreads.LIVE,
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}
