"""Are numbers those of plumb's own C++, and the same however a tensor is dealt?

    generator_test.py PLUMB
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

from plumbline import generator

VECTORS = pathlib.Path(__file__).parents[1] / "number" / "generator.json"


class Generator(unittest.TestCase):
    def test_has_the_numbers_that_are_shared_with_philox_test(self):
        vectors = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
        self.assertEqual(12, len(vectors))
        for v in vectors:
            of = v["seed"], v["name"]
            self.assertEqual(v["key"], generator.key_of(*of))
            self.assertEqual(v["uniform"], generator.uniform(*of, (3, 4)).flatten().tolist())
            drawn = torch.tensor(v["normal"], dtype=torch.float32)
            self.assertTrue(torch.equal(drawn, generator.normal(*of, (12,), 0.5, 0.02)), of)

    def test_draws_the_weights_that_plumb_trains(self):
        folder = os.path.join(tempfile.mkdtemp(), "run")
        subprocess.run([PLUMB, "train", "-o", folder, "--recipe", "fp32", "--width", "64", "--seed", "7"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "step_000001", "rank_00000.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            begins = file.tell()
            for name in "embedding.weight", "layers.0.mlp.fc1.weight":
                at, end = header[name + "/param@previous"]["data_offsets"]
                file.seek(begins + at)
                held = torch.frombuffer(bytearray(file.read(end - at)), dtype=torch.float32)
                drawn = generator.normal(7, name, (len(held),), 0.0, 0.02)
                self.assertTrue(torch.equal(held, drawn), name)

    def test_of_a_share_are_those_of_the_whole(self):
        shape, name = (8, 6, 10), "a tensor"
        for draw in generator.normal, generator.uniform:
            whole = draw(3, name, shape)
            for take in (slice(2, 4),), (..., slice(5, 10)), (slice(None), [0, 5]):
                self.assertTrue(torch.equal(whole[take], draw(3, name, shape, take=take)))
            self.assertFalse(torch.equal(whole, draw(4, name, shape)))
            self.assertFalse(torch.equal(whole, draw(3, "another", shape)))

    def test_spreads_as_it_should(self):
        u, x = generator.uniform(1, "u", (200, 500)), generator.normal(1, "x", (200, 500)).double()
        self.assertAlmostEqual(0.5, float(u.mean()), delta=0.004)  # four deviations of the mean of 100,000
        self.assertTrue(bool((u >= 0).all()) and bool((u < 1).all()))
        self.assertAlmostEqual(0, float(x.mean()), delta=0.013)
        self.assertAlmostEqual(1, float(x.square().mean()), delta=0.018)


if __name__ == "__main__":
    PLUMB = sys.argv.pop(1)
    unittest.main()
