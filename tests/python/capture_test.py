"""Does plumbline.trace take what a PyTorch program computes, once, as it was, and without changing it? Are twins the
reference where nothing is split, and do they say what they could not cut?
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.nn.utils import clip_grad_norm_ as by_name
    from torch.utils.checkpoint import checkpoint
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb

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


class Capture(unittest.TestCase):
    def test_happens_only_when_it_is_asked_for(self):
        for asked in "", "0":
            _, _, folder, said = steps(asked=asked)
            self.assertEqual((os.path.exists(folder), said), (False, ""))

    def test_changes_no_bit_of_the_run(self):
        for how in "", "in place", "reentrant", "recompute":
            for twins in 0, 2:
                losses, parameters, folder, _ = steps(how, "1", twins=twins, layout=self.layout(2))
                plain, bare, _, _ = steps(how)
                self.assertEqual(losses, plain, how)
                self.assertTrue(all(map(torch.equal, parameters, bare)), how)
                self.assertTrue(os.path.exists(folder))

    def test_takes_everything_once_and_in_order(self):
        _, _, folder, _ = steps(asked="1")
        values, says = read(folder)
        for name in ("m0/input", "m0/words/out", "m0/words/grad_out", "m0/blocks.1.fc/in", "m0/blocks.1/out", "m0/loss",
                     "words.weight", "words.weight/grad", "words.weight/exp_avg", "words.weight/param"):
            self.assertIn(name, values)
        self.assertNotIn("head.weight", values)  # tied
        self.assertLess(says["m0/blocks.0.fc/out"]["order"], says["m0/blocks.1.fc/out"]["order"])
        self.assertLess(says["m0/blocks.1.fc/grad_out"]["order"], says["m0/blocks.0.fc/grad_out"]["order"])
        self.assertEqual(says["m0/blocks.0.fc/out"]["from"], [
            "m0/blocks.0.norm/out", "blocks.0.fc.weight", "blocks.0.fc.bias"])
        self.assertEqual((says["m0/input"]["role"], says["words.weight"]["role"]), ("given", "given"))
        self.assertFalse(torch.equal(values["words.weight"], values["words.weight/param"]))

    def test_stages_that_share_a_rank_are_called_as_in_the_whole_model_and_count_their_own_micro_batches(self):
        torch.manual_seed(1)
        class Stage(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.layers = nn.ModuleDict({n: nn.Linear(4, 4)})

            def forward(self, x):
                return next(iter(self.layers.values()))(x)

        stages, x = [Stage("0"), Stage("2")], torch.randn(2, 3, 4)
        os.environ["PLUMB_TRACE"] = "1"
        folder = os.path.join(tempfile.mkdtemp(), "run")
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(stages, folder, layout={"pp": 1})
            with plumb.step(None):
                for made in [stages[0](one) for one in x]:
                    stages[1](made).sum().backward()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(None)
        values, _ = read(folder)
        for n in 0, 1:
            self.assertTrue(torch.equal(values[f"m{n}/input"], x[n]))
            self.assertTrue(torch.equal(values[f"m{n}/layers.2/in"], values[f"m{n}/layers.0/out"]))
        self.assertEqual({name for name in values if "/" not in name}, {
            f"layers.{n}.{what}" for n in (0, 2) for what in ("weight", "bias")})
        self.assertNotIn("m2/layers.0/in", values)

    def test_of_what_is_made_again_in_the_backward_pass_is_taken_once(self):
        plain, _ = read(steps("", "1")[2])
        for how in "reentrant", "recompute":
            self.assertTrue(same(plain, read(steps(how, "1")[2])[0]), how)

    def test_is_of_values_before_they_are_overwritten(self):
        plain, _ = read(steps("", "1")[2])
        known = lambda values: {name: x for name, x in values.items() if not OLD or not name.endswith("fc/grad_out")}
        self.assertTrue(same(known(plain), known(read(steps("in place", "1")[2])[0])))
        self.assertLess(plain["m0/blocks.0.fc/out"].min().item(), 0)  # what relu_ then takes away

    def test_of_a_view_is_what_it_shows(self):
        values, _ = read(steps(asked="1")[2])
        self.assertTrue(torch.equal(values["m0/turn/out"], values["m0/words/out"].transpose(0, 1)))

    def test_is_of_what_is_chosen_and_says_its_size_first(self):
        values, _ = read(steps(asked="1", only="grad", skip="exp")[2])
        self.assertTrue(values and all("grad" in name for name in values))
        _, _, folder, said = steps(asked="1")
        self.assertRegex(said, r"^plumb: \d+ tensors of step 1 go to .*, 0\.\d MB of this rank\n$")
        _, _, folder, said = steps(asked="1", limit=1e-6)
        self.assertIn("nothing is written", said)
        self.assertFalse(os.path.exists(folder))

    def test_of_several_steps_is_one_trace(self):
        _, _, folder, _ = steps(asked="1", steps=(1, 3))
        self.assertEqual(json.loads(pathlib.Path(folder, "manifest.json").read_text())["steps"], [1, 3])
        self.assertFalse(same(read(folder, 1)[0], read(folder, 3)[0]))

    @staticmethod
    def layout(ways, **more):
        """Of a model whose first linear layer is cut by rows and whose second by columns, tokens whole."""
        whole = [plumb.replicate("tp")]
        return {"mesh": {"tp": ways}, "batch": [], "weights": {
            "blocks.0.fc.weight": [plumb.shard("tp", 1)], "blocks.1.fc.weight": [plumb.shard("tp", 0)]},
            "inputs": {}, "outputs": {}, **more}

    def test_twins_are_the_reference_where_nothing_is_split(self):
        for how in "", "dropout":
            _, _, folder, _ = steps(how, "1", twins=1, layout=self.layout(1))
            self.assertTrue(same(read(folder)[0], read(folder + "-twin1")[0]))

    def test_twins_move_behind_a_split_and_nowhere_else(self):
        _, _, folder, said = steps(asked="1", twins=2, layout=self.layout(2))
        values, one, other = (read(folder + end)[0] for end in ("", "-twin1", "-twin2"))
        for name in "m0/blocks.0.fc/out", "m0/words/grad_out":
            self.assertFalse(torch.equal(values[name], one[name]))
            self.assertFalse(torch.equal(other[name], one[name]))
            self.assertLess((values[name] - one[name]).norm(), 1e-5 * values[name].norm())
        for name in "m0/blocks.0.fc/in", "m0/words/out":
            self.assertTrue(torch.equal(values[name], one[name]))
        self.assertNotIn("could not cut", said)
        columns = self.layout(2)
        del columns["weights"]["blocks.0.fc.weight"]
        _, _, folder, _ = steps(asked="1", twins=1, layout=columns)
        values, one = read(folder)[0], read(folder + "-twin1")[0]
        for name, moves in ("m0/head/out", False), ("m0/blocks.1.fc/grad_out", False), ("m0/blocks.1.norm/grad_out", True):
            self.assertEqual(not torch.equal(values[name], one[name]), moves, name)

    def test_twins_cut_what_is_made_again_as_they_did_before(self):
        plain, _ = read(steps("", "1", twins=1, layout=self.layout(2))[2] + "-twin1")
        for how in "reentrant", "recompute":
            self.assertTrue(same(plain, read(steps(how, "1", twins=1, layout=self.layout(2))[2] + "-twin1")[0]), how)

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

    def test_losses_are_of_the_micro_batch_whose_gradients_come_first(self):
        model, folder = Model(), os.path.join(tempfile.mkdtemp(), "run")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, folder)
            with plumb.step(optimizer):
                ids = torch.arange(32).reshape(2, 16) % 24
                losses = [F.cross_entropy(model(micro).flatten(0, 1), micro.t().flatten()) for micro in ids.split(1)]
                for loss in losses:  # as a pipeline does
                    loss.backward()
                optimizer.step()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)
        values, _ = read(folder)
        self.assertEqual([values["m0/loss"].item(), values["m1/loss"].item()], [loss.item() for loss in losses])

    def test_a_stage_of_a_pipeline_has_no_replicas_and_only_the_first_an_input(self):
        model, folder = Model(), os.path.join(tempfile.mkdtemp(), "run")
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, folder, layout={"pp": 1, "tp": 1})
            run = plumb._run
            run.ranks, run.mesh, run.stage = 4, {"pp": 2, "tp": 2}, (1,)
            with plumb.step(None):
                model(torch.arange(16).reshape(2, 8)).sum().backward()
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)
        values, says = read(folder)
        self.assertNotIn("m0/input", values)
        self.assertEqual(says["m0/blocks.0.fc/out"]["placements"], [plumb.replicate("tp")])

    def of_rows(self, model, x, ways=2, optimizers=None):
        """A step of a model whose batch lies on ways ranks: the trace, a twin, and what was said."""
        torch.manual_seed(1)
        optimizers = optimizers or torch.optim.SGD(model.parameters(), lr=0.01)
        folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
        os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")

        def step():
            model(x).square().mean().backward()
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

    def moved(self, values, one):
        far = {}
        for name, x in values.items():
            if not torch.equal(x, one[name]):
                far[name] = ((x - one[name]).norm() / x.norm()).item()
        self.assertLess(max(far.values(), default=0), 1e-5, far)
        return set(far)

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
        values, one, said = self.of_rows(Vision(), torch.randn(8, 3, 4, 4))
        self.assertNotIn("could not cut", said)
        moved = {name for name in self.moved(values, one) if name.endswith("/grad")}
        self.assertEqual(moved, {name for name in values if name.endswith("/grad")})

    def test_twins_cut_nothing_whose_rows_depend_on_each_other(self):
        torch.manual_seed(1)
        _, _, said = self.of_rows(nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)), torch.randn(8, 8))
        self.assertIn("twin 1 could not cut the sums of 0.bias, 0.weight", said)

    def test_looking_for_rows_that_depend_on_chance_uses_up_no_chance(self):
        class Drops(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention, self.fc = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), nn.Linear(8, 8)

            def forward(self, x):
                return F.dropout(self.fc(self.attention(x, x, x)[0]), 0.5)

        torch.manual_seed(1)
        values, one, said = self.of_rows(Drops(), torch.randn(8, 4, 8))
        self.assertIn("could not cut the sums of attention", said)
        self.assertIn("fc.weight/grad", self.moved(values, one))  # and all by rounding alone
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
        values, one, said = self.of_rows(model, ids)
        self.assertNotIn("could not cut", said)
        self.assertLessEqual({"m0/places/grad_out", "places.weight/grad"}, self.moved(values, one))
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
        self.assertEqual(says["m0/places/out"]["placements"], [plumb.replicate("dp")])
        self.assertEqual(says["m0/places/grad_out"]["placements"], [plumb.partial("dp")])
        self.assertEqual(says["m0/words/out"]["placements"], [plumb.shard("dp", 0)])

    def test_several_optimizers_each_have_their_gradients(self):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        both = [torch.optim.SGD(model[0].parameters(), lr=0.01), torch.optim.AdamW(model[1].parameters())]
        values, one, _ = self.of_rows(model, torch.randn(8, 8), optimizers=both)
        self.assertLessEqual({"0.weight/grad", "1.weight/grad", "0.weight/param", "1.weight/exp_avg"}, set(values))
        self.assertNotIn("0.weight/exp_avg", values)
        self.assertTrue(torch.allclose(values["0.weight"] - values["0.weight/param"], 0.01 * values["0.weight/grad"], atol=1e-7))
        self.assertTrue(torch.equal(values["1.weight/exp_avg/before"], torch.zeros(8, 8)))
        self.moved(values, one)

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
                  "weights": {f"{name}.weight": [plumb.shard("tp", 0)] for name in "ab"}}
        run.reference = {}
        cuts, g = plumb._Cuts(layout, 1, run), torch.randn(8, 16).bfloat16()
        cuts.moved = lambda parts, dtype, name: parts  # what is added to what, and no more
        x.grad = None
        with cuts:
            model(x).backward(g)
        part = lambda w, r: (g[:, 8 * r:8 * r + 8].float() @ w[8 * r:8 * r + 8].float()).bfloat16()
        ranks = [part(model.b.weight, r) + part(model.a.weight, r) for r in range(2)]
        self.assertTrue(torch.equal(x.grad, ranks[0] + ranks[1]))
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(model)

    def test_gradients_are_taken_before_a_clip_and_behind_it(self):
        def own(model):
            plumb.gradients()
            for p in model.parameters():
                p.grad *= 0.125

        clips = {"norm": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.01),
                 "of one": lambda model: nn.utils.clip_grad_norm_(model.words.weight, 0.01),
                 "value": lambda model: nn.utils.clip_grad_value_(model.parameters(), 1e-4), "own": own}
        if hasattr(nn.utils.clip_grad, "_clip_grads_with_norm_"):  # before it nobody sees such a call
            clips["by name"] = lambda model: by_name(model.parameters(), 0.01)
        whole, _ = read(steps(asked="1", count=2)[2])
        self.assertFalse([name for name in whole if name.endswith("clipped_grad")])
        for name, clip in clips.items():
            got = {}

            def clip_and_keep(model):
                clip(model)
                got.setdefault("grad", model.words.weight.grad.clone())

            losses, parameters, folder, _ = steps(asked="1", count=2, clip=clip_and_keep)
            plain, bare, _, _ = steps(count=2, clip=clip)
            self.assertEqual(losses, plain, name)
            self.assertTrue(all(map(torch.equal, parameters, bare)), name)
            values, says = read(folder)
            clipped = values["words.weight/clipped_grad"]
            self.assertTrue(torch.equal(clipped, got["grad"]), name)
            self.assertLess(clipped.abs().max(), values["words.weight/grad"].abs().max(), name)
            self.assertEqual("blocks.0.fc.weight/clipped_grad" in values, name != "of one")
            self.assertEqual(says["words.weight/clipped_grad"]["from"], ["words.weight/grad"])
            self.assertEqual(says["words.weight/exp_avg"]["from"][0], "words.weight/clipped_grad")
            self.assertEqual(says["words.weight/exp_avg"]["made_by"]["inputs"][-1], "words.weight/clipped_grad")
            self.assertEqual(says["blocks.0.fc.weight/grad"]["made_by"]["op"], "gemm")
            orders = [says[f"words.weight/{of}"]["order"] for of in ("grad", "clipped_grad", "exp_avg", "param")]
            self.assertEqual(orders, sorted(set(orders)))
        def told(**options):
            folder = steps(asked="1", count=2, clip=clips["norm"], **options)[2]
            return json.loads(pathlib.Path(folder, "manifest.json").read_text()).get("may_differ", {}).get("clipped")

        self.assertIsNone(told())
        for some in {"only": "words"}, {"skip": "norm.weight/grad"}:
            self.assertEqual(told(**some), "not all gradients are here", some)
        self.assertIs(nn.utils.clip_grad_norm_, by_name)  # all is as it was
        plumb.gradients()

    def test_layers_that_say_their_number_in_the_whole_model_have_it(self):
        model = Model()
        for n, block in enumerate(model.blocks):
            block.layer_number = 4 + n
        _, _, folder, _ = steps(asked="1", count=2, model=model)
        names = set(read(folder)[0])
        self.assertLessEqual({"m0/blocks.3.fc/out", "blocks.4.norm.weight/grad", "m0/blocks.4/out"}, names)
        self.assertFalse([name for name in names if "blocks.0" in name])

    def test_a_place_on_an_axis_that_the_layout_lacks_is_refused(self):
        with self.assertRaisesRegex(ValueError, "places say that head/out lies on 'cp', and the layout has"):
            steps(asked="1", count=1, places={"head/out": "b s h[cp]"})
        os.environ["PLUMB_TRACE"] = ""
        plumb.start(None)

    def test_what_could_not_be_cut_is_told_and_left_as_the_reference_has_it(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.scale = Model(), nn.Parameter(torch.ones(24))

            def forward(self, ids):
                return self.inner(ids) * self.scale

        layout = {"mesh": {"dp": 2, "tp": 2}, "batch": ["dp"], "weights": {
            "inner.blocks.0.fc.weight": [plumb.shard("tp", 1)]}, "inputs": {}, "outputs": {}}
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
    def cuts(self, number=1):
        cuts = object.__new__(plumb._Cuts)
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

    def test_of_rows_that_are_alike_move_alike(self):
        row = torch.randn(1, 16)
        parts = self.cuts().moved([row.repeat(8, 1), -0.3 * row.repeat(8, 1)], torch.bfloat16, "x")
        self.assertTrue(torch.equal(parts[0], parts[0][:1].repeat(8, 1)))

    def test_of_dims_are_placements(self):
        self.assertEqual(plumb._from_dims("b s[cp:zigzag,tp] h # dp:partial", 3), [
            plumb.shard("cp", 1, zigzag=True), plumb.shard("tp", 1), plumb.partial("dp")])
        with self.assertRaises(ValueError):
            plumb._from_dims("b s", 3)


if __name__ == "__main__":
    unittest.main(verbosity=0)
