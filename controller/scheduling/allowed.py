"""The nodes that a gang's manifest allows, whatever is free on them."""

from collections.abc import Mapping

import numpy as np

from controller.records import NodeRecord
from controller.scheduling.fabric import Bools, Fabric
from controller.scheduling.tables import positions
from controller.scheduling.types import GangRequest

Wish = tuple[object, ...]


def wish_of(request: GangRequest) -> Wish | None:
    """What decides which nodes are allowed; None when all are."""
    wish = (request.selector, request.included, request.barred)
    return wish if any(wish) else None


def mask_of(fabric: Fabric, nodes: Mapping[str, NodeRecord], request: GangRequest) -> Bools | None:
    """True at each position that the gang may use; None where it may use all."""
    if wish_of(request) is None:
        return None
    mask = np.ones(len(fabric.nodes), dtype=np.bool_)
    if request.included:
        mask[:] = False
        mask[positions(fabric, request.included)] = True
    mask[positions(fabric, request.barred)] = False
    if request.selector:
        labels = (nodes[name].labels for name in fabric.nodes)
        fit = [all(each.get(key) == value for key, value in request.selector) for each in labels]
        mask &= np.array(fit, dtype=np.bool_)
    return mask
