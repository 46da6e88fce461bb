"""Are twins that plumbline.trace makes the reference where nothing is split, do they move behind a split as a run does,
and do they say what they could not cut?
"""
import contextlib
import io
import os
import tempfile
import unittest

from plumbline.capture.placements import from_dims
from plumbline.twins.cuts import Cuts
from plumbline.write import partial, replicate, shard
from small_training import F, Model, layout_of, nn, of_rows, plumb, read, same, steps, torch, what_moved


class Twins(unittest.TestCase):
    def test_twins_are_the_reference_where_nothing_is_split(self):
        for how in "", "dropout":
            _, _, folder, _ = steps(how, "1", twins=1, layout=layout_of(1))
            self.assertTrue(same(read(folder)[0], read(folder + "-twin1")[0]))

    def test_twins_move_behind_a_split_and_nowhere_else(self):
        _, _, folder, said = steps(asked="1", twins=2, layout=layout_of(2))
        values, one, other = (read(folder + end)[0] for end in ("", "-twin1", "-twin2"))
        for name in "m0/blocks.0.fc/out", "m0/words/grad_out":
            self.assertFalse(torch.equal(values[name], one[name]))
            self.assertFalse(torch.equal(other[name], one[name]))
            self.assertLess((values[name] - one[name]).norm(), 1e-5 * values[name].norm())
        for name in "m0/blocks.0.fc/in", "m0/words/out":
            self.assertTrue(torch.equal(values[name], one[name]))
        self.assertNotIn("could not cut", said)
        columns = layout_of(2)
        del columns["weights"]["blocks.0.fc.weight"]
        _, _, folder, _ = steps(asked="1", twins=1, layout=columns)
        values, one = read(folder)[0], read(folder + "-twin1")[0]
        for name, moves in ("m0/head/out", False), ("m0/blocks.1.fc/grad_out", False), ("m0/blocks.1.norm/grad_out", True):
            self.assertEqual(not torch.equal(values[name], one[name]), moves, name)

    def test_twins_cut_what_is_made_again_as_they_did_before(self):
        plain, _ = read(steps("", "1", twins=1, layout=layout_of(2))[2] + "-twin1")
        for how in "reentrant", "recompute", "stops":
            self.assertTrue(same(plain, read(steps(how, "1", twins=1, layout=layout_of(2))[2] + "-twin1")[0]), how)

    def test_twins_of_dealt_tokens_move_gradients_of_weights_alone(self):
        layout = {"mesh": {"dp": 2}, "batch": ["dp"], "weights": {}, "inputs": {}, "outputs": {}}
        _, _, folder, said = steps(asked="1", twins=1, layout=layout)
        values, one = read(folder)[0], read(folder + "-twin1")[0]
        moved = {name for name in values if not torch.equal(values[name], one[name])}
        self.assertTrue(all("weight/" in name or "bias/" in name or "loss" in name for name in moved), moved)
        self.assertIn("blocks.0.norm.bias/grad", moved)
        self.assertIn("words.weight/grad", moved)
        self.assertNotIn("could not cut", said)

    def test_twins_compute_under_autocast_as_the_run_did(self):
        class Short(Model):
            def forward(self, ids):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.head(self.blocks[1].fc(self.blocks[0].fc(self.words(ids)))).transpose(0, 1)

        layout = {"mesh": {"dp": 2}, "batch": ["dp"], "weights": {}, "inputs": {}, "outputs": {}}
        torch.manual_seed(1)
        _, _, folder, _ = steps(asked="1", twins=1, layout=layout, model=Short())
        values, one = read(folder)[0], read(folder + "-twin1")[0]
        self.assertEqual(values["m0/blocks.1.fc/in"].dtype, torch.bfloat16)
        gradient, other = (of["blocks.1.fc.weight/grad"] for of in (values, one))
        far = (gradient - other).norm() / gradient.norm()
        self.assertTrue(1e-4 < far < 1e-2, far)  # BF16's last bits, not FP32's

    def test_twins_cut_whatever_takes_each_row_of_a_batch_by_itself(self):
        class Vision(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
                self.attention, self.place = nn.MultiheadAttention(8, 2, batch_first=True), nn.Parameter(torch.randn(1, 16, 8))
                self.first = nn.Parameter(torch.randn(1, 1, 8))

            def forward(self, x):
                x = self.norm(self.conv(x)).flatten(2).transpose(1, 2) + self.place
                x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
                return self.attention(x, x, x)[0]

        torch.manual_seed(1)
        values, one, said = of_rows(Vision(), torch.randn(8, 3, 4, 4))
        self.assertNotIn("could not cut", said)
        moved = {name for name in what_moved(self, values, one) if name.endswith("/grad")}
        self.assertEqual(moved, {name for name in values if name.endswith("/grad")})

    def test_twins_cut_nothing_whose_rows_depend_on_each_other(self):
        torch.manual_seed(1)
        _, _, said = of_rows(nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)), torch.randn(8, 8))
        self.assertIn("twin 1 could not cut the sums of 0.bias, 0.weight", said)

    def test_what_nobody_calls_has_no_sums_to_cut(self):
        class Idle(nn.Sequential):
            def forward(self, x):
                return self[0](x)

        model = Idle(nn.Linear(8, 8), nn.BatchNorm1d(8))
        _, _, said = of_rows(model, torch.randn(8, 8), optimizers=torch.optim.SGD(model[0].parameters(), lr=0.01))
        self.assertNotIn("could not cut", said)

    def test_looking_for_rows_that_depend_on_chance_uses_up_no_chance(self):
        class Drops(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention, self.fc = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), nn.Linear(8, 8)

            def forward(self, x):
                return F.dropout(self.fc(self.attention(x, x, x)[0]), 0.5)

        torch.manual_seed(1)
        values, one, said = of_rows(Drops(), torch.randn(8, 4, 8))
        self.assertIn("could not cut the sums of attention", said)
        self.assertIn("fc.weight/grad", what_moved(self, values, one))  # and all by rounding alone
        self.assertTrue(torch.equal(values["m0/attention/out"], one["m0/attention/out"]))

    def test_positions_are_alike_on_all_ranks_and_their_gradients_sums_of_rows(self):
        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.places = nn.Embedding(24, 8), nn.Embedding(12, 8)

            def forward(self, ids):
                return self.words(ids) + self.places(torch.arange(ids.shape[1]))

        torch.manual_seed(1)
        model, ids = Words(), torch.randint(24, (8, 12))
        values, one, said = of_rows(model, ids)
        self.assertNotIn("could not cut", said)
        self.assertLessEqual({"m0/places/grad_out", "places.weight/grad"}, what_moved(self, values, one))
        os.environ["PLUMB_TRACE"], folder = "1", os.path.join(tempfile.mkdtemp(), "run")
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, folder, layout={"dp": 1})
            run = plumb._run
            run.ranks, run.mesh, run.batch = 2, {"dp": 2}, ["dp"]
            with plumb.step():
                model(ids).sum().backward()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)
        says = read(folder)[1]
        self.assertEqual(says["m0/places/out"]["placements"], [replicate("dp")])
        self.assertEqual(says["m0/places/grad_out"]["placements"], [partial("dp")])
        self.assertEqual(says["m0/words/out"]["placements"], [shard("dp", 0)])

    def test_several_optimizers_each_have_their_gradients(self):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        both = [torch.optim.SGD(model[0].parameters(), lr=0.01), torch.optim.AdamW(model[1].parameters())]
        values, one, _ = of_rows(model, torch.randn(8, 8), optimizers=both)
        self.assertLessEqual({"0.weight/grad", "1.weight/grad", "0.weight/param", "1.weight/exp_avg"}, set(values))
        self.assertNotIn("0.weight/exp_avg", values)
        self.assertTrue(torch.allclose(values["0.weight"] - values["0.weight/param"], 0.01 * values["0.weight/grad"], atol=1e-7))
        self.assertTrue(torch.equal(values["1.weight/exp_avg/before"], torch.zeros(8, 8)))
        what_moved(self, values, one)

    def test_modules_behind_one_gather_add_their_gradients_before_ranks_do(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

            def forward(self, x):
                y = x * 1  # a gather: no module's output
                return self.a(y) + self.b(y)

        torch.manual_seed(1)
        model = Two().bfloat16()
        x = torch.randn(8, 16).bfloat16().requires_grad_()
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, os.path.join(tempfile.mkdtemp(), "run"), layout={"tp": 1})
            with plumb.step():
                model(x).sum().backward()
        run = plumb._run
        self.assertEqual(run.lies["shared"], [["a", "b"]])
        layout = {"mesh": {"tp": 2}, "batch": [], "inputs": {}, "outputs": {}, "shared": [["a", "b"]],
                  "weights": {f"{name}.weight": [shard("tp", 0)] for name in "ab"}}
        run.reference = {}
        cuts, g = Cuts(layout, 1, run), torch.randn(8, 16).bfloat16()
        cuts.moved = lambda parts, dtype, name: parts  # what is added to what, and no more
        x.grad = None
        with cuts:
            model(x).backward(g)
        part = lambda w, r: (g[:, 8 * r:8 * r + 8].float() @ w[8 * r:8 * r + 8].float()).bfloat16()
        ranks = [part(model.b.weight, r) + part(model.a.weight, r) for r in range(2)]
        self.assertTrue(torch.equal(x.grad, ranks[0] + ranks[1]))
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)

    def test_what_could_not_be_cut_is_told_and_left_as_the_reference_has_it(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.scale = Model(), nn.Parameter(torch.ones(24))

            def forward(self, ids):
                return self.inner(ids) * self.scale

        layout = {"mesh": {"dp": 2, "tp": 2}, "batch": ["dp"], "weights": {
            "inner.blocks.0.fc.weight": [shard("tp", 1)]}, "inputs": {}, "outputs": {}}
        torch.manual_seed(1)
        _, _, folder, said = steps(asked="1", twins=1, layout=layout, model=Own())
        self.assertIn("twin 1 could not cut the sums of scale: what differs there is not judged", said)
        values, one = read(folder)[0], read(folder + "-twin1")[0]
        self.assertTrue(torch.equal(values["scale/grad"], one["scale/grad"]))
        self.assertFalse(torch.equal(values["inner.words.weight/grad"], one["inner.words.weight/grad"]))

    def test_twins_without_a_layout_are_refused(self):
        with self.assertRaisesRegex(ValueError, "there is no given below/layout.json"):
            steps(asked="1", twins=1)
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(None)


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        steps(asked="1", count=1)  # imports torch for the module

    def cuts(self, number=1):
        cuts = object.__new__(Cuts)
        cuts.number = number
        return cuts

    def test_are_moved_by_an_ulp_or_two_and_keep_their_sum(self):
        torch.manual_seed(1)
        for dtype, eps in (torch.bfloat16, 2.0 ** -8), (torch.float32, 2.0 ** -24):
            parts = [torch.randn(64, 32) for _ in range(2)]
            moved = self.cuts().moved(parts, dtype, "x")
            plain = [p.to(dtype) for p in parts]
            largest = torch.maximum(parts[0].abs(), parts[1].abs()).double()
            off = (sum(p.double() for p in moved) - sum(p.double() for p in parts)).abs()
            # Two roundings by half an ulp each, of at most 4 eps; in the root mean square 0.41 ulps.
            self.assertTrue(bool((off <= 4 * eps * largest * (1 + 4 * eps)).all()))
            self.assertLess(off.div(largest).square().mean().sqrt().item(), eps)
            self.assertGreater((moved[0] != plain[0]).float().mean().item(), 0.4)
            self.assertLess((moved[0].double() - parts[0].double()).abs().div(largest).max().item(), 6 * eps)

    def test_that_no_rounding_touches_stay(self):
        a = torch.tensor([[1.0, 0.0, 0.0, 2.5]])
        b = torch.tensor([[2.0, 0.0, 0.3, 0.5]]).bfloat16().float()
        for x, y in zip(self.cuts().moved([a, b], torch.bfloat16, "x"), (a, b)):
            self.assertTrue(torch.equal(x.float(), y))
        self.assertEqual(self.cuts().dithered([torch.zeros(64), torch.zeros(64)], "x").abs().max(), 0)
        small = self.cuts().moved([torch.zeros(64, 1), torch.full((64, 1), 1.234567e-6)], torch.bfloat16, "x")
        self.assertLess(small[0].abs().max().item(), 1e-7)

    def test_that_a_run_loses_are_lost(self):
        """An eighth of an ulp beside numbers of one binade: a run loses it one way, and so does a twin (twins.md M2)."""
        torch.manual_seed(1)
        small = 2.0 ** -10
        parts = [1 + torch.rand(80, 50), torch.full((80, 50), small)]
        five = 5 * 2.0 ** -7 / (12 * 4000) ** 0.5
        for found in [p.bfloat16() for p in parts], self.cuts().moved(parts, torch.bfloat16, "x"):
            off = (found[0] + found[1]).double() - parts[0].double() - small
            self.assertLess(abs(off.mean().item() + small), five)

    def test_whose_cut_cannot_lie_elsewhere_are_rounded_once_more(self):
        torch.manual_seed(1)
        parts = [torch.randn(200, 150).bfloat16() for _ in range(2)]
        parts[0][:, 0] = 0
        anew = [self.cuts(n).rounded_anew(parts, torch.bfloat16, "x") for n in (1, 2)]
        for n in range(2):
            self.assertFalse(torch.equal(anew[0][n], anew[1][n]))
            off = (anew[0][n].double() - parts[n].double()) / parts[n].double().abs()
            off = off[:, 1:] / 2.0 ** (-7 - torch.frexp(parts[n].double().abs()[:, 1:])[0].log2() - 1)  # in ulps
            self.assertLess(abs(off.square().mean().item() - 1 / 12), 0.01)  # five standard deviations
            self.assertLess(abs(off.mean().item()), 0.01)
        self.assertEqual(anew[0][0][:, 0].abs().max(), 0)
        cuts = self.cuts()
        cuts.still = set()
        self.assertEqual(cuts.bounds("few", 4, 2, True), [0, 2, 4])
        self.assertNotEqual([cuts.bounds("many", 64, 2, True) for cuts.number in range(9)], [[0, 32, 64]] * 9)
        self.assertEqual(cuts.still, {"few"})

    def test_of_rows_that_are_alike_move_alike(self):
        row = torch.randn(1, 16)
        parts = self.cuts().moved([row.repeat(8, 1), -0.3 * row.repeat(8, 1)], torch.bfloat16, "x")
        self.assertTrue(torch.equal(parts[0], parts[0][:1].repeat(8, 1)))

    def test_of_dims_are_placements(self):
        self.assertEqual(from_dims("b s[cp:zigzag,tp] h # dp:partial", 3), [
            shard("cp", 1, zigzag=True), shard("tp", 1), partial("dp")])
        with self.assertRaises(ValueError):
            from_dims("b s", 3)


if __name__ == "__main__":
    unittest.main(verbosity=0)
