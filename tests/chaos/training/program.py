"""A small data-parallel training over TCP that resumes exactly; in its first attempt rank `WHO` does `FAULT` at step `AT`.

Standard library only. Weights are sums in the order of the ranks, so an interrupted run ends with the same bits.
"""

import json
import math
import os
import signal
import socket
import sys
import time
import zipfile
from pathlib import Path

import muster.report

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FAULT, WHO, AT = os.environ.get("FAULT", ""), int(os.environ.get("WHO", "0")), int(os.environ.get("AT", "0"))
STEPS, EVERY, SECONDS = int(os.environ["STEPS"]), int(os.environ["EVERY"]), float(os.environ["SECONDS"])
OUT = Path(os.environ["OUT"])
FIRST = os.environ.get("MUSTER_ATTEMPT", "1") == "1"
ALWAYS = ("type_error", "missing_module", "silent_error")


def peers():
    address = (os.environ["MASTER_ADDR"], int(os.environ.get("GANG_PORT", os.environ["MASTER_PORT"])))
    if RANK:
        while True:
            try:
                link = socket.create_connection(address)
                link.sendall(bytes([RANK]))
                return {0: link}
            except OSError:
                time.sleep(0.02)
    links = {}
    with socket.create_server(address) as server:
        while len(links) < SIZE - 1:
            peer = server.accept()[0]
            links[peer.recv(1)[0]] = peer
    return links


def receive(peer):
    data = b""
    while not data.endswith(b"\n"):
        more = peer.recv(4096)
        if not more:
            raise ConnectionError("a peer has gone")
        data += more
    return json.loads(data)


def all_reduce(links, values):
    if RANK:
        links[0].sendall(json.dumps(values).encode() + b"\n")
        return receive(links[0])
    parts = [values, *(receive(links[rank]) for rank in sorted(links))]
    total = [math.fsum(column) for column in zip(*parts, strict=True)]
    for peer in links.values():
        peer.sendall(json.dumps(total).encode() + b"\n")
    return total


def spin():
    while True:
        pass


def die(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def raising(error):
    raise error


def shim():
    """The process above this one that is the worker's shim."""
    pid = os.getppid()
    while b"shim.py" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def spoil():
    """The newest checkpoint loses its end, and the rank dies: the next attempt cannot read it."""
    newest = max(Path(muster.report.checkpoint_dir()).glob("step-*"), key=lambda one: int(one.name[5:]))
    file = newest / "state.zip"
    os.truncate(file, file.stat().st_size // 2)
    die(signal.SIGKILL)


FAULTS = {
    "kill": lambda: die(signal.SIGKILL),
    "segv": lambda: die(signal.SIGSEGV),
    "loop": spin,
    "stop": lambda: die(signal.SIGSTOP),
    "type_error": lambda: "1" + 1,
    "missing_module": lambda: __import__("no_such_module_here"),
    "silent_error": lambda: os._exit(7),
    "port": lambda: raising(OSError(98, "Address already in use")),
    "remote": lambda: raising(ConnectionError("HTTP error 503: Service Unavailable for url https://hub.example/data")),
    "nan": lambda: raising(FloatingPointError("loss is nan at this step")),
    "disk": lambda: raising(OSError(28, "No space left on device")),
    "shim": lambda: os.kill(shim(), signal.SIGKILL),
    "corrupt": spoil,
    "device": lambda: (Path(OUT, "reached").touch(), time.sleep(600)),
}


def misbehave(step):
    if RANK == WHO and step == AT and FAULT and (FIRST or FAULT in ALWAYS):
        FAULTS[FAULT]()


def save(weights, step):
    path = Path(muster.report.checkpoint_dir(), f"step-{step}")
    path.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path / "state.zip", "w") as file:
        file.writestr("weights.json", json.dumps(weights))
    (path / "COMPLETE").touch()
    muster.report.checkpoint(path)


def load():
    begin = muster.report.resume_from()
    if begin is None:
        return [0.0] * 8, 0
    with zipfile.ZipFile(Path(begin, "state.zip")) as file:
        return json.loads(file.read("weights.json")), int(begin.rsplit("-", 1)[1])


def main():
    weights, step = load()
    links = peers()
    while step < STEPS:
        step += 1
        misbehave(step)
        time.sleep(SECONDS)
        gradients = [math.sin(step * (RANK + 1) + i) - 0.01 * weight for i, weight in enumerate(weights)]
        weights = [weight + 0.1 * g for weight, g in zip(weights, all_reduce(links, gradients), strict=True)]
        muster.report.progress(step, loss=abs(weights[0]))
        if RANK == 0 and not Path(OUT, f"first-{os.environ.get('MUSTER_ATTEMPT', '0')}").exists():
            Path(OUT, f"first-{os.environ.get('MUSTER_ATTEMPT', '0')}").write_text(str(time.time()))
        if RANK == 0 and step % EVERY == 0:
            save(weights, step)
    if RANK == 0:
        (OUT / "final.json").write_text(json.dumps(weights))
    sys.stdout.flush()


main()
