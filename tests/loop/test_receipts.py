"""A finished job leaves its receipt, whoever deletes it and whenever the leader comes to it."""

from controller.acts.receipts import receipt_of, write_receipts
from controller.records import JobRecord
from controller.recovery.accounts import account, accounts
from muster.states import JobPhase
from tests.loop.world import World


def finished(world: World, code: int = 0) -> JobRecord:
    job = world.submit("train", workers=1)
    (worker,) = world.run(job)
    for _ in range(20):
        world.step(1.0)
    world.exit(worker, code=code)
    world.until(lambda: world.job(job).phase is not JobPhase.RUNNING)
    return world.job(job)


def test_every_device_second_of_a_finished_job_is_on_its_receipt(tmp_path):
    world = World(tmp_path)
    job = finished(world)
    assert write_receipts(world.store, world.guard, now=world.clock.now()) == 1
    assert write_receipts(world.store, world.guard, now=world.clock.now()) == 0
    with world.store.read() as r:
        (receipt,) = r.receipts()
        assert receipt == r.receipt(job.uid)
        sums = r.receipt_sums(0.0)
    wall = job.finished_at - job.created_at
    assert sum(sums.values()) == sum(getattr(receipt, bucket) for bucket in sums)
    assert abs(sum(sums.values()) - wall * receipt.devices) < 1e-6
    assert receipt.productive >= 19 * receipt.devices
    assert (receipt.outcome, receipt.name, receipt.restarts) == ("Succeeded", "train", 0)


def test_a_failure_is_booked_to_its_cause_and_the_sums_follow(tmp_path):
    world = World(tmp_path)
    job = finished(world, code=1)
    with world.store.read() as r:
        receipt = receipt_of(r, job, world.clock.now())
    whole = account("all", [receipt])
    assert whole.failures == 1
    (cause,) = accounts("cause", [receipt])
    assert (cause.jobs, cause.failures) == (1, 1)
    assert [one.name for one in accounts("queue", [receipt])] == ["default"]
