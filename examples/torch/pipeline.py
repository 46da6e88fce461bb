"""Two stages of a pipeline, forward and backward passes by turns (1F1B).    torchrun --nproc-per-node 2 pipeline.py [--bf16]"""
import torch
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from model import LAYERS, asked_for, batch_of, finish, rank, ranks

MICRO_BATCHES = 4


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def stage_of(model):
    """This rank's layers. What comes before them, and what behind, is another's."""
    first, last = (LAYERS * r // ranks() for r in (rank(), rank() + 1))
    for n in range(LAYERS):
        if not first <= n < last:
            del model.layers[str(n)]
    if first > 0:
        model.words = None
    if last < LAYERS:
        model.norm = model.head = None
    return PipelineStage(model, rank(), ranks(), torch.device("cpu"))


def train_step(model, schedule, optimizer, ids, targets):
    optimizer.zero_grad()
    losses = []
    if schedule is not None:
        schedule.step(*([ids] if rank() == 0 else []), target=targets, losses=losses)
    else:
        for micro, wanted in zip(ids.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES)):
            losses.append(loss_of(model(micro), wanted))
            losses[-1].backward()
        for p in model.parameters():  # as a schedule does, behind the last of them
            p.grad /= MICRO_BATCHES
    optimizer.step()
    return sum(loss.item() for loss in losses) / MICRO_BATCHES


def main():
    asked, model = asked_for(__doc__)
    schedule = Schedule1F1B(stage_of(model), MICRO_BATCHES, loss_fn=loss_of) if ranks() > 1 else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, schedule, optimizer, ids, targets)
        if rank() == ranks() - 1:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
