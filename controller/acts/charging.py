"""Books what an attempt has used on its queue, where the queue's past counts."""

from collections import Counter
from collections.abc import Sequence

from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.scheduling.usage import half_life, with_use
from controller.state.writing import Writer


def charge_queue(
    w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], now: float
) -> None:
    """Device-seconds by kind, from the placement until now."""
    queue = w.queue(job.spec.get("queue", "default"))
    if queue is None or half_life(queue) is None:
        return
    used: Counter[str] = Counter()
    kinds: dict[str, dict[int, str]] = {}
    for worker in workers:
        if worker.node not in kinds:
            node = w.node(worker.node)
            kinds[worker.node] = {device.index: device.type for device in node.devices} if node else {}
        used.update(kinds[worker.node][device] for device in worker.devices if device in kinds[worker.node])
    seconds = max(0.0, now - attempt.placed_at)
    w.put_queue(with_use(queue, {kind: count * seconds for kind, count in used.items()}, now))
