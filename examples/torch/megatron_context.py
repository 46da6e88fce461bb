"""A GPT of Megatron's core whose sequences are dealt to ranks.    torchrun --nproc-per-node 2 megatron_context.py [--bf16]"""
import torch
import torch.nn.functional as F
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

from context_parallel import Gather, positions
from megatron_core import MasterAdamW, Norm, config_of, on_processors, options
from model import LAYERS, TOKENS, WORDS, batch_of, finish, rank, ranks


class Attention(torch.nn.Module):
    """Over all keys before a query. (Of Megatron's own two the one for processors takes no part of a sequence.)"""

    def __init__(self, config, layer_number, attn_mask_type, attention_type, softmax_scale=None, **groups):
        super().__init__()
        self.queries_of_key = config.num_attention_heads // config.num_query_groups

    def forward(self, query, key, value, attention_mask, **how):
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))  # from (s, b, n, d)
        if ranks() > 1:
            k, v = Gather.apply(k), Gather.apply(v)
        k, v = (x.repeat_interleave(self.queries_of_key, 1) for x in (k, v))
        seen = positions(rank())[:, None] >= torch.arange(TOKENS)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).permute(2, 0, 1, 3).flatten(2)


def built(bf16):
    config = config_of(bf16, context_parallel_size=ranks())
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    layer.submodules.self_attention.submodules.core_attention = Attention
    layers = TransformerBlockSubmodules(layer_specs=[layer] * LAYERS, layer_norm=Norm)
    model = GPTModel(config, layers, WORDS, TOKENS, position_embedding_type="rope")
    return DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)


@torch.no_grad()
def load(model, whole):
    for name, p in model.module.named_parameters():
        p.copy_(whole[name])


def train_step(model, optimizer, ids, targets):
    model.zero_grad_buffer()
    mine = positions(rank())
    loss = model(ids[:, mine], mine.expand_as(ids[:, mine]), None, labels=targets[:, mine]).mean()
    loss.backward()
    finalize_model_grads([model])
    optimizer.step()
    return loss.item()


def main():
    asked = options(__doc__)
    on_processors("context_parallel_size")
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
