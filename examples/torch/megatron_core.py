"""A GPT of Megatron's core, tensor and sequence parallel.    torchrun --nproc-per-node 2 megatron_core.py [--bf16]"""
import argparse
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel.random import CudaRNGStatesTracker
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

from model import HEADS, HIDDEN, LAYERS, TOKENS, WIDTH, WORDS, batch_of, finish, rank, ranks


class Norm(torch.nn.RMSNorm):
    """Its weight is marked: ranks add its gradients. Norms of Apex and Transformer Engine do so, PyTorch's do not."""

    def __init__(self, config, hidden_size, eps=1e-5):
        super().__init__(hidden_size, eps=eps, dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel


class MasterAdamW(torch.optim.AdamW):
    """Of weights in FP32, from which the model's are rounded. (Megatron's own is for GPUs.)"""

    def __init__(self, model, **options):
        self.model = model
        for p in model.parameters():
            p.main_param = p.detach().float().clone()
        super().__init__([p.main_param for p in model.parameters()], **options)

    @torch.no_grad()
    def step(self):
        for p in self.model.parameters():
            p.main_param.grad = p.main_grad
        super().step()
        for p in self.model.parameters():
            p.copy_(p.main_param)


def on_processors(*axes, **sizes):
    """In place of a GPU, of its random numbers (nothing is dropped out) and, for one rank, of torchrun."""
    torch.set_num_threads(1)
    torch.cuda.current_device, torch.cuda.synchronize = lambda: "cpu", lambda: None
    zeros, tensor = torch.zeros, torch.tensor
    torch.zeros = lambda *shape, device=None, **how: zeros(*shape, device="cpu" if device == "cuda" else device, **how)
    torch.tensor = lambda *values, device=None, pin_memory=False, **how: tensor(
        *values, device="cpu" if device == "cuda" else device, **how)
    torch.Tensor.cuda = lambda x, **how: x
    CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()
    alone = {} if "WORLD_SIZE" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", **alone)
    parallel_state.initialize_model_parallel(**{axis: dist.get_world_size() for axis in axes}, **sizes)


def config_of(bf16, **layout):
    dtype = torch.bfloat16 if bf16 else torch.float32
    return TransformerConfig(
        num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS, num_query_groups=HEADS // 2,
        ffn_hidden_size=HIDDEN, gated_linear_unit=True, activation_func=F.silu, normalization="RMSNorm",
        add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0, params_dtype=dtype, pipeline_dtype=dtype,
        bf16=bf16, use_cpu_initialization=True, bias_activation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, apply_rope_fusion=False, gradient_accumulation_fusion=False,
        attention_softmax_in_fp32=True, **layout)


def built(bf16):
    config = config_of(bf16, tensor_model_parallel_size=ranks(), sequence_parallel=ranks() > 1)
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    layers = TransformerBlockSubmodules(layer_specs=[layer] * LAYERS, layer_norm=Norm)
    model = GPTModel(config, layers, WORDS, TOKENS, position_embedding_type="rope")
    reduce = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    return DistributedDataParallel(config, reduce, model)


@torch.no_grad()
def load(model, whole):
    """This rank's share of each weight; gate and up lie behind each other and are dealt each by itself (the stride)."""
    for name, p in model.module.named_parameters():
        parts = [whole[name]]
        if getattr(p, "tensor_model_parallel", False):
            parts = [part.chunk(ranks(), p.partition_dim)[rank()] for part in whole[name].chunk(p.partition_stride)]
        p.copy_(torch.cat(parts))


def train_step(model, optimizer, ids, targets):
    model.zero_grad_buffer()
    positions = torch.arange(TOKENS).expand_as(ids)
    unseen = torch.ones(1, 1, TOKENS, TOKENS).triu(1).bool()
    loss = model(ids, positions, unseen, labels=targets).mean()
    loss.backward()
    finalize_model_grads([model])
    optimizer.step()
    return loss.item()


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bf16", action="store_true", help="weights and activations in BF16 instead of FP32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--load", help="begin with the weights of this file")
    parser.add_argument("--save", help="write the weights of one process to this file at the end")
    return parser.parse_args()


def main():
    asked = options(__doc__)
    on_processors("tensor_model_parallel_size")
    torch.manual_seed(asked.seed)
    model = built(asked.bf16)
    if asked.load:
        load(model, torch.load(asked.load))
    optimizer = MasterAdamW(model, lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
