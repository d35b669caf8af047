"""Images and the composition for one host, judged without an engine that builds or runs them."""

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from api import settings as api_settings
from controller import settings as controller_settings
from tests.install.chart import ROOT

BIN = Path(sys.executable).parent
COMPOSE = ROOT / "deploy/compose/compose.yaml"


def judged(program: str, *words: str | Path) -> None:
    path = BIN / program
    if not path.exists():
        pytest.skip(f"{program} comes with the extra `test`")
    done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_of_dockerfiles_finds_nothing():
    judged("hadolint", "--failure-threshold", "style", "deploy/docker/Dockerfile")


def test_the_linter_of_shell_finds_nothing():
    judged("shellcheck", "deploy/install.sh", "deploy/docker/entrypoint.sh", "run")


def test_what_the_image_copies_is_let_into_the_build():
    wanted = [
        word
        for line in (ROOT / "deploy/docker/Dockerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
        if not word.startswith("--")
    ]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for path in wanted:
        assert (ROOT / path).exists(), path
        assert any(fnmatch(path, pattern) for pattern in let_in), path


@pytest.mark.parametrize(
    ("word", "module"),
    [("api", "api.main"), ("controller", "controller.main"), ("worker", "controller.tasks.main"), ("migrate", "controller.migrate")],
)  # fmt: skip
def test_the_entry_point_starts_what_its_word_says(word, module, tmp_path):
    for name in ("python", "muster", "muster-agent"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    entry = ROOT / "deploy/docker/entrypoint.sh"
    said = [
        subprocess.run(
            [entry, *words], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True
        ).stdout
        for words in ([word], ["agent", "inspect"], ["get", "jobs"])
    ]
    assert said == [f"python -P -m {module}\n", "muster-agent inspect\n", "muster get jobs\n"]
    assert (ROOT / f"{module.replace('.', '/')}.py").exists()


def test_the_composition_is_one_and_its_servers_understand_their_environment():
    judged("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    readers = {
        "api": api_settings.from_environment,
        "controller": controller_settings.from_environment,
        "worker": controller_settings.from_environment,
    }
    for name, read in readers.items():
        assert services[name]["command"] == [name]
        assert read(services[name]["environment"]).lease.fence == 60, name
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE.parent / source).exists(), source
