"""What a manifest says of how its processes run reaches the template, and nothing else does."""

import msgspec
import pytest
from pydantic import ValidationError

from controller.launch.running import overridden, running
from muster.launch import Container, LaunchTemplate, Mount, Running
from muster.resources.job import JobSpec


def spec(**fields: object) -> dict[str, object]:
    return JobSpec.model_validate({"command": ["x"], **fields}).wire()


def test_a_plain_manifest_has_a_template_as_before() -> None:
    assert running(spec()) is msgspec.UNSET
    template = LaunchTemplate(framework="command", processes=(("x",),), running=running(spec()))
    assert "running" not in msgspec.to_builtins(template)
    assert template.how == Running()


def test_limits_and_an_image() -> None:
    found = running(
        spec(
            limits={"cpu": "1500m", "memory": "2Gi"},
            ulimits={"memlock": "unlimited", "core": 0},
            binding="none",
            loginShell=True,
            image="nvcr.io/nvidia/pytorch:26.01-py3",
            mounts=[{"source": "/data", "readOnly": True}, {"source": "/a", "target": "/b"}],
            shmSize="1Gi",
        )
    )
    assert found == Running(
        cpu=1500,
        memory=2 * 2**30,
        ulimits={"memlock": -1, "core": 0},
        bind=False,
        login_shell=True,
        container=Container(
            image="nvcr.io/nvidia/pytorch:26.01-py3",
            mounts=(Mount("/data", "/data", True), Mount("/a", "/b", False)),
            shm=2**30,
        ),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"ulimits": {"memlock": -1}},
        {"ulimits": {"memlock": True}},
        {"ulimits": {"files": 1}},
        {"image": "--privileged"},
        {"image": "a b"},
        {"image": "x", "mounts": [{"source": "data"}]},
        {"image": "x", "mounts": [{"source": "/a:/b"}]},
        {"image": "x", "mounts": [{"source": "/a/../etc"}]},
        {"mounts": [{"source": "/data"}]},
        {"shmSize": "1Gi"},
        {"limits": {"cpu": "many"}},
    ],
)
def test_what_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        spec(**fields)


def test_whose_value_wins_is_told() -> None:
    env = {"RANK": "0", "CUDA_VISIBLE_DEVICES": "1", "MUSTER_X": "y", "OTHER": "z"}
    assert overridden(spec(env=env)) == ["MUSTER_X", "RANK"]
    assert overridden(spec(env=env, accelerators=[{"type": "H100", "count": 1}])) == [
        "CUDA_VISIBLE_DEVICES",
        "MUSTER_X",
        "RANK",
    ]
