"""Small models that plumbline.trace takes while they are trained, for the tests beside this file."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.write import shard

OLD = int(torch.__version__.split(".")[0]) < 2  # has no hook that stays with what an output was before it is changed in place
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}


def read(folder, step=1, rank=0):
    """The tensors of a rank's file, and what is said of them."""
    raw = pathlib.Path(folder, f"step_{step:06d}/rank_{rank:05d}.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
    says = {name: json.loads(text) for name, text in header.pop("__metadata__").items()}
    values = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        values[name] = torch.frombuffer(data[first:last], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return values, says


class Block(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.norm, self.fc = how, nn.LayerNorm(16), nn.Linear(16, 16)

    def inner(self, x):
        y = self.fc(self.norm(x))
        if self.how == "dropout":
            y = F.dropout(y, 0.1)
        return y.relu_() if self.how == "in place" else y.relu()

    def forward(self, x):
        if self.how == "reentrant":
            return x + checkpoint(self.inner, x, use_reentrant=True)
        if self.how == "recompute":
            return x + checkpoint(self.inner, x, use_reentrant=False)
        if self.how == "stops":  # within the linear layer, which keeps its input last
            return x + checkpoint(lambda y: self.fc(self.norm(y)), x, use_reentrant=False).relu()
        return x + self.inner(x)


class Turn(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)


class Model(nn.Module):
    def __init__(self, how=""):
        super().__init__()
        self.words, self.turn = nn.Embedding(24, 16), Turn()
        self.blocks = nn.ModuleList(Block(how) for _ in range(2))
        self.head = nn.Linear(16, 24, bias=False)
        self.head.weight = self.words.weight  # tied

    def forward(self, ids):
        x = self.turn(self.words(ids))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def steps(how="", asked="", count=3, before=lambda model: None, twins=0, layout=None, model=None, clip=lambda model: None,
          **options):
    """Trains; the losses, the parameters, the trace's folder, and what was said."""
    torch.manual_seed(1)
    model = model or Model(how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    folder = tempfile.mkdtemp()
    os.environ["PLUMB_TRACE"] = asked
    os.environ.pop("PLUMB_TWINS", None)
    if twins:
        os.environ["PLUMB_TWINS"] = "given below"
    said, losses = io.StringIO(), []

    def step(n):
        ids = torch.randint(24, (4, 8), generator=torch.Generator().manual_seed(n))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.t().flatten())
        loss.backward()
        clip(model)
        optimizer.step()
        return loss.item()

    with contextlib.redirect_stderr(said):
        plumb.start(model, os.path.join(folder, "run"), layout={"tp": 1}, **options)
        before(model)
        for n in range(count):
            with plumb.step(optimizer):
                losses.append(step(n))
            for k in plumb.twins(twins):
                with plumb.twin(k, layout):
                    step(n)
    os.environ["PLUMB_TRACE"] = ""
    plumb.start(model)
    return losses, [p.detach().clone() for p in model.parameters()], os.path.join(folder, "run"), said.getvalue()


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def layout_of(ways):
    """Of a model whose first linear layer is cut by rows and whose second by columns, tokens whole."""
    return {"mesh": {"tp": ways}, "batch": [], "weights": {
        "blocks.0.fc.weight": [shard("tp", 1)], "blocks.1.fc.weight": [shard("tp", 0)]},
        "inputs": {}, "outputs": {}}


def of_rows(model, x, ways=2, optimizers=None):
    """A step of a model whose batch (or each micro-batch of a tuple) lies on ways ranks: the trace, a twin, what was said."""
    torch.manual_seed(1)
    optimizers = optimizers or torch.optim.SGD(model.parameters(), lr=0.01)
    folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
    os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")

    def step():
        for micro_batch in x if isinstance(x, tuple) else (x,):
            model(micro_batch).square().mean().backward()
        for one in optimizers if isinstance(optimizers, list) else [optimizers]:
            one.step()
            for p in [p for group in one.param_groups for p in group["params"]]:
                p.grad /= 2  # nothing of it is looked at after the step
        model.zero_grad()

    with contextlib.redirect_stderr(said):
        plumb.start(model, folder, layout={"dp": 1})
        with plumb.step(optimizers):
            step()
        with plumb.twin(1, {"mesh": {"dp": ways}, "batch": ["dp"], "weights": {}, "inputs": {}, "outputs": {}}):
            step()
    os.environ["PLUMB_TRACE"] = ""
    os.environ.pop("PLUMB_TWINS")
    plumb.start(model)
    return read(folder)[0], read(folder + "-twin1")[0], said.getvalue()


def what_moved(test, values, one):
    far = {}
    for name, x in values.items():
        if not torch.equal(x, one[name]):
            far[name] = ((x - one[name]).norm() / x.norm()).item()
    test.assertLess(max(far.values(), default=0), 1e-5, far)
    return set(far)
