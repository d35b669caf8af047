"""A node beside an embedded cluster whose agent finds real devices: eight GPUs, by stand-ins for their tools on PATH."""

import os
import subprocess
import sys
from pathlib import Path

from embedded import Cluster
from tell import until

DEVICES = 8
NAME = "bench-node"


def tools(folder: Path) -> Path:
    """A folder with an `nvidia-smi` that tells of eight H200 as the real one does, for PATH."""
    gpus = "".join(
        f'<gpu id="00000000:{0x10 + n:02X}:00.0"><product_name>NVIDIA H200</product_name><uuid>GPU-{n:04d}</uuid>'
        f"<minor_number>{n}</minor_number><gpu_recovery_action>None</gpu_recovery_action>"
        "<fb_memory_usage><total>143771 MiB</total><used>4 MiB</used></fb_memory_usage>"
        "<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>"
        "<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>"
        "</gpu>"
        for n in range(DEVICES)
    )
    head = f"<driver_version>550.54.15</driver_version><attached_gpus>{DEVICES}</attached_gpus>"
    folder.mkdir()
    (folder / "q.xml").write_text(f"<?xml version='1.0' ?>\n<nvidia_smi_log>{head}{gpus}</nvidia_smi_log>\n")
    matrix = ["\t" + "\t".join(f"GPU{n}" for n in range(DEVICES)) + "\tCPU Affinity\tNUMA Affinity"]
    for n in range(DEVICES):
        cells = ["X" if n == m else "NV18" for m in range(DEVICES)]
        matrix.append(f"GPU{n}\t" + "\t".join(cells) + f"\t0-1\t{n // 4}")
    (folder / "topo.txt").write_text("\n".join(matrix) + "\n")
    script = folder / "nvidia-smi"
    script.write_text(f'#!/bin/sh\ncase "$1" in -q) cat {folder}/q.xml;; topo) cat {folder}/topo.txt;; esac\n')
    script.chmod(0o755)
    return folder


class RealNode:
    """Its agent's process. `kernel_log` is a file in place of the kernel's log."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.kernel_log = folder / "kmsg"
        self.kernel_log.touch()
        self.path = f"{tools(folder / 'bin')}{os.pathsep}{cluster.environment['PATH']}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when the controller knows its eight devices."""
        env = self.cluster.environment | {
            "PATH": self.path,
            "MUSTER_SERVER": self.cluster.url,
            "MUSTER_TOKEN_FILE": str(self.cluster.data / "agent-token"),
            "MUSTER_NODE": NAME,
            "MUSTER_AGENT_DIR": str(self.folder / "agent"),
            "MUSTER_DEVICES": "auto",
            "MUSTER_KERNEL_LOG": str(self.kernel_log),
        }
        with open(self.folder / "agent.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agents.main"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        until(f"{NAME} and its devices", lambda: len(self._devices()) == DEVICES)

    def _devices(self) -> list[object]:
        node = self.cluster.nodes().get(NAME)
        return list(node["status"]["devices"]) if node and node["status"]["phase"] == "Ready" else []

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
