"""A model of PyTorch on two ranks (DTensor, tensor parallel), held against itself on one by twins that it makes.

    job.py PLUMB FOLDER        exit code 77: PyTorch is not installed

Traces go to FOLDER. Forward hooks take outputs, hooks of tensors their gradients; where a DTensor comes by, it says
itself how it lies. A twin is the model on one device whose linear layers add up in two parts, where the plan splits a sum.
"""
import os
import subprocess
import sys

import plumbline.trace as pt

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
except (ImportError, OSError):
    print("skipped: PyTorch is not installed, or without DTensor")
    sys.exit(77)

WIDTH, HIDDEN, LAYERS, TOKENS, RANKS = 128, 384, 4, 128, 2


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.fault = 1.0

    def forward(self, x):
        return self.fc2(F.silu(self.fc1(x)) * self.fault)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(WIDTH, eps=1e-6), Mlp()

    def forward(self, x):
        return x + self.mlp(self.norm(x))


def model_and_data():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(LAYERS))).bfloat16(), torch.randn(2, TOKENS, WIDTH).bfloat16()


class Capture:
    """Takes tensors with the order in which they come by."""

    def __init__(self, model, shards):  # shards: by the end of a module's name, the dimension that ranks share
        self.tensors, self.order, self.shards = {}, 0, shards
        for name, module in model.named_modules():
            if name:
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def take(module, inputs, output):
            self.take(name + "/out", output, "forward", name)
            output.register_hook(lambda gradient: self.take(name + "/grad_out", gradient, "backward", name))
        return take

    def take(self, name, x, phase, module=None):
        self.order += 1
        shape, placements = list(x.shape), []
        if isinstance(x, DTensor):
            placements = [pt.shard(axis, p.dim) if p.is_shard() else pt.partial(axis) if p.is_partial()
                          else pt.replicate(axis) for axis, p in zip(x.device_mesh.mesh_dim_names, x.placements)]
            x = x.to_local()
        elif self.shards is not None:
            dim = next((d for end, d in self.shards.items() if module and module.endswith(end)), None)
            placements = [pt.replicate("tp") if dim is None else pt.shard("tp", dim)]
            if dim is not None:
                shape[dim] *= RANKS
        x = x.wait() if hasattr(x, "wait") else x
        raw = x.detach().contiguous().view(torch.uint8).numpy().tobytes()
        self.tensors[name] = pt.stored("BF16", x.shape, raw, shape=shape, order=self.order, phase=phase,
                                       **({"placements": placements} if placements else {}))


def step(folder, model, data, rank=0, shards=None):
    capture = Capture(model, shards)
    x, target = data
    ((model(x).float() - target.float()) ** 2).mean().backward()
    end = capture.order
    for name, parameter in model.named_parameters():
        capture.order = end  # gradients of weights: none is made from another
        capture.take(name + "/grad", parameter.grad, "reduce")
    ranks = 1 if shards is None else RANKS
    if rank == 0:
        pt.write_manifest(folder, producer="torch", version=torch.__version__, ranks=ranks, steps=[1], mesh={"tp": ranks},
                 must_agree={"model": "mlp", "seed": "0"}, may_differ={"layout": f"tp{ranks}"})
    pt.write_rank(folder, 1, rank, capture.tensors)


def one_rank_of(rank, folder, fault):
    dist.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=RANKS)
    model, data = model_and_data()
    model[2].mlp.fault = fault
    plan = {f"{n}.mlp.{name}": style() for n in range(LAYERS)
            for name, style in (("fc1", ColwiseParallel), ("fc2", RowwiseParallel))}
    parallelize_module(model, init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",)), plan)
    step(folder, model, data, rank, {"mlp.fc1": 1})
    dist.destroy_process_group()


def ulp(x):  # of BF16
    return torch.ldexp(torch.ones(()), torch.frexp(x)[1] - 8)


def in_two_parts(a, b, draws):
    """a b, its sum in two parts between which about an ulp is moved before they are rounded."""
    k = a.shape[1] // 2
    p, q = a[:, :k].float() @ b[:k].float(), a[:, k:].float() @ b[k:].float()
    moved = 4 * (torch.rand(p.shape, generator=draws) - 0.5) * torch.maximum(ulp(p), ulp(q))
    return ((p + moved).bfloat16().float() + (q - moved).bfloat16().float()).bfloat16()


class Twin(torch.autograd.Function):
    """A linear layer: by rows its output is a split sum, by columns the gradient of its input."""

    @staticmethod
    def forward(context, x, weight, by_rows, draws):
        context.save_for_backward(x, weight)
        context.how = by_rows, draws
        return in_two_parts(x, weight.t(), draws) if by_rows else x @ weight.t()

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        by_rows, draws = context.how
        of_x = gradient @ weight if by_rows else in_two_parts(gradient, weight, draws)
        return of_x, gradient.t() @ x, None, None


def twin(folder, number):
    model, data = model_and_data()
    draws = torch.Generator().manual_seed(number)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            layer.forward = lambda x, layer=layer, by_rows=name.endswith("fc2"): Twin.apply(
                x, layer.weight, by_rows, draws)
    step(folder, model, data)


def main(plumb, folder):
    os.makedirs(folder, exist_ok=True)
    at = lambda name: os.path.join(folder, name)
    step(at("reference"), *model_and_data())
    twins = [at(f"twin{number}") for number in range(1, 5)]
    for number, name in enumerate(twins):
        twin(name, number)
    wrong = 0
    for name, fault, code, says in (("healthy", 1.0, 0, "verdict: PASS by twins"),
                                    ("faulty", 1.01, 1, "blamed: 2.mlp.fc2/out")):
        if os.path.exists(at(name) + ".meeting"):  # of an earlier run: ranks would wait for its own
            os.remove(at(name) + ".meeting")
        mp.spawn(one_rank_of, args=(at(name), fault), nprocs=RANKS)
        said = subprocess.run([plumb, "check", at("reference"), at(name), "--twins", *twins],
                              capture_output=True, text=True)
        print(said.stdout, said.stderr, sep="")
        wrong += said.returncode != code or says not in said.stdout
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
