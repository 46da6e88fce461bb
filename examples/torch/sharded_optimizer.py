"""Data parallel under autocast; ranks share the optimizer's state.    torchrun --nproc-per-node 2 sharded_optimizer.py [--bf16]"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from model import asked_for, batch_of, finish, rank, ranks


def shared_batch(step, seed):
    """Sequences of this rank. Each is shorter than the one before: what is behind its end does not count."""
    ids, targets = (x.clone() for x in batch_of(step, seed))
    for n, row in enumerate(targets):
        row[len(row) - 5 * n:] = -100
    return ids.chunk(ranks())[rank()], targets.chunk(ranks())[rank()]


def train_step(model, optimizer, ids, targets, bf16):
    optimizer.zero_grad()
    counted = (targets >= 0).sum()
    if ranks() > 1:
        dist.all_reduce(counted)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(ids)
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum") / counted * ranks()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__, cast=False)
    if ranks() > 1:
        model = DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = shared_batch(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets, asked.bf16)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
