"""Ascend's rank tables (1.0, 1.2 with super pods, older groups) and its map of ToR switches."""

import json
import re
from typing import Any

from muster.inspection import Inspection


def read(text: str, into: Inspection) -> bool:
    """False when this is none of them."""
    if not re.search(r'"(server_list|server_group_list|group_list|tor_count)"', text):
        return False
    tree = _loads(text, into)
    if tree is None:
        return True
    servers = tree.get("server_list")
    if isinstance(servers, list) and servers and isinstance(servers[0], dict) and "tor_id" in servers[0]:
        _tors(tree, servers, into)
    else:
        _table(tree, into)
    return True


def _loads(text: str, into: Inspection) -> dict[str, Any] | None:
    """Manuals print comments and forget commas: both are forgiven, and told."""
    try:
        tree = json.loads(text)
    except ValueError:
        mended = re.sub(r"^([^\"\n]*(?:\"[^\"\n]*\"[^\"\n]*)*?)//.*$", r"\1", text, flags=re.MULTILINE)
        mended = re.sub(r"([}\]\"\d])(\s*\n\s*)(?=[\"{\[])", r"\1,\2", mended)
        mended = re.sub(r",(\s*[}\]])", r"\1", mended)
        try:
            tree = json.loads(mended)
            into.note("not quite JSON: comments or commas were mended")
        except ValueError as error:
            into.half(f"the JSON ends or breaks in the middle: {error}")
            return None
    if not isinstance(tree, dict):
        into.half("not a table")
        return None
    return tree


def _servers(tree: dict[str, Any]) -> list[dict[str, Any]]:
    found = [server for server in tree.get("server_list") or () if isinstance(server, dict)]
    for group in (tree.get("server_group_list") or []) + (tree.get("group_list") or []):
        if isinstance(group, dict):
            found += [server for server in group.get("server_list") or () if isinstance(server, dict)]
            found += [instance for instance in group.get("instance_list") or () if isinstance(instance, dict)]
    return found


def _table(tree: dict[str, Any], into: Inspection) -> None:
    servers = _servers(tree)
    for server in servers:
        for item in server.get("device") or server.get("devices") or ():
            rank = str(item.get("rank_id", ""))
            taken = {device.index for device in into.devices}
            wanted = int(rank) if rank.isdigit() else into.free_index()
            device = into.device(into.free_index() if wanted in taken else wanted)
            device.vendor = "ascend"
            device.details = {"server": server.get("server_id"), "hardware": server.get("hardware_type")} | item
    names = [str(server.get("server_id") or server.get("pod_name")) for server in servers]
    pods = {
        str(pod.get("super_pod_id")): [str(server.get("server_id")) for server in pod.get("server_list") or ()]
        for pod in tree.get("super_pod_list") or ()
    }
    if pods:
        into.fabric.levels, into.fabric.domains = ["super_pod"], {"super_pod": pods}
    placed = {name for pod in pods.values() for name in pod}
    into.fabric.unplaced = [name for name in names if name not in placed]
    count = str(tree.get("server_count", tree.get("group_count", "")))
    if count.isdigit() and "server_count" in tree and int(count) != len(servers):
        into.half(f"{count} servers are announced, {len(servers)} are described")
    into.node.details |= {
        "version": tree.get("version"),
        "status": tree.get("status"),
        "servers": len(servers),
        "devices": len(into.devices),
        "ranks": [device.index for device in into.devices],
        "hardware": next((server["hardware_type"] for server in servers if server.get("hardware_type")), None),
        "super_pods": pods,
    }


def _tors(tree: dict[str, Any], tors: list[dict[str, Any]], into: Inspection) -> None:
    domains: dict[str, list[str]] = {}
    npus, shared = 0, []
    for tor in tors:
        servers = [server for server in tor.get("server") or () if isinstance(server, dict)]
        domains[str(tor.get("tor_id"))] = [str(server.get("server_ip")) for server in servers]
        npus += sum(int(server.get("npu_count") or 0) for server in servers)
        shared += [tor.get("tor_id")] if tor.get("IsSharedTor") else []
        if not servers:
            into.note(f"switch {tor.get('tor_id')} has no servers")
    into.fabric.levels, into.fabric.domains = ["tor"], {"tor": domains}
    if tree.get("tor_count") not in (None, len(tors)):
        into.half(f"{tree['tor_count']} switches are announced, {len(tors)} are described")
    into.node.details |= {
        "version": tree.get("version"),
        "tors": len(tors),
        "servers": sum(map(len, domains.values())),
        "npus": npus,
        "shared_tor": shared,
    }
