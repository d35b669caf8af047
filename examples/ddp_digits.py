"""Train a small network on scikit-learn's digits with PyTorch DDP (gloo, CPU); resume exactly where a checkpoint ends.

Deterministic: the data of a step depends on the seed and the step alone, gradients are summed in the same order at
every start, and model, optimizer and loss curve are in each checkpoint. So a run that was interrupted ends with the
same weights, bit for bit, as one that was not.

    torchrun --nproc-per-node 4 ddp_digits.py --output runs/mine

Under Muster it takes its checkpoint folder and resume path from the environment and reports each step; alone it
does without.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from digits import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

try:
    import muster.report as report
except ImportError:  # the program also runs where muster-sdk is not installed
    report = None

BATCH = 64  # over all ranks


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/ddp-digits"), help="folder of the final files")
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "300")))
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--step-seconds", type=float, default=float(os.environ.get("STEP_SECONDS", "0")))
    return parser.parse_args()


def batch_of(step: int, images: torch.Tensor, labels: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's share of the batch of `step` (counted from 0): a function of seed, step and rank alone."""
    per_pass = len(images) // BATCH
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed + step // per_pass))
    share = BATCH // dist.get_world_size()
    start = (step % per_pass) * BATCH + dist.get_rank() * share
    chosen = order[start : start + share]
    return images[chosen], labels[chosen]


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, losses: torch.Tensor, step: int) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "losses": losses, "step": torch.tensor(step)}


def load(path: str, model: nn.Module, optimizer: torch.optim.Optimizer, losses: torch.Tensor) -> int:
    """The step after which the checkpoint at `path` was taken."""
    state = state_of(model, optimizer, losses, 0)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(state["step"])


def save(folder: Path, state: dict[str, Any], step: int) -> None:
    """All ranks write into a hidden folder, which takes its name only when it is complete."""
    target, partial = folder / f"step-{step:06d}", folder / f".partial-step-{step:06d}"
    if dist.get_rank() == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    dist.barrier()
    dcp.save(state, checkpoint_id=partial)
    if dist.get_rank() == 0:
        promote(partial, target)
        if report:
            report.checkpoint(target)
    dist.barrier()


def promote(partial: Path, target: Path) -> None:
    """Give `partial` its name; what an attempt that was further ahead left there is moved away first."""
    if target.exists():
        stale = target.with_name(f".stale-{target.name}")
        shutil.rmtree(stale, ignore_errors=True)
        target.rename(stale)
        shutil.rmtree(stale)
    partial.rename(target)


def finish(output: Path, model: nn.Module, losses: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Final weights as `weights.npz`, the loss of every step as `losses.json`."""
    output.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    np.savez(output / "weights.npz", **weights)
    (output / "losses.json").write_text(json.dumps(losses.tolist()))
    with torch.no_grad():
        accuracy = (model(images).argmax(dim=1) == labels).double().mean().item()
    print(f"done: accuracy {accuracy:.4f} on all {len(images)} images, files in {output}", flush=True)


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    points, digits = load_digits()
    images, labels = torch.tensor(points, dtype=torch.float32), torch.tensor(digits)

    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    # With find_unused_parameters DDP never rebuilds its buckets after the first step, which would change the order
    # of the sums between a run that has just resumed and one that has not.
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=3e-3)
    losses = torch.zeros(options.steps, dtype=torch.float64)
    folder = Path((report and report.checkpoint_dir()) or options.output / "checkpoints")
    resume = report and report.resume_from()
    first = load(resume, model, optimizer, losses) if resume else 0
    if dist.get_rank() == 0:
        print(
            f"{dist.get_world_size()} ranks, " + (f"resumed from {resume}" if resume else "from the start"), flush=True
        )

    for step in range(first, options.steps):
        began = time.monotonic()
        data, wanted = batch_of(step, images, labels, options.seed)
        loss = nn.functional.cross_entropy(parallel(data), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().double()
        dist.all_reduce(mean)
        losses[step] = mean / dist.get_world_size()
        if dist.get_rank() == 0:
            print(f"step {step + 1} loss {losses[step].item():.6f}", flush=True)
            if report:
                report.progress(step=step + 1, loss=losses[step].item())
        if (step + 1) % options.save_every == 0:
            save(folder, state_of(model, optimizer, losses, step + 1), step + 1)
        time.sleep(max(0.0, options.step_seconds - (time.monotonic() - began)))

    if dist.get_rank() == 0:
        finish(options.output, model, losses, images, labels)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
