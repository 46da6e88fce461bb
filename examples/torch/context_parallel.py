"""Context parallel: each rank has a part of every sequence.    torchrun --nproc-per-node 2 context_parallel.py [--bf16]"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import model
from model import HEADS, TOKENS, WIDTH, asked_for, batch_of, finish, rank, ranks


def positions(of):
    """Of a rank's tokens: a chunk from the front and one from the back, since later tokens look at more of them."""
    chunks = torch.arange(TOKENS).chunk(2 * ranks())
    return torch.cat([chunks[of], chunks[-1 - of]]) if ranks() > 1 else torch.arange(TOKENS)


class Gather(torch.autograd.Function):
    """All ranks' tokens, by their positions. Gradients are added, and each rank takes those of its own."""

    @staticmethod
    def forward(context, x):
        parts = [torch.empty_like(x) for _ in range(ranks())]
        dist.all_gather(parts, x.contiguous())
        back = torch.cat([positions(r) for r in range(ranks())]).argsort()
        return torch.cat(parts, 2)[:, :, back]

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[:, :, positions(rank())]


def rotated(x, places):
    """Rotary positions: pairs of numbers turn the faster, the lower they stand."""
    half = x.shape[-1] // 2
    turn = places[:, None] * 1000.0 ** (-torch.arange(half, device=x.device) / half)
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * turn.cos() - b * turn.sin(), b * turn.cos() + a * turn.sin()], -1).to(x.dtype)


class Attention(model.Attention):
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        places = positions(rank()).to(x.device)
        q, k = rotated(q, places), rotated(k, places)
        if ranks() > 1:
            k, v = Gather.apply(k), Gather.apply(v)
        seen = places[:, None] >= torch.arange(TOKENS, device=x.device)
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


def make():
    whole = model.Model()
    for layer in whole.layers.values():
        layer.attention = Attention()
    return whole


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    mine = positions(rank())
    loss = F.cross_entropy(model(ids[:, mine]).flatten(0, 1).float(), targets[:, mine].flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__, make)
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
