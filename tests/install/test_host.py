"""`deploy/install.sh` on a host: in a namespace of mounts, over a copy of this machine's file system that is thrown away."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.install.chart import ROOT

OVERLAID = ("etc", "opt", "usr/local", "var/lib")

ENTER = r"""
set -eu
work=$1; shift
mount -t tmpfs tmpfs "$work"
for folder in {folders}; do
    mkdir -p "$work/$folder/up" "$work/$folder/work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/$folder/up,workdir=$work/$folder/work" "/$folder"
done
exec sh -eu -c "$1"
"""

STAND_INS = {
    "systemctl": 'echo "$@" >>/opt/systemctl.said',
    "setpriv": 'shift 5; exec "$@"',
}
"""The second, since another user may not read this environment, wherever it lies."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for project in ("muster", "."):
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, project]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def host(tmp_path: Path, wheels: Path):
    """Runs a script where /etc, /opt, /usr/local and /var/lib are copies; systemctl is a stand-in that writes down what it is told.
    The wheels' own dependencies are those of this environment."""
    if os.geteuid() != 0:
        pytest.skip("mounts and users of its own: needs root")
    stand_ins, work = tmp_path / "bin", tmp_path / "work"
    for folder in (stand_ins, work):
        folder.mkdir()
    for name, script in STAND_INS.items():
        (stand_ins / name).write_text(f"#!/bin/sh\n{script}\n")
        (stand_ins / name).chmod(0o755)
    enter = ENTER.replace("{folders}", " ".join(OVERLAID))
    environment = {
        "PATH": f"{stand_ins}:{os.path.dirname(os.path.realpath(sys.executable))}:/usr/sbin:/usr/bin:/sbin:/bin",
        "MUSTER_PIP_OPTIONS": f"--no-deps --no-index --ignore-installed --find-links {wheels} muster-sdk",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "HOME": "/root",
    }
    probe = subprocess.run(["unshare", "--mount", "sh", "-c", enter, "x", work, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no overlay of its own here: {probe.stderr.strip()}")

    def run(script: str) -> str:
        words = ["unshare", "--mount", "sh", "-c", enter, "x", work, script]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


INSTALL = "deploy/install.sh --wheels $WHEELS"


def test_it_is_installed_upgraded_taken_back_and_removed(host, wheels):
    said = host(
        f"""
        export WHEELS={wheels}
        grep -q '^muster:' /etc/passwd && exit 9
        {INSTALL} --role all
        if command -v systemd-analyze >/dev/null; then systemd-analyze verify /etc/systemd/system/muster-*.service; fi
        echo "== $(stat -c '%a %U %G' /etc/muster/server.env /var/lib/muster-server | tr '\\n' ';')"
        echo MUSTER_LOG_LEVEL=debug >>/etc/muster/server.env
        {INSTALL} --role server
        echo "== $(readlink /opt/muster/current) $(grep -c LOG_LEVEL /etc/muster/server.env)"
        deploy/install.sh --rollback --role server
        echo "== $(readlink /opt/muster/current)"
        /usr/local/bin/muster version --client 2>/dev/null || /usr/local/bin/muster --help | head -1
        deploy/install.sh --uninstall
        echo "== $(ls -d /opt/muster /etc/muster /usr/local/bin/muster 2>/dev/null | tr '\\n' ' ')"
        deploy/install.sh --uninstall --purge
        echo "== $(ls -d /etc/muster /var/lib/muster-server 2>/dev/null)"
        cat /opt/systemctl.said
        """
    )
    marks = [line[3:].strip() for line in said.splitlines() if line.startswith("==")]
    assert marks == ["640 root muster;700 muster muster;", "releases/2 1", "releases/1", "/etc/muster", ""]
    assert "restart muster-api" in said
    assert "restart muster-controller" in said
    assert said.count("restart muster-agent") == 1, "the upgrade was of the server alone"
    assert "restart muster-worker" not in said, "no Redis is set"
    assert "disable --quiet --now muster-api" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [("--role king", "expected server, agent or all"), ("--frob", "unknown argument"), ("--wheels /nowhere", "no folder"), ("--rollback", "no release before")],
)  # fmt: skip
def test_a_wrong_word_is_refused_and_nothing_is_touched(host, arguments, words):
    said = host(f"deploy/install.sh {arguments} 2>&1 && exit 9; ls -d /opt/muster 2>/dev/null || echo untouched")
    assert words in said
    assert "untouched" in said
