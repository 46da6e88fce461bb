"""megatron_core.py with 250 words, which two ranks pad to 256: no word of the padding ever occurs, or is likely."""
import zlib

import torch
import torch.nn.functional as F

import megatron_core as program
import model
import plumbline.trace as plumb
from model import batch_of, finish, rank, ranks

WORDS, PADDED = 250, 256
VOCABULARY = ("embedding.word_embeddings.weight", "output_layer.weight")


def whole_weights(gpt, seed):
    """As one process has them, drawn by their names; behind the words zeros, as many as this run has rows."""
    out = {}
    for name, p in gpt.named_parameters():
        shape = list(p.shape)
        if getattr(p, "tensor_model_parallel", False):
            shape[p.partition_dim] *= ranks()
        padding = max(shape[0] - WORDS, 0) if name in VOCABULARY else 0
        shape[0] -= padding
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
        drawn = torch.empty(shape).normal_(0, 0.02, generator=generator)
        out[name] = F.pad(drawn, (0, 0, 0, padding)) if len(shape) == 2 else torch.ones(shape)
    return out


def unlikely(layer, given, out):
    """The softmax does not count the padding, as on one rank, where there is none."""
    logits, bias = out
    word = rank() * logits.shape[-1] + torch.arange(logits.shape[-1])
    return logits.masked_fill(word >= WORDS, -1e4), bias


def main():
    asked = program.options(__doc__)
    program.on_processors("tensor_model_parallel_size")
    model.WORDS, program.WORDS = WORDS, PADDED if ranks() > 1 else WORDS
    gpt = program.built(asked.bf16)
    program.load(gpt, whole_weights(gpt.module, asked.seed))
    gpt.module.output_layer.register_forward_hook(unlikely)
    optimizer = program.MasterAdamW(gpt, lr=1e-3)
    plumb.start(gpt, layout={"tp": ranks()})
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        with plumb.step(optimizer):
            loss = program.train_step(gpt, optimizer, ids, targets)
        for k in plumb.twins():
            with plumb.twin(k):
                program.train_step(gpt, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, gpt)


if __name__ == "__main__":
    main()
