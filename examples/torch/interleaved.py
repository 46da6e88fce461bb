"""Four stages of a pipeline, two on each rank by turns (interleaved 1F1B).    torchrun --nproc-per-node 2 interleaved.py [--bf16]"""
import copy

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

from model import LAYERS, asked_for, batch_of, finish, rank, ranks
from pipeline import MICRO_BATCHES, loss_of, train_step

STAGES = 4


def part_of(whole, stage):
    """A stage's layers: of three layers the first has one, and the last the head alone."""
    part = copy.deepcopy(whole)
    for n in range(LAYERS):
        if n != stage:
            del part.layers[str(n)]
    if stage > 0:
        part.words = None
    if stage < STAGES - 1:
        part.norm = part.head = None
    return part


def main():
    asked, model = asked_for(__doc__)
    parts, schedule = [model], None
    if ranks() > 1:
        own = range(rank(), STAGES, ranks())
        parts = [part_of(model, stage) for stage in own]
        stages = [PipelineStage(part, stage, STAGES, torch.device("cpu")) for part, stage in zip(parts, own)]
        schedule = ScheduleInterleaved1F1B(stages, MICRO_BATCHES, loss_fn=loss_of)
    optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, schedule, optimizer, ids, targets)
        if rank() == ranks() - 1:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
