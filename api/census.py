"""The state of the cluster as Prometheus reads it, out of the database when asked, so that it is never out of date.
Every API process tells the same: take one, or the largest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily

from controller.records import LeaseRecord, NodeRecord
from controller.recovery.goodput import Bucket, ettr
from controller.state import Reader, Store
from controller.state.tallies import JobTally, LeaderTally, OutboxTally
from muster.states import JOB_TERMINAL, JobPhase, NodePhase

WINDOW: Final = 24 * 3600.0
"""Seconds: jobs that ended in the last day make the goodput."""

Rows = Iterable[tuple[Sequence[str], float]]


class Census:
    """`now` is UTC seconds."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store, self._now = store, now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = self._now()
        with self._store.read() as r:
            yield from _jobs(r.job_tallies(), now)
            yield from _nodes(r.nodes(), r.leases(), r.allocated_devices(), now)
            yield from _promises(r.outbox_tallies(), now)
            yield from _leader(r.leader(), now)
            yield _family("muster_revision", "Newest revision of the change log", (), [((), r.revision())])
            yield _incidents(r)
            yield from _goodput(r.receipt_sums(now - WINDOW))

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is known before it is asked for."""
        return []


def _family(name: str, words: str, labels: Sequence[str], rows: Rows) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=list(labels))
    for values, value in rows:
        family.add_metric(list(values), value)
    return family


def _jobs(tallies: list[JobTally], now: float) -> Iterator[GaugeMetricFamily]:
    phases = Counter({phase.value: 0 for phase in JobPhase if phase not in JOB_TERMINAL})
    queues: Counter[tuple[str, str]] = Counter()
    waits: Counter[tuple[str, str]] = Counter()
    oldest: dict[tuple[str, str], float] = {}
    for one in tallies:
        phases[one.phase] += one.count
        queues[one.queue, one.phase] += one.count
        if one.phase == JobPhase.QUEUED:
            key = (one.queue, one.reason or "NEW")
            waits[key] += one.count
            oldest[key] = max(oldest.get(key, 0.0), now - one.oldest)
    yield _family("muster_jobs", "Live jobs by phase", ("phase",), (((key,), count) for key, count in phases.items()))
    yield _family("muster_queue_jobs", "Live jobs of a queue by phase", ("queue", "phase"), queues.items())
    yield _family("muster_waiting_jobs", "Queued jobs by the reason why they wait", ("queue", "reason"), waits.items())
    words = "How long the oldest queued job has waited"
    yield _family("muster_oldest_wait_seconds", words, ("queue", "reason"), oldest.items())


def _nodes(
    nodes: list[NodeRecord], leases: list[LeaseRecord], allocated: Mapping[str, int], now: float
) -> Iterator[GaugeMetricFamily]:
    phases = Counter({(phase.value, word): 0 for phase in NodePhase for word in ("true", "false")})
    devices: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        phases[node.phase.value, str(node.cordoned).lower()] += 1
        kinds = Counter(device.type for device in node.devices)
        for kind, count in kinds.items():
            devices[kind, "all"] += count
        if len(kinds) == 1:
            devices[next(iter(kinds)), "allocated"] += allocated.get(node.name, 0)
    yield _family("muster_nodes", "Nodes by phase", ("phase", "cordoned"), phases.items())
    yield _family(
        "muster_devices", "Devices of all nodes, and those that a worker holds", ("type", "state"), devices.items()
    )
    ready = {node.name for node in nodes if node.phase is not NodePhase.LOST}
    ages = [now - lease.renewed_at for lease in leases if lease.node in ready]
    oldest = [((), max(ages))] if ages else []
    yield _family("muster_oldest_lease_seconds", "Age of the oldest lease of a node that is not lost", (), oldest)


def _promises(tallies: list[OutboxTally], now: float) -> Iterator[GaugeMetricFamily]:
    found = {one.state: one for one in tallies}
    counts = (((state,), found[state].count if state in found else 0) for state in ("due", "dead"))
    yield _family("muster_outbox_items", "Side effects that are due or were given up", ("state",), counts)
    due = found.get("due")
    age = now - due.oldest if due else 0.0
    yield _family("muster_outbox_oldest_seconds", "Age of the oldest side effect that is due", (), [((), age)])


def _leader(leader: LeaderTally, now: float) -> Iterator[GaugeMetricFamily]:
    yield _family("muster_leader_epoch", "Times that a leader took over", (), [((), leader.epoch)])
    since = [((), now - leader.at)] if leader.at else []
    yield _family("muster_leader_renewal_seconds", "Since the leader's last renewal", (), since)


def _incidents(r: Reader) -> GaugeMetricFamily:
    counts = r.incident_tallies()
    rows = [((category, action), count) for category, action, count in counts]
    return _family("muster_incidents", "Failures on record by what they were", ("category", "action"), rows)


def _goodput(sums: dict[str, float]) -> Iterator[GaugeMetricFamily]:
    words = "Device-seconds of jobs that ended in the last day, by what they went to"
    yield _family("muster_goodput_device_seconds", words, ("bucket",), (((key,), value) for key, value in sums.items()))
    ratio = ettr({bucket: sums[bucket.value] for bucket in Bucket})
    rows = [] if ratio is None else [((), ratio)]
    yield _family("muster_goodput_ratio", "Productive part of what jobs held that ended in the last day", (), rows)
