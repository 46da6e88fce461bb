"""Does a rewritten run show which module is wrong by itself: forward, backward, behind it nothing?"""
import contextlib
import io
import os
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)
if int(torch.__version__.split(".")[0]) < 2:
    print("skipped: hooks of this PyTorch cannot give another gradient; ./run test torch installs one")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.capture.placements import share_of
from plumbline.write import shard
from small_training import read


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context, x, by):
        context.by = by
        return x.clone()

    @staticmethod
    def backward(context, g):
        return g * context.by, None


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.pair = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8), Pair()
        self.wrong = ""

    def forward(self, x):
        y = self.up(self.norm(x))
        if self.wrong == "backward":
            y = Scaled.apply(y, 1.5)
        y = self.down(y.relu() * (1.5 if self.wrong == "forward" else 1))
        a, named = self.pair(y)
        return x + a + named["b"]


class Pair(nn.Module):
    """What it returns is a tuple with a dictionary in it."""

    def forward(self, x):
        return x * 2, {"b": x.sin(), "n": torch.arange(3)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks, self.head = nn.Embedding(24, 8), nn.ModuleList(Block() for _ in range(3)), nn.Linear(8, 24)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def step(model, ids):
    model.zero_grad()
    nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()


@contextlib.contextmanager
def traced(folder, wrong="", rewrite="0", twins="", **options):
    torch.manual_seed(1)
    model, ids, said = Model(), torch.randint(24, (4, 6)), io.StringIO()
    model.blocks[1].wrong = wrong
    os.environ.update(PLUMB_TRACE="1", PLUMB_REWRITE=rewrite, PLUMB_TWINS=twins)
    with contextlib.redirect_stderr(said):
        plumb.start(model, folder, layout={"tp": 1}, **options)
        yield model, ids, said
    os.environ.update(PLUMB_TRACE="", PLUMB_REWRITE="", PLUMB_TWINS="")
    plumb.start(model)


class Rewriting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        with traced(self.at("reference")) as (model, ids, _), plumb.step(None):
            step(model, ids)

    def at(self, name):
        return os.path.join(self.folder, name)

    def differ(self, wrong, rewritten=True, **options):
        with traced(self.at("candidate"), wrong, self.at("reference") if rewritten else "0", **options) as (model, ids, said):
            with plumb.step(None):
                step(model, ids)
        values, one = read(self.at("reference"))[0], read(self.at("candidate"))[0]
        self.assertEqual(values.keys() - one.keys(), set())
        return {name for name, x in values.items() if not torch.equal(x, one[name])}, said.getvalue()

    def test_a_healthy_run_is_the_reference(self):
        self.assertEqual(self.differ(""), (set(), self.differ("")[1]))
        self.assertNotIn("not rewritten", self.differ("")[1])

    def test_what_is_wrong_forward_is_wrong_there_alone(self):
        self.assertGreater(len(self.differ("forward", rewritten=False)[0]), 40)
        alone = {"m0/blocks.1.down/in", "m0/blocks.1.down/out", "m0/blocks.1.up/grad_out", "blocks.1.down.weight/grad"}
        self.assertEqual(self.differ("forward")[0], alone)

    def test_and_backward(self):
        self.assertGreater(len(self.differ("backward", rewritten=False)[0]), 10)
        self.assertEqual(self.differ("backward")[0], {"m0/blocks.1.up/grad_out"})

    def test_a_reference_that_is_not_there_is_refused(self):
        os.rename(self.at("reference"), self.at("moved"))
        with self.assertRaisesRegex(ValueError, "names no trace of one rank with step 1"):
            self.differ("")

    def test_what_is_not_rewritten_is_told(self):
        with traced(self.at("other"), rewrite=self.at("reference"), skip="blocks.1.down/out") as (model, ids, said):
            with plumb.step(None):
                step(model, ids)
        self.assertIn("1 tensors were not rewritten, first m0/blocks.1.down/out", said.getvalue())

    def test_twins_too_have_errors_of_one_module(self):
        with open(self.at("layout.json"), "w") as out:
            out.write('{"mesh": {"tp": 2}, "weights": {"blocks.1.down.weight": [{"axis": "tp", "kind": "shard", "dim": 1}]},'
                      '"inputs": {}, "outputs": {}}')
        moved = []
        for rewrite in "0", "1":
            with traced(self.at(f"again{rewrite}"), rewrite=rewrite, twins=self.folder) as (model, ids, _):
                with plumb.step(None):
                    step(model, ids)
                for k in plumb.twins(1):
                    with plumb.twin(k):
                        step(model, ids)
            values, one = read(self.at(f"again{rewrite}"))[0], read(self.at(f"again{rewrite}-twin1"))[0]
            moved.append({name for name, x in values.items() if not torch.equal(x, one[name])})
        self.assertIn("m0/head/out", moved[0])
        self.assertLessEqual({"m0/blocks.1.down/out"}, moved[1])
        self.assertLessEqual(moved[1], {f"m0/blocks.1{module}/out{n}" for module in (".down", ".pair", "") for n in ("", ".1")})

    def test_twins_do_not_rewrite_what_the_candidate_hands_on_in_parts(self):
        with open(self.at("layout.json"), "w") as out:
            out.write('{"mesh": {"tp": 2}, "weights": {"blocks.1.down.weight": [{"axis": "tp", "kind": "shard", "dim": 1}]},'
                      '"inputs": {}, "outputs": {}, "summands": ["blocks.1.down"]}')
        with traced(self.at("again"), rewrite="1", twins=self.folder) as (model, ids, said):
            with plumb.step(None):
                step(model, ids)
            for k in plumb.twins(1):
                with plumb.twin(k):
                    step(model, ids)
        values, one = read(self.at("again"))[0], read(self.at("again-twin1"))[0]
        moved = {name for name, x in values.items() if not torch.equal(x, one[name])}
        self.assertLessEqual({"m0/blocks.1.down/out", "m0/blocks.1.pair/in", "m0/blocks.1.pair/out"}, moved)
        self.assertNotIn("m0/blocks.2.norm/in", moved)
        self.assertIn("1 tensors were not rewritten, first m0/blocks.1.down/out", said.getvalue())

    def test_the_shares_of_all_ranks_are_the_whole(self):
        x = torch.arange(48).reshape(8, 6)
        for placements in ([shard("dp", 0), shard("tp", 0)], [shard("dp", 0, zigzag=True)],
                           [shard("dp", 0, sizes=[5, 3]), shard("tp", 1)], [shard("tp", 0, stride=2)]):
            seen = []
            for rank in range(4):
                place = {"dp": rank // 2, "tp": rank % 2}
                seen += share_of(x, placements, {"dp": 2, "tp": 2}, place).flatten().tolist()
            self.assertEqual(sorted(seen), sorted(x.flatten().tolist() * (len(seen) // 48)))


if __name__ == "__main__":
    unittest.main()
