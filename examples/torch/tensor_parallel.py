"""Tensor parallel with sequences dealt to ranks, by DTensor.    torchrun --nproc-per-node 2 tensor_parallel.py [--bf16]"""
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

from model import asked_for, batch_of, finish, rank, ranks


def parallel(model, mesh):
    parallelize_module(model, mesh, {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for layer in model.layers.values():
        parallelize_module(layer, mesh, {
            "norm1": SequenceParallel(),
            "norm2": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "feed_forward": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
            "attention.o": RowwiseParallel(output_layouts=Shard(1)),
            "feed_forward.gate": ColwiseParallel(), "feed_forward.up": ColwiseParallel(),
            "feed_forward.down": RowwiseParallel(output_layouts=Shard(1))})


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids).flatten(0, 1).float(), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__)
    mesh = init_device_mesh(asked.device, (ranks(),), mesh_dim_names=("tp",)) if ranks() > 1 else None
    if mesh is not None:
        parallel(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
