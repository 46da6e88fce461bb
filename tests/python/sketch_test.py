"""Are tiles that are taken those that plumb makes of the whole trace, to the last bit, and on each rank its own?

    sketch_test.py PLUMB
"""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.capture.placements import share_of
from plumbline.write import replicate, shard
from small_training import OLD, read
from plumbline.sketch import Sketch


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 32))


def traced(folder, sketch="0", dtype=torch.float32):
    of = model().to(dtype)
    optimizer = torch.optim.AdamW(of.parameters(), 0.1)
    with mock.patch.dict(os.environ, PLUMB_TRACE="1", PLUMB_SKETCH=sketch), contextlib.redirect_stderr(io.StringIO()):
        plumb.start(of, folder, layout={"dp": 1})
        with plumb.step(optimizer):
            x = torch.randn(4, 32, 64, generator=torch.Generator().manual_seed(2)).to(dtype)
            of(x).float().square().mean().backward()
            optimizer.step()
    with mock.patch.dict(os.environ, PLUMB_TRACE="0"):
        plumb.start(of)
    return folder


class Tiles(unittest.TestCase):
    def test_are_those_that_plumb_makes_of_the_whole(self):
        for dtype in torch.float32, torch.bfloat16:
            folder = tempfile.mkdtemp()
            whole, small = traced(folder + "/whole", dtype=dtype), traced(folder + "/small", "8x4,4", dtype)
            subprocess.run([PLUMB, "sketch", whole, "-o", folder + "/made", "--tile", "8x4", "--shards", "4"], check=True,
                           stdout=subprocess.DEVNULL)
            mine, says = read(small)
            made, told = read(folder + "/made")
            self.assertEqual(sorted(mine), sorted(made))
            for name, x in mine.items():
                self.assertTrue(torch.equal(x.reshape(-1).float(), made[name].reshape(-1).float()), name)
            self.assertEqual(list(mine["m0/0/out"].shape), [4, 4, 32])  # from 32 x 128
            self.assertEqual(says["m0/0/out"]["shape"], [4, 4, 32])
            self.assertEqual(says["m0/0/out"].get("format"), "bf16" if dtype == torch.bfloat16 else None)
            how = {name: x["made_by"] for name, x in says.items() if "made_by" in x}
            self.assertEqual({name: {"output": 0, **x} for name, x in how.items()},
                             {name: {"output": 0, **x["made_by"]} for name, x in told.items() if "made_by" in x})
            self.assertEqual(sorted(how), sorted(f"{of}/{made}" for of in ("0.bias", "1.bias", "1.weight", "2.bias", "3.bias")
                                                 for made in ("exp_avg", "exp_avg_sq", "param")
                                                 if f"{of}/grad" in mine and not (OLD and dtype == torch.bfloat16)))
            said = subprocess.run([PLUMB, "check", folder + "/made", small, "--rule", "flat"], capture_output=True, text=True)
            self.assertIn(said.returncode, (0, 3), said.stdout + said.stderr)

    def test_of_a_rank_are_its_own(self):
        x = torch.randn(6, 64, 32)
        sketch, mesh = Sketch("8x2,4"), {"dp": 2, "cp": 2, "tp": 2}
        dealt = [shard("dp", 0, sizes=[4, 2]), shard("cp", 1, zigzag=True), shard("tp", 2), replicate("x")]
        whole, _, _ = sketch.of("x", x, [6, 64, 32], None, {}, {})
        self.assertEqual(list(whole.shape), [6, 8, 16])
        for place in ({"dp": d, "cp": c, "tp": t} for d in (0, 1) for c in (0, 1) for t in (0, 1)):
            mine = share_of(x, dealt[:3], mesh, place)
            small, shape, lies = sketch.of("x", mine, [6, 64, 32], dealt, mesh, place)
            self.assertEqual(shape, [6, 8, 16])
            self.assertEqual(lies, dealt)
            self.assertTrue(torch.equal(small, share_of(whole, lies[:3], mesh, place)), place)

    def test_in_which_a_share_ends_are_not_taken_and_that_is_said(self):
        sketch, mesh = Sketch("8x4,4"), {"tp": 2}
        uneven = [shard("tp", 1, sizes=[18, 14])]
        self.assertIsNone(sketch.of("x", torch.randn(32, 18), [32, 32], uneven, mesh, {"tp": 0}))
        self.assertIn("1 tensors are not taken, first x", sketch.said())
        kept = torch.randn(64)
        self.assertIs(sketch.of("bias", kept, [64], [], mesh, {"tp": 0})[0], kept)

    def test_that_are_none_are_refused(self):
        for asked in "16", "3x4", "0x4", "4x4,0", "4x4x4":
            with self.assertRaises(ValueError, msg=asked):
                Sketch(asked)


if __name__ == "__main__":
    PLUMB = os.path.abspath(sys.argv.pop(1))
    unittest.main()
