"""Data parallel with weights dealt to ranks (FSDP2).    torchrun --nproc-per-node 2 fully_sharded.py [--bf16]"""
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from model import asked_for, batch_of, finish, rank, ranks


def shard(model, mesh):
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    ids, targets = ids.chunk(ranks())[rank()], targets.chunk(ranks())[rank()]
    loss = F.cross_entropy(model(ids).flatten(0, 1).float(), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__)
    mesh = init_device_mesh(asked.device, (ranks(),), mesh_dim_names=("dp",)) if ranks() > 1 else None
    if mesh is not None:
        shard(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
