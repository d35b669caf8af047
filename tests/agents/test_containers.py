"""Workers in containers: what is asked of the engine, and that nothing of a worker outlives it."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.runtime.containers import choosing
from agents.runtime.containers.apptainer import Apptainer
from agents.runtime.containers.contract import Box
from agents.runtime.containers.dockerlike import Docker
from agents.runtime.containers.nerdctl import Nerdctl
from agents.runtime.containers.podman import Podman
from agents.runtime.containers.pulling import Progress
from agents.runtime.users import User
from muster.launch import Container, Mount, Running
from tests.agents.cluster import AgentProcess, FakeApi, alive, make_assignment, until
from tests.agents.engine import StandIn

BOX = Box(
    name="muster-w1-0",
    container=Container(image="img:1", shm=2**30),
    argv=("python", "train.py"),
    cwd="/home/me",
    variables=("RANK", "TOKEN"),
    mounts=(Mount("/data", "/data", True), Mount("/w", "/w")),
    devices=("/dev/infiniband",),
    gpus=(2, 3),
    vendor="nvidia",
    user=User(uid=7, gid=8, groups=(8, 44), name="me", home="/home/me", shell="/bin/sh"),
)


def test_what_each_engine_is_asked() -> None:
    docker = " ".join(Docker("/bin/docker").run(BOX))
    for part in (
        "run --rm --name muster-w1-0 --network host --shm-size 1073741824 --init",
        "--pull never --workdir /home/me",
        "--user 7:8 --group-add 8 --group-add 44",
        "--ulimit memlock=-1:-1",
        "--volume /data:/data:ro --volume /w:/w",
        "--device /dev/infiniband --cap-add IPC_LOCK",
        '--gpus "device=2,3"',
        "--env RANK --env TOKEN",
        "--entrypoint python img:1 train.py",
    ):
        assert part in docker
    podman = " ".join(Podman("/bin/podman", rootless=True).run(BOX))
    assert "--cgroups disabled --userns keep-id" in podman
    assert "--device nvidia.com/gpu=2 --device nvidia.com/gpu=3" in podman
    assert "--user" not in podman.replace("--userns", "")
    assert "--init" not in Nerdctl("/bin/nerdctl").run(BOX)
    apptainer = Apptainer("/bin/apptainer", Path("/images"))
    assert " ".join(apptainer.run(BOX)) == (
        "/bin/apptainer exec --no-home --writable-tmpfs --pwd /home/me --nv "
        "--bind /data:/data:ro --bind /w:/w /images/img_1.sif python train.py"
    )
    assert apptainer.pull("img:1")[-1] == "docker://img:1"
    assert apptainer.file("/shared/x.sif") == "/shared/x.sif"


def test_the_engine_is_the_first_that_is_there(tmp_path: Path) -> None:
    assert choosing.choose("auto", str(tmp_path), tmp_path) is None
    for name in ("apptainer", "nerdctl"):
        (tmp_path / name).touch(mode=0o755)
    assert isinstance(choosing.choose("auto", str(tmp_path), tmp_path), Nerdctl)
    assert isinstance(choosing.choose("apptainer", str(tmp_path), tmp_path), Apptainer)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"0123456789ab: Pulling fs layer\nabcdef012345: Already exists\n", ["1 of 2 layers"]),
        (b"Copying blob sha256:0123456789ab\nCopying blob 0123456789ab done\n", ["1 of 1 layers"]),
        (b"12.5% done\r50 %\r", ["50 %"]),
        (b"half a line", []),
        (b"\xff\xfe\n\n", []),
    ],
)
def test_progress_of_a_pull(text: bytes, told: list[str]) -> None:
    found = Progress().hear(text)
    assert ([found] if found else []) == told


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path / "engine")
    yield made
    made.close()


@pytest.fixture
def boxed(engine: StandIn, start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent(MUSTER_CONTAINER_ENGINE=str(engine.program))


def image(name: str = "img:1", **fields: object) -> dict[str, object]:
    return {"running": Running(container=Container(image=name, **fields))}  # type: ignore[arg-type]


@pytest.mark.processes
def test_the_barrier_waits_for_the_image_with_progress_and_secrets_are_no_arguments(
    api: FakeApi, engine: StandIn, boxed: AgentProcess, tmp_path: Path
) -> None:
    engine.failures = 1
    engine.hold_pull.clear()
    template = {**image(mounts=(Mount(str(tmp_path), "/data"),)), "env": {"SECRET": "hunter2"}}
    api.want(make_assignment("w1", "echo $IMAGE $SECRET $MUSTER_WORKER_UID; exit 7", template=template, token="t0p"))
    report = until(lambda: found if (found := api.worker()) and "1 of 2 layers" in found.message else None)
    assert report.phase == "Preparing"
    engine.hold_pull.set()
    until(lambda: found if (found := api.worker()) and "again in 1 s" in found.message else None)
    assert api.reaches("Ready").message == ""
    assert len(engine.of("pull", "img:1")) == 2
    api.change("w1", desired="run")
    report = api.reaches("Exited")
    assert [one.code for one in report.exits] == [7]
    until(lambda: api.log() == "img:1 hunter2 w1\n")
    words = " ".join(word for call in engine.calls for word in call["argv"])
    assert "hunter2" not in words
    assert "t0p" not in words
    assert f"--volume {tmp_path}:/data" in words


@pytest.mark.processes
@pytest.mark.parametrize("away", [False, True], ids=["asked nicely", "killed while the daemon is away for a moment"])
def test_a_stop_ends_the_container_and_only_then_the_worker(
    api: FakeApi, engine: StandIn, boxed: AgentProcess, away: bool
) -> None:
    engine.images.add("img:1")
    trap = "trap '' TERM; " if away else ""
    api.want(make_assignment("w1", f"{trap}sleep 1000 & echo up; wait; exit 3", template=image(), grace=1.0))
    api.reaches("Ready")
    api.change("w1", desired="run")
    until(lambda: "up" in api.log())
    pid = engine.running["muster-w1-0"].pid
    engine.away = away
    api.change("w1", desired="stop")
    if away:
        until(lambda: not alive(pid), "killed by its mark although the daemon does not answer")
        assert api.worker().phase == "Running"  # type: ignore[union-attr]
        engine.away = False
    api.reaches("Exited")
    assert not alive(pid)
    assert engine.running == {}


@pytest.mark.processes
def test_when_the_shim_dies_its_container_is_removed(api: FakeApi, engine: StandIn, boxed: AgentProcess) -> None:
    engine.images.add("img:1")
    api.want(make_assignment("w1", "echo up; exec sleep 1000", template=image()))
    api.reaches("Ready")
    api.change("w1", desired="run")
    until(lambda: "up" in api.log())
    pid = engine.running["muster-w1-0"].pid
    os.kill(boxed.event("shim")["pid"], signal.SIGKILL)
    assert api.reaches("Exited").problem == "VANISHED"
    assert not alive(pid)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("fields", "refusal", "says"),
    [
        ({"pull": "never"}, "", "imagePull is never"),
        ({}, "manifest unknown", "img:1 cannot be pulled: Error: manifest unknown"),
    ],
)
def test_an_image_that_cannot_be_had(
    api: FakeApi, engine: StandIn, boxed: AgentProcess, fields: dict[str, object], refusal: str, says: str
) -> None:
    engine.failures, engine.refusal = 99, refusal
    api.want(make_assignment("w1", "true", template=image(**fields)))
    report = api.reaches("Exited")
    assert report.problem == "IMAGE_PULL"
    assert says in report.message


@pytest.mark.processes
def test_a_worker_that_is_called_off_does_not_wait_for_its_image(
    api: FakeApi, engine: StandIn, boxed: AgentProcess
) -> None:
    engine.hold_pull.clear()
    api.want(make_assignment("w1", "true", template=image()))
    until(lambda: engine.of("pull"))
    api.change("w1", desired="stop")
    api.reaches("Exited")


def test_without_an_engine_the_worker_is_refused(api: FakeApi, start_agent: Callable[..., AgentProcess]) -> None:
    start_agent(MUSTER_CONTAINER_ENGINE="/no/such/docker")
    api.want(make_assignment("w1", "true", template=image()))
    assert api.reaches("Exited").problem == "NO_CONTAINER_ENGINE"


@pytest.mark.processes
def test_podman_itself(api: FakeApi) -> None:
    """An image of a static program alone, made here without a network; rootless where this is not root."""
    podman = shutil.which("podman")
    busybox = shutil.which("busybox")
    if podman is None or busybox is None:
        pytest.skip("needs podman and a static busybox")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "bin").mkdir()
        shutil.copy(busybox, root / "bin/busybox")
        (root / "bin/sh").symlink_to("busybox")
        tar = subprocess.run(["tar", "-c", "-C", name, "bin"], stdout=subprocess.PIPE, check=True).stdout
        made = subprocess.run([podman, "import", "-", "localhost/muster-test"], input=tar, capture_output=True)
        if made.returncode:
            pytest.skip(f"podman cannot make an image here: {made.stderr.decode()[-300:]}")
        probe = subprocess.run(
            [podman, "run", "--rm", "--cgroups", "disabled", "--network", "host", "--ulimit", "host", "localhost/muster-test", "/bin/sh", "-c", "exit 5"],
            capture_output=True,
        )  # fmt: skip
        if probe.returncode != 5:
            pytest.skip(f"podman cannot run a container here: {probe.stderr.decode()[-300:]}")
        agent = AgentProcess(api, root / "n1", MUSTER_CONTAINER_ENGINE="podman")
        try:
            script = "echo up $HELLO; [ -e /bin/bash ] || echo boxed; trap 'exit 9' TERM; while :; do busybox sleep 0.1; done"
            template = {
                "processes": (("/bin/sh", "-c", script),),
                "env": {"HELLO": "you"},
                **image("localhost/muster-test"),
            }
            api.want(make_assignment("w1", template=template, grace=20.0))
            api.reaches("Ready")
            api.change("w1", desired="run")
            until(lambda: "boxed" in api.log())
            assert "up you" in api.log()
            api.change("w1", desired="stop")
            report = api.reaches("Exited")
            assert [(one.code, one.signal) for one in report.exits] == [(9, None)]
            left = subprocess.run([podman, "ps", "-a", "-q", "-f", "name=^muster-w1-0$"], stdout=subprocess.PIPE)
            assert left.stdout == b""
        finally:
            agent.end()
