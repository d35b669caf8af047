"""One cause behind the failures of several jobs: a mount, a switch, a rack's power. Then no node is to blame. Pure.

Many nodes of one domain that fail alike within minutes, and in several jobs, have the domain in common; many jobs that
cannot use one mount have the mount in common, wherever they run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from controller.records import IncidentRecord, NodeRecord, Verdict

WINDOW: Final = 300.0
"""Seconds within which failures can have one cause."""
NODES: Final = 3
"""Nodes of one domain, from `JOBS` jobs, that must have failed alike."""
JOBS: Final = 2
MOUNTS: Final = 2
"""Jobs that must have failed at one mount."""
LEVEL: Final = "muster.dev/"
DOMAINS: Final = ("node_lost", "ib_transport", "network", "link", "nvlink", "collective", "nic", "power")
STORAGE: Final = ("storage", "fs_", "disk_quota", "checkpoint_dir")
_PATH: Final = re.compile(
    r"'(/[\w.-]+/[\w.-]+)[/']|\s(/(?:mnt|data|scratch|home|lustre|gpfs|nfs|shared|fs)[\w.-]*/[\w.-]+)"
)


def with_shared_cause(
    verdict: Verdict, job_uid: str, recent: Iterable[IncidentRecord], nodes: Mapping[str, NodeRecord], now: float
) -> Verdict:
    """The verdict, or the same without a culprit where other jobs' failures show one cause. `recent`: any incidents;
    `nodes`: those that they and the verdict name."""
    others = [one for one in recent if one.job_uid != job_uid and now - one.opened_at <= WINDOW]
    if cause := _mount(verdict, others) or _domain(verdict, others, nodes):
        return replace(
            verdict, node_at_fault=False, culprit_nodes=(), why=f"{verdict.why}; {cause}, so no node is blamed"
        )
    return verdict


def _mount(verdict: Verdict, others: Sequence[IncidentRecord]) -> str:
    mount = _mount_of(verdict)
    if not mount:
        return ""
    jobs = {one.job_uid for one in others if _mount_of(one.verdict) == mount}
    return f"{len(jobs) + 1} jobs fail at {mount} within minutes" if len(jobs) + 1 >= MOUNTS else ""


def _mount_of(verdict: Verdict) -> str:
    if not verdict.category.startswith(STORAGE):
        return ""
    for text in (*verdict.decided_by, verdict.why):
        if match := _PATH.search(text):
            return match[1] or match[2]
    return ""


def _domain(verdict: Verdict, others: Sequence[IncidentRecord], nodes: Mapping[str, NodeRecord]) -> str:
    if not verdict.culprit_nodes or not verdict.category.startswith(DOMAINS):
        return ""
    alike = [one for one in others if one.verdict.category == verdict.category and one.verdict.culprit_nodes]
    mine = nodes.get(verdict.culprit_nodes[0])
    for key, value in sorted(mine.labels.items() if mine is not None else ()):
        if not key.startswith(LEVEL):
            continue
        inside = [
            (one.job_uid, name)
            for one in alike
            for name in one.verdict.culprit_nodes
            if name in nodes and nodes[name].labels.get(key) == value
        ]
        names = {name for _, name in inside} | set(verdict.culprit_nodes)
        if len(names) >= NODES and len({uid for uid, _ in inside}) + 1 >= JOBS:
            return f"{len(names)} nodes of {key.removeprefix(LEVEL)} {value} fail alike within minutes"
    return ""
