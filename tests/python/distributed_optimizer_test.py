"""Are the shares of a distributed optimizer's ranks the whole, and is PyTorch's own optimizer found within Megatron's?"""
import contextlib
import io
import os
import sys
import tempfile
import types
import unittest

try:
    import torch
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.capture.placements import share_of
from plumbline.capture.run import Run
from plumbline.write import replicate, shard
from small_training import read
from plumbline.distributed_optimizer import Share, inside, shares


class Distributed:
    """As Megatron's: stretches of weights in FP32, of which PyTorch's AdamW is the optimizer."""

    def __init__(self, weights, ranges):
        self.model_float16_groups, self.shard_fp32_from_float16_groups = [], []
        self.model_fp32_groups, self.shard_fp32_groups = [[]], [[]]
        self.buffers, self.ranges = [types.SimpleNamespace(params=list(weights))], ranges
        for p, (start, end) in ranges.items():
            self.model_fp32_groups[0].append(p)
            self.shard_fp32_groups[0].append(p.detach().view(-1)[start:end])
        self.optimizer = torch.optim.AdamW(self.shard_fp32_groups[0], lr=0.1)

    def _get_model_param_range_map(self, p):
        return {"param": types.SimpleNamespace(start=self.ranges[p][0], end=self.ranges[p][1])}

    def step(self):
        for p, held in zip(self.model_fp32_groups[0], self.shard_fp32_groups[0]):
            start, end = self.ranges[p]
            held.grad = p.grad.view(-1)[start:end].clone()
        self.optimizer.step()


class Shares(unittest.TestCase):
    def test_are_the_whole_of_a_parameter_wherever_they_end(self):
        mesh = {"tp": 2}
        for shape, dealt in (((6, 5), []), ((7,), []), ((8, 6), [shard("tp", 0, stride=2)]), ((8, 6), [shard("tp", 1)])):
            x = torch.randn(shape)
            for ends in (0, 7, 40), (0, 3, 4, 12, 40), (0, 40):
                whole, covered = torch.zeros(shape), torch.zeros(shape)
                for at in (0, 1) if dealt else (0,):
                    place = {"tp": at}
                    mine = share_of(x, dealt, mesh, place)
                    run = types.SimpleNamespace(mesh=mesh, at_axis=place)
                    places = Run._places(run, list(shape), dealt)
                    p = nn.Parameter(mine.clone())
                    for start, end in zip(ends, ends[1:]):
                        start, end = min(start, p.numel()), min(end, p.numel())
                        share = Share(p, start, end, None, None)
                        lies = share.lies(share.of(p), places)
                        self.assertEqual(lies is None, start == end)
                        for block in lies[1] if lies else ():
                            into, of = (tuple(slice(a, a + n) for a, n in zip(block[where], block["size"]))
                                        for where in ("global", "local"))
                            whole[into] = lies[0][of]
                            covered[into] += 1
                self.assertTrue(torch.equal(whole, x), (shape, dealt, ends))
                self.assertTrue(bool((covered == 1).all()), (shape, dealt, ends))

    def test_of_another_kind_are_taken_as_they_are_and_that_is_said(self):
        model, said = nn.Linear(4, 6), io.StringIO()
        own = torch.optim.SGD(model.parameters(), 0.1)
        other = types.SimpleNamespace(param_groups=own.param_groups, state=own.state, step=own.step)
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(said):
            plumb.start(model, os.path.join(tempfile.mkdtemp(), "run"), layout={"dp": 1})
            with plumb.step(other):
                model(torch.randn(3, 4)).square().sum().backward()
                other.step()
        os.environ["PLUMB_TRACE"] = ""
        self.assertIn("weight/param", plumb._run.taken)
        plumb.start(model)
        self.assertIn("an optimizer is none of PyTorch's", said.getvalue())

    def test_that_no_blocks_can_say_are_not_taken_and_that_is_said(self):
        torch.manual_seed(1)
        model = nn.Conv2d(2, 3, 2)
        distributed = Distributed(model.parameters(), {model.weight: (5, 19), model.bias: (0, 3)})
        said = io.StringIO()
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(said):
            plumb.start(model, os.path.join(tempfile.mkdtemp(), "run"), layout={"dp": 1})
            plumb._run.ranks, plumb._run.mesh = 2, {"dp": 2}
            with plumb.step(distributed):
                model(torch.randn(1, 2, 4, 4)).square().sum().backward()
                distributed.step()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)
        self.assertIn("7 shares of a distributed optimizer are not taken, first weight/exp_avg:", said.getvalue())

    def test_of_a_step_are_taken_as_blocks_and_replayed_by_the_optimizer_within(self):
        torch.manual_seed(1)
        model = nn.Linear(4, 6)
        distributed = Distributed(model.parameters(), {model.weight: (5, 19)})
        self.assertEqual(inside(types.SimpleNamespace(chained_optimizers=[distributed])), [distributed.optimizer])
        self.assertEqual([(s.start, s.end) for s in shares(distributed).values()], [(5, 19), (0, 0)])
        folder = os.path.join(tempfile.mkdtemp(), "run")
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, folder, layout={"dp": 1})
            plumb._run.ranks, plumb._run.mesh = 2, {"dp": 2}
            with plumb.step(distributed):
                model(torch.randn(3, 4)).square().sum().backward()
                distributed.step()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)
        values, says = read(folder)
        blocks = [{"global": [1, 1], "local": [0, 1], "size": [1, 3]}, {"global": [2, 0], "local": [1, 0], "size": [2, 4]},
                  {"global": [4, 0], "local": [3, 0], "size": [1, 3]}]
        for name in "grad", "exp_avg", "exp_avg_sq", "main", "main/before":
            self.assertEqual(says[f"weight/{name}"]["offsets"], blocks, name)
            self.assertNotIn(f"bias/{name}", says)
        self.assertEqual(says["weight/param"]["placements"], [replicate("dp")])
        self.assertEqual(says["weight/exp_avg"]["made_by"]["op"], "adam")
        self.assertEqual(says["weight/param"]["made_by"], {"op": "cast", "inputs": ["weight/main"]})
        flat = values["weight/grad"].flatten()
        self.assertTrue(torch.equal(flat[1:15], model.weight.grad.flatten()[5:19]))
        self.assertTrue(bool((flat[[0, 15]] == 0).all()))


if __name__ == "__main__":
    unittest.main()
