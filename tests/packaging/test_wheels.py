"""Two distributions from one repository: a small SDK without dependencies, and the cluster on top of it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from muster.version import VERSION

ROOT = Path(__file__).parents[2]
ROOMS = ("controller", "agents", "api", "cli")


def build(source: Path, target: Path) -> zipfile.ZipFile:
    """The wheel of `source`, made from its sdist as an index would get it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,) = target.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT / "muster", tmp_path_factory.mktemp("sdk"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT, tmp_path_factory.mktemp("cluster"))


def tracked(*folders: str) -> set[str]:
    """The files of `folders` that belong to the project (not caches), as paths from the root."""
    return {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "pyproject.toml"
    }


def content(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile) -> str:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return wheel.read(name).decode()


def test_the_sdk_holds_the_whole_vocabulary_and_nothing_else(sdk: zipfile.ZipFile) -> None:
    assert content(sdk) == tracked("muster")
    assert {"muster/report.py", "muster/accelerators.toml", "muster/py.typed"} <= content(sdk)


def test_the_sdk_has_no_dependencies_unless_asked(sdk: zipfile.ZipFile) -> None:
    required = re.findall(r"^Requires-Dist: (.*)$", metadata(sdk), re.M)
    assert required
    assert all("extra == 'cluster'" in line for line in required)


def test_the_cluster_holds_its_rooms_with_their_data_and_no_tests(cluster: zipfile.ZipFile) -> None:
    assert content(cluster) == tracked(*ROOMS), "with the dashboard, where it was built"
    assert {name.partition("/")[0] for name in content(cluster)} == set(ROOMS)
    assert any("/migrations/" in name for name in content(cluster))


def test_the_cluster_brings_the_same_version_of_the_sdk(cluster: zipfile.ZipFile) -> None:
    assert f"Requires-Dist: muster-sdk[cluster]=={VERSION}" in metadata(cluster)


def test_the_cluster_brings_its_commands(cluster: zipfile.ZipFile) -> None:
    (name,) = [name for name in cluster.namelist() if name.endswith("entry_points.txt")]
    assert cluster.read(name).decode().splitlines()[1:] == [
        "muster = cli.main:main",
        "muster-agent = agents.entry:main",
    ]


@pytest.mark.parametrize("wheel", ["sdk", "cluster"])
def test_no_path_is_odd_and_types_are_promised(wheel: str, request: pytest.FixtureRequest) -> None:
    names = request.getfixturevalue(wheel).namelist()
    assert not [name for name in names if "/./" in name or ".." in name or "tests/" in name or name.endswith(".pyc")]
    assert any(name.endswith("py.typed") for name in names)


def test_all_places_say_one_version() -> None:
    for path in (ROOT / "pyproject.toml", ROOT / "muster" / "pyproject.toml"):
        assert tomllib.loads(path.read_text())["project"]["version"] == VERSION


def test_every_top_level_import_is_a_declared_dependency() -> None:
    """What the rooms import at their files' top must come with a plain install or an extra."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *declared["dependencies"],
        *(name for extra in declared["optional-dependencies"].values() for name in extra),
    ]
    known = {re.split(r"[\[<>=~! ]", name)[0].lower().replace("-", "_") for name in wanted}
    known |= {"opentelemetry", "msgspec", "pydantic", "pydantic_core", "yaml", "starlette", "kombu", "anyio", "pynvml"}
    known |= {*sys.stdlib_module_names, "muster", *ROOMS}
    for name in sorted(tracked("muster", *ROOMS)):
        if name.endswith(".py"):
            found = re.findall(r"^(?:import|from) (\w+)", (ROOT / name).read_text(), re.M)
            assert not set(found) - known, name
