"""Scripts as their users wrote them for Slurm, on a real cluster, by the commands that `muster slurm install` puts on the PATH."""

import subprocess
from pathlib import Path

import pytest

from tests.up.cluster import Cluster, until

pytestmark = pytest.mark.processes
SCRIPTS = Path(__file__).parent / "scripts"


class Site:
    """A cluster with Slurm's commands, and a folder to work in."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        done = cluster.muster("slurm", "install", folder / "bin")
        assert done.returncode == 0, done.stderr

    def run(self, command, *words, code=0):
        env = self.cluster.env | {"PATH": f"{self.folder / 'bin'}:{self.cluster.env['PATH']}"}
        done = subprocess.run(
            [self.folder / "bin" / command, *map(str, words)],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.strip()

    def submit(self, *words):
        return self.run("sbatch", "--parsable", *words)

    def ended(self, number):
        state = "sacct", "-n", "-P", "-X", "-o", "state", "-j", number
        until(f"job {number} ends", lambda: set(self.run(*state).split()) <= {"COMPLETED", "FAILED", "CANCELLED"})
        return self.run(*state).split()

    def text(self, name):
        return (self.folder / name).read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    cluster = Cluster(folder)
    cluster.start("--agents", "4", "--devices", "h100:4")
    yield Site(cluster, folder)
    cluster.close()


def test_an_array_and_what_comes_after_it(site):
    array = site.submit(SCRIPTS / "sweep.sh")
    after = site.submit("-d", f"afterok:{array}", "--wrap", "cat sweep_*.txt")
    assert site.ended(after) == ["COMPLETED"]
    assert site.ended(array) == ["COMPLETED"] * 4
    lines = site.text(f"slurm-{after}.out").splitlines()
    assert lines == [
        f"element {index} of array {array}, rate {rate}" for index, rate in enumerate(("0.1", "0.2", "0.4", "0.8"))
    ]


def test_a_script_that_requeues_itself_at_a_signal_goes_on_from_its_file(site):
    number = site.submit(SCRIPTS / "requeue.sh")
    assert site.ended(number) == ["COMPLETED"]
    assert site.text("requeue.txt").splitlines() == ["run 0 from 0", "saved at the signal", "run 1 from 1", "done"]


def test_srun_starts_ranks_on_every_node_and_a_lost_one_is_replaced(site):
    number = site.submit(SCRIPTS / "ranks.sh")
    until("both ranks run", lambda: site.text("ranks.txt").count("begins") >= 2)
    (site.folder / "go").touch()
    lost = site.run("squeue", "-h", "-j", number, "-o", "%N")
    assert lost == "node-[0-1]"
    assert site.cluster.muster("lab", "lose", "node-1").returncode == 0
    assert site.ended(number) == ["COMPLETED"]
    text = site.text("ranks.txt")
    assert "rank 1 of 2 on node-1 begins, restart 0" in text
    assert "rank 1 of 2 on node-2 begins, restart 1" in text
    assert text.count("ends") >= 2
    assert site.cluster.muster("lab", "return", "node-1").returncode == 0


def test_what_is_seen_and_cancelled(site):
    number = site.submit("-J", "long one", "--gres=gpu:2", "--wrap", "sleep 600")
    until("it runs", lambda: site.run("squeue", "-h", "-j", number, "-o", "%t") == "R")
    line = site.run("squeue", "-h", "-j", number, "-o", "%i|%j|%D|%b")
    assert line == f"{number}|long one|1|gres:gpu:h100:2"
    assert "JobState=RUNNING" in site.run("scontrol", "show", "job", number)
    assert "mix" in site.run("sinfo", "-h", "-o", "%t")
    site.run("scancel", number)
    assert site.ended(number) == ["CANCELLED"]
    assert site.run("squeue", "-h") == ""


def test_srun_and_salloc_without_a_script(site):
    assert sorted(site.run("srun", "-n", "2", "-l", "echo", "hello").splitlines()) == ["0: hello", "1: hello"]
    site.run("srun", "sh", "-c", "exit 7", code=7)
    said = site.run("salloc", "-N", "2", "sh", "-c", "srun sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'")
    assert sorted(said.splitlines()) == ["task 0 of 2", "task 1 of 2"]


def test_what_is_not_known_is_named(site):
    done = subprocess.run(
        [site.folder / "bin/sbatch", SCRIPTS / "unknown.sh"],
        env=site.cluster.env,
        cwd=site.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "unknown.sh:3: unknown option --burst-buffer" in done.stderr
    assert site.run("sbatch", "-d", "afterok:999999", "--wrap", "true", code=3) == ""
