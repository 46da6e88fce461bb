"""A small language model, and what the programs beside it ask of the command line and of torchrun."""
import argparse
import os
import pathlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cpu")  # or what --device says
WIDTH, HEADS, HIDDEN, LAYERS, WORDS, SEQUENCES, TOKENS = 128, 8, 352, 3, 256, 8, 64


HERE = pathlib.Path(__file__).resolve().parent
TEXT = next(file for file in (HERE / "text.txt", HERE.parents[1] / "model/data/devils_dictionary.txt") if file.exists())


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(WIDTH, eps=1e-5), Attention()
        self.norm2, self.feed_forward = nn.RMSNorm(WIDTH, eps=1e-5), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleDict({str(n): Block() for n in range(LAYERS)})
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = ids if self.words is None else self.words(ids)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.head is None else self.head(self.norm(x))


def asked_for(description, make=Model, cast=True):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bf16", action="store_true", help="weights and activations in BF16 instead of FP32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--load", help="begin with the weights of this file")
    parser.add_argument("--save", help="write the weights of one process to this file at the end")
    parser.add_argument("--device", default="cpu", help="cuda: all ranks on one GPU, which add over Gloo")
    asked = parser.parse_args()
    global DEVICE
    DEVICE = torch.device(asked.device)
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(asked.seed)
    model = make()
    if asked.load:
        model.load_state_dict(torch.load(asked.load, map_location="cpu"))
    return asked, model.to(DEVICE, torch.bfloat16 if asked.bf16 and cast else torch.float32)


def ranks():
    return dist.get_world_size() if dist.is_initialized() else 1


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def batch_of(step, seed):
    """The same on every rank: sequences of the text's bytes, and the bytes that follow. Letters are dealt over the whole
    vocabulary, so that each rank has some of those that occur."""
    text = torch.tensor(list(TEXT.read_bytes())) * 167 % WORDS
    generator = torch.Generator().manual_seed(1000 * seed + step)
    first = torch.randint(len(text) - TOKENS, (SEQUENCES, 1), generator=generator)
    tokens = text[first + torch.arange(TOKENS + 1)].to(DEVICE)
    return tokens[:, :-1], tokens[:, 1:]


def finish(asked, model):
    if asked.save:
        torch.save(model.state_dict(), asked.save)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
