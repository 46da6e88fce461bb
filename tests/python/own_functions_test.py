"""Are layers taken and cut whose products and losses are a program's own autograd functions, as Megatron's are: that
return a tuple, overwrite logits, add gradients to main_grad, and say by attributes how they are dealt?
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

from plumbline.write import replicate, shard  # says why it skips, where there is no PyTorch
from small_training import read, same, torch  # says why it skips, where there is no PyTorch
import torch.nn as nn

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    print("skipped: this PyTorch has no hooks behind gradients, as programs like Megatron need; ./run test torch installs one")
    sys.exit(77)

import plumbline.trace as plumb

WIDTH, WORDS = 16, 24


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, bias, factor):
        context.save_for_backward(x, weight)
        context.factor = factor
        return torch.matmul(x, weight.t()) * factor

    @staticmethod
    def backward(context, g):
        x, weight = context.saved_tensors
        g = g * context.factor
        return g.matmul(weight), g.flatten(0, 1).t().matmul(x.flatten(0, 1)), None, None


class OverWords(torch.autograd.Function):
    """Cross entropy that leaves no logits behind."""

    @staticmethod
    def forward(context, logits, labels):
        x = logits
        x -= x.max(-1)[0][..., None]
        of_label = x.gather(-1, labels[..., None])[..., 0]
        torch.exp(x, out=x)
        total = x.sum(dim=-1)
        x /= total[..., None]
        context.save_for_backward(x, labels)
        return total.log() - of_label

    @staticmethod
    def backward(context, g):
        p, labels = context.saved_tensors
        return (p - nn.functional.one_hot(labels, WORDS)) * g[..., None], None


class Linear(nn.Module):
    def __init__(self, rows, columns, dim, stride=1, factor=1.0):
        super().__init__()
        self.factor, self.weight = factor, nn.Parameter(0.3 * torch.randn(rows, columns)) if rows else None
        if rows:
            marked(self.weight, dim, stride)

    def forward(self, x, weight=None):
        return Product.apply(x, self.weight if weight is None else weight, None, self.factor), None


def marked(weight, dim, stride=1):
    weight.tensor_model_parallel, weight.partition_dim, weight.partition_stride = True, dim, stride


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WORDS, WIDTH))
        marked(self.weight, 0)

    def forward(self, ids):
        return nn.functional.embedding(ids, self.weight).transpose(0, 1).contiguous()


class Block(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.drop, self.norm = nn.Dropout(0.0), getattr(nn, "RMSNorm", nn.LayerNorm)(WIDTH)  # PyTorch 1.13 has none
        self.up, self.down = Linear(32, WIDTH, 0, 2), Linear(WIDTH, 16, 1, 1, factor)

    def forward(self, hidden):
        gate, up = self.up(self.norm(self.drop(hidden)))[0].chunk(2, -1)
        return hidden + self.down(gate.sigmoid() * up)[0], None


class Model(nn.Module):
    def __init__(self, factor=1.0, tied=False, says=("words", "norms")):
        super().__init__()
        self.words, self.blocks = Words(), nn.ModuleList(Block(factor) for _ in range(2))
        self.head, self.tied = Linear(0 if tied else WORDS, WIDTH, 0), tied
        self.buffers = []  # Megatron's DDP takes the name
        self.words.reduce_scatter_embeddings = "words" in says
        for block in self.blocks:
            block.norm.weight.sequence_parallel = "norms" in says
            block.config = types.SimpleNamespace(sequence_parallel="blocks" in says, hidden_size=WIDTH)
        for p in self.parameters():
            p.main_grad = torch.zeros_like(p)
            p.register_post_accumulate_grad_hook(self.into_main)

    @staticmethod
    def into_main(p):
        if p.grad is not None:
            p.main_grad += p.grad
            p.grad = None

    def forward(self, ids, labels):
        x = self.words(ids)
        for block in self.blocks:
            x, _ = block(hidden=x)
        self.logits, _ = self.head(x, weight=self.words.weight if self.tied else None)
        self.kept = self.logits.detach().clone()
        return OverWords.apply(self.logits, labels)


class Optimizer(torch.optim.SGD):
    """Of copies of the weights."""

    def __init__(self, model):
        self.model = model
        for p in model.parameters():
            p.main_param = p.detach().clone()
        super().__init__([p.main_param for p in model.parameters()], lr=0.1, momentum=0.9)

    @torch.no_grad()
    def step(self):
        for p in self.model.parameters():
            p.main_param.grad = p.main_grad
        super().step()
        for p in self.model.parameters():
            p.copy_(p.main_param)


def steps(asked="1", twins=0, layout=None, **how):
    torch.manual_seed(1)
    model = Model(**how)
    optimizer, folder, losses = Optimizer(model), os.path.join(tempfile.mkdtemp(), "run"), []
    os.environ["PLUMB_TRACE"] = asked
    os.environ["PLUMB_TWINS"] = "given below" if twins else ""

    def step(n):
        ids = torch.randint(WORDS, (4, 8), generator=torch.Generator().manual_seed(n))
        for p in model.parameters():
            p.main_grad.zero_()
        loss = model(ids, labels=ids.t()).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    with contextlib.redirect_stderr(io.StringIO()):
        plumb.start(model, folder, layout={"tp": 1}, steps=(2,))
        for n in range(3):
            with plumb.step(optimizer):
                losses.append(step(n))
            if n == 1:
                logits = model.kept
            for k in plumb.twins(twins):
                with plumb.twin(k, layout):
                    step(n)
    os.environ["PLUMB_TRACE"] = ""
    plumb.start(model)
    return losses, folder, logits, [p.detach().clone() for p in model.parameters()]


def lies(folder):
    return json.loads(pathlib.Path(folder, "layout.json").read_text())


def dealt(how):
    """That of a run on one rank, as if it were of two."""
    return {**lies(steps(**how)[1]), "mesh": {"tp": 2}}


class OwnFunctions(unittest.TestCase):
    def test_are_taken_and_change_no_bit(self):
        layout = dealt({})
        losses, folder, logits, weights = steps(twins=2, layout=layout)
        plain, _, _, bare = steps("")
        self.assertEqual(losses, plain)
        self.assertTrue(all(map(torch.equal, weights, bare)))
        values, _ = read(folder, 2)
        self.assertTrue(torch.equal(values["m0/head/out"], logits))  # and not what the loss makes of them
        for name in "m0/input.1", "m0/blocks.0/out", "blocks.1.norm.weight/grad", "words.weight/momentum_buffer":
            self.assertIn(name, values)
        self.assertTrue(values["blocks.1.norm.weight/grad"].any())
        self.assertFalse(torch.equal(values["words.weight"], values["words.weight/param"]))

    def test_lie_as_attributes_say(self):
        layout, whole, by_sequence = dealt({}), [replicate("tp")], [shard("tp", 0)]
        self.assertEqual(layout["weights"]["blocks.0.up.weight"], [shard("tp", 0, stride=2)])
        self.assertEqual(layout["outputs"]["blocks.0.up"], [shard("tp", 2, stride=2)])
        self.assertEqual(layout["inputs"]["blocks.0.down"], [shard("tp", 2)])
        self.assertEqual(layout["weights"]["blocks.0.norm.weight"], whole)
        for sides, module in (("inputs", "blocks.0.norm"), ("inputs", "blocks.0.up"), ("outputs", "blocks.0.down"),
                              ("outputs", "blocks.1"), ("inputs", "head")):
            self.assertEqual(layout[sides][module], by_sequence, module)

    def test_lie_so_whoever_says_it(self):
        for says, first in ("words", 0), ("norms", 1), ("blocks", 0), ("nobody", 3):  # from which on they do
            layout = dealt({"says": (says,)})
            for n, (side, module) in enumerate((("inputs", "blocks.0.drop"), ("inputs", "blocks.0.norm"),
                                                ("outputs", "blocks.0"))):
                kind = "shard" if n >= first else "replicate"
                self.assertEqual(layout[side][module][0]["kind"], kind, (says, module))

    def test_of_an_embedding_that_turns_are_turned_back(self):
        values, says = read(steps()[1], 2)
        self.assertEqual(list(values["m0/words/out"].shape), [4, 8, WIDTH])
        self.assertEqual(list(values["m0/words/grad_out"].shape), [4, 8, WIDTH])
        self.assertTrue(torch.equal(values["m0/words/out"], values["words.weight"][values["m0/words/in"]]))

    def test_are_cut_where_the_layout_does(self):
        for tied in False, True:
            _, folder, _, _ = steps(twins=2, layout=dealt({"tied": tied}), tied=tied)
            values, one, other = (read(folder + end, 2)[0] for end in ("", "-twin1", "-twin2"))
            for name in "m0/blocks.0.down/out", "m0/blocks.1/grad_out", "m0/head/grad_out", "blocks.1.norm.weight/grad":
                self.assertFalse(torch.equal(values[name], one[name]), name)
                self.assertFalse(torch.equal(other[name], one[name]), name)
                self.assertLess((values[name] - one[name]).norm(), 1e-5 * values[name].norm())
            for name in "m0/words/out", "m0/blocks.0.up/out", "m0/blocks.0.down/in":
                self.assertTrue(torch.equal(values[name], one[name]), name)

    def test_are_cut_one_sum_at_a_time(self):
        """Each of the four kinds of sums by itself, so that none hides behind another."""
        whole = dealt({})
        for keep, moves, stays in (("head", "m0/head/grad_out", "m0/head/out"),
                                   ("blocks.1.up", "m0/blocks.1.norm/grad_out", "m0/blocks.1.up/grad_out"),
                                   ("blocks.1.norm", "blocks.1.norm.weight/grad", "m0/blocks.1.norm/grad_out"),
                                   ("blocks.1.down", "m0/blocks.1.down/out", "m0/blocks.1.down/in")):
            layout = {**whole, "weights": {f"{keep}.weight": whole["weights"][f"{keep}.weight"]},
                      "inputs": {keep: whole["inputs"][keep]}, "outputs": {keep: whole["outputs"][keep]}}
            _, folder, _, _ = steps(twins=1, layout=layout)
            values, one = read(folder, 2)[0], read(folder + "-twin1", 2)[0]
            self.assertFalse(torch.equal(values[moves], one[moves]), keep)
            self.assertTrue(torch.equal(values[stays], one[stays]), keep)

    def test_that_are_no_linear_layers_are_told_and_not_cut(self):
        layout = dealt({"factor": 2.0})
        layout["weights"] = {"blocks.0.down.weight": [shard("tp", 1)]}
        layout["inputs"], layout["outputs"] = {}, {}
        _, folder, _, _ = steps(twins=1, layout=layout, factor=2.0)
        self.assertTrue(same(read(folder, 2)[0], read(folder + "-twin1", 2)[0]))
        manifest = json.loads(pathlib.Path(folder + "-twin1", "manifest.json").read_text())
        self.assertEqual(manifest["may_differ"], {"not cut": "blocks.0.down"})

    def test_with_another_s_weight_lie_and_are_cut_as_that(self):
        layout = dealt({"tied": True})
        self.assertEqual(layout["tied"], {"head": "words.weight"})
        self.assertEqual(layout["outputs"]["head"], [shard("tp", 2)])
        layout.update(weights={"words.weight": layout["weights"]["words.weight"]}, inputs={})
        _, folder, _, _ = steps(twins=1, layout=layout, tied=True)
        values, one = read(folder, 2)[0], read(folder + "-twin1", 2)[0]
        self.assertTrue(torch.equal(values["m0/head/out"], one["m0/head/out"]))
        self.assertFalse(torch.equal(values["m0/head/grad_out"], one["m0/head/grad_out"]))


if __name__ == "__main__":
    unittest.main(verbosity=0)
