"""Does plumbline.trace take what a PyTorch program computes, once, as it was, and without changing it?"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from plumbline.write import replicate
from small_training import F, Model, OLD, layout_of, nn, plumb, read, same, steps, torch
from torch.nn.utils import clip_grad_norm_ as by_name


class Capture(unittest.TestCase):
    def test_happens_only_when_it_is_asked_for(self):
        for asked in "", "0":
            _, _, folder, said = steps(asked=asked)
            self.assertEqual((os.path.exists(folder), said), (False, ""))

    def test_changes_no_bit_of_the_run(self):
        for how in "", "in place", "reentrant", "recompute":
            for twins in 0, 2:
                losses, parameters, folder, _ = steps(how, "1", twins=twins, layout=layout_of(2))
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

    def test_of_what_was_asked_for_and_not_taken_is_told_at_the_end(self):
        def told(count=2, ends=True, **options):
            folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
            model = Model()
            os.environ["PLUMB_TRACE"] = "1"
            with contextlib.redirect_stderr(said):
                plumb.start(model, folder, **options)
                for _ in range(count):
                    with plumb.step() if ends else contextlib.nullcontext(plumb.step().__enter__()):
                        model(torch.arange(16).reshape(2, 8)).sum().backward()
                os.environ["PLUMB_TRACE"] = ""
                plumb.start(model)
            return said.getvalue()

        self.assertIn("step 5 was to be traced and was not: 2 ran within plumb.step()\n", told(steps=(1, 5)))
        self.assertIn("step 1 was to be traced and was not: 0 ran within plumb.step()\n", told(0))
        self.assertIn("step 1 was to be traced and was not: only and skip leave nothing of it\n", told(only="nomatch"))
        self.assertIn("step 1 was to be traced and was not: it did not end\n", told(1, ends=False))
        self.assertNotIn("was not", told() + told(limit=1e-6))
        program = "import sys, torch, plumbline.trace as plumb; plumb.start(torch.nn.Linear(1, 1), sys.argv[1])"
        for earlier in False, True:
            folder = tempfile.mkdtemp() if earlier else "nowhere"
            ended = subprocess.run([sys.executable, "-c", program, folder], env={**os.environ, "PLUMB_TRACE": "1"},
                                   capture_output=True, text=True, check=True)
            self.assertIn("step 1 was to be traced and was not: 0 ran", ended.stderr)
            self.assertEqual(f"{folder} holds what an earlier run left there" in ended.stderr, earlier)

    def test_of_several_steps_is_one_trace(self):
        _, _, folder, _ = steps(asked="1", steps=(1, 3))
        self.assertEqual(json.loads(pathlib.Path(folder, "manifest.json").read_text())["steps"], [1, 3])
        self.assertFalse(same(read(folder, 1)[0], read(folder, 3)[0]))

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
        self.assertEqual(says["m0/blocks.0.fc/out"]["placements"], [replicate("tp")])

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

    def test_a_place_on_an_axis_that_the_layout_lacks_is_refused_by_the_module_and_by_the_id_of_the_trace(self):
        for match in "head/out", "^head/out$", "^m0/head/out$":
            with self.assertRaisesRegex(ValueError, "places say that head/out lies on 'cp', and the layout has"):
                steps(asked="1", count=1, places={match: "b s h[cp]"})
            os.environ["PLUMB_TRACE"] = ""
            plumb.start(None)


if __name__ == "__main__":
    unittest.main(verbosity=0)
