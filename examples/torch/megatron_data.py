"""A GPT of Megatron's core, data parallel, under its distributed optimizer.    torchrun --nproc-per-node 2 megatron_data.py [--bf16]"""
import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

from megatron_context import load
from megatron_core import Norm, config_of, on_processors, options
from model import LAYERS, TOKENS, WORDS, batch_of, finish, rank, ranks


def built(bf16):
    config = config_of(bf16)
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    layers = TransformerBlockSubmodules(layer_specs=[layer] * LAYERS, layer_norm=Norm)
    model = GPTModel(config, layers, WORDS, TOKENS, position_embedding_type="rope")
    reduce = DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True)
    return DistributedDataParallel(config, reduce, model)


def optimizer_of(model, bf16):
    """It asks of what type weights are, and knows those of GPUs alone."""
    whole = torch.Tensor.type
    torch.Tensor.type = lambda x, *to: whole(x, *to) if to else whole(x).replace("torch.", "torch.cuda.")
    return get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, weight_decay=0.01, clip_grad=0.0, bf16=bf16, use_distributed_optimizer=True), [model])


def train_step(model, optimizer, ids, targets):
    model.zero_grad_buffer()
    ids, targets = ids.chunk(ranks())[rank()], targets.chunk(ranks())[rank()]
    unseen = torch.ones(1, 1, TOKENS, TOKENS).triu(1).bool()
    loss = model(ids, torch.arange(TOKENS).expand_as(ids), unseen, labels=targets).mean()
    loss.backward()
    finalize_model_grads([model])
    optimizer.step()
    return loss.item()


def main():
    asked = options(__doc__)
    on_processors()
    torch.manual_seed(asked.seed)
    model = built(asked.bf16)
    if asked.load:
        load(model, torch.load(asked.load))
    optimizer = optimizer_of(model, asked.bf16)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == 0:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
