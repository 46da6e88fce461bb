"""Data parallel (DDP), with gradients of two micro-batches added.    torchrun --nproc-per-node 2 data_parallel.py [--bf16]"""
import contextlib

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from model import asked_for, batch_of, finish, rank, ranks

MICRO_BATCHES = 2


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    total = 0.0
    for n, (micro, wanted) in enumerate(zip(ids.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES))):
        micro, wanted = micro.chunk(ranks())[rank()], wanted.chunk(ranks())[rank()]
        last = n == MICRO_BATCHES - 1
        with model.no_sync() if ranks() > 1 and not last else contextlib.nullcontext():
            loss = F.cross_entropy(model(micro).flatten(0, 1).float(), wanted.flatten()) / MICRO_BATCHES
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def main():
    asked, model = asked_for(__doc__)
    if ranks() > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
