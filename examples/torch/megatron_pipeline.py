"""A GPT of Megatron's core on two stages of a pipeline.    torchrun --nproc-per-node 2 megatron_pipeline.py [--bf16]"""
import re
import zlib

import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.pipeline_parallel import get_forward_backward_func

from megatron_core import MasterAdamW, Norm, config_of, on_processors, options
from model import SEQUENCES, TOKENS, WORDS, batch_of, finish, rank, ranks

MICRO_BATCHES = 4


def built(bf16):
    config = config_of(bf16, pipeline_model_parallel_size=ranks(),
                       num_layers_in_first_pipeline_stage=1 if ranks() > 1 else None)
    layer = get_gpt_layer_local_spec(normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(config, layer, WORDS, TOKENS, position_embedding_type="rope", pre_process=rank() == 0,
                     post_process=rank() == ranks() - 1)
    reduce = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    return DistributedDataParallel(config, reduce, model)


@torch.no_grad()
def same_weights(model, seed, whole):
    """Those of a file, or drawn by their names in the whole model: each stage has what one process has."""
    first = model.module.decoder.layers[0].layer_number - 1
    for name, p in model.module.named_parameters():
        name = re.sub(r"layers\.(\d+)", lambda found: f"layers.{int(found[1]) + first}", name)
        if whole:
            p.copy_(whole[name])
        elif p.dim() > 1:
            p.normal_(0, 0.02, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed))


def forward_step(batches, model):
    ids, targets = next(batches)
    unseen = torch.ones(1, 1, TOKENS, TOKENS).triu(1).bool()
    losses = model(ids, torch.arange(TOKENS).expand_as(ids), unseen, labels=targets)
    return losses, lambda losses: (losses.mean(), {"loss": losses.detach().mean()})


def train_step(model, optimizer, ids, targets):
    model.zero_grad_buffer()
    batches = zip(ids.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES))
    losses = get_forward_backward_func()(
        forward_step_func=forward_step, data_iterator=batches, model=[model], num_microbatches=MICRO_BATCHES,
        seq_length=TOKENS, micro_batch_size=SEQUENCES // MICRO_BATCHES, forward_only=False)
    finalize_model_grads([model])
    optimizer.step()
    return sum(each["loss"].item() for each in losses) / MICRO_BATCHES


def main():
    asked = options(__doc__)
    on_processors("pipeline_model_parallel_size")
    model = built(asked.bf16)
    same_weights(model, asked.seed, torch.load(asked.load) if asked.load else None)
    optimizer = MasterAdamW(model, lr=1e-3)
    for step in range(asked.steps):
        ids, targets = batch_of(step, asked.seed)
        loss = train_step(model, optimizer, ids, targets)
        if rank() == ranks() - 1:
            print(f"step {step + 1}: loss {loss!r}")
    finish(asked, model)


if __name__ == "__main__":
    main()
