"""Of sequences that are dealt to ranks all through a model (context parallelism): how does a rank's share lie, and what
do twins move?
"""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)
if not hasattr(F, "scaled_dot_product_attention"):
    print("skipped: this PyTorch has no scaled_dot_product_attention; ./run test torch installs one")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.twins.cuts import Cuts
from plumbline.write import partial, replicate, shard
from small_training import read

LAYOUT = {"mesh": {"cp": 2}, "batch": ["cp"], "context": ["cp"], "zigzag": True, "weights": {}, "inputs": {}, "outputs": {}}


class Attention(nn.Module):
    masked = False

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(24, 16), nn.Embedding(32, 16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        seen = dict(attn_mask=torch.ones(32, 32).tril().bool()) if self.masked else dict(is_causal=True)
        return self.o(F.scaled_dot_product_attention(q, k, v, **seen).transpose(1, 2).flatten(2))


@contextlib.contextmanager
def traced(model, errors=None, **options):
    folder = os.path.join(tempfile.mkdtemp(), "run")
    os.environ["PLUMB_TRACE"] = "1"
    with contextlib.redirect_stderr(errors or io.StringIO()):
        plumb.start(model, folder, layout={"cp": 1}, **options)
        yield folder
    os.environ["PLUMB_TRACE"] = ""
    plumb.start(model)


def twin(layout, said=False):
    """A step and a twin of it, or what was said of them."""
    torch.manual_seed(1)
    errors = io.StringIO()
    model, ids = Attention(), torch.randint(24, (4, 32))

    def step():
        model.zero_grad()
        model(ids).square().mean().backward()

    os.environ["PLUMB_TWINS"] = "given below"
    with traced(model, errors) as folder:
        with plumb.step(None):
            step()
        with plumb.twin(1, layout):
            step()
    os.environ.pop("PLUMB_TWINS")
    return errors.getvalue() if said else (read(folder)[0], read(folder + "-twin1")[0])


class Context(unittest.TestCase):
    def test_gradients_of_keys_and_values_are_sums_over_queries_that_twins_cut(self):
        values, one = twin(LAYOUT)
        moved = {name for name, x in values.items() if not torch.equal(x, one[name])}
        self.assertLessEqual({"m0/k/grad_out", "m0/v/grad_out", "k.weight/grad", "o.weight/grad", "m0/words/grad_out"}, moved)
        for name in moved:
            self.assertLess((values[name] - one[name]).norm(), 1e-5 * values[name].norm(), name)
        for name in "m0/o/in", "m0/o/out", "m0/q/grad_out":
            self.assertNotIn(name, moved)

    def test_under_a_mask_a_rank_s_queries_are_alone_as_the_rank_has_them(self):
        of_dim, added, shares, made = Cuts.of_dim, Cuts.added, [], []

        def dealt(*asked):
            shares.append(of_dim(*asked))
            return shares[-1]

        def watched(cuts, parts, dtype):
            made.append(parts)
            return added(cuts, parts, dtype)

        with mock.patch.object(Attention, "masked", True), mock.patch.object(Cuts, "of_dim", dealt), \
                mock.patch.object(Cuts, "added", watched):
            values, _ = twin(LAYOUT)
        of_heads = lambda x: x.unflatten(-1, (2, 8)).transpose(1, 2)
        q, k, v = (of_heads(values[f"m0/{name}/out"]) for name in "qkv")
        g = of_heads(values["m0/o/grad_out"] @ values["o.weight"])
        of_k = next(parts for parts in made if parts[0].shape == k.shape)
        self.assertEqual(2, len(of_k))
        for share, part in zip(shares[0], of_k):
            leaf = k.clone().requires_grad_()
            seen = torch.ones(32, 32).tril().bool()[share]
            y = F.scaled_dot_product_attention(q[:, :, share], leaf, v, attn_mask=seen)
            self.assertTrue(torch.equal(torch.autograd.grad(y, leaf, g[:, :, share])[0], part))

    def test_without_an_axis_of_a_context_they_are_not_cut(self):
        values, one = twin({**LAYOUT, "mesh": {"dp": 2}, "batch": ["dp"], "context": []})
        for name in "m0/k/grad_out", "m0/v/grad_out", "m0/words/grad_out":
            self.assertTrue(torch.equal(values[name], one[name]), name)

    def test_a_model_with_another_attention_is_told(self):
        self.assertNotIn("cut no scaled_dot_product_attention", twin(LAYOUT, said=True))
        plain = lambda q, k, v, is_causal: (q @ k.transpose(-1, -2)).softmax(-1) @ v
        with mock.patch.object(F, "scaled_dot_product_attention", plain):
            self.assertIn("twin 1 cut no scaled_dot_product_attention", twin(LAYOUT, said=True))

    def test_the_second_dimension_is_dealt_and_of_places_the_first(self):
        for zigzag in False, True:
            model = Attention()
            with traced(model, zigzag=zigzag) as folder:
                run = plumb._run
                run.ranks, run.mesh, run.batch, run.context = 2, {"cp": 2}, ["cp"], ["cp"]
                with plumb.step(None):
                    model(torch.arange(16).reshape(2, 8)).sum().backward()
            _, says = read(folder)
            how = {"zigzag": True} if zigzag else {}
            for name, dim, shape in (("m0/input", 1, [2, 16]), ("m0/words/out", 1, [2, 16, 16]), ("m0/places/out", 0, [16, 16]),
                                     ("m0/k/grad_out", 1, [2, 16, 16])):
                self.assertEqual(says[name]["placements"], [shard("cp", dim, **how)], name)
                self.assertEqual(says[name]["shape"], shape, name)
            self.assertEqual(says["k.weight/grad"]["placements"], [replicate("cp")])
            self.assertEqual(says["m0/loss"]["placements"], [partial("cp")])


class OfMegatron(nn.Module):
    """Its tensors are (s, b, h), but for what looks words up."""

    def __init__(self):
        super().__init__()
        self.words, self.block = nn.Embedding(24, 16), nn.Linear(16, 16)
        self.words.weight.tensor_model_parallel = True
        self.layer = nn.ModuleDict({"core_attention": nn.ModuleList([nn.Identity()])})

    def forward(self, ids, mask):
        x = self.block(self.words(ids).transpose(0, 1))
        scores = torch.einsum("sbh,tbh->bst", x, x)[:, None] * mask
        return self.layer["core_attention"][0](scores).sum() + x.sum()


class SequencesFirst(unittest.TestCase):
    def test_a_batch_lies_behind_them_and_what_is_alike_for_all_is_not_dealt(self):
        for axis, of in (("dp", {"m0/words/out": 0, "m0/block/out": 1, "m0/block/grad_out": 1, "m0/layer.core_attention.0/in": 0,
                                 "m0/input": 0, "m0/input.1": None}),
                         ("cp", {"m0/words/out": 1, "m0/block/out": 0, "m0/block/grad_out": 0, "m0/input": 1})):
            model = OfMegatron()
            with traced(model) as folder:
                run = plumb._run
                run.ranks, run.mesh, run.batch, run.context = 2, {axis: 2}, [axis], [axis] * (axis == "cp")
                with plumb.step(None):
                    model(torch.arange(16).reshape(2, 8), torch.ones(1, 1, 8, 8)).backward()
            _, says = read(folder)
            for name, dim in of.items():
                lies = replicate(axis) if dim is None else shard(axis, dim)
                self.assertEqual(says[name]["placements"], [lies], name)


class Shares(unittest.TestCase):
    """The tokens of each rank, as a twin cuts them."""

    def cuts(self, **layout):
        cuts = Cuts.__new__(Cuts)
        cuts.number, cuts.layout = 1, {**LAYOUT, **layout}
        cuts.mesh, cuts.batch = cuts.layout["mesh"], set(cuts.layout["batch"])
        cuts.rows = cuts.batch - set(cuts.layout["context"])
        return cuts

    def test_are_all_tokens_once_and_lie_there_and_back(self):
        shares = self.cuts().shares("w", (3, 64), {1: (2, True)}, False)
        self.assertEqual(sorted(torch.cat(shares).tolist()), list(range(3 * 64)))
        first, last = (set((share % 64).tolist()) for share in shares)
        self.assertLessEqual({0, 63}, first)
        self.assertLessEqual({31, 32}, last)

    def test_of_numbers_in_fp32_are_the_layout_s_and_of_shorter_ones_lie_elsewhere_in_each_twin(self):
        as_dealt = [[*range(16), *range(48, 64)], [*range(16, 48)]]
        seen = {short: [] for short in (False, True)}
        for short, of in seen.items():
            for number in 1, 2:
                cuts = self.cuts()
                cuts.number = number
                of.append([sorted(share.tolist()) for share in cuts.shares("w", (1, 64), {1: (2, True)}, short)])
        self.assertEqual(seen[False], [as_dealt, as_dealt])
        self.assertNotEqual(*seen[True])

    def test_of_losses_are_those_of_tokens_and_their_sum_has_the_whole_s_gradient(self):
        seen = set()
        x = torch.rand(3, 64, generator=torch.Generator().manual_seed(2)).requires_grad_()
        for number in range(1, 21):
            cuts = self.cuts()
            cuts.number, cuts.run = number, mock.Mock(words=[torch.zeros(3, 64)])
            first, _ = cuts.of_tokens(3 * 64, torch.float32)
            self.assertEqual(first.tolist(), [64 * row + at for row in range(3) for at in [*range(16), *range(48, 64)]])
            mean = cuts.sum_of_tokens(torch.mean, (x,), {})
            self.assertTrue(torch.equal(torch.autograd.grad(mean, x)[0], torch.autograd.grad(x.mean(), x)[0]))
            self.assertLess(abs(mean.item() - x.mean().item()), 4 * 2.0 ** -24)
            seen.add(mean.item())
        self.assertGreater(len(seen), 1)
        self.assertEqual(cuts.sum_of_tokens(torch.sum, (x, 1), {}).shape, (3,))  # not over all

    def test_of_a_batch_and_a_context_are_parts_of_some_sequences(self):
        shares = self.cuts().shares("w", (4, 64), {0: (2, False), 1: (2, False)}, False)
        self.assertEqual([sorted(set((share // 64).tolist())) for share in shares], [[0, 1], [0, 1], [2, 3], [2, 3]])
        self.assertEqual(sorted(torch.cat(shares).tolist()), list(range(4 * 64)))

    def test_follow_from_where_a_module_s_input_lies(self):
        cuts = self.cuts(mesh={"dp": 2, "tp": 3}, batch=["dp"], inputs={
            "rows": [shard("dp", 0), shard("tp", 0)], "both": [shard("dp", 0), shard("tp", 1)],
            "chunks": [shard("tp", 1, zigzag=True), replicate("dp")], "wide": [shard("tp", 2)]})
        cuts.run = mock.Mock(reference={f"m0/{name}/in": ("F32", None, {"shape": [4, 6, 8]}) for name in cuts.layout["inputs"]})
        dealt = {name: cuts._split_of(f"{name}.weight", torch.ones(2)).dealt for name in cuts.layout["inputs"]}
        self.assertEqual(dealt, {"rows": {0: (6, False)}, "both": {0: (2, False), 1: (3, False)}, "chunks": {1: (3, True)},
                                 "wide": {}})


if __name__ == "__main__":
    unittest.main()
