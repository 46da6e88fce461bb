"""What is the batch's, and what do all of its rows have alike? Positions, sines of them and biases, where a rank has several
sequences and where it has one; and are sums over rows of such biases cut in twins?
"""
import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

from plumbline.twins.cuts import Cuts
from plumbline.write import partial, replicate, shard
from small_training import F, nn, of_rows, plumb, read, torch
from experts_test import as_rank

WORDS, LENGTH = 24, 6


def placed(model, *given):
    """What the first of two ranks says of a step's tensors."""
    folder = os.path.join(tempfile.mkdtemp(), "run")
    os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="")
    with contextlib.redirect_stderr(io.StringIO()):
        plumb.start(model, folder, layout={"dp": 1})
        as_rank(0, experts=("dp",), dp=2)
        plumb._run.experts = []
        with plumb.step(None):
            model(*given).sum().backward()
    os.environ["PLUMB_TRACE"] = ""
    plumb.start(model)
    return {name: (says["placements"], says["shape"]) for name, says in read(folder)[1].items() if "placements" in says}


class Places(nn.Module):
    """Adds what it looks up for positions that `count` makes of the words."""

    def __init__(self, count):
        super().__init__()
        self.words, self.places, self.count = nn.Embedding(WORDS, 8), nn.Embedding(2 * WORDS, 8), count
        self.register_buffer("held", torch.arange(2 * LENGTH)[None].expand(1, -1).clone())
        self.register_buffer("lent", torch.arange(3 * LENGTH).expand((1, -1)))  # itself a view

    def forward(self, ids):
        return self.words(ids) + self.places(self.count(self, ids))


class Sines(nn.Module):
    def forward(self, x, places):
        return (places[..., None] * torch.ones(4, dtype=x.dtype)).cos()


class Turns(nn.Module):
    def forward(self, x, places):
        return x * places[..., None].cos()


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.sines, self.turns = nn.Embedding(WORDS, 8), Sines(), Turns()

    def forward(self, ids):
        x, places = self.words(ids), torch.arange(ids.shape[1])[None]
        return self.turns(x, places) * self.sines(x, places).repeat(1, 1, 2)


class Heads(nn.Module):
    """T5's biases: of pairs of positions, for each head; the second layer takes those of the first."""

    def __init__(self):
        super().__init__()
        self.table, self.q = nn.Embedding(4, 2), nn.Linear(8, 8)

    def forward(self, x, bias=None):
        if bias is None:
            places = torch.arange(x.shape[1])
            bias = self.table((places[:, None] - places[None]).abs().clamp(max=3)).permute(2, 0, 1).unsqueeze(0)
        q = self.q(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return self.made(q, bias).transpose(1, 2).flatten(2), bias

    def made(self, q, bias):
        return (q @ q.transpose(-1, -2) + bias).softmax(-1) @ q


class Masked(Heads):
    def made(self, q, bias):
        seen = torch.ones(bias.shape[-2:], dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, q, q, attn_mask=torch.where(seen, bias, -1e9).contiguous())


class Causal(Heads):
    def made(self, q, bias):
        past = torch.full(bias.shape[-2:], -1e9).triu(1)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=(bias + past).to(q.dtype))


class Biased(nn.Module):
    def __init__(self, kind=Heads):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.first, self.second = nn.Embedding(WORDS, 8), kind(), kind()
        del self.second.table

    def forward(self, ids):
        x, bias = self.first(self.words(ids))
        return self.second(x, bias)[0]


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, 1, 8))

    def forward(self, x):
        return self.w * torch.arange(x.shape[1])[None, :, None]


class Sloped(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.slopes = nn.Embedding(WORDS, 8), nn.ModuleDict({"0": Slopes()})

    def forward(self, ids):
        x = self.words(ids)
        return x * self.slopes["0"](x)


def ids_of(rows, length=LENGTH):
    return torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(1))


class Positions(unittest.TestCase):
    def test_positions_are_alike_for_one_sequence_as_for_several(self):
        ways = {"of one dimension": lambda model, ids: torch.arange(ids.shape[1]),
                "a view of these": lambda model, ids: torch.arange(ids.shape[1])[None],
                "a view of a buffer": lambda model, ids: model.held[:, 2:2 + ids.shape[1]],
                "a view of a buffer that is one": lambda model, ids: model.lent[:, :ids.shape[1]]}
        for rows in 1, 2, 6:
            for way, count in ways.items():
                says = placed(Places(count), ids_of(rows))
                for name, how in ("in", replicate), ("out", replicate), ("grad_out", partial):
                    self.assertEqual(says[f"m0/places/{name}"][0], [how("dp")], (rows, way, name))
                for name in "m0/words/in", "m0/words/out", "m0/words/grad_out", "m0/input":
                    self.assertEqual(says[name][0], [shard("dp", 0)], (rows, way, name))
                    self.assertEqual(says[name][1][0], 2 * rows)

    def test_what_is_counted_for_each_sequence_is_the_batchs(self):
        for rows in 1, 2:
            says = placed(Places(lambda model, ids: ids.ne(0).int().cumsum(1)), ids_of(rows))
            self.assertEqual(says["m0/places/in"], ([shard("dp", 0)], [2 * rows, LENGTH]))

    def test_words_that_count_on_are_words(self):
        says = placed(Places(lambda model, ids: torch.arange(LENGTH)), torch.arange(2 * LENGTH).view(2, LENGTH)[:1])
        self.assertEqual(says["m0/words/in"][0], [shard("dp", 0)])

    def test_sines_of_positions_are_alike_and_what_they_turn_is_not(self):
        for rows in 1, 2:
            says = placed(Rotary(), ids_of(rows))
            for name, shape in ("sines/in.1", [1, LENGTH]), ("sines/out", [1, LENGTH, 4]), ("turns/in.1", [1, LENGTH]):
                self.assertEqual(says[f"m0/{name}"], ([replicate("dp")], shape), (rows, name))
            for name in "sines/in", "turns/in", "turns/out", "turns/grad_out":
                self.assertEqual(says[f"m0/{name}"], ([shard("dp", 0)], [2 * rows, LENGTH, 8]), (rows, name))

    def test_of_frozen_weights_too(self):
        model = Rotary()
        model.words.weight.requires_grad_(False)
        says = placed(nn.Sequential(model, nn.Linear(8, 8)), ids_of(1))
        self.assertEqual(says["m0/0.turns/out"], ([shard("dp", 0)], [2, LENGTH, 8]))

    def test_the_gradient_of_what_has_one_row_for_all_is_a_part(self):
        says = placed(Sloped(), ids_of(3))
        self.assertEqual(says["m0/slopes.0/out"], ([replicate("dp")], [1, LENGTH, 8]))
        self.assertEqual(says["m0/slopes.0/grad_out"], ([partial("dp")], [1, LENGTH, 8]))

    def test_a_table_of_pairs_is_no_batch_though_it_has_as_many_numbers_as_some(self):
        for rows in 1, 2, 3:
            says = placed(Biased(), ids_of(rows))
            self.assertEqual(says["m0/first.table/in"], ([replicate("dp")], [LENGTH, LENGTH]), rows)
            for module in "first", "second":
                self.assertEqual(says[f"m0/{module}/out.1"], ([replicate("dp")], [1, 2, LENGTH, LENGTH]), rows)
                self.assertEqual(says[f"m0/{module}/grad_out.1"][0], [partial("dp")], rows)
                self.assertEqual(says[f"m0/{module}/out"], ([shard("dp", 0)], [2 * rows, LENGTH, 8]), rows)

    def test_twins_cut_the_sums_of_biases_over_rows(self):
        for kind in [Heads, Masked, Causal] if hasattr(F, "scaled_dot_product_attention") else [Heads]:
            kept, keep, inputs = set(), Cuts.keep, Cuts.inputs_of
            with mock.patch.object(Cuts, "keep", lambda cuts, p, *given: kept.add(cuts.names[p]) or keep(cuts, p, *given)), \
                    mock.patch.object(Cuts, "inputs_of", lambda cuts, module: (
                        [replicate("dp")] if module == "first.table" else inputs(cuts, module))):
                values, one, said = of_rows(Biased(kind), ids_of(4))
            self.assertIn("first.table.weight", kept)
            for name in "m0/first.table/grad_out", "m0/first/grad_out.1", "m0/second/grad_out.1", "first.table.weight/grad":
                far = (values[name] - one[name]).norm() / values[name].norm()
                self.assertTrue(0 < far < 1e-5, (kind, name, far))
            self.assertTrue(torch.equal(values["m0/second/out"], one["m0/second/out"]), kind)
            self.assertNotIn("could not cut", said)

    def test_ranks_add_what_positions_get_of_all_micro_batches_before_they_add(self):
        """A sum of ranks for each micro-batch would round more often than a run of many ranks does."""
        given = ids_of(4), (ids_of(4) + 5) % WORDS
        kept, keep = [], Cuts.keep

        def kept_too(cuts, p, parts, *name):
            keep(cuts, p, parts, *name)
            kept.extend([cuts.stash[p]] * (cuts.names[p] == "places.weight"))

        for count in (lambda model, ids: torch.arange(LENGTH)), (lambda model, ids: torch.arange(LENGTH)[None]):
            kept.clear()
            with mock.patch.object(Cuts, "keep", kept_too), mock.patch.object(
                    Cuts, "inputs_of", lambda cuts, module: [replicate("dp")] if module == "places" else [shard("dp", 0)]):
                values, one, said = of_rows(Places(count), given)
            self.assertNotIn("could not cut", said)
            self.assertEqual(len(kept), len(given))
            for run in values, one:
                self.assertTrue(torch.allclose(sum(kept[-1]), run["places.weight/grad"], rtol=1e-5, atol=1e-9))
            self.assertFalse(torch.equal(*kept[-1]))
            self.assertFalse(torch.equal(values["places.weight/grad"], one["places.weight/grad"]))


if __name__ == "__main__":
    unittest.main()
