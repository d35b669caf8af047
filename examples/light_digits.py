"""Train a small network on scikit-learn's digits, data-parallel over TCP, with NumPy only; resume exactly.

Each rank computes the gradients of its share of the batch; rank 0 collects them, adds them in the order of the ranks
and sends the sum back. The data of a step depends on the seed and the step alone, and a checkpoint holds weights,
momentum and loss curve, so that an interrupted run ends with the same bits as one that was not.

Needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as every launcher gives them; alone it is one rank.
"""

import argparse
import json
import os
import shutil
import socket
import struct
import sys
import time
from pathlib import Path

import numpy as np
from digits import load_digits

try:
    import muster.report as report
except ImportError:  # the program also runs where muster-sdk is not installed
    report = None

BATCH = 64  # over all ranks
HIDDEN = 48
RATE, MOMENTUM = 0.2, 0.9
CONNECT_SECONDS = 120.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/light-digits"), help="folder of the final files")
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "300")))
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--step-seconds", type=float, default=float(os.environ.get("STEP_SECONDS", "0")))
    return parser.parse_args()


class Star:
    """Sums over all ranks through rank 0."""

    def __init__(self, rank: int, size: int, address: str, port: int) -> None:
        self.rank, self.size = rank, size
        self.peers: list[socket.socket] = []  # at rank 0: the others in rank order; elsewhere: rank 0
        if rank == 0 and size > 1:
            self._listen(address, port)
        elif size > 1:
            self._connect(address, port)

    def _listen(self, address: str, port: int) -> None:
        found: dict[int, socket.socket] = {}
        with socket.create_server((address, port)) as server:
            server.settimeout(CONNECT_SECONDS)
            while len(found) < self.size - 1:
                peer, _ = server.accept()
                peer.settimeout(None)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                found[struct.unpack("!i", _receive(peer, 4))[0]] = peer
        self.peers = [found[rank] for rank in range(1, self.size)]

    def _connect(self, address: str, port: int) -> None:
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                peer = socket.create_connection((address, port), timeout=5)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        peer.settimeout(None)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(struct.pack("!i", self.rank))
        self.peers = [peer]

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over the ranks, added in rank order, the same bits at every rank."""
        if self.rank == 0:
            total = values.copy()
            for peer in self.peers:
                total += np.frombuffer(_receive(peer, values.nbytes), dtype=values.dtype)
            for peer in self.peers:
                peer.sendall(total.tobytes())
            return total
        self.peers[0].sendall(values.tobytes())
        return np.frombuffer(_receive(self.peers[0], values.nbytes), dtype=values.dtype)


def _receive(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionError("a peer has gone")
        data += piece
    return bytes(data)


def first_weights(seed: int) -> np.ndarray:
    """All weights as one vector: 64 x HIDDEN, HIDDEN, HIDDEN x 10, 10."""
    random = np.random.default_rng(seed)
    parts = [random.normal(0, 0.15, 64 * HIDDEN), np.zeros(HIDDEN), random.normal(0, 0.15, HIDDEN * 10), np.zeros(10)]
    return np.concatenate(parts)


def unpack(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    a, b, c = 64 * HIDDEN, 65 * HIDDEN, 75 * HIDDEN
    return weights[:a].reshape(64, HIDDEN), weights[a:b], weights[b:c].reshape(HIDDEN, 10), weights[c:]


def loss_and_gradient(weights: np.ndarray, data: np.ndarray, wanted: np.ndarray) -> tuple[float, np.ndarray]:
    """Summed cross entropy over `data` and its gradient."""
    w1, b1, w2, b2 = unpack(weights)
    hidden = np.maximum(data @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=1, keepdims=True)
    share = np.exp(scores)
    share /= share.sum(axis=1, keepdims=True)
    rows = np.arange(len(data))
    loss = -np.log(share[rows, wanted]).sum()
    share[rows, wanted] -= 1
    back = (share @ w2.T) * (hidden > 0)
    parts = [(data.T @ back).ravel(), back.sum(axis=0), (hidden.T @ share).ravel(), share.sum(axis=0)]
    return float(loss), np.concatenate(parts)


def batch_of(step: int, count: int, star: Star, seed: int) -> np.ndarray:
    """The rows of this rank's share of the batch of `step`: a function of seed, step and rank alone."""
    per_pass = count // BATCH
    order = np.random.default_rng((seed, step // per_pass)).permutation(count)
    share = BATCH // star.size
    start = (step % per_pass) * BATCH + star.rank * share
    return order[start : start + share]


def save(folder: Path, state: dict[str, np.ndarray], step: int) -> None:
    """A folder `step-NNNNNN`, named so when it is whole; its file COMPLETE lists every other file with its size."""
    target, partial = folder / f"step-{step:06d}", folder / f".partial-step-{step:06d}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, values in state.items():
        with open(partial / f"{name}.npy", "wb") as file:
            np.save(file, values)
            file.flush()
            os.fsync(file.fileno())
    listing = "".join(f"{path.name} {path.stat().st_size}\n" for path in sorted(partial.iterdir()))
    (partial / "COMPLETE").write_text(listing)
    if target.exists():  # left by an attempt that was further ahead
        stale = folder / f".stale-step-{step:06d}"
        shutil.rmtree(stale, ignore_errors=True)
        target.rename(stale)
        shutil.rmtree(stale)
    partial.rename(target)
    if report:
        report.checkpoint(target)


def load(path: str) -> dict[str, np.ndarray]:
    return {file.stem: np.load(file) for file in Path(path).glob("*.npy")}


def finish(output: Path, weights: np.ndarray, losses: np.ndarray, images: np.ndarray, labels: np.ndarray) -> None:
    """Final weights as `weights.npz`, the loss of every step as `losses.json`."""
    output.mkdir(parents=True, exist_ok=True)
    w1, b1, w2, b2 = unpack(weights)
    np.savez(output / "weights.npz", w1=w1, b1=b1, w2=w2, b2=b2)
    (output / "losses.json").write_text(json.dumps(losses.tolist()))
    right = (np.maximum(images @ w1 + b1, 0) @ w2 + b2).argmax(axis=1) == labels
    print(f"done: accuracy {right.mean():.4f} on all {len(images)} images, files in {output}", flush=True)


def train(options: argparse.Namespace, star: Star) -> None:
    images, labels = load_digits()
    folder = Path((report and report.checkpoint_dir()) or options.output / "checkpoints")
    resume = report and report.resume_from()
    if resume:
        state = load(resume)
    else:
        weights = first_weights(options.seed)
        state = {"weights": weights, "momentum": 0 * weights, "losses": np.zeros(options.steps), "step": np.array(0)}
    weights, momentum, losses = state["weights"], state["momentum"], state["losses"]
    if star.rank == 0:
        print(f"{star.size} ranks, " + (f"resumed from {resume}" if resume else "from the start"), flush=True)

    for step in range(int(state["step"]), options.steps):
        began = time.monotonic()
        rows = batch_of(step, len(images), star, options.seed)
        loss, gradient = loss_and_gradient(weights, images[rows], labels[rows])
        total = star.sum(np.append(gradient, loss)) / BATCH
        momentum = MOMENTUM * momentum + total[:-1]
        weights = weights - RATE * momentum
        losses[step] = total[-1]
        if star.rank == 0:
            print(f"step {step + 1} loss {losses[step]:.6f}", flush=True)
            if report:
                report.progress(step=step + 1, loss=losses[step])
            if (step + 1) % options.save_every == 0:
                now = {"weights": weights, "momentum": momentum, "losses": losses, "step": np.array(step + 1)}
                save(folder, now, step + 1)
        time.sleep(max(0.0, options.step_seconds - (time.monotonic() - began)))

    if star.rank == 0:
        finish(options.output, weights, losses, images, labels)
    star.sum(np.zeros(1))  # nobody leaves before the files are there


def main() -> int:
    environment = os.environ
    rank, size = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
    options = arguments()
    try:
        star = Star(rank, size, environment.get("MASTER_ADDR", "127.0.0.1"), int(environment.get("MASTER_PORT", "0")))
        train(options, star)
    except ConnectionError as error:
        print(f"rank {rank}: connection to the other ranks lost: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
