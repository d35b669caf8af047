"""A worker's processes, each in its container: what is mounted, which devices and variables go in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from agents.runtime.complete import ProcessLaunch
from agents.runtime.containers.contract import HOSTS, Box, Engine
from agents.runtime.folder import Folder
from agents.runtime.users import User
from muster.accelerators import catalogue
from muster.launch import Container, Mount
from muster.protocol import Assignment, Device

RDMA: Final = "/dev/infiniband"
FILES: Final = {
    "amd": ("/dev/kfd", "/dev/dri"),
    "hygon": ("/dev/kfd", "/dev/mkfd", "/dev/dri"),
    "ascend": ("/dev/davinci{}", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
    "cambricon": ("/dev/cambricon_dev{}", "/dev/cambricon_ctl"),
    "gaudi": ("/dev/accel/accel{}", "/dev/accel/accel_controlD{}"),
    "metax": ("/dev/mxcd", "/dev/dri"),
    "mthreads": ("/dev/mtgpu.{}", "/dev/dri"),
}
"""Files of a vendor's devices, {} being the number. NVIDIA's are the matter of the engine."""
DRIVERS: Final = {"ascend": ("/usr/local/Ascend/driver", "/usr/local/dcmi", "/usr/local/bin/npu-smi")}
"""What an image cannot bring along, read-only."""


def name_of(worker_uid: str, process: int) -> str:
    return f"muster-{worker_uid}-{process}"


def boxed(
    processes: Sequence[ProcessLaunch],
    assignment: Assignment,
    container: Container,
    engine: Engine,
    devices: Sequence[Device],
    folder: Folder,
    user: User | None,
) -> tuple[ProcessLaunch, ...]:
    """Each started through the engine. A daemon's client stays the agent's user and asks for the worker's."""
    found = []
    for number, one in enumerate(processes):
        mine = [device for device in devices if not device.virtual]
        own = {name for name in one.env if name not in HOSTS or name in assignment.template.env}
        vendor = mine[0].vendor if mine else ""
        gpus = tuple(device.index for device in mine) if vendor == "nvidia" else ()
        box = Box(
            name=name_of(assignment.worker_uid, number),
            container=container,
            argv=one.argv,
            cwd=one.cwd,
            variables=tuple(sorted(own)),
            mounts=_mounts(assignment, container, folder, one.cwd, vendor),
            devices=_files(vendor, mine),
            gpus=gpus,
            vendor=vendor,
            ulimits=one.ulimits,
            user=user if engine.daemon else None,
        )
        env = one.env | (_renumbered(mine, one.env) if gpus and engine.daemon else {})
        found.append(
            replace(one, argv=engine.run(box), env=env, cwd=str(folder.path), user=None if engine.daemon else one.user)
        )
    return tuple(found)


def _renumbered(devices: Sequence[Device], env: dict[str, str]) -> dict[str, str]:
    """In the container the given devices are all that there are, numbered from 0."""
    kind = catalogue().get(devices[0].type)
    if kind is None or env.get(kind.visible_devices) != ",".join(str(device.index) for device in devices):
        return {}
    return {kind.visible_devices: ",".join(map(str, range(len(devices))))}


def _mounts(assignment: Assignment, container: Container, folder: Folder, cwd: str, vendor: str) -> tuple[Mount, ...]:
    """The worker's own folders under their own names, its workdir, its checkpoints, what the manifest says."""
    own = [str(folder.work), str(folder.logs), str(folder.report), cwd]
    if assignment.checkpoint_directory:
        own.append(str(folder.work / assignment.checkpoint_directory))
    drivers = [path for path in DRIVERS.get(vendor, ()) if Path(path).exists()]
    found = {path: Mount(path, path) for path in own} | {path: Mount(path, path, True) for path in drivers}
    return tuple((found | {mount.target: mount for mount in container.mounts}).values())


def _files(vendor: str, devices: Sequence[Device]) -> tuple[str, ...]:
    """Those that are there, and the RDMA ports."""
    wanted = [path.format(device.index) for device in devices for path in FILES.get(vendor, ())]
    return tuple(path for path in dict.fromkeys([*wanted, RDMA]) if Path(path).exists())
