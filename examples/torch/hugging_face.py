"""A Llama of Hugging Face's transformers, tensor parallel by its own plan.    torchrun --nproc-per-node 2 hugging_face.py [--bf16]"""
import tempfile

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.distributed import DistributedConfig

from model import HEADS, HIDDEN, LAYERS, TOKENS, WIDTH, WORDS, asked_for, batch_of, finish, rank, ranks

CONFIG = LlamaConfig(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
                     num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=TOKENS,
                     rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
MICRO_BATCHES = 2


def loaded(model):
    """What transformers makes of these weights: all ranks read the files of the first, each takes its share."""
    name, plan = [tempfile.mkdtemp() if rank() == 0 else None], {}
    if ranks() > 1:
        dist.broadcast_object_list(name)
        plan["distributed_config"] = DistributedConfig(tp_plan="auto")
    if rank() == 0:
        model.save_pretrained(name[0])
    if ranks() > 1:
        dist.barrier()
    return LlamaForCausalLM.from_pretrained(name[0], dtype=model.dtype, **plan).train()


def micro_batches(ids):
    """The later a sequence, the shorter: what is behind its end does not count. Labels are shifted by the model."""
    labels = ids.clone()
    for n, row in enumerate(labels):
        row[len(row) - 5 * n:] = -100
    return zip(ids.chunk(MICRO_BATCHES), labels.chunk(MICRO_BATCHES)), (labels[:, 1:] >= 0).sum()


def clip(model, largest=1.0):
    """Gradients are at most so long. DTensors add the squares of all ranks."""
    squares = [p.grad.float().square().sum() for p in model.parameters()]
    norm = sum(x.full_tensor() if hasattr(x, "full_tensor") else x for x in squares).sqrt()
    for p in model.parameters():
        p.grad.mul_((largest / norm).clamp(max=1.0).item())


def train_step(model, optimizer, ids):
    optimizer.zero_grad()
    total, (batches, count) = 0.0, micro_batches(ids)
    for micro, labels in batches:
        loss = model(micro, labels=labels, num_items_in_batch=count).loss
        loss.backward()
        total += loss.item()
    clip(model)
    optimizer.step()
    return total


def main():
    asked, model = asked_for(__doc__, lambda: LlamaForCausalLM(CONFIG))
    model = loaded(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(asked.steps):
        ids, _ = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
