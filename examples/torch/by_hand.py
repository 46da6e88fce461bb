"""Tensor parallel written by hand: layers, embedding and loss.    torchrun --nproc-per-node 2 by_hand.py [--bf16]"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from model import asked_for, batch_of, finish, rank, ranks


class CopyToRanks(torch.autograd.Function):
    """Each rank goes on with all of it, and its gradients are added."""

    @staticmethod
    def forward(context, x):
        return x

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class SumOfRanks(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient


class Shard(nn.Module):
    """A linear layer or an embedding, of which this rank has a share of the weight along a dimension."""

    def __init__(self, layer, dim):
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().chunk(ranks(), dim)[rank()].clone())


class Columns(Shard):
    def forward(self, x):
        return F.linear(CopyToRanks.apply(x), self.weight)


class Rows(Shard):
    def forward(self, x):
        return SumOfRanks.apply(F.linear(x, self.weight))


class Words(Shard):
    def forward(self, ids):
        mine = ids - rank() * len(self.weight)
        elsewhere = (mine < 0) | (mine >= len(self.weight))
        x = F.embedding(mine.clamp(0, len(self.weight) - 1), self.weight)
        x = x.masked_fill(elsewhere[..., None], 0)
        return SumOfRanks.apply(x)


class CrossEntropy(torch.autograd.Function):
    """Of logits whose columns are dealt to ranks; the mean over tokens."""

    @staticmethod
    def forward(context, logits, targets):
        top = logits.max(-1)[0]
        dist.all_reduce(top, dist.ReduceOp.MAX)
        e = (logits - top[:, None]).exp()
        total = e.sum(-1)
        dist.all_reduce(total)
        mine = targets - rank() * logits.shape[1]
        here = (mine >= 0) & (mine < logits.shape[1])
        hit = torch.zeros_like(e).scatter_(1, mine.clamp(0, logits.shape[1] - 1)[:, None], here[:, None].float())
        of_target = (hit * logits).sum(-1)
        dist.all_reduce(of_target)
        context.save_for_backward(e / total[:, None] - hit)
        return (total.log() + top - of_target).mean()

    @staticmethod
    def backward(context, gradient):
        p, = context.saved_tensors
        return p * (gradient / len(p)), None


def parallel(model):
    for layer in model.layers.values():
        a, f = layer.attention, layer.feed_forward
        a.q, a.k, a.v, a.o = Columns(a.q, 0), Columns(a.k, 0), Columns(a.v, 0), Rows(a.o, 1)
        f.gate = Columns(f.gate, 0)
        f.up = Columns(f.up, 0)
        f.down = Rows(f.down, 1)
    model.words, model.head = Words(model.words, 0), Columns(model.head, 0)


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    entropy = CrossEntropy.apply if ranks() > 1 else F.cross_entropy
    loss = entropy(model(ids).flatten(0, 1).float(), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__)
    if ranks() > 1:
        parallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
