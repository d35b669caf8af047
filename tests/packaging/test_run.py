"""`./run` on machines of all sorts: odd paths, broken Pythons, no network, two at once, an installation cut short.

The checkout here is a small stand-in whose build backend lies in it, so that nothing is downloaded.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYSTEM_PATH = "/usr/bin:/bin"

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
"""

BACKEND = '''
"""Builds an empty wheel; sleeps first when told, and notes each build."""
import os, pathlib, time, zipfile
NAME = "{name}"

def build_editable(folder, config_settings=None, metadata_directory=None):
    with open(os.environ["BUILDS"], "a") as notes:
        notes.write(NAME + "\\n")
    time.sleep(float(os.environ.get("SLOW", "0")))
    if os.environ.get("BROKEN"):
        raise SystemExit("the index is on fire")
    info, name = f"{{NAME}}-1.dist-info", f"{{NAME}}-1-py3-none-any.whl"
    extras = "".join(f"Provides-Extra: {{each}}\\n" for each in ("test", "lint", "light", "demo"))
    files = {{
        f"{{info}}/METADATA": f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: 1\\n{{extras}}",
        f"{{info}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{{info}}/entry_points.txt": "[console_scripts]\\nmuster = muster_stand_in:main\\n" if NAME == "cluster" else "",
        f"{{NAME}}_stand_in.py": "",
    }}
    if NAME == "cluster":
        files["muster_stand_in.py"] = (
            "import os, sys\\ndef main(): print(\\"muster\\", os.getcwd(), *sys.argv[1:], sep=\\"|\\")\\n"
        )
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
'''


class Checkout:
    """A stand-in checkout in a folder with a space and a quote in its name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.builds = folder, folder.parent / "builds"
        for path, name in ((folder, "cluster"), (folder / "muster", "sdk")):
            path.mkdir(parents=True)
            (path / "pyproject.toml").write_text(PYPROJECT.format(name=name))
            (path / "backend.py").write_text(BACKEND.format(name=name))
        shutil.copy(ROOT / "run", folder / "run")
        self.builds.touch()
        self.python_folder = folder.parent / "python"
        self.python_folder.mkdir()
        (self.python_folder / "python3").symlink_to(os.path.realpath(sys.executable))

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{self.python_folder}:{SYSTEM_PATH}",
            "HOME": "/nonexistent",
            "BUILDS": str(self.builds),
            "PIP_NO_INDEX": "1",
            **more,
        }

    def run(self, *words: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "run"), *words],
            cwd=cwd or "/",
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=170,
        )

    def built(self) -> int:
        """How often pip has been at work on the checkout."""
        return self.builds.read_text().split().count("cluster")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a 'check out'")


@pytest.mark.parametrize("words", [(), ("help",), ("--help",)])
def test_help_needs_nothing(checkout: Checkout, words: tuple[str, ...]) -> None:
    done = checkout.run(*words, PATH=SYSTEM_PATH)
    assert done.returncode == 0
    assert "usage: ./run COMMAND" in done.stdout
    assert not (checkout.folder / ".venv").exists()


def test_an_unknown_command_says_so_and_installs_nothing(checkout: Checkout) -> None:
    done = checkout.run("tests")
    assert done.returncode == 2
    assert "unknown command 'tests'" in done.stderr
    assert not (checkout.folder / ".venv").exists()


def test_without_a_python_it_says_what_is_missing(checkout: Checkout, tmp_path: Path) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    for name in ("sh", "cat", "cksum", "dirname"):
        (only / name).symlink_to(shutil.which(name) or "")
    done = checkout.run("muster", PATH=str(only))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.processes
def test_first_use_installs_and_the_second_starts_at_once_without_network(checkout: Checkout, tmp_path: Path) -> None:
    first = checkout.run("muster", "get", "a job", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.strip() == f"muster|{tmp_path}|get|a job"
    assert "MB" in first.stderr, "it says how much it is about to download"
    assert checkout.built() == 1
    second = checkout.run("muster", "x", cwd=tmp_path)
    assert (second.stdout.strip(), second.stderr) == (f"muster|{tmp_path}|x", "")
    assert checkout.built() == 1


@pytest.mark.processes
def test_names_that_are_no_working_python_are_passed_over(checkout: Checkout, tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    for name, body in (("python3.13", "exit 127"), ("python3.12", "echo 3.9"), ("python3", "exit 1")):
        (shims / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/tried-{name}'\n{body}\n")
        (shims / name).chmod(0o755)
    (shims / "python3.12").write_text("#!/bin/sh\nexit 1\n")
    done = checkout.run("muster", "x", PATH=f"{shims}:{checkout.python_folder}:{SYSTEM_PATH}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tried-python3.13").exists()


@pytest.mark.processes
def test_an_installation_that_fails_says_why_and_is_done_again(checkout: Checkout) -> None:
    failed = checkout.run("muster", "x", BROKEN="1")
    assert failed.returncode == 1
    assert "the index is on fire" in failed.stderr
    assert "run the same command again" in failed.stderr
    done = checkout.run("muster", "x")
    assert done.returncode == 0, done.stderr


@pytest.mark.processes
def test_an_installation_that_is_killed_is_done_again(checkout: Checkout) -> None:
    running = subprocess.Popen(
        [str(checkout.folder / "run"), "muster", "x"],
        env=checkout.environment(SLOW="60"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not checkout.builds.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    done = checkout.run("muster", "x")
    assert done.returncode == 0, done.stderr
    assert checkout.built() == 1


@pytest.mark.processes
def test_two_at_once_install_one_after_the_other_and_only_once(checkout: Checkout) -> None:
    command = [str(checkout.folder / "run"), "muster", "x"]
    environment = checkout.environment(SLOW="1")
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=170) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert checkout.built() == 1
    assert sum("Waiting for another ./run" in errors for _, errors in told) <= 1


@pytest.mark.processes
def test_a_changed_pyproject_and_a_moved_checkout_are_noticed(checkout: Checkout) -> None:
    assert checkout.run("muster", "x").returncode == 0
    with open(checkout.folder / "pyproject.toml", "a") as file:
        file.write("# a new dependency\n")
    assert checkout.run("muster", "x").returncode == 0
    assert checkout.built() == 2
    moved = checkout.folder.with_name("moved")
    checkout.folder.rename(moved)
    checkout.folder = moved
    done = checkout.run("muster", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("muster|")
