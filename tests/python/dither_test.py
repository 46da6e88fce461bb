"""Runs of a candidate with other roundings: do they lie from it as far as a single device, and is all else untouched?

    dither_test.py
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline import dither

SHORT = torch.float16 if int(torch.__version__.split(".")[0]) < 2 else torch.bfloat16  # that Gloo adds


def added(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class Sums(unittest.TestCase):
    """Of parts in BF16 that were rounded from numbers that a single device has, and does not round."""

    def test_lie_from_the_candidate_as_far_as_a_single_device(self):
        torch.manual_seed(1)
        for ranks in 2, 4:
            for smaller in 1, 0.1:
                exact = torch.randn(ranks, 200, 500, dtype=torch.double)
                exact[1:] *= smaller
                parts = [part.bfloat16() for part in exact]
                candidate, alone = added(parts).double(), exact.sum(0).bfloat16().double()
                other = dither.sum_of_unrounded(parts, "a name").double()
                far = lambda x: (x - candidate).norm() / candidate.norm()
                self.assertAlmostEqual(1, float(far(other) / far(alone)), delta=0.02)
                share = lambda x: (x != candidate).double().mean()
                self.assertAlmostEqual(1, float(share(other) / share(alone)), delta=0.02)

    def test_are_others_by_name_and_the_same_by_the_same(self):
        parts = [torch.randn(30, 40).bfloat16() for _ in range(2)]
        one, again, other = (dither.sum_of_unrounded(parts, name) for name in ("one", "one", "other"))
        self.assertTrue(torch.equal(one, again))
        self.assertFalse(torch.equal(one, other))

    def test_of_rows_that_are_alike_are_alike(self):
        parts = [torch.randn(1, 300).bfloat16().expand(7, 300) for _ in range(2)]
        total = dither.sum_of_unrounded(parts, "a name")
        self.assertTrue(torch.equal(total, total[:1].expand(7, 300)))

    def test_of_one_part_and_zeros_are_that_part(self):
        part = torch.randn(300).bfloat16()
        self.assertTrue(torch.equal(part, dither.sum_of_unrounded([torch.zeros_like(part), part], "a name")))


def rank_of_a_job(folder):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Linear(64, 64, bias=False)
    torch.manual_seed(2 + rank)
    x = torch.randn(8, 64)
    got = []

    def train_step():
        y = model(x)
        short, twice, wide, most = y.detach().to(SHORT), y.detach().to(SHORT), y.detach().clone(), y.detach().to(SHORT)
        for z in short, twice, wide:
            dist.all_reduce(z)
            got.append(z)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        got.append(most)
        plumb.tensor("sum", short)
        y.sum().backward()

    try:
        plumb.start(model, os.path.join(folder, "run"), layout={"cp": 2})
    except ValueError as refused:
        print(refused, file=sys.stderr)
    plumb.start(model, os.path.join(folder, "run"), layout={"dp": 2})
    with plumb.step():
        train_step()
    for k in plumb.twins():
        with plumb.twin(k):
            train_step()
    train_step()  # as the first
    torch.save(got, os.path.join(folder, f"got-{rank}.pt"))
    dist.destroy_process_group()


class Job(unittest.TestCase):
    def test_rounds_sums_of_short_formats_alone_and_goes_on_as_if_nothing_had_been(self):
        folder = tempfile.mkdtemp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, folder], stderr=subprocess.PIPE, text=True, env={
            **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "PLUMB_TRACE": "1", "PLUMB_DITHER": "1", "OMP_NUM_THREADS": "1"}) for rank in range(2)]
        said = [one.communicate(timeout=300)[1] for one in ranks]
        self.assertEqual([0, 0], [one.returncode for one in ranks], said)
        self.assertIn("not for sequences that are dealt to ranks (cp)", said[0])
        self.assertIn("other roundings in 2 sums of short formats; 1 in FP32 were left alone", said[0])
        of_ranks = [torch.load(os.path.join(folder, f"got-{rank}.pt")) for rank in range(2)]
        self.assertEqual(24, len(of_ranks[0]))  # four of each of six steps
        for got in of_ranks:
            for step in range(6):
                short, twice, wide, most = got[4 * step:4 * step + 4]
                self.assertTrue(torch.equal(short, twice))  # as an optimizer that adds one gradient twice
                self.assertEqual(step in range(1, 5), not torch.equal(short, got[0]))
                self.assertTrue(torch.equal(wide, got[2]) and torch.equal(most, got[3]))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*of_ranks)))  # of both ranks alike
        for k in range(1, 5):
            with open(os.path.join(folder, f"run-twin{k}", "manifest.json"), encoding="utf-8") as file:
                self.assertEqual("the candidate", json.load(file)["may_differ"]["twin of"])


if __name__ == "__main__":
    if "RANK" in os.environ:
        rank_of_a_job(sys.argv[1])
    else:
        unittest.main()
