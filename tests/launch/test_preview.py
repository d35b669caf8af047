"""What each rank would get is told without a node, and a first manifest of every framework is a good one."""

from typing import get_args

import pytest
import yaml

from cli.verbs.init import manifest
from controller.launch.preview import preview
from controller.launch.render import unlaunchable
from muster.resources.job import Framework
from muster.resources.parse import parse
from tests.makers import make_job


@pytest.mark.parametrize("framework", get_args(Framework))
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_first_manifest_of_every_framework_can_be_launched(framework: str, workers: int) -> None:
    document = yaml.safe_load(manifest(framework, "first"))
    document["spec"]["workers"] = workers
    spec = parse(document).model_dump(mode="json", by_alias=True, exclude_none=True)["spec"]
    assert unlaunchable(spec) is None
    shown = preview(make_job("first", spec=spec))
    assert [(one["index"], one["node"]) for one in shown] == [(index, f"node-{index}") for index in range(workers)]
    for one in shown:
        for process in one["processes"]:
            assert process["argv"]
            assert process["env"]["MUSTER_WORKERS"] == str(workers)


def test_ranks_of_roles_are_shown_apart() -> None:
    roles = [{"name": "head", "workers": 1, "head": True}, {"name": "actor", "workers": 2}]
    shown = preview(make_job("rl", spec={"roles": roles, "workers": 3}))
    assert [(one["role"], one["index"]) for one in shown] == [("head", 0), ("actor", 0), ("actor", 1)]
