"""What runs on each node of a batch job that came from Slurm: it starts the script on the first one and steps on all.

The program is sent with the job and needs nothing but a Python (3.9 or newer) and its standard library. Each worker of
the gang is one station. The first listens at the gang's master port; the others join it, proving that they know the
attempt's token. The script runs beside the first; the `srun` that it finds on its PATH asks the first station, through
a socket of its own, to start tasks on any of them. Frames are JSON, one a line.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from typing import Any

from cli.slurm.hostlist import compress, expand

JOIN_SECONDS = 300.0
LARGEST = 2**20
PIECE = 2**15
OWN = ("MUSTER_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Of each worker itself, not of the one whose environment a step has."""
ENDS = ("_VISIBLE_DEVICES", "_SOCKET_IFNAME")
COMMANDS = ("srun", "scontrol")

Frame = dict[str, Any]


def say(text: str) -> None:
    sys.stderr.write(f"muster slurm: {text}\n")
    sys.stderr.flush()


class Plan:
    """What sbatch made of the script's options; the variable MUSTER_SLURM."""

    def __init__(self, environ: dict[str, str]) -> None:
        said = json.loads(environ["MUSTER_SLURM"])
        self.script: str = said["script"]
        self.arguments: list[str] = said.get("arguments", [])
        self.name: str = said.get("name", "")
        self.output: str = said.get("output") or ""
        self.error: str = said.get("error") or ""
        self.input: str = said.get("input") or ""
        self.append: bool = said.get("append", False)
        self.slots: list[int] = said["slots"]
        self.cpus: int = said.get("cpus", 1)
        self.gpus_per_task: int = said.get("gpusPerTask", 0)
        self.variables: dict[str, str] = said.get("variables", {})
        self.signal: Frame | None = said.get("signal")
        self.limit: float = said.get("limit", 0)
        self.tasks = sum(self.slots)


# -- frames ------------------------------------------------------------------------------------------


class Link:
    """A connection with frames in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, **frame: Any) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(json.dumps(frame).encode() + b"\n")

    async def drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def receive(self) -> Frame | None:
        """None: the other side is gone."""
        try:
            line = await self._reader.readline()
            return json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unpacked(text: str) -> bytes:
    return base64.b64decode(text)


def proof(token: str, nonce: str) -> str:
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()


# -- tasks: on every station --------------------------------------------------------------------------


class Tasks:
    """The tasks of all steps on this station. `tell` hears what they say and how they end."""

    def __init__(self, environ: dict[str, str], tell: Any) -> None:
        self._own = {
            name: value
            for name, value in environ.items()
            if name.startswith(OWN) or name.endswith(ENDS)
        }  # fmt: skip
        self._tell = tell
        self._running: dict[tuple[int, int], asyncio.subprocess.Process] = {}
        self._following: set[Any] = set()

    async def start(self, step: int, asked: Frame) -> None:
        for task in asked["tasks"]:
            await self._start(step, asked, task)

    async def _start(self, step: int, asked: Frame, task: Frame) -> None:
        env = {**asked["env"], **self._own, **task["env"]}
        self._share(env, task["local"], asked.get("gpus", 0))
        try:
            process = await asyncio.create_subprocess_exec(
                *asked["argv"],
                cwd=asked["cwd"],
                env=env,
                stdin=asyncio.subprocess.PIPE if asked.get("stdin") else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=LARGEST,
            )
        except OSError as error:
            self._tell(
                kind="out", step=step, task=task["id"], fd=2, data=packed(f"slurmstepd: error: {error}\n".encode())
            )
            self._tell(kind="exit", step=step, task=task["id"], code=2, signal=0)
            return
        self._running[step, task["id"]] = process
        following = asyncio.ensure_future(self._follow(step, task["id"], process))
        self._following.add(following)  # the loop itself holds it weakly
        following.add_done_callback(self._following.discard)

    def _share(self, env: dict[str, str], local: int, each: int) -> None:
        """With devices for each task, a task sees its own ones."""
        for name in [name for name in env if name.endswith("_VISIBLE_DEVICES")] if each else []:
            devices = [one for one in env[name].split(",") if one]
            env[name] = ",".join(devices[local * each : (local + 1) * each])

    async def _follow(self, step: int, task: int, process: asyncio.subprocess.Process) -> None:
        async def pump(stream: Any, fd: int) -> None:
            while True:
                data = await stream.read(PIECE)
                if not data:
                    return
                self._tell(kind="out", step=step, task=task, fd=fd, data=packed(data))

        await asyncio.gather(pump(process.stdout, 1), pump(process.stderr, 2))
        code = await process.wait()
        self._running.pop((step, task), None)
        self._tell(kind="exit", step=step, task=task, code=max(code, 0), signal=max(-code, 0))

    def feed(self, step: int, data: bytes) -> None:
        """An empty one: it ends."""
        for (of, _), process in self._running.items():
            if of == step and process.stdin is not None:
                with contextlib.suppress(OSError, RuntimeError):
                    process.stdin.write(data) if data else process.stdin.close()

    def signal(self, number: int, step: int | None = None) -> None:
        """To the whole group of each task (of one step)."""
        for (of, _), process in list(self._running.items()):
            if step in (None, of):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


# -- the other stations ---------------------------------------------------------------------------------


async def join(environ: dict[str, str]) -> int:
    """A station that is not the first: does what the first one says, until that ends."""
    address, port = environ["MUSTER_MASTER_ADDR"], int(environ["MUSTER_MASTER_PORT"])
    end = asyncio.get_running_loop().time() + JOIN_SECONDS
    while True:
        try:
            reader, writer = await asyncio.open_connection(address, port, limit=LARGEST)
            break
        except OSError as error:
            if asyncio.get_running_loop().time() > end:
                say(f"the first node is not there at {address}:{port}: {error}")
                return 1
            await asyncio.sleep(0.1)
    link = Link(reader, writer)
    tasks = Tasks(environ, link.send)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, tasks.signal, number)
    hello = await link.receive()
    if hello is None:
        say("the first node hung up")
        return 1
    link.send(
        kind="hello",
        worker=int(environ["MUSTER_WORKER_INDEX"]),
        proof=proof(environ["MUSTER_TOKEN"], hello["nonce"]),
        **about(environ),
    )
    while True:
        frame = await link.receive()
        if frame is None:
            tasks.signal(signal.SIGKILL)
            say("the first node is gone")
            return 1
        if frame["kind"] == "end":
            tasks.signal(signal.SIGKILL)
            return 0
        await obey(tasks, frame)
        await link.drain()


async def obey(tasks: Tasks, frame: Frame) -> None:
    if frame["kind"] == "start":
        await tasks.start(frame["step"], frame)
    elif frame["kind"] == "feed":
        tasks.feed(frame["step"], unpacked(frame["data"]))
    elif frame["kind"] == "signal":
        tasks.signal(frame["signal"], frame.get("step"))


def about(environ: dict[str, str]) -> Frame:
    """What the first station must know of each. A name that nobody can resolve is told as the address."""
    node = environ["MUSTER_NODE"]
    address = environ["MUSTER_NODE_ADDRESSES"].split(",")[int(environ["MUSTER_WORKER_INDEX"])]
    try:
        socket.getaddrinfo(node, None)
    except OSError:
        node = address
    devices = next((value for name, value in environ.items() if name.endswith("_VISIBLE_DEVICES")), "")
    return {"node": environ["MUSTER_NODE"], "host": node, "address": address, "devices": devices}


# -- the first station ----------------------------------------------------------------------------------


class Head:
    def __init__(self, environ: dict[str, str], plan: Plan, folder: str) -> None:
        self._environ, self._plan, self._folder = environ, plan, folder
        self._links: dict[int, Link] = {}
        self._abouts: dict[int, Frame] = {0: about(environ)}
        self._together = asyncio.Event()
        self._steps: dict[int, Step] = {}
        self._count = 0
        self._batch: asyncio.subprocess.Process | None = None
        self.tasks = Tasks(environ, self.hear)
        self._workers = int(environ["MUSTER_WORKERS"])

    async def run(self) -> int:
        path = os.path.join(self._folder, "socket")
        server = await asyncio.start_server(
            self._joined, "0.0.0.0", int(self._environ["MUSTER_MASTER_PORT"]), limit=LARGEST
        )
        steps = await asyncio.start_unix_server(self._asked, path, limit=LARGEST)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped, number)
        if self._workers == 1:
            self._together.set()
        try:
            await asyncio.wait_for(self._together.wait(), JOIN_SECONDS)
        except asyncio.TimeoutError:
            say(
                f"{self._workers - 1 - len(self._links)} of {self._workers} nodes did not come within {JOIN_SECONDS:.0f} s"
            )
            return 1
        code = await self._script()
        for link in self._links.values():
            link.send(kind="end")
            await link.drain()
        self.tasks.signal(signal.SIGKILL)
        server.close()
        steps.close()
        return code

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link, nonce = Link(reader, writer), os.urandom(16).hex()
        link.send(nonce=nonce)
        hello = await link.receive()
        right = proof(self._environ["MUSTER_TOKEN"], nonce)
        if hello is None or not hmac.compare_digest(str(hello.get("proof")), right) or hello["worker"] in self._links:
            link.close()
            return
        worker = int(hello["worker"])
        self._links[worker], self._abouts[worker] = link, hello
        if len(self._links) == self._workers - 1:
            self._together.set()
        while True:
            frame = await link.receive()
            if frame is None:
                break
            self.hear(**frame)
        for step in list(self._steps.values()):
            step.lost(worker)

    # -- the script --

    async def _script(self) -> int:
        path = os.path.join(self._folder, "slurm_script")
        with open(path, "w") as file:
            file.write(self._plan.script)
        os.chmod(path, 0o700)
        env = self._variables()
        try:
            out, err = self._files(env)
        except OSError as error:
            say(f"{error.filename}: {error.strerror}")
            return 1
        together = err is out
        try:
            with open(self._pattern(self._plan.input, env) or os.devnull, "rb") as given:
                self._batch = await asyncio.create_subprocess_exec(
                    path,
                    *self._plan.arguments,
                    env=env,
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT if together else asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=LARGEST,
                )
        except OSError as error:
            say(f"the script could not be started: {error}")
            return 127
        if self._plan.signal and self._plan.limit:
            after = max(0.0, self._plan.limit - self._plan.signal["before"])
            asyncio.get_running_loop().call_later(after, self._warn)
        pumps = [self._pump(self._batch.stdout, out, sys.stdout.buffer)]
        if not together:
            pumps.append(self._pump(self._batch.stderr, err, sys.stderr.buffer))
        await asyncio.gather(*pumps)
        code = await self._batch.wait()
        return code if code >= 0 else 128 - code

    async def _pump(self, stream: Any, *sinks: Any) -> None:
        while True:
            data = await stream.read(PIECE)
            if not data:
                return
            for sink in sinks:
                with contextlib.suppress(OSError):
                    sink.write(data)
                    sink.flush()

    def _files(self, env: dict[str, str]) -> tuple[Any, Any]:
        """Of the script's output and errors. A restart goes on in them."""
        array = "SLURM_ARRAY_TASK_ID" in env
        mode = "ab" if self._plan.append or int(env.get("SLURM_RESTART_COUNT", "0")) else "wb"
        name = self._pattern(self._plan.output or ("slurm-%A_%a.out" if array else "slurm-%j.out"), env)
        out = open(name, mode)
        error = self._pattern(self._plan.error, env)
        return out, out if not error or error == name else open(error, mode)

    def _pattern(self, text: str, env: dict[str, str]) -> str:
        return pattern(text, env) if text else ""

    def _variables(self) -> dict[str, str]:
        environ, plan = self._environ, self._plan
        order = sorted(self._abouts)
        nodes = list(dict.fromkeys(self._abouts[worker]["host"] for worker in order))
        tasks: dict[str, int] = {}
        for worker in order:
            host = self._abouts[worker]["node"]
            tasks[host] = tasks.get(host, 0) + plan.slots[worker]
        number = environ.get("MUSTER_JOB_NUMBER", "0")
        devices = self._abouts[0]["devices"]
        hosts = (
            compress(nodes) if len(nodes) == len(tasks) else ",".join(self._abouts[worker]["host"] for worker in order)
        )
        env = {
            **{name: value for name, value in environ.items() if name not in ("MUSTER_SLURM", "MUSTER_SLURM_PROGRAM")},
            **plan.variables,
            "SLURM_JOB_ID": number,
            "SLURM_JOBID": number,
            "SLURM_JOB_NAME": plan.name,
            "SLURM_JOB_NODELIST": hosts,
            "SLURM_NODELIST": hosts,
            "SLURM_JOB_NUM_NODES": str(len(tasks)),
            "SLURM_NNODES": str(len(tasks)),
            "SLURM_NTASKS": str(plan.tasks),
            "SLURM_NPROCS": str(plan.tasks),
            "SLURM_TASKS_PER_NODE": repeated(list(tasks.values())),
            "SLURM_JOB_CPUS_PER_NODE": repeated([count * plan.cpus for count in tasks.values()]),
            "SLURM_CPUS_ON_NODE": str(plan.slots[0] * plan.cpus),
            "SLURM_CPUS_PER_TASK": str(plan.cpus),
            "SLURM_NODEID": "0",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
            "SLURM_LAUNCH_NODE_IPADDR": environ["MUSTER_MASTER_ADDR"],
            "SLURMD_NODENAME": environ["MUSTER_NODE"],
            "SLURM_JOB_ACCOUNT": plan.variables.get("SLURM_JOB_ACCOUNT", ""),
            "MUSTER_SLURM_SOCKET": os.path.join(self._folder, "socket"),
            "PATH": os.path.join(self._folder, "bin") + os.pathsep + environ.get("PATH", os.defpath),
        }
        if devices:
            env.update(SLURM_GPUS_ON_NODE=str(len(devices.split(","))), SLURM_JOB_GPUS=devices)
        if int(environ.get("MUSTER_ATTEMPT", "1")) > 1:
            env["SLURM_RESTART_COUNT"] = str(int(environ["MUSTER_ATTEMPT"]) - 1)
        if "MUSTER_ARRAY_INDEX" in environ:
            env["SLURM_ARRAY_TASK_ID"] = environ["MUSTER_ARRAY_INDEX"]
            env["SLURM_ARRAY_JOB_ID"] = environ.get("MUSTER_ARRAY_JOB_NUMBER", number)
            env["SLURM_ARRAY_TASK_COUNT"] = environ["MUSTER_ARRAY_SIZE"]
        return env

    # -- signals --

    def _warn(self) -> None:
        """What --signal asks for."""
        if not self._plan.signal:
            return
        number = self._plan.signal["number"]
        if self._plan.signal["batch"]:
            if self._batch is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._batch.send_signal(number)
            return
        self._all(number)

    def _stopped(self, number: int) -> None:
        """The gang is told to stop: the other stations are told by their own nodes."""
        self._warn()
        self.tasks.signal(number)
        if self._batch is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._batch.pid, number)

    def _all(self, number: int, step: int | None = None) -> None:
        self.tasks.signal(number, step)
        for link in self._links.values():
            link.send(kind="signal", signal=number, step=step)

    # -- steps --

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        asked = await link.receive()
        if asked is None:
            link.close()
            return
        self._count += 1
        try:
            step = Step(self._count - 1, asked, self._plan, self._abouts, link)
        except ValueError as error:
            link.send(kind="refused", message=str(error))
            await link.drain()
            link.close()
            return
        self._steps[step.number] = step
        for worker, frame in step.frames(self._variables()):
            if worker == 0:
                await self.tasks.start(step.number, frame)
            else:
                self._links[worker].send(**frame)
        while True:
            heard = await link.receive()
            if heard is None:
                break
            if heard["kind"] == "signal":
                self._all(heard["signal"], step.number)
            elif heard["kind"] == "feed":
                self.tasks.feed(step.number, unpacked(heard["data"]))
                for other in self._links.values():
                    other.send(kind="feed", step=step.number, data=heard["data"])
        del self._steps[step.number]
        if step.open:
            self._all(signal.SIGKILL, step.number)
        link.close()

    def hear(self, **frame: Any) -> None:
        step = self._steps.get(frame["step"])
        if step is not None and step.hear(frame):
            self._all(signal.SIGKILL, step.number)


class Step:
    """Tasks over stations. Raises ValueError when it does not fit."""

    def __init__(self, number: int, asked: Frame, plan: Plan, abouts: dict[int, Frame], link: Link) -> None:
        self.number, self._asked, self._plan, self._abouts, self._link = number, asked, plan, abouts, link
        self._places = layout(asked, plan.slots)
        self.open = {task for tasks in self._places.values() for task in tasks}
        self._bad = False
        link.send(kind="started", tasks=len(self.open))

    def frames(self, base: dict[str, str]) -> list[tuple[int, Frame]]:
        workers = list(self._places)
        ranks = {worker: at for at, worker in enumerate(dict.fromkeys(workers))}
        hosts = ",".join(self._abouts[worker]["host"] for worker in workers)
        total = sum(len(tasks) for tasks in self._places.values())
        env = {**{name: value for name, value in base.items() if name.startswith("SLURM")}, **self._asked["env"]}
        shared = {
            "SLURM_STEP_ID": str(self.number),
            "SLURM_STEPID": str(self.number),
            "SLURM_STEP_NODELIST": hosts,
            "SLURM_STEP_NUM_NODES": str(len(workers)),
            "SLURM_STEP_NUM_TASKS": str(total),
            "SLURM_STEP_TASKS_PER_NODE": repeated([len(tasks) for tasks in self._places.values()]),
            "SLURM_NTASKS": str(total),
            "SLURM_NPROCS": str(total),
            "SLURM_NNODES": str(len(workers)),
            "SLURM_TASKS_PER_NODE": repeated([len(tasks) for tasks in self._places.values()]),
            "SLURM_NODELIST": base["SLURM_NODELIST"] if len(workers) == len(self._abouts) else hosts,
        }
        return [
            (
                worker,
                {
                    "kind": "start",
                    "step": self.number,
                    "argv": self._asked["argv"],
                    "cwd": self._asked["cwd"],
                    "env": {**env, **shared},
                    "stdin": self._asked.get("stdin", False),
                    "gpus": self._asked.get("gpus") or self._plan.gpus_per_task,
                    "tasks": [
                        {
                            "id": task,
                            "local": local,
                            "env": {
                                "SLURM_PROCID": str(task),
                                "SLURM_LOCALID": str(local),
                                "SLURM_NODEID": str(ranks[worker]),
                                "SLURM_GTIDS": ",".join(map(str, tasks)),
                                "SLURMD_NODENAME": self._abouts[worker]["node"],
                                "SLURM_TASK_PID": "",
                            },
                        }
                        for local, task in enumerate(tasks)
                    ],
                },
            )
            for worker, tasks in self._places.items()
        ]

    def hear(self, frame: Frame) -> bool:
        """True when the rest of the step is to be killed."""
        self._link.send(**frame)
        if frame["kind"] != "exit":
            return False
        self.open.discard(frame["task"])
        bad = bool(frame["code"] or frame["signal"]) and self._asked.get("killOnBadExit", False)
        first, self._bad = bad and not self._bad, self._bad or bad
        if not self.open:
            self._link.send(kind="over")
        return first

    def lost(self, worker: int) -> None:
        for task in self._places.get(worker, []):
            if task in self.open:
                text = f"srun: error: node {self._abouts[worker]['node']} is gone\n"
                self.hear({"kind": "out", "task": task, "fd": 2, "data": packed(text.encode())})
                self.hear({"kind": "exit", "task": task, "code": 1, "signal": 0})


def layout(asked: Frame, slots: list[int]) -> dict[int, list[int]]:
    """Tasks by worker, in blocks: the first ones on the first node. Raises ValueError."""
    workers = list(range(len(slots)))[asked.get("relative") or 0 :]
    count = asked.get("nodes")
    if count is not None:
        if count > len(workers):
            raise ValueError(f"{count} nodes were asked for, the job has {len(workers)}")
        workers = workers[:count]
    each = asked.get("tasksPerNode")
    tasks = asked.get("tasks")
    if tasks is None:
        tasks = (
            each * len(workers) if each else (sum(slots[one] for one in workers) if count is None else max(count, 1))
        )
        if count is not None and not each:
            tasks = sum(slots[one] for one in workers)
    if count is None and not each and tasks < len(workers):
        workers = workers[:tasks]
    room = [each or slots[one] for one in workers]
    if sum(room) < tasks:
        if not asked.get("overcommit"):
            raise ValueError(f"{tasks} tasks were asked for, there is room for {sum(room)} (--overcommit lifts that)")
        room = [-(-tasks // len(workers))] * len(workers)
    counts = [0] * len(workers)
    if count is not None and not each:  # as evenly as can be, every node having one
        for at in range(tasks):
            counts[at % len(workers)] += 1
        if any(have > most for have, most in zip(counts, room)):
            counts = _filled(tasks, room)
    else:
        counts = _filled(tasks, room)
    found: dict[int, list[int]] = {}
    first = 0
    for worker, number in zip(workers, counts):
        if number:
            found[worker] = list(range(first, first + number))
            first += number
    return found


def _filled(tasks: int, room: list[int]) -> list[int]:
    counts = []
    for most in room:
        counts.append(min(most, tasks))
        tasks -= counts[-1]
    return counts


def repeated(counts: list[int]) -> str:
    """`8(x4),2`, as Slurm writes counts by node."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


def pattern(text: str, env: dict[str, str]) -> str:
    """A file's name with its %-words replaced; `%4j` fills with zeros."""
    words = {
        "j": env.get("SLURM_JOB_ID", "0"),
        "J": env.get("SLURM_JOB_ID", "0") + ("." + env["SLURM_STEP_ID"] if "SLURM_STEP_ID" in env else ""),
        "A": env.get("SLURM_ARRAY_JOB_ID", env.get("SLURM_JOB_ID", "0")),
        "a": env.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "x": env.get("SLURM_JOB_NAME", ""),
        "u": env.get("USER", env.get("LOGNAME", "")),
        "N": env.get("SLURMD_NODENAME", ""),
        "n": env.get("SLURM_NODEID", "0"),
        "t": env.get("SLURM_PROCID", "0"),
        "s": env.get("SLURM_STEP_ID", "batch"),
        "%": "%",
    }
    if "\\" in text:
        return text.replace("\\", "")
    made, at = "", 0
    while at < len(text):
        if text[at] != "%":
            made += text[at]
            at += 1
            continue
        end = at + 1
        while end < len(text) and text[end].isdigit():
            end += 1
        letter = text[end : end + 1]
        if letter in words:
            width = text[at + 1 : end]
            made += words[letter].zfill(int(width)) if width else words[letter]
        else:
            made += text[at : end + 1]
        at = end + 1
    return made


# -- srun and scontrol inside the job ----------------------------------------------------------------------


def srun(asked: Frame) -> int:
    """A step of this job, from its script. `asked` has been read from the command line. The exit code."""
    path = os.environ.get("MUSTER_SLURM_SOCKET", "")
    if not path or not os.path.exists(path):
        say("srun: steps are started on the first node of the job")
        return 1
    return asyncio.run(_srun(path, asked))


async def _srun(path: str, asked: Frame) -> int:
    reader, writer = await asyncio.open_unix_connection(path, limit=LARGEST)
    link = Link(reader, writer)
    env = {name: value for name, value in os.environ.items() if name not in ("MUSTER_SLURM_SOCKET",)}
    link.send(**asked, env=env, cwd=asked.get("chdir") or os.getcwd())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCONT):
        loop.add_signal_handler(number, functools.partial(link.send, kind="signal", signal=int(number)))
    outputs, feeding = Outputs(asked), None
    worst = 0
    while True:
        frame = await link.receive()
        if frame is None:
            say("srun: the job's first node broke off")
            return 1
        if frame["kind"] == "refused":
            sys.stderr.write(f"srun: error: {frame['message']}\n")
            return 1
        if frame["kind"] == "started" and asked.get("stdin"):
            feeding = asyncio.ensure_future(_feed(link))
        elif frame["kind"] == "out":
            outputs.write(frame["task"], frame["fd"], unpacked(frame["data"]))
        elif frame["kind"] == "exit":
            code = 128 + frame["signal"] if frame["signal"] else frame["code"]
            if code:
                sys.stderr.write(
                    f"srun: error: task {frame['task']}: {'signal' if frame['signal'] else 'exit code'} {frame['signal'] or frame['code']}\n"
                )
            worst = max(worst, code)
        elif frame["kind"] == "over":
            outputs.close()
            if feeding is not None:
                feeding.cancel()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(worst)  # a read of standard input that waits would hold it up


async def _feed(link: Link) -> None:
    loop = asyncio.get_running_loop()
    while True:
        data = await loop.run_in_executor(None, os.read, 0, PIECE)
        link.send(kind="feed", data=packed(data))
        await link.drain()
        if not data:
            return


class Outputs:
    """Where a step's tasks write: the terminal, one file, or a file each (%t, %n)."""

    def __init__(self, asked: Frame) -> None:
        self._label, self._asked = asked.get("label"), asked
        self._open: dict[str, Any] = {}
        self._rest: dict[tuple[int, int], bytes] = {}

    def write(self, task: int, fd: int, data: bytes) -> None:
        if self._label:
            *lines, rest = (self._rest.pop((task, fd), b"") + data).split(b"\n")
            self._rest[task, fd] = rest
            data = b"".join(f"{task}: ".encode() + line + b"\n" for line in lines)
        sink = self._sink(task, fd)
        with contextlib.suppress(OSError):
            sink.write(data)
            sink.flush()

    def _sink(self, task: int, fd: int) -> Any:
        text = self._asked.get("error") if fd == 2 and self._asked.get("error") else self._asked.get("output")
        if not text:
            return sys.stdout.buffer if fd == 1 else sys.stderr.buffer
        name = pattern(text, {**os.environ, "SLURM_PROCID": str(task)})
        if name not in self._open:
            self._open[name] = open(name, "ab" if self._asked.get("append") else "wb")
        return self._open[name]

    def close(self) -> None:
        for (task, fd), rest in self._rest.items():
            if rest:
                self._sink(task, fd).write(f"{task}: ".encode() + rest + b"\n")
        for file in self._open.values():
            file.close()


def scontrol(words: list[str]) -> int:
    own = os.environ.get("SLURM_JOB_ID", "")
    if words[:2] in (["show", "hostnames"], ["show", "hostname"]):
        try:
            print("\n".join(expand(words[2] if len(words) > 2 else os.environ.get("SLURM_JOB_NODELIST", ""))))
        except ValueError as error:
            say(f"scontrol: {error}")
            return 1
        return 0
    if words[:2] == ["show", "hostlist"] and len(words) > 2:
        print(compress([host for host in words[2].split(",") if host]))
        return 0
    if words[:1] == ["requeue"] and len(words) == 2:
        array = f"{os.environ.get('SLURM_ARRAY_JOB_ID')}_{os.environ.get('SLURM_ARRAY_TASK_ID')}"
        if words[1] not in (own, array):
            say(f"scontrol: inside a job only that job itself can be requeued ({own})")
            return 1
        return requeue()
    say(f"scontrol {' '.join(words)}: not known inside a job (show hostnames, show hostlist, requeue)")
    return 1


def requeue() -> int:
    request = urllib.request.Request(
        os.environ["MUSTER_SERVER"].rstrip("/") + "/api/v1/self/restart",
        method="POST",
        headers={"Authorization": "Bearer " + os.environ["MUSTER_TOKEN"], "Content-Length": "0"},
        data=b"",
    )
    try:
        with urllib.request.urlopen(request, timeout=30):
            return 0
    except (urllib.error.URLError, OSError) as error:
        say(f"scontrol: the job could not be requeued: {error}")
        return 1


def steps_of(words: list[str]) -> int:
    """`srun` as the script calls it: its words go through the table of options that came along."""
    options = json.loads(os.environ["MUSTER_SLURM_OPTIONS"])
    try:
        return srun(read_step(words, options, dict(os.environ)))
    except ValueError as error:
        sys.stderr.write(f"srun: error: {error}\n")
        return 1


def read_step(words: list[str], options: dict[str, list[str]], environ: dict[str, str]) -> Frame:
    """`options`: `--name` and `-x` to [name, value|nothing|maybe]. Raises ValueError that names what is unknown."""
    given: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            name, value, equals = word[:2], word[2:], word[2:3]
        if name not in options:
            raise ValueError(f"unknown option {name}")
        known, takes = options[name]
        if takes == "value" and not equals:
            if not rest:
                raise ValueError(f"{name} needs a value")
            value = rest.pop(0)
        elif takes == "nothing" and value and not word.startswith("--"):
            rest.insert(0, "-" + value)
            value = ""
        given[known] = value
    argv = rest[1:] if rest[:1] == ["--"] else rest
    if not argv:
        raise ValueError("no command to run")
    per_node = given.get("ntasks-per-node") or (environ.get("SLURM_NTASKS_PER_NODE") if "ntasks" not in given else None)
    return {
        "argv": argv,
        "tasks": number(given, "ntasks"),
        "nodes": number(given, "nodes"),
        "tasksPerNode": None if per_node is None else whole(per_node, "ntasks-per-node"),
        "relative": number(given, "relative"),
        "gpus": number(given, "gpus-per-task") or 0,
        "chdir": given.get("chdir"),
        "output": given.get("output"),
        "error": given.get("error"),
        "append": given.get("open-mode") == "append",
        "label": "label" in given,
        "overcommit": "overcommit" in given or "overlap" in given,
        "killOnBadExit": given.get("kill-on-bad-exit", "0") != "0" if "kill-on-bad-exit" in given else False,
        "stdin": given.get("input", "all") != "none",
    }


def number(given: dict[str, str], name: str) -> int | None:
    return whole(given[name].partition("-")[0].rpartition(":")[2], name) if name in given else None


def whole(text: str, name: str) -> int:
    if not text.isdigit():
        raise ValueError(f"--{name}: expected a number, found {text!r}")
    return int(text)


# -- beginning ---------------------------------------------------------------------------------------------


def folder_of(environ: dict[str, str]) -> str:
    """Where a session beside this worker finds it, too."""
    own = f"muster-slurm-{environ['MUSTER_ATTEMPT_UID']}-{environ['MUSTER_WORKER_INDEX']}"
    return os.path.join(tempfile.gettempdir(), own)


def equip(folder: str) -> None:
    """A folder with this program and the commands that scripts find."""
    path, bin_ = os.path.join(folder, "station.py"), os.path.join(folder, "bin")
    with open(path, "w") as file:
        file.write(os.environ["MUSTER_SLURM_PROGRAM"])
    os.mkdir(bin_, 0o700)
    for name in COMMANDS:
        command = os.path.join(bin_, name)
        with open(command, "w") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" -I "{path}" {name} "$@"\n')
        os.chmod(command, 0o700)


def station() -> int:
    environ = dict(os.environ)
    folder = folder_of(environ)
    os.mkdir(folder, 0o700)
    try:
        equip(folder)
        if int(environ["MUSTER_WORKER_INDEX"]):
            return asyncio.run(join(environ))
        return asyncio.run(Head(environ, Plan(environ), folder).run())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(words: list[str]) -> int:
    if words[:1] == ["srun"]:
        return steps_of(words[1:])
    if words[:1] == ["scontrol"]:
        return scontrol(words[1:])
    return station()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
