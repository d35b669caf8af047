"""From a script and its options to a manifest, and what is refused by its name."""

import pytest

from cli.errors import Failure
from cli.slurm import hostlist, station
from cli.slurm.bundle import program
from cli.slurm.getopt import parse
from cli.slurm.header import checked, options
from cli.slurm.jobs import clock
from cli.slurm.manifest import dependencies, exported, make, minutes, shape_of, warning
from cli.slurm.options import BATCH, STEP

ENVIRON = {
    "PATH": "/opt/bin:/bin",
    "HOME": "/home/ann",
    "SECRET": "x",
    "SLURM_JOB_ID": "1",
    "MUSTER_TOKEN": "t",
    "PWD": "/",
}


def made(*words, script="#!/bin/sh\n"):
    given, _ = parse([*words], BATCH, command="sbatch")
    return make(
        script, given, arguments=(), program="", run=("python3",), step_options="{}", environ=ENVIRON,
        user="ann", host="login", folder="/work", default_name="train.sh",
    )  # fmt: skip


def spec(*words):
    return made(*words).document["spec"]


def refused(*words):
    with pytest.raises(Failure) as caught:
        made(*words)
    return "\n".join(caught.value.lines())


class TestOptions:
    @pytest.mark.parametrize(
        "words", [["-N4"], ["-N", "4"], ["--nodes=4"], ["--nodes", "4"], ["-HN4"], ["--node=4", "--nodes=4"]]
    )
    def test_every_way_of_writing_one(self, words):
        if "--node=4" in words:
            with pytest.raises(Failure, match="unknown option --node"):
                parse(words, BATCH, command="sbatch")
        else:
            assert parse(words, BATCH, command="sbatch")[0]["nodes"] == "4"

    def test_what_follows_is_the_scripts(self):
        assert parse(["-N2", "job.sh", "-N3", "--x"], BATCH, command="sbatch") == (
            {"nodes": "2"},
            ["job.sh", "-N3", "--x"],
        )

    def test_the_header_ends_with_the_first_command(self):
        text = '#!/bin/bash\n#SBATCH -J a -N 2 # two\n\n# a remark\n##SBATCH -p off\n#SBATCH --comment="x y"\necho\n#SBATCH -N 9\n'
        assert options(text, "job.sh") == {"job-name": "a", "nodes": "2", "comment": "x y"}

    def test_an_unknown_one_is_named_with_its_line(self):
        with pytest.raises(Failure, match=r"job.sh:3: unknown option --gras"):
            options("#!/bin/sh\n#SBATCH -N 1\n#SBATCH --gras=gpu:1\n", "job.sh")

    def test_a_script_without_an_interpreter_or_with_dos_ends_is_none(self):
        with pytest.raises(Failure, match="interpreter"):
            checked("echo\n", "x")
        with pytest.raises(Failure, match="DOS"):
            checked("#!/bin/sh\r\necho\r\n", "x")


class TestManifest:
    def test_nodes_tasks_devices_memory_time(self):
        found = spec(
            "-N2",
            "--ntasks-per-node=4",
            "-c2",
            "--gres=gpu:h100:4",
            "--mem=64G",
            "-t",
            "1-02:00",
            "-p",
            "big",
            "-q",
            "high",
        )
        assert (found["workers"], found["cpu"], found["memory"]) == (2, "8", "65536Mi")
        assert found["accelerators"] == [{"type": "h100", "count": 4}]
        assert (found["timeLimit"], found["queue"], found["priorityClass"]) == ("1d2h", "big", "high")

    def test_tasks_without_nodes_lie_where_there_is_room(self):
        found = spec("-n", "6", "-c", "2", "--mem-per-cpu=1G")
        assert (found["workers"], found["maxPerNode"], found["cpu"], found["memory"]) == (6, 6, "2", "2048Mi")

    def test_a_range_of_nodes_is_elastic(self):
        found = spec("-N2-4")
        assert (found["minWorkers"], found["workers"]) == (2, 4)

    @pytest.mark.parametrize(
        ("words", "slots"),
        [(["-N2", "-n5"], (3, 2)), (["-N3", "-n2"], (1, 1)), (["-n8", "--ntasks-per-node=4"], (4, 4)), (["-N2"], (1, 1)), ([], (1,))],
    )  # fmt: skip
    def test_tasks_of_each_node(self, words, slots):
        assert shape_of(parse(words, BATCH, command="sbatch")[0]).slots == slots

    @pytest.mark.parametrize(
        ("words", "count"),
        [(["--gpus-per-node=8"], 8), (["-N2", "-G", "8"], 4), (["--ntasks-per-node=4", "-N1", "--gpus-per-task=2"], 8), (["--gres=gpu:a100:3"], 3)],
    )  # fmt: skip
    def test_devices_of_each_worker(self, words, count):
        assert spec(*words)["accelerators"][0]["count"] == count

    def test_order_arrays_places_and_labels(self):
        one = made(
            "-a",
            "0-99%10",
            "-d",
            "afterok:12:13,afterany:7,singleton",
            "-w",
            "n[1-2]",
            "-x",
            "n3",
            "-C",
            "ib&disk=ssd",
            "-J",
            "My Run",
            "-A",
            "lab",
        )
        assert one.after == (("succeeded", "12"), ("succeeded", "13"), ("finished", "7"))
        assert one.singleton
        found = one.document["spec"]
        assert found["array"] == {"indices": "0-99%10"}
        assert found["nodes"] == {"include": ["n1", "n2"], "exclude": ["n3"]}
        assert found["nodeSelector"] == {"slurm.muster.dev/feature-ib": "true", "disk": "ssd"}
        labels = one.document["metadata"]["labels"]
        assert one.document["metadata"]["name"] == "my-run"
        assert (labels["slurm.muster.dev/name"], labels["slurm.muster.dev/account"]) == ("My_Run", "lab")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["-N", "x"], "--nodes: expected N or MIN-MAX, found 'x'"),
            (["-N", "4-2"], "wrong order"),
            (["-t", "soon"], "--time: expected"),
            (["--mem", "lots"], "--mem: expected"),
            (["--gres=licence:2"], "--gres: expected gpu"),
            (["-N3", "-G", "8"], "cannot be shared evenly"),
            (["-d", "afterwards:3"], "expected KIND:JOB"),
            (["-d", "afterok:1?afterok:2"], "not known here"),
            (["--signal=WHAT@3"], "--signal: expected"),
            (["-a", "all"], "--array: expected"),
            (["-C", "a|b"], "only names joined by &"),
            (["-N1", "-n9", "--ntasks-per-node=4"], "does not fit"),
        ],
    )
    def test_nonsense_is_named(self, words, told):
        assert told in refused(*words)

    def test_the_environment_goes_along_but_for_what_is_the_clusters(self):
        assert exported("ALL", ENVIRON) == {"PATH": "/opt/bin:/bin", "HOME": "/home/ann", "SECRET": "x"}
        assert exported("NONE", ENVIRON) == {"PATH": "/opt/bin:/bin", "HOME": "/home/ann"}
        assert exported("A=1,SECRET", ENVIRON) == {
            "PATH": "/opt/bin:/bin",
            "HOME": "/home/ann",
            "A": "1",
            "SECRET": "x",
        }

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("30", 1800), ("1:30", 90), ("2:00:00", 7200), ("1-0", 86400), ("1-2:03", 93780), ("2-00:00:01", 172801), ("UNLIMITED", 0)],
    )  # fmt: skip
    def test_times(self, text, seconds):
        assert minutes(text) == seconds

    def test_signals_and_dependencies(self):
        assert warning("B:USR1@300") == {"number": 10, "before": 300, "batch": True}
        assert warning("TERM") == {"number": 15, "before": 60, "batch": False}
        assert dependencies("") == ((), False)


class TestHosts:
    @pytest.mark.parametrize(
        ("text", "hosts"),
        [("n[1-3,7]", ["n1", "n2", "n3", "n7"]), ("a,b", ["a", "b"]), ("r[08-10]n[1-2]", ["r08n1", "r08n2", "r09n1", "r09n2", "r10n1", "r10n2"]), ("", [])],
    )  # fmt: skip
    def test_expanded(self, text, hosts):
        assert hostlist.expand(text) == hosts

    @pytest.mark.parametrize("text", ["n[1-", "n[a-b]", "n]1", "n[1-999999999]"])
    def test_no_list(self, text):
        with pytest.raises(ValueError, match="no list"):
            hostlist.expand(text)

    @pytest.mark.parametrize(
        "hosts", [["n1", "n2", "n3"], ["n01", "n02", "x", "n3"], ["10.0.0.1", "10.0.0.2"], ["a-9", "a-10"]]
    )
    def test_there_and_back(self, hosts):
        assert hostlist.expand(hostlist.compress(hosts)) == hosts


class TestStation:
    def test_its_text_is_a_program_of_the_standard_library_alone(self):
        text = program()
        compile(text, "station", "exec")
        assert "from cli" not in text
        assert "import msgspec" not in text

    @pytest.mark.parametrize(
        ("asked", "slots", "places"),
        [
            ({}, [2, 2], {0: [0, 1], 1: [2, 3]}),
            ({"tasks": 3}, [2, 2], {0: [0, 1], 1: [2]}),
            ({"tasks": 1}, [2, 2], {0: [0]}),
            ({"nodes": 2, "tasks": 2}, [2, 2], {0: [0], 1: [1]}),
            ({"nodes": 1}, [2, 2], {0: [0, 1]}),
            ({"tasksPerNode": 1}, [4, 4], {0: [0], 1: [1]}),
            ({"nodes": 1, "relative": 1}, [2, 2], {1: [0, 1]}),
            ({"tasks": 6, "overcommit": True}, [2, 2], {0: [0, 1, 2], 1: [3, 4, 5]}),
        ],
    )
    def test_where_the_tasks_of_a_step_go(self, asked, slots, places):
        assert station.layout(asked, slots) == places

    @pytest.mark.parametrize("asked", [{"tasks": 5}, {"nodes": 3}])
    def test_what_does_not_fit_is_told(self, asked):
        with pytest.raises(ValueError, match="were asked for"):
            station.layout(asked, [2, 2])

    def test_names_of_files(self):
        env = {
            "SLURM_JOB_ID": "12",
            "SLURM_ARRAY_JOB_ID": "7",
            "SLURM_ARRAY_TASK_ID": "3",
            "SLURM_JOB_NAME": "run",
            "SLURM_PROCID": "5",
        }
        assert station.pattern("%x-%j_%A_%a.%t-%4a-%%-%q", env) == "run-12_7_3.5-0003-%-%q"

    def test_counts_by_node(self):
        assert station.repeated([4, 4, 4, 2]) == "4(x3),2"

    def test_srun_in_a_script_reads_the_same_options(self):
        table = {word: [one.name, one.takes] for word, one in STEP.items()}
        found = station.read_step(
            ["-N2", "-n", "4", "-l", "--output=x.%t", "--kill-on-bad-exit=1", "python", "-n"], table, {}
        )
        assert (found["nodes"], found["tasks"], found["label"], found["output"]) == (2, 4, True, "x.%t")
        assert found["killOnBadExit"]
        assert found["argv"] == ["python", "-n"]
        with pytest.raises(ValueError, match="unknown option --frob"):
            station.read_step(["--frob", "x"], table, {})
        with pytest.raises(ValueError, match="no command"):
            station.read_step(["-n2"], table, {})


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (3725, "1:02:05"), (90061, "1-01:01:01"), (None, "0:00")])
def test_times_as_squeue_writes_them(seconds, text):
    assert clock(seconds) == text
