"""Experts dealt to ranks: words go to those that the router chooses, and come back.    torchrun --nproc-per-node 2 experts.py [--bf16]"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import model
from model import WIDTH, asked_for, batch_of, finish, rank, ranks

EXPERTS, CHOSEN = 4, 2


def exchanged(x, send, receive):
    """Rows to other ranks and from them: lists of how many."""
    if ranks() == 1:
        return x
    out = x.new_empty(sum(receive), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), receive, send)
    return out


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, x, send, receive):
        context.sizes = receive, send
        return exchanged(x, send, receive)

    @staticmethod
    def backward(context, gradient):
        return exchanged(gradient, *context.sizes), None, None


class Experts(nn.Module):
    """In place of a feed-forward layer; each word goes through the two experts with the largest gates."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleDict({str(n): model.FeedForward() for n in range(EXPERTS)})

    def forward(self, x):
        gates = self.router(x).float().softmax(-1)
        top, chosen = gates.flatten(0, 1).topk(CHOSEN)
        self.balance = EXPERTS * (used(chosen.view(len(x), -1)) * gates.mean(1)).sum(1).mean()
        order = chosen.flatten().argsort(stable=True)  # one expert behind the other
        counts = chosen.flatten().bincount(minlength=EXPERTS).view(ranks(), -1)
        theirs = exchanged(counts, [1] * ranks(), [1] * ranks())  # by ranks that send, and experts here
        send, receive = counts.sum(1).tolist(), theirs.sum(1).tolist()
        rows = Exchange.apply(x.flatten(0, 1)[order // CHOSEN], send, receive)
        whose = torch.arange(theirs.shape[1], device=x.device).repeat(ranks())
        of = whose.repeat_interleave(theirs.flatten()).argsort(stable=True)
        parts = rows[of].split(theirs.sum(0).tolist())
        made = torch.cat([expert(part) for expert, part in zip(self.experts.values(), parts)])
        back = Exchange.apply(made[of.argsort()], receive, send)
        weighted = back * top.flatten()[order, None].to(x.dtype)
        return torch.zeros_like(x).flatten(0, 1).index_add(0, order // CHOSEN, weighted).view_as(x)


def used(chosen):
    """How often each sequence chooses each expert, of all its choices."""
    return F.one_hot(chosen, EXPERTS).float().mean(1)


def make():
    whole = model.Model()
    for layer in whole.layers.values():
        layer.feed_forward = Experts()
    return whole


def deal(model):
    """Keeps the experts of this rank, under the names of the whole model."""
    own = torch.arange(EXPERTS).chunk(ranks())[rank()].tolist()
    for layer in model.layers.values():
        for number in set(range(EXPERTS)) - set(own):
            del layer.feed_forward.experts[str(number)]


def add_gradients(model):
    """Each rank's loss is the mean of its share of the batch; of an expert one rank has the gradients of all words."""
    for name, p in model.named_parameters():
        if ".experts." not in name:
            dist.all_reduce(p.grad)
        p.grad /= ranks()


def train_step(model, optimizer, ids, targets):
    optimizer.zero_grad()
    ids, targets = (x.chunk(ranks())[rank()] for x in (ids, targets))
    loss = F.cross_entropy(model(ids).flatten(0, 1).float(), targets.flatten())
    loss = loss + 0.01 * sum(layer.feed_forward.balance for layer in model.layers.values())
    loss.backward()
    if ranks() > 1:
        add_gradients(model)
    optimizer.step()
    return loss.item()


def main():
    asked, model = asked_for(__doc__, make)
    deal(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
