"""Commits what makes a running gang begin anew elsewhere or larger: its destination is its claim before it is told to stop."""

from collections.abc import Sequence

from controller.acts.log import job_event
from controller.acts.preempt import WAITING, claim, running, stop
from controller.records import JobRecord
from controller.scheduling.types import Growth, Migration, Turnover
from controller.state.writing import Writer
from muster.reasons import End


def commit_migrations(w: Writer, moves: Sequence[Migration], *, now: float) -> bool:
    """All moves for one beneficiary, which claims what they vacate, or none of them."""
    found = [(move, running(w, move.job_uid, move.attempt_uid)) for move in moves]
    gangs = [(move, gang) for move, gang in found if gang is not None]
    beneficiary = w.job(moves[0].beneficiary)
    alone = [move.job_uid for move in moves] == [moves[0].beneficiary]
    if len(gangs) < len(found) or beneficiary is None or not (alone or _waits(beneficiary)):
        return False
    for move, gang in gangs:
        nodes = [placed.node for placed in move.workers]
        where = ", ".join(dict.fromkeys(nodes))
        reason = "" if alone else f", so that {beneficiary.namespace}/{beneficiary.name} finds room"
        stop(w, gang, End.MIGRATED, f"moves to {where}{reason}", now)
        claim(w, gang.job, nodes, [worker.uid for worker in gang.workers], [gang.grace], now)
    if not alone:
        vacating = [worker.uid for _, gang in gangs for worker in gang.workers]
        nodes = [placed.node for placed in moves[0].room]
        claim(w, beneficiary, nodes, vacating, [gang.grace for _, gang in gangs], now)
        names = ", ".join(sorted(gang.label for _, gang in gangs))
        job_event(w, beneficiary, "Claimed", f"{', '.join(dict.fromkeys(nodes))}; {names} moves away", now)
    return True


def commit_growth(w: Writer, growth: Growth, *, now: float) -> bool:
    """It begins anew with more workers, from its newest checkpoint."""
    gang = running(w, growth.job_uid, growth.attempt_uid)
    if gang is None or gang.job.cancel or gang.job.suspend:
        return False
    nodes = [*(worker.node for worker in gang.workers), *(placed.node for placed in growth.workers)]
    stop(w, gang, End.RESIZED, f"goes on with {len(nodes)} instead of {len(gang.workers)} workers", now)
    claim(w, gang.job, nodes, [worker.uid for worker in gang.workers], [gang.grace], now)
    return True


def _waits(job: JobRecord) -> bool:
    return job.phase in WAITING and not (job.cancel or job.suspend)


def commit_turnover(w: Writer, turnover: Turnover, *, now: float) -> bool:
    """Everything of it, or nothing where one of its gangs is not as it was."""
    stops = [running(w, one.job_uid, one.attempt_uid) for one in turnover.stops]
    moves = [(one, running(w, one.job_uid, one.attempt_uid)) for one in turnover.moves]
    claims = [(one, w.job(one.job_uid)) for one in turnover.claims]
    if None in stops or any(gang is None for _, gang in moves):
        return False
    if any(job is None or not _waits(job) for _, job in claims):
        return False
    going = [gang for gang in (*stops, *(gang for _, gang in moves)) if gang is not None]
    graces = [gang.grace for gang in going]
    leaving = {worker.uid: worker.node for gang in going for worker in gang.workers}
    for gang in stops:
        if gang is not None:
            stop(w, gang, End.PREEMPTED, f"the devices of queue {turnover.queue} are worth more to others for now", now)
    for move, gang in moves:
        if gang is not None:
            told = f"goes on with {len(move.workers)} instead of {len(gang.workers)} workers"
            stop(w, gang, End.RESIZED, told, now)
            nodes = [placed.node for placed in move.workers]
            others = [uid for uid, node in leaving.items() if node in nodes]
            claim(w, gang.job, nodes, [*(worker.uid for worker in gang.workers), *others], graces, now)
    for wanted, job in claims:
        if job is not None:
            claim(w, job, [placed.node for placed in wanted.workers], wanted.awaited, graces, now)
    return True
