"""What happens between fork and exec of a rank, or of a command beside it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from agents.shims.cgroup import Groups
else:
    import _signal as signal  # `signal` itself would bring `enum`

PR_SET_PDEATHSIG, TIOCSCTTY, MPOL_PREFERRED_MANY = 1, 0x540E, 5
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "loongarch64": 237, "ppc64le": 261}.get(
    os.uname().machine
)
_libc = ctypes.CDLL(None, use_errno=True)


RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def fork() -> int:
    """A signal that comes before the child has given up our handlers waits until it has, and is not lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, RESET)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def become(
    shim: int, groups: Groups, streams: Sequence[int], spec: dict[str, Any], fail: int, tty: bool = False
) -> NoReturn:
    """In a child of `fork`: leave the shim and be what `spec` says (argv, env, cwd; optionally user, cpus, nodes, ulimits).
    `streams` are for stdin, stdout and stderr. What fails is an errno in the pipe `fail`."""
    try:
        os.setsid()
        for name in RESET:
            signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, RESET)
        groups.enter()
        limit(spec.get("ulimits") or {})
        bind(spec.get("cpus") or (), spec.get("nodes") or ())
        if user := spec.get("user"):
            os.setgroups(user["groups"])
            os.setresgid(user["gid"], user["gid"], user["gid"])
            os.setresuid(user["uid"], user["uid"], user["uid"])
        _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a change of user would have undone it
        if os.getppid() != shim:
            os._exit(125)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        if tty:
            fcntl.ioctl(0, TIOCSCTTY, 0)
        os.chdir(spec["cwd"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        os.write(fail, b"%d" % (error.errno or 0))
    finally:
        os._exit(127)


def limit(wanted: dict[str, int]) -> None:
    """Locked memory without a limit, which RDMA needs, and as many files as may be, unless the manifest says otherwise.
    What may not be raised stays as high as it may be; what is asked for explicitly must be possible. Raises OSError."""
    for name, value in {"memlock": -1, **wanted}.items():
        kind = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(kind)[1]
        asked = resource.RLIM_INFINITY if value < 0 else value
        try:
            resource.setrlimit(kind, (asked, asked))
        except (OSError, ValueError):
            if name in wanted:
                raise PermissionError(1, f"ulimit {name}") from None
            resource.setrlimit(kind, (hard, hard))
    if "nofile" not in wanted:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bind(cpus: Sequence[int], nodes: Sequence[int]) -> None:
    """Cores that are gone meanwhile are left out; memory comes from these nodes first, and from others before it runs
    out. Nothing here may keep a rank from starting."""
    if cpus:
        with contextlib.suppress(OSError, ValueError):
            os.sched_setaffinity(0, cpus)
    if nodes and SET_MEMPOLICY:
        words = [0] * (max(nodes) // 64 + 1)
        for node in nodes:
            words[node // 64] |= 1 << node % 64
        mask = (ctypes.c_uint64 * len(words))(*words)
        _libc.syscall(SET_MEMPOLICY, MPOL_PREFERRED_MANY, mask, ctypes.c_ulong(len(words) * 64 + 1))
