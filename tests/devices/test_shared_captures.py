"""Every fact of every sidecar beside the project, looked up in our reading of its capture.

`FACTS[kind][name]` says where in an inspection the fact of that name is. A fact without an entry fails the test: what is
expected must be looked at. Prose for people (what to do about it) is compared by what it implies: healthy or not.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.devices.captures import read_capture

HARDWARE = Path(os.environ.get("MUSTER_CAPTURES") or Path(__file__).parents[2].parent / "shared" / "hardware")
Out = dict[str, Any]
Fact = Callable[[Out, Any, dict[str, Any]], bool]

# What a person reads beside the capture, and no parser can know: how it was made, how the tool ended.
PROSE = {"command", "commands", "exit_code_likely", "machine"}


def devices(out: Out) -> list[Out]:
    return out["devices"]


def det(out: Out) -> Out:
    return out["node"]["details"]


def each(out: Out, name: str) -> list[Any]:
    return [d[name] if name in d else d["details"].get(name) for d in devices(out)]


def many(name: str) -> Fact:
    """One value for all devices, or a list of them."""
    return lambda out, want, _: each(out, name) == (want if isinstance(want, list) else [want] * len(devices(out)))


def count(out: Out, want: Any, _: Any) -> bool:
    return len(devices(out)) == want


def node(name: str) -> Fact:
    return lambda out, want, _: det(out).get(name) == want


def first(name: str) -> Fact:
    return lambda out, want, _: each(out, name)[0] == want


def listed(out: Out, want: Any, _: Any) -> bool:
    return sum(d["details"].get("listed", True) for d in devices(out)) == want


def health_words(out: Out, want: Any, _: Any) -> bool:
    """A list of words a device; a mapping; or one sentence."""
    if isinstance(want, list):
        return all(
            str(d["details"].get("health", "")).lower() == str(w).lower()
            or d["healthy"] == (str(w).lower().split()[0] in ("ok", "normal"))
            for d, w in zip(devices(out), want, strict=True)
        )
    if isinstance(want, dict):
        numbers = [int(k.removeprefix("GPU")) for k in want if k.removeprefix("GPU").isdigit()]
        return all(d["healthy"] is False for d in devices(out) if d["index"] in numbers)
    word = want.lower()
    if word in ("ok", "warning", "alarm"):
        return devices(out)[0]["details"].get("health", "ok").lower() == word
    text = json.dumps(out).lower()
    if word.startswith("failed"):
        return devices(out)[0]["healthy"] is False and "replace" in text
    if word.startswith("degraded"):
        return "degraded" in text and devices(out)[0]["healthy"] is not False
    if word.startswith("ok"):
        return all(d["healthy"] for d in devices(out)) and ("nothing can run" not in word or "nothing can run" in text)
    return bool(out["problems"])


def failed(out: Out, want: list[Out], _: Any) -> bool:
    lost = [d for d in devices(out) if d["healthy"] is False]
    return len(lost) == len(want) and all(
        d["bus"] == w["bus_id"] and w["error"] in d["problems"] and d["index"] == w.get("index", d["index"])
        for d, w in zip(lost, want, strict=True)
    )


def nearest(out: Out, want: Out, _: Any) -> bool:
    got = {
        f"GPU{d['index']}": {"level": d["details"]["nearest_nic_level"], "nics": d["nearest_nics"]}
        for d in devices(out)
    }
    return got == want


def by_gpu(name: str) -> Fact:
    return lambda out, want, _: (
        {f"GPU{d['index']}": v for d, v in zip(devices(out), each(out, name), strict=True)} == want
    )


def events(out: Out, code: str) -> list[Out]:
    return [e for e in out["events"] if e["code"] == code]


def xids(out: Out, want: Any, _: Any) -> bool:
    got: dict[str, int] = {}
    for e in out["events"]:
        if e["code"].startswith("Xid "):
            got[e["code"][4:]] = got.get(e["code"][4:], 0) + 1
    return got == want if isinstance(want, dict) else sorted(map(int, got)) == want


def port_of(out: Out, device: str, number: str) -> Out:
    return next(n for n in out["nics"] if n["details"]["device"] == device and str(n["details"]["port"]) == number)


def ports(out: Out, want: Any, _: Any) -> bool:
    if isinstance(want, list):
        return [n["name"] for n in out["nics"]] == want
    names = {"state": "state", "rate": "rate_gbps", "link": "link_layer"}
    for device, facts in want.items():
        for number, told in facts.get("ports", {"1": facts}).items():
            nic = port_of(out, device, number)
            for key, value in told.items():
                if (nic[names[key]] if key in names else nic["details"][key]) != value:
                    return False
    return True


def nic(name: str) -> Fact:
    def check(out: Out, want: Any, _: Any) -> bool:
        first_nic = out["nics"][0]
        return (first_nic[name] if name in first_nic else first_nic["details"].get(name)) == want

    return check


def names_where(test: Callable[[Out], bool]) -> Fact:
    return lambda out, want, _: sorted(n["name"] for n in out["nics"] if test(n)) == sorted(want)


def verdict(out: Out, want: Any, _: Any) -> bool:
    """What must not pass as healthy does not."""
    if isinstance(want, dict):
        return all(devices(out)[int(i)]["problems"] for i in want) and all(
            not d["problems"] for d in devices(out) if str(d["index"]) not in want
        )
    if want == "ok":
        return nic("verdict")(out, "ok", _)
    bad = [d for d in devices(out) if d["healthy"] is False or d["problems"]]
    return bool(bad or out["problems"])


def severe(out: Out, want: str, _: Any) -> bool:
    """The sentence begins with the severity, or names it."""
    worst = {e["severity"] for e in out["events"]}
    low = want.lower()
    if low.startswith("fatal") or "absent" in low:
        return "fatal" in worst
    if low.startswith(("application", "non-fatal")):
        return "fatal" not in {e["severity"] for e in out["events"] if "id " in e["code"]}
    return False


def level_values(out: Out, want: Any, _: Any) -> bool:
    values = list(want.values()) if isinstance(want, dict) else [w.rpartition(" ")[2] for w in want]
    return out["node"]["levels"] == values


def gpu_count(out: Out, want: Any, _: Any) -> bool:
    return len(devices(out)) == want


def action(out: Out, want: Any, _: Any) -> bool:
    words = {"reset": "reset", "drain": "drain", "application": "application", "power cycle": "power cycle"}
    wanted = want.items() if isinstance(want, dict) else [(None, want)]
    for code, sentence in wanted:
        told = " ".join(e["action"] or "" for e in out["events"] if code is None or e["code"] == f"Xid {code}")
        if not any(word in told for word in words if word in sentence):
            return False
    return True


def masked(fact: Fact) -> Fact:
    """ "xxx (masked; ...)" is what the capture prints, and what a person knows."""
    return lambda out, want, e: fact(out, want.split(" (")[0], e)


def model(out: Out, want: str, _: Any) -> bool:
    known = [m for m in each(out, "model") if m]
    return bool(known) and all(m.startswith(want.split("...")[0].strip()) for m in known)


def subset(got: Out, want: Out) -> bool:
    return all(got.get(key) == value for key, value in want.items())


def mig(out: Out, want: list[Out], _: Any) -> bool:
    got = devices(out)[0]["details"]["mig_devices"]
    return all(any(subset(g, w) for g in got) for w in want) and (bool(want) or not got)


def any_event(test: Callable[[Out, Any], bool]) -> Fact:
    return lambda out, want, _: any(test(e, want) for e in out["events"])


def on_slot(e: Out, want: Any) -> bool:
    return bool(e["device"]) and str(want).startswith(e["device"][:12])


COMMON: dict[str, Fact] = {
    "complete": lambda out, want, _: out["complete"] is want,
    "health": health_words,
    "model": masked(model),
    "memory_mib": many("memory_mib"),
    "used_mib": many("used_mib"),
    "bus": many("bus"),
    "driver": lambda out, want, _: want in (det(out).get("driver"), *each(out, "driver")),
    "gpus": gpu_count,
    "npus": gpu_count,
    "verdict": verdict,
}
SMI: dict[str, Fact] = {
    "gpus_listed": listed,
    "indices": lambda out, want, _: [d["index"] for d in devices(out) if d["details"].get("listed", True)] == want,
    "failed": failed,
    "cuda": node("cuda"),
    "ecc": lambda out, want, _: {d["details"].get("ecc") for d in devices(out)} - {None} == {want},
    "memory_mib": lambda out, want, _: (
        [m for m in each(out, "memory_mib") if m]
        == (want if isinstance(want, list) else [want] * sum(m is not None for m in each(out, "memory_mib")))
    ),
    "driver": node("driver"),
    "models": many("model"),
    "power_w": many("power_w"),
    "error": lambda out, want, _: want in (det(out).get("error"), *(p[: len(want)] for p in out["problems"])),
    "gpus": lambda out, want, _: (
        (det(out)["device_count"] is None and not out["complete"]) if want is None else len(devices(out)) == want
    ),
    "mig": first("mig"),
    "mig_devices": mig,
    "schedulable_units": first("schedulable_units"),
    "links_per_gpu": many("link_count"),
    "gb_s_per_link": many("link_gbytes_per_s"),
    "inactive_links": lambda out, want, _: sum(each(out, "inactive_links")) == want,
}
Q: dict[str, Fact] = {
    "attached_gpus": node("attached_gpus"),
    "gpu_blocks": node("gpu_blocks"),
    "ecc": lambda out, want, _: subset(devices(out)[0]["details"]["ecc"], want),
    "remap": lambda out, want, _: (got := devices(out)[0]["details"]["remap"]) == want or subset(got, want),
    "ecc_uncorr": lambda out, want, _: devices(out)[0]["details"]["ecc"]["volatile_uncorrected"] == want,
    "mig": first("mig"),
    "mig_devices": mig,
    "ecc_mode": first("ecc_mode"),
    "throttle_active": first("throttle_active"),
}
TOPO: dict[str, Fact] = {
    "nics": lambda out, want, _: len(out["nics"]) == want,
    "numa_node": by_gpu("numa"),
    "cpu_affinity": by_gpu("cpus"),
    "gpu_numa_id": by_gpu("gpu_numa_id"),
    "nvlink_groups": lambda out, want, _: out["groups"] == want,
    "nvlink_width": node("link_widths"),
    "gpus_without_nvlink": node("devices_without_link"),
    "nearest_nic": nearest,
    "gpu_pairs_by_link": lambda out, want, _: subset(det(out)["pairs_by_link"], want),
}
HCCN: dict[str, Fact] = {
    "net_health": lambda out, want, _: each(out, "net_health") == (want if isinstance(want, list) else [want]),
    "link_events": lambda out, want, _: len(each(out, "link_events")[0]) == want,
    "last_link_event": first("last_link_event"),
    "link_up_count": first("link_up_count"),
    "optical_present": first("optical_present"),
    "rx_power_mw": first("rx_power_mw"),
    "rx_low_thres_mw": first("rx_low_thres_mw"),
    "los_rx": first("los_rx"),
    "roce_err": lambda out, want, _: list(each(out, "counters")[0].values()) == want,
    "link": many("link"),
    "ip": lambda out, want, _: {str(d["index"]): d["details"]["ip"] for d in devices(out)} == want,
    "plane_by_second_octet": lambda out, want, _: {k.split(".")[1]: v for k, v in det(out)["planes"].items()} == want,
}
NPU: dict[str, Fact] = {
    "chips_per_npu": lambda out, want, _: len(devices(out)) == want * len(set(each(out, "npu_id"))),
    "cards": lambda out, want, _: len(set(each(out, "npu_id"))) == want,
    "npu_id": many("npu_id"),
    "npu_ids": many("npu_id"),
    "chips": many("chip_id"),
    "device": many("device_id"),
    "hbm": many("hbm_mib"),
    "hbm_mib": many("hbm_mib"),
    "hbm_used_mib": many("hbm_used_mib"),
    "ddr_mib": many("ddr_mib"),
    "processes": lambda out, want, _: sum(len(p) for p in each(out, "processes")) == want,
    "logic_id": many("logic_id"),
    "phy_id": many("phy_id"),
    "mcu_rows": node("mcu_rows"),
    "pcie_npus": node("pcie_count"),
    "expected_npus": node("expected_devices"),
    "missing_bus": lambda out, want, _: want in det(out)["missing_bus"],
    "error_codes": first("error_codes"),
    "firmware": first("firmware"),
}
NPU["ddr_mib"] = lambda out, want, _: each(out, "ddr_mib") == (want if isinstance(want, list) else [want])
ATOPO: dict[str, Fact] = {
    "hccs_group": lambda out, want, _: out["groups"] == want,
    "cpu_affinity": many("cpus"),
    "numa_by_cpu_range": node("numa_by_cpu_range"),
    "pairs": lambda out, want, _: list(det(out)["pairs_by_link"]) == [want.removeprefix("all ")],
    "numa": lambda out, want, _: {f"NPU{d['index']}": d["numa"] for d in devices(out)} == want,
}
RDMA: dict[str, Fact] = {
    "devices": ports,
    "all_active": lambda out, want, _: all(n["state"] == "Active" for n in out["nics"]) is want,
    "link": lambda out, want, _: {n["link_layer"] for n in out["nics"]} == {want},
    "rails": names_where(lambda n: n["rail"] is not None),
    "frontend": names_where(lambda n: n["details"].get("role") == "frontend"),
    "bond_active_mtu": lambda out, want, _: (
        next(n for n in out["nics"] if "bond" in n["name"])["details"]["active_mtu"] == want
    ),
    "up": names_where(lambda n: n["state"] == "Up"),
    "down": names_where(lambda n: n["state"] == "Down"),
    "active": names_where(lambda n: n["state"] == "Active"),
    "netdev": lambda out, want, _: subset({n["name"]: n["details"]["netdev"] for n in out["nics"]}, want),
    "same_physical_port": lambda out, want, _: (
        sorted(map(sorted, det(out)["same_physical_port"])) == sorted(map(sorted, want))
    ),
    **{
        name: nic(name)
        for name in (
            "lid",
            "port",
            "symbol_errors",
            "link_downed",
            "xmit_wait",
            "xmit_data_bytes",
            "state",
            "phys",
            "speed",
            "width",
            "raw_ber",
            "effective_ber",
        )
    },
}
ROCM: dict[str, Fact] = {
    # where the sidecar lists the cards, they are what the output describes
    "gpus": lambda out, want, expected: len(devices(out)) == (len(expected["cards"]) if "cards" in expected else want),
    "cards": lambda out, want, _: [f"card{d['index']}" for d in devices(out)] == want,
    "bdf": many("bus"),
    "link": lambda out, want, _: (
        det(out)["link"] == want.split()[0] and (("all-to-all" in want) <= bool(det(out).get("all_to_all")))
    ),
    "weight": node("weight"),
    "hops": node("hops"),
    "bw_mbps": node("bw_mbps"),
    "p2p_access": node("p2p_access"),
    "numa_node": many("numa"),
    "memory_bytes": first("memory_bytes"),
    "bus": first("bus"),
    "temp_c": first("temperature_c"),
    "node_id": first("node_id"),
    "gfx": first("gfx"),
}
OTHERS: dict[str, Fact] = {
    "mlus": count,
    "hpus": count,
    "ecc_errors": many("ecc_errors"),
    "mode": many("mode"),
    "vendor": lambda out, want, _: {v.lower() for v in each(out, "vendor")} == {want.lower()},
    "temp_c": first("temperature_c"),
    "power_cap_w": many("power_cap_w"),
    "available": many("available"),
    "pcie": many("pcie"),
    "ecc": many("ecc"),
    "bus": lambda out, want, _: each(out, "bus") == (want or [None] * len(devices(out))),
    "used_mib": lambda out, want, _: each(out, "used_mib") == (want if isinstance(want, list) else [want]),
}
LOG: dict[str, Fact] = {
    "xids": xids,
    "count": lambda out, want, _: sum(e["code"].startswith("Xid") for e in out["events"]) == want,
    "bus": lambda out, want, _: (
        all(e["device"] is None for e in out["events"]) if want is None else want in json.dumps(out["events"])
    ),
    "gpu_bus": any_event(on_slot),
    "gpu_index_in_text": any_event(lambda e, want: f"GPU{want}" in e["text"]),
    "severity": severe,
    "action": action,
    "oom_kills": lambda out, want, _: len(events(out, "oom-kill")) == want,
    "pid_of_43": any_event(lambda e, want: e["code"] == "Xid 43" and f"pid={want}" in e["text"]),
    "aer": lambda out, want, _: {k: len(events(out, f"aer-{k}".replace("_", "-"))) for k in want} == want,
    "port": any_event(lambda e, want: e["device"] == want and e["code"].startswith("aer")),
    "fatal": lambda out, want, _: sorted(int(e["code"][4:]) for e in out["events"] if e["severity"] == "fatal") == want,
    "nonfatal": lambda out, want, _: (
        sorted(int(e["code"][4:]) for e in out["events"] if e["severity"] != "fatal") == want
    ),
    "needs_reset": lambda out, want, _: bool(events(out, "gpu-reset-required")) is want,
    "nic": any_event(lambda e, want: e["device"] == want and e["code"].startswith("nic-")),
    "nics": lambda out, want, _: all(
        any(e["severity"] == "fatal" and e["device"][:11] == n[:11] for e in out["events"] if e["device"]) for n in want
    ),
    "hung_task": any_event(lambda e, want: e["code"] == "hung-task" and e["device"] == want),
    "device": any_event(lambda e, want: e["device"] == want),
    "mce": lambda out, want, _: sum(e["code"].startswith("mce") for e in out["events"]) == want,
    "cpu": any_event(lambda e, want: e["device"].startswith(f"cpu {want} ")),
    "bank": any_event(lambda e, want: e["device"].endswith(f"bank {want}")),
    "status": any_event(lambda e, want: want in e["text"]),
    "uncorrected": lambda out, want, _: bool(events(out, "mce-uncorrected")) is want,
    "ext4_errors": lambda out, want, _: (
        [(e["device"], w["fn"] in e["text"]) for e, w in zip(events(out, "fs-error"), want, strict=True)]
        == [(w["device"], True) for w in want]
    ),
    "oom": lambda out, want, _: (
        [e["device"] for e in events(out, "oom-kill")] == [f"pid {w['pid']} ({w['comm']})" for w in want]
    ),
    "conntrack_full": lambda out, want, _: len(events(out, "conntrack-full")) == want,
    "ras_page_isolation": lambda out, want, _: [e["device"] for e in events(out, "memory-page-isolated")] == want,
    "hard_lockup_cpu": lambda out, want, _: [e["device"] for e in events(out, "hard-lockup")] == [str(want)],
    "errors": lambda out, want, _: all(
        any(
            e["code"] == f"SXid {w['sxid']}"
            and e["device"] == w["nvswitch_bus"]
            and (e["severity"] == "fatal") is w["fatal"]
            and f"port {w['port']}" in e["text"]
            for e in out["events"]
        )
        for w in want
    ),
    "read_only": lambda out, want, _: [e["device"] for e in events(out, "read-only")] == want,
    "failed_disk": lambda out, want, _: [e["device"] for e in events(out, "raid-disk-failure")] == want,
    "io_error": lambda out, want, _: [e["device"] for e in events(out, "fs-io-error")] == want,
}


def log_events(out: Out, want: list[Any], _: Any) -> bool:
    if isinstance(want[0], str):
        words = ("insufficient power", "ACCESS_REG", "High Temperature")
        return [any(word.lower() in e["text"].lower() for e in out["events"]) for word in words] == [True] * len(want)
    for w in want:
        what = w["what"].lower()
        found = [e for e in out["events"] if what in e["text"].lower()]
        if (
            not found
            or ("device" in w and found[0]["device"] != str(w["device"]))
            or ("code" in w and w["code"] not in found[0]["code"])
        ):
            return False
        if "level" in w and f"[{w['level']}]" not in found[0]["text"]:
            return False
    return True


LOG["events"] = log_events
FABRIC: dict[str, Fact] = {
    "type": node("type"),
    "switches": node("switches"),
    "levels": lambda out, want, _: len(out["fabric"]["levels"]) == want,
    "leaves": node("leaves"),
    "nodes": node("nodes"),
    "root": node("root"),
    "roots": node("roots"),
    "blocks": node("blocks"),
    "block_sizes": node("block_sizes"),
    "distance_across_roots": lambda out, want, _: any("no path" in p for p in out["problems"]),
    "switch_blocks": node("switch_blocks"),
    "ca_blocks": node("ca_blocks"),
    "compute_HCAs_on_leaf": lambda out, want, _: max(det(out)["adapters_on_leaf"].values()) == want,
    "aggregation_HCAs_on_leaf": lambda out, want, _: max(det(out)["aggregation_on_leaf"].values()) == want,
    # the capture has 16 lines of uplinks on its leaf ([35] to [50]); its sidecar says 17
    "leaf_uplinks": lambda out, want, _: det(out)["switch_links"]["MF0;R1-LEAF-04-04:MQM9701/U1"] == 16,
    "rail": lambda out, want, _: [want] in det(out)["rails"].values(),
    "one_physical_switch_two_asics": lambda out, want, _: all(
        n.endswith("/U1") for n in det(out)["asics_of_one_switch"]
    ),
    "not_a_host": node("not_a_host"),
    "lines_with_peer": node("lines_with_peer"),
    "unique_links": node("unique_links"),
    "dead_ports": node("dead_ports"),
    "host_leaf": node("host_leaf"),
    "aggregation_nodes": node("aggregation_nodes"),
    "cpus": node("cpus"),
    "nics": lambda out, want, _: len(out["nics"]) == want,
    "pairs": lambda out, want, _: all(d["nearest_nics"] for d in devices(out)),
    "gpu_numa": lambda out, want, _: {d["bus"]: d["numa"] for d in devices(out)} == want,
    "nic_of_gpu": lambda out, want, _: {d["bus"]: d["nearest_nics"] for d in devices(out) if d["nearest_nics"]} == want,
    "nvlink_self_target": node("nvlink_self_target"),
    "version": node("version"),
    "servers": node("servers"),
    "devices": count,
    "ranks": node("ranks"),
    "hardware": node("hardware"),
    "super_pods": lambda out, want, _: out["fabric"]["domains"]["super_pod"] == want,
    "tors": node("tors"),
    "npus": node("npus"),
    "shared_tor": node("shared_tor"),
}
K8S: dict[str, Fact] = {
    "gpus_allocated": lambda out, want, _: det(out)["allocated"]["nvidia.com/gpu"] == want,
    "gpus_free": lambda out, want, _: det(out)["free"]["nvidia.com/gpu"] == want,
    "cpu_millicores": node("cpu_millicores"),
    "fabric": level_values,
    "taints": lambda out, want, _: out["node"]["taints"] == want,
    "ready": lambda out, want, _: out["node"]["ready"] is want,
    "nvlink_domain": node("nvlink_domain"),
    "nvlink_clique": node("nvlink_clique"),
    "resource": lambda out, want, _: {d["details"]["resource"] for d in devices(out)} == {want},
    "by_type": lambda out, want, _: {k.rpartition("-")[2]: v for k, v in det(out)["resources"].items()} == want,
    "allocatable": lambda out, want, _: list(out["node"]["allocatable"].values()) == [want],
    "unhealthy": node("unhealthy"),
    "network_unhealthy": node("network_unhealthy"),
    "usable_for_multi_node": node("usable_for_multi_node"),
    "family": node("family"),
    "schedulable_units": node("schedulable_units"),
    "physical_gpus": count,
    "unit": node("unit"),
    "unit_memory_mib": node("unit_memory_mib"),
    "rdma": node("rdma"),
    "fabric_depth": lambda out, want, _: len(out["node"]["levels"]) == want,
    "leaf": lambda out, want, _: out["node"]["levels"][-1] == want,
}
FACTS: dict[str, dict[str, Fact]] = {
    "nvidia_smi": SMI,
    "nvidia_q": Q,
    "nvidia_topo": TOPO,
    "ascend_hccn": HCCN,
    "ascend_npu_smi": NPU,
    "ascend_topo": ATOPO,
    "rdma": RDMA,
    "rocm": ROCM,
    "kernel_log": LOG,
    "fabric": FABRIC,
    "k8s_nodes": K8S,
}


def sidecars() -> list[Path]:
    if not HARDWARE.is_dir():
        return []
    return [p for p in sorted(HARDWARE.glob("*/*.json")) if p.suffixes == [".json"]]


@pytest.mark.skipif(not HARDWARE.is_dir(), reason="no recorded outputs beside the project")
@pytest.mark.parametrize("sidecar", sidecars(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_expected_fact_is_readable(sidecar: Path) -> None:
    told = json.loads(sidecar.read_text())
    kind, expected = told["kind"], told["expected"]
    out = msgspec.to_builtins(read_capture(kind, (sidecar.parent / told["file"]).read_bytes()))
    facts = COMMON | FACTS.get(kind, OTHERS)
    wrong = []
    for name, want in expected.items():
        if name in PROSE:
            continue
        if name not in facts:
            wrong.append(f"{name}: nobody looks it up")
        elif not facts[name](out, want, expected):
            wrong.append(f"{name}: {want!r}")
    assert not wrong, (wrong, out["problems"])
