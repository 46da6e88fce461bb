"""Experts of Megatron's core, dealt to the ranks of tensor and sequence parallel layers.    torchrun --nproc-per-node 2 megatron_experts.py"""
import zlib

import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

from megatron_core import MasterAdamW, Norm, config_of, on_processors, options, train_step
from model import HIDDEN, LAYERS, TOKENS, WORDS, batch_of, finish, rank, ranks

EXPERTS, CHOSEN = 4, 2


def built(bf16):
    moe_utils.te_general_gemm = None  # a name that Megatron asks for and has with Transformer Engine alone
    config = config_of(
        bf16, tensor_model_parallel_size=ranks(), sequence_parallel=ranks() > 1, expert_model_parallel_size=ranks(),
        expert_tensor_parallel_size=1, num_moe_experts=EXPERTS, moe_router_topk=CHOSEN, moe_ffn_hidden_size=HIDDEN,
        moe_token_dispatcher_type="allgather", moe_router_load_balancing_type="none")
    layer = get_gpt_layer_local_spec(num_experts=EXPERTS, normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    layers = TransformerBlockSubmodules(layer_specs=[layer] * LAYERS, layer_norm=Norm)
    model = GPTModel(config, layers, WORDS, TOKENS, position_embedding_type="rope")
    return DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)


def drawn(seed):
    """Weights by name, the same on any number of ranks."""
    def weight(name, shape):
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        return 0.02 * torch.randn(shape, generator=generator) if len(shape) > 1 else torch.ones(shape)
    return weight


@torch.no_grad()
def load(model, whole):
    """This rank's share of each weight, and its experts, which it counts from 0."""
    for name, p in model.module.named_parameters():
        above, expert, rest = name.partition("local_experts.")
        ways, dim = ranks() if getattr(p, "tensor_model_parallel", False) and not expert else 1, getattr(p, "partition_dim", 0)
        if expert:
            number, _, below = rest.partition(".")
            name = f"{above}{expert}{int(number) + rank() * EXPERTS // ranks()}.{below}"
        shape = [n * ways if d == dim else n for d, n in enumerate(p.shape)]
        p.copy_(whole(name, shape).chunk(ways, dim)[rank() % ways])


def main():
    asked = options(__doc__)
    on_processors("tensor_model_parallel_size", "expert_model_parallel_size", expert_tensor_parallel_size=1)
    model, kept = built(asked.bf16), torch.load(asked.load) if asked.load else None
    load(model, drawn(asked.seed) if kept is None else lambda name, _: kept[name])
    optimizer = MasterAdamW(model, lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
