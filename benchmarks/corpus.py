"""Failures that are really caused, and what the programs printed: the labelled corpus of the diagnosis.

    python benchmarks/corpus.py OUT [--only KIND]...

Every scenario runs a small program in a process of its own (with PyTorch, NumPy, plain Python or a shell) that fails for
a known reason; the logs of all its ranks are kept as text, one file, with a `[rank N]: ` prefix where there are several.
`expected.json` holds category, actions that are right, whether the node is at fault, and the culprit rank.
"""

import argparse
import importlib.util
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Scenario(NamedTuple):
    """`body` is Python, run by every rank (`RANK`, `WORLD_SIZE`, `step` from `PRELUDE`); shell when it starts with `#!`."""

    kind: str
    body: str
    accept: Sequence[str]
    node: bool | None = False
    culprit: int | None = None
    ranks: int = 1
    torch: bool = False
    memory: int = 0
    files: int = 0


PRELUDE = """
import os, sys, time, signal, pathlib
RANK, WORLD_SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
def step(n): print(f'step {n} loss {1 / (n + 1):.4f}', flush=True)
for n in range(3): step(n)
"""
GLOO = """
import datetime, torch, torch.distributed as dist
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=8))
def work(n=3):
    for _ in range(n): dist.all_reduce(torch.ones(4))
"""
USER, AGAIN = ("fail",), ("retry", "restart")


def user_errors() -> list[Scenario]:
    bodies = [
        "import transformerz", "from os import nothing_here", "config = {}; config['lr']", "x = [1]; x[7]", "None.shape",
        "int('ten')", "1 / 0", "assert RANK > 9, 'rank is wrong'", "undefined_name", "open('/no/such/file.yaml')",
        "len(5)", "raise NotImplementedError('no such model')", "def f(a): pass\nf()", "'a' + 1", "{}.foo",
        "import json; json.loads('{bad')", "eval('x = = 1')", "b'\\xff'.decode()", "def f(): return f()\nf()",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr', type=float); p.parse_args(['--lrr', '1'])",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr', type=float); p.parse_args(['--lr', 'x'])",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('d', choices=['a']); p.parse_args(['b'])",
        "import ctypes; ctypes.CDLL('libnothing.so.9')", "import enum; E = enum.Enum('E', 'a'); E('q')",
        "import struct; pathlib.Path('/').read_text()", "import asyncio\nasync def f(): raise KeyError('batch')\nasyncio.run(f())",
        "try:\n    {}['model']\nexcept KeyError as e:\n    raise RuntimeError('config is broken') from e",
        "from concurrent.futures import ThreadPoolExecutor as P\nP(1).submit(lambda: [][0]).result()",
    ]  # fmt: skip
    shells = ["#!/bin/sh\npyhton train.py", "#!/bin/sh\n./train.sh", "#!/bin/bash\nset -u\necho $NOT_SET_ANYWHERE",
              "#!/bin/sh\npython3 trian.py", "#!/bin/sh\npython3 -m no_such_trainer", "#!/bin/sh\nif then fi"]  # fmt: skip
    return [Scenario("user_code_error", body, USER) for body in (*bodies, *shells)]


def tensors() -> list[Scenario]:
    bodies = [
        "torch.ones(2, 3) @ torch.ones(2, 3)", "torch.ones(2) + torch.ones(3)", "torch.nn.Linear(4, 2)(torch.ones(3, 5))",
        "torch.nn.Embedding(4, 2)(torch.tensor([9]))", "torch.cat([torch.ones(2, 2), torch.ones(3, 3)])",
        "torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 7]))", "torch.ones(2).cuda()",
        "torch.nn.Conv2d(3, 1, 3)(torch.ones(1, 4, 8, 8))", "torch.ones(6).view(4, 2)", "torch.ones(2).backward()",
        "a = torch.ones(2, requires_grad=True); b = (a * a).sum(); b.backward(); b.backward()",
        "torch.ones(2, dtype=torch.int) @ torch.ones(2)", "torch.nn.functional.nll_loss(torch.ones(3, 2), torch.ones(2, dtype=torch.long))",
        "torch.nn.BatchNorm1d(3)(torch.ones(1, 3))", "torch.stack([torch.ones(1), torch.ones(2)])",
        "torch.ones(2, 2).expand(3, 3)", "torch.nn.MultiheadAttention(10, 3)",
        "a = torch.ones(2, requires_grad=True); b = a.exp(); b += 1; b.sum().backward()",
        "torch.utils.data.DataLoader([torch.ones(2), torch.ones(3)], batch_size=2).__iter__().__next__()",
        "class D(torch.utils.data.Dataset):\n    def __len__(self): return 4\n    def __getitem__(self, i): return {}['x']\nnext(iter(torch.utils.data.DataLoader(D(), num_workers=1)))",
    ]  # fmt: skip
    numpy = ["np.ones(3) + np.ones(4)", "np.ones((2, 3)) @ np.ones((2, 3))", "np.ones(3)[9]", "np.concatenate([np.ones((1, 2)), np.ones((1, 3))])",
             "np.ones(6).reshape(4, 2)", "np.linalg.inv(np.zeros((2, 2)))", "np.array([1, 2]).astype('no')"]  # fmt: skip
    return [Scenario("user_code_error", "import torch\n" + body, USER, torch=True) for body in bodies] + [
        Scenario("user_code_error", "import numpy as np\n" + body, USER) for body in numpy
    ]


def memory() -> list[Scenario]:
    big = "x = []\nwhile True: x.append(bytearray(50_000_000)); step(len(x))"
    loaded = "import numpy as np\nx = np.ones(3_000_000_000)"
    return [
        Scenario("host_oom", big, ("restart",), memory=600), Scenario("host_oom", loaded, ("restart",), memory=800),
        Scenario("host_oom", "import torch\nx = torch.ones(3_000_000_000)", ("restart",), torch=True, memory=4000),
        Scenario("host_oom", "import torch\nx = [torch.ones(9_000_000) for _ in range(999)]", ("restart",), torch=True, memory=4000),
        Scenario("host_oom", "import subprocess; os.environ['A'] = '1'; x = bytearray(400_000_000); y = bytearray(400_000_000)", ("restart",), memory=600),
        Scenario("host_oom", "#!/bin/bash\npython3 -c \"import os; os.kill(os.getpid(), 9)\"\necho after >&2", ("restart",)),
        Scenario("resource_limits", "f = [open('/dev/null') for _ in range(999)]", USER, files=60),
        Scenario("resource_limits", "import socket\ns = [socket.socket() for _ in range(999)]", USER, files=60),
        Scenario("resource_limits", "import tempfile\nf = [tempfile.TemporaryFile() for _ in range(999)]", USER, files=60),
    ]  # fmt: skip


def files() -> list[Scenario]:
    full = "open('/dev/full', 'w').write('x' * 100_000)"
    save = "import torch\np = pathlib.Path('c.pt'); torch.save({'w': torch.ones(99999)}, p); b = p.read_bytes()\n"
    weights = "import torch, safetensors.torch as s\ns.save_file({'w': torch.ones(9999)}, 'w.safetensors'); p = pathlib.Path('w.safetensors'); b = p.read_bytes()\n"
    load, load_w = "\ntorch.load(p)", "\ns.load_file('w.safetensors')"
    npz = "import numpy as np\nnp.savez('c.npz', w=np.ones(9999)); p = pathlib.Path('c.npz'); b = p.read_bytes()\n"
    npy = "import numpy as np\nnp.save('c.npy', np.ones(9999)); p = pathlib.Path('c.npy'); b = p.read_bytes()\n"
    pickled = (
        "import pickle\np = pathlib.Path('c.pkl'); p.write_bytes(pickle.dumps(list(range(9999)))); b = p.read_bytes()\n"
    )
    previous = ("previous_checkpoint",)
    net = "import torch\na, b = torch.nn.Linear(2, 3), torch.nn.Linear(2, 4)\n"
    return [
        Scenario("disk_full", full, ("hold",)), Scenario("disk_full", "import numpy as np\nnp.ones(99999).tofile('/dev/full')", ("hold",)),
        Scenario("disk_full", "import torch\ntorch.save(torch.ones(99999), '/dev/full')", ("hold",), torch=True),
        Scenario("disk_full", "import json\njson.dump(list(range(99999)), open('/dev/full', 'w'))", ("hold",)),
        Scenario("disk_full", "import shutil\nopen('a', 'w').write('x' * 9999); shutil.copyfile('a', '/dev/full')", ("hold",)),
        Scenario("disk_full", "#!/bin/bash\nset -e\necho saving > /dev/full", ("hold",)),
        Scenario("disk_full", "import logging\nlogging.basicConfig(stream=open('/dev/full', 'w')); os.write(os.open('/dev/full', 1), b'x')", ("hold",)),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(b[:len(b) // 2])" + load, previous, torch=True),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(b'')" + load, previous, torch=True),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(b[:40])" + load, previous, torch=True),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(bytes(len(b)))" + load, previous, torch=True),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(b'\\0' * 200 + b[200:-200] + b'\\0' * 200)" + load, previous, torch=True),
        Scenario("checkpoint_corrupt", save + "p.write_bytes(b'version https://git-lfs')" + load, previous, torch=True),
        Scenario("weights_corrupt", weights + "p.write_bytes(b[:len(b) // 2])" + load_w, previous, torch=True),
        Scenario("weights_corrupt", weights + "p.write_bytes(b[:5])" + load_w, previous, torch=True),
        Scenario("weights_corrupt", weights + "p.write_bytes(b'\\xff' * 64)" + load_w, previous, torch=True),
        Scenario("weights_corrupt", weights + "p.write_bytes(b[:8] + b'x' * 60 + b[68:])" + load_w, previous, torch=True),
        Scenario("checkpoint_corrupt", npz + "p.write_bytes(b[:len(b) // 2]); np.load(p)['w']", previous),
        Scenario("checkpoint_corrupt", npz + "p.write_bytes(b[:300] + b'!!' + b[302:]); np.load(p)['w']", previous),
        Scenario("checkpoint_corrupt", npy + "p.write_bytes(b[:len(b) // 2]); np.load(p)", previous),
        Scenario("checkpoint_corrupt", npy + "p.write_bytes(b''); np.load(p)", previous),
        Scenario("checkpoint_corrupt", pickled + "p.write_bytes(b[:len(b) // 2]); pickle.loads(p.read_bytes())", previous),
        Scenario("checkpoint_corrupt", pickled + "p.write_bytes(b''); pickle.load(p.open('rb'))", previous),
        Scenario("checkpoint_corrupt", pickled + "p.write_bytes(b'<html>'); pickle.load(p.open('rb'))", previous),
        Scenario("checkpoint_model_mismatch", net + "b.load_state_dict(a.state_dict())", USER, torch=True),
        Scenario("checkpoint_model_mismatch", net + "b.load_state_dict({'w': torch.ones(1)})", USER, torch=True),
        Scenario("checkpoint_model_mismatch", net + "d = a.state_dict(); del d['bias']; a.load_state_dict(d)", USER, torch=True),
        Scenario("checkpoint_model_mismatch", net + "o = torch.optim.Adam(a.parameters()); o.load_state_dict(torch.optim.Adam([*a.parameters(), *b.parameters()]).state_dict())", USER, torch=True),
        Scenario("checkpoint_model_mismatch", net + "torch.nn.Sequential(a, torch.nn.Linear(3, 4)).load_state_dict(torch.nn.Sequential(a).state_dict())", USER, torch=True),
        Scenario("checkpoint_model_mismatch", "import torch, torch.distributed.checkpoint as d\nd.save({'a': torch.ones(2)}, checkpoint_id='k'); d.load({'zz': torch.ones(2)}, checkpoint_id='k')", USER, torch=True),
        Scenario("checkpoint_model_mismatch", "import torch, torch.distributed.checkpoint as d\nd.save({'a': torch.ones(2)}, checkpoint_id='k'); d.load({'a': torch.ones(5)}, checkpoint_id='k')", USER, torch=True),
        Scenario("checkpoint_corrupt", "import torch, torch.distributed.checkpoint as d\nd.save({'a': torch.ones(2)}, checkpoint_id='k'); [f.unlink() for f in pathlib.Path('k').glob('*.distcp')]; d.load({'a': torch.ones(2)}, checkpoint_id='k')", previous, torch=True),
        Scenario("checkpoint_corrupt", "import torch, torch.distributed.checkpoint as d\nd.save({'a': torch.ones(2)}, checkpoint_id='k'); [f.write_bytes(f.read_bytes()[:30]) for f in pathlib.Path('k').glob('*.distcp')]; d.load({'a': torch.ones(2)}, checkpoint_id='k')", previous, torch=True),
    ]  # fmt: skip


def services() -> list[Scenario]:
    busy = "import socket\na = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen(); port = a.getsockname()[1]\n"
    answer = "import http.server, threading, urllib.request\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(self): self.send_error(CODE)\ns = http.server.HTTPServer(('127.0.0.1', 0), H); threading.Thread(target=s.serve_forever, daemon=True).start()\nurl = f'http://127.0.0.1:{s.server_port}/m'\n"
    get = "urllib.request.urlopen(url)"
    return [
        Scenario("port_in_use", busy + "b = socket.socket(); b.bind(('127.0.0.1', port))", AGAIN),
        Scenario("port_in_use", busy + "import http.server; http.server.HTTPServer(('127.0.0.1', port), None)", AGAIN),
        Scenario("port_in_use", busy + "import torch.distributed as d; d.TCPStore('127.0.0.1', port, is_master=True)", AGAIN, torch=True),
        Scenario("port_in_use", busy + "import torch.distributed as d; os.environ.update(MASTER_PORT=str(port), MASTER_ADDR='127.0.0.1', RANK='0', WORLD_SIZE='1'); d.init_process_group('gloo')", AGAIN, torch=True),
        Scenario("port_in_use", busy + "import asyncio; asyncio.run(asyncio.start_server(print, '127.0.0.1', port))", AGAIN),
        *(Scenario("external_service", answer.replace("CODE", str(code)) + get, AGAIN) for code in (429, 500, 502, 503, 504)),
        *(Scenario("access_denied", answer.replace("CODE", str(code)) + get, USER) for code in (401, 403, 404)),
        Scenario("external_service", "import urllib.request\nurllib.request.urlopen('http://no-such-host.invalid/')", AGAIN),
        Scenario("external_service", "import socket\nsocket.create_connection(('no-such-host.invalid', 80))", AGAIN),
    ]  # fmt: skip


def numbers() -> list[Scenario]:
    return [
        Scenario("nan_grad", "x = float('inf') - float('inf')\nfor n in range(3, 6): print(f'step {n} loss {x}')\nraise RuntimeError(f'Loss is {x}, stopping training')", AGAIN, node=None),
        Scenario("nan_grad", "import torch\nw = torch.tensor(float('nan'), requires_grad=True)\n(w * w).backward(); torch.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)", AGAIN, node=None, torch=True),
        Scenario("nan_grad", "import torch\ntorch.autograd.set_detect_anomaly(True); a = torch.zeros(1, requires_grad=True); (torch.sqrt(a) * 0).sum().backward()", AGAIN, node=None, torch=True),
        Scenario("nan_grad", "import torch\ntorch.multinomial(torch.tensor([float('nan'), 1.0]), 1)", AGAIN, node=None, torch=True),
        Scenario("nan_grad", "import numpy as np\nnp.seterr(all='raise'); loss = np.float32(1e38) * np.float32(1e38)", (*AGAIN, "fail"), node=None),
    ]  # fmt: skip


def signals() -> list[Scenario]:
    own = "import faulthandler; faulthandler.enable(); import ctypes; ctypes.string_at(0)"
    return [
        Scenario("crash", own, ("restart",), node=None), Scenario("crash", "import ctypes; ctypes.string_at(0)", ("restart",), node=None),
        Scenario("crash", "#!/bin/bash\npython3 -c 'import ctypes; ctypes.string_at(0)'\necho 'status $?' >/dev/null", ("restart",), node=None),
        Scenario("crash", "import faulthandler; faulthandler.enable(); os.kill(os.getpid(), 8)", ("restart",), node=None),
        Scenario("shm_exhausted", "os.kill(os.getpid(), 7)", (*USER, "restart"), node=None),
        Scenario("success", "print('training finished')", ("record",)),
        Scenario("teardown_error_after_success", "print('Training completed.'); os.kill(os.getpid(), 11)", ("record",)),
        Scenario("teardown_error_after_success", "print('training finished', flush=True); raise ConnectionResetError('peer')", ("record",)),
        Scenario("preempted", "signal.signal(15, lambda *a: (print('Received SIGTERM: preempted by scheduler'), sys.exit(143))); os.kill(os.getpid(), 15)", ("restart", "retry")),
    ]  # fmt: skip


def gangs() -> list[Scenario]:
    many = {"ranks": 3, "torch": True}
    one = "if RANK == 1: {}\nwork(20); time.sleep(1); work(20)"
    gone = [("user_code_error", "{}['x']", USER, False), ("user_code_error", "import nothing_there", USER, False), ("user_code_error", "torch.ones(2) @ torch.ones(3)", USER, False),
            ("disk_full", "open('/dev/full', 'w').write('x' * 99999)", ("hold",), False), ("host_oom", "os.kill(os.getpid(), 9)", ("restart",), False),
            ("crash", "os.kill(os.getpid(), 11)", ("restart",), None), ("crash", "os.abort()", ("restart",), None), ("unknown", "os._exit(3)", ("restart",), None),
            ("shm_exhausted", "raise RuntimeError('unable to write to file </torch_1_2>: shared memory')", (*USER,), False),
            ("host_oom", "raise MemoryError", ("restart",), False), ("external_service", "raise TimeoutError('429 Too Many Requests')", AGAIN, False)]  # fmt: skip
    wrong = [
        "dist.all_reduce(torch.ones(4 if RANK else 6))", "dist.broadcast(torch.ones(3 + RANK), 0)",
        "dist.all_gather([torch.ones(2) for _ in range(3)], torch.ones(2 + RANK))",
        "dist.all_reduce(torch.ones(4)) if RANK else dist.broadcast(torch.ones(4), 0)",
    ]  # fmt: skip
    return [
        *(Scenario(kind, GLOO + one.replace("{}", body, 1), accept, node=node, culprit=1, **many) for kind, body, accept, node in gone),
        *(Scenario("user_code_desync", "os.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'\n" + GLOO + "work()\n" + body, USER, **many) for body in wrong),
        Scenario("missing_rank", GLOO + "if RANK == 2: time.sleep(30)\ndist.monitored_barrier(timeout=datetime.timedelta(seconds=3))", AGAIN, node=None, culprit=2, **many),
        Scenario("rank_hung", GLOO + "work()\nif RANK == 1: time.sleep(30)\nwork()", AGAIN, node=None, culprit=1, **many),
        Scenario("user_code_error", GLOO + "torch.nn.Linear(2, 2)(torch.ones(3))", USER, **many),
        Scenario("user_code_error", GLOO + "raise ValueError('vocabulary size must be positive')", USER, **many),
    ]  # fmt: skip


def scenarios() -> list[Scenario]:
    return [*user_errors(), *tensors(), *memory(), *files(), *services(), *numbers(), *signals(), *gangs()]


def cause(one: Scenario, folder: Path) -> str:
    """Runs it in `folder`; the log of all its ranks, without what is this machine's alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shell = one.body.startswith("#!")
    (folder / "train").write_text(one.body if shell else PRELUDE + one.body + "\n")
    (folder / "train").chmod(0o755)
    started = []
    for rank in range(one.ranks):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(one.ranks), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": port, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}  # fmt: skip
        words = ["./train"] if shell else [sys.executable, "train"]
        with (folder / f"log{rank}").open("w") as out:
            started.append(
                subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                 preexec_fn=lambda: limit(one))  # noqa: PLW1509 - no threads here
            )  # fmt: skip
    for process in started:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    logs = [(folder / f"log{rank}").read_text(errors="replace") for rank in range(one.ranks)]
    if one.ranks == 1:
        word = ending(started[0].returncode)
        return tidy(logs[0] + (f"{word}\n" if word and not shell else ""), folder)
    lines = [f"[rank{rank}]: {strip(line)}" for rank, log in enumerate(logs) for line in log.splitlines()]
    ends = [f"srun: error: n{rank}: task {rank}: {ending(process.returncode) or f'Exited with exit code {process.returncode}'}"
            for rank, process in enumerate(started) if process.returncode]  # fmt: skip
    return tidy("\n".join([*lines, *ends]) + "\n", folder)


def strip(line: str) -> str:
    return re.sub(r"^\[rank\d+\]:? ?", "", line)


def ending(code: int) -> str:
    """What a shell or srun says of a signal."""
    return {-9: "Killed", -11: "Segmentation fault (core dumped)", -6: "Aborted (core dumped)", -7: "Bus error (core dumped)",
            -8: "Floating point exception (core dumped)", -15: "Terminated"}.get(code, "")  # fmt: skip


def limit(one: Scenario) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if one.memory:
        resource.setrlimit(resource.RLIMIT_AS, (one.memory << 20,) * 2)
    if one.files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (one.files,) * 2)


def tidy(log: str, folder: Path) -> str:
    log = log.replace(str(folder), "/job").replace(sys.prefix, "/env").replace(socket.gethostname(), "n0")
    lines = log.splitlines()
    kept = lines if len(lines) <= 160 else [*lines[:60], *lines[-100:]]
    return "\n".join(line[:400] for line in kept) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="the folder of the corpus")
    parser.add_argument("--only", action="append", metavar="KIND")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="begin with this scenario")
    parser.add_argument("--part", choices=("light", "torch"), help="only what needs no PyTorch, or only what does")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "expected.json"
    expected = json.loads(target.read_text()) if target.exists() else {}
    for number, one in enumerate(scenarios()):
        if (args.only and one.kind not in args.only) or (args.part and one.torch is (args.part == "light")):
            continue
        name = f"{number:03d}-{one.kind}.log"
        if "safetensors" in one.body and importlib.util.find_spec("safetensors") is None:
            continue
        if name in expected or number < args.first:
            continue
        folder = Path(tempfile.mkdtemp())
        (args.out / name).write_text(cause(one, folder))
        shutil.rmtree(folder)
        expected[name] = {"category": one.kind, "accept": list(one.accept), "node_at_fault": one.node,
                          "culprit_rank": one.culprit, "held_out": number % 3 == 1}  # fmt: skip
        target.write_text(json.dumps(dict(sorted(expected.items())), indent=1) + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main()
