"""Does `plumb replay` find that PyTorch's own modules, gradients and AdamW do what plumbline.trace says they do, and
does it see where one does not?

    replayed_test.py PLUMB
"""
import contextlib
import io
import json
import os
import subprocess
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

import plumbline.trace as plumb
from plumbline._saved import header_of
from plumbline.capture.optimizers import mains_of_a_script

PROGRAM = os.path.abspath(sys.argv.pop(1))
ROUNDS_AT_ONCE = int(torch.__version__.split(".")[0]) > 1  # in short formats; 1.13 does so on the way, too
OUTS = ["words", "norm", "fc1", "gelu", "tanh", "silu", "fc2"] + ["rms"] * hasattr(nn, "RMSNorm")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm, self.fc1 = nn.Embedding(24, 16), nn.LayerNorm(16), nn.Linear(16, 48)
        self.gelu, self.tanh, self.silu = nn.GELU(), nn.GELU("tanh"), nn.SiLU()
        self.rms = nn.RMSNorm(48, eps=1e-5) if hasattr(nn, "RMSNorm") else nn.Identity()
        self.fc2 = nn.Linear(48, 24, bias=False)

    def forward(self, ids):
        return self.fc2(self.rms(self.silu(self.tanh(self.gelu(self.fc1(self.norm(self.words(ids))))))))


def replayed(dtype=torch.float32, optimizer=torch.optim.AdamW, largest=None, wrong=None, **options):
    """Ratios by id, and what `plumb replay` says, of the second step. wrong: a parameter whose gradient is a little larger."""
    torch.manual_seed(1)
    model = Model().to(dtype)
    if wrong:
        model.get_parameter(wrong).register_hook(lambda g: g * (1 + 1e-3))
    optimizer = optimizer(model.parameters(), lr=0.01, **options)
    folder = tempfile.mkdtemp()
    os.environ["PLUMB_TRACE"] = "1"
    plumb.start(model, os.path.join(folder, "run"), layout={"tp": 1}, steps=[2])
    for _ in range(2):
        with plumb.step(optimizer):
            ids = torch.randint(24, (4, 8))
            optimizer.zero_grad()
            F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
            if largest:
                nn.utils.clip_grad_norm_(model.parameters(), largest)
            optimizer.step()
    ran = subprocess.run([PROGRAM, "replay", "run", "--json"], cwd=folder, capture_output=True, text=True)
    said = json.loads(ran.stdout)
    return {one["id"]: one["ratio"] for one in said["tensors"]}, said


class Replayed(unittest.TestCase):
    def holds(self, ratios, said, expected):
        self.assertEqual(said["findings"], [])
        self.assertEqual(said["exit_code"], 0)
        self.assertLessEqual(set(expected), set(ratios))

    def test_is_what_the_modules_of_pytorch_make(self):
        gradients = [f"{name}/grad" for name in ("fc1.weight", "fc1.bias", "fc2.weight")]
        for dtype in (torch.float32, torch.bfloat16)[:2 if ROUNDS_AT_ONCE else 1]:
            ratios, said = replayed(dtype)
            self.holds(ratios, said, [f"m0/{name}/out" for name in OUTS] + gradients)
            others = {f"{name}/grad" for name in ("words.weight", "norm.weight", "norm.bias", "rms.weight") if
                      name.partition(".")[0] in OUTS}
            self.assertEqual(others & set(ratios), others if dtype is torch.float32 else set())  # else kernels add in many ways

    def test_is_what_adamw_makes(self):
        states = [f"{name}{what}" for name in ("words.weight", "norm.bias", "fc1.weight")
                  for what in ("/exp_avg", "/exp_avg_sq", "/param")]
        self.holds(*replayed(), states)
        self.holds(*replayed(weight_decay=0.1, betas=(0.8, 0.9), eps=1e-6), states)
        self.holds(*replayed(optimizer=torch.optim.Adam), states)

    def test_is_of_gradients_before_a_clip_and_of_an_update_behind_it(self):
        ratios, said = replayed(largest=0.01)
        self.holds(ratios, said, ["fc1.weight/grad", "fc1.weight/exp_avg", "fc1.weight/param"])
        self.assertNotIn("fc1.weight/clipped_grad", ratios)

    @unittest.skipUnless(ROUNDS_AT_ONCE, "this PyTorch rounds on the way")
    def test_is_what_adamw_makes_of_short_numbers(self):
        states = [f"{name}{what}" for name in ("words.weight", "norm.bias", "fc1.weight")
                  for what in ("/exp_avg", "/exp_avg_sq", "/param")]
        for dtype, options in ((torch.bfloat16, {}), (torch.float16, {"eps": 1e-3}),
                               (torch.bfloat16, {"weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-6})):
            self.holds(*replayed(dtype, **options), states)

    def test_is_what_adamw_makes_of_weights_in_fp32_and_what_they_are_rounded_to(self):
        ratios, said = replayed(torch.bfloat16, optimizer=OfMain)
        self.holds(ratios, said, [f"fc1.weight/{what}" for what in ("exp_avg", "exp_avg_sq", "main", "param")])

    def test_says_nothing_of_adamw_whose_betas_are_short(self):
        ratios, _ = replayed(torch.bfloat16, foreach=True)
        self.assertNotIn("fc1.weight/exp_avg_sq", ratios)

    def test_says_nothing_of_other_optimizers(self):
        for options in {"amsgrad": True}, {"optimizer": torch.optim.Adam, "weight_decay": 0.1}, {
                "optimizer": torch.optim.SGD, "momentum": 0.9}:
            ratios, said = replayed(**options)
            self.holds(ratios, said, [f"m0/{name}/out" for name in OUTS])
            self.assertEqual([name for name in ratios if name.endswith("/param")], [])

    def test_sees_a_module_that_makes_something_else(self):
        whole = F.linear
        with mock.patch.object(F, "linear", lambda x, w, b=None: whole(x, w, b) * (1 + 1e-4)):
            ratios, said = replayed()
        self.assertEqual((said["exit_code"], said["blamed"]), (1, "m0/fc1/out"))
        self.assertGreater(ratios["m0/fc2/out"], 1)
        self.assertLessEqual(ratios["m0/norm/out"], 1)

    def test_sees_a_gradient_that_is_another_sum(self):
        for name in ["words.weight", "norm.weight", "norm.bias", "fc1.bias"] + ["rms.weight"] * ("rms" in OUTS):
            ratios, said = replayed(wrong=name)
            self.assertEqual((said["exit_code"], said["blamed"]), (1, f"{name}/grad"))
            self.assertEqual([each for each, ratio in ratios.items() if ratio is None or ratio > 1], [f"{name}/grad"])

    def test_sees_an_optimizer_that_makes_something_else(self):
        class Wrong(torch.optim.AdamW):
            by = 1.001

            def step(self):
                for group in self.param_groups:
                    group["lr"] *= self.by
                super().step()
                for group in self.param_groups:
                    group["lr"] /= self.by

        for dtype in (torch.float32, torch.bfloat16)[:2 if ROUNDS_AT_ONCE else 1]:
            Wrong.by = 1.001 if dtype is torch.float32 else 1.5
            ratios, said = replayed(dtype, optimizer=Wrong)
            self.assertEqual(said["exit_code"], 1)
            self.assertTrue(said["blamed"].endswith("/param"), said["blamed"])
            self.assertLessEqual(ratios["fc1.weight/exp_avg"], 1)

    def test_sees_a_weight_that_is_not_the_rounded_one_of_the_optimizer(self):
        OfMain.late = True
        try:
            ratios, said = replayed(torch.bfloat16, optimizer=OfMain)
        finally:
            OfMain.late = False
        self.assertEqual(said["exit_code"], 1)
        self.assertTrue(said["blamed"].endswith("/param"), said["blamed"])
        self.assertLessEqual(ratios["fc1.weight/main"], 1)


class OfMain(torch.optim.AdamW):
    """Of weights in FP32, which each weight of the model has as its main_param, as Megatron's have."""
    late = False

    def __init__(self, parameters, **options):
        self.weights = list(parameters)
        for p in self.weights:
            p.main_param = p.detach().float().clone()
        super().__init__([p.main_param for p in self.weights], **options)

    def zero_grad(self):
        for p in self.weights:
            p.grad = None

    def step(self):
        for p in self.weights:
            p.main_grad = p.grad.float()
            p.main_param.grad = p.main_grad
        if not self.late:
            super().step()
        with torch.no_grad():
            for p in self.weights:
                p.copy_(p.main_param)
        if self.late:
            super().step()


class Kept:
    """Of weights in FP32 that a script keeps behind a model in BF16, without telling it."""

    def __init__(self, model, stale=False, flat=False, times=1):
        self.weights, self.stale, self.times = list(model.parameters()), stale, times
        self.held = [p.detach().float().clone() for p in self.weights]
        if flat:
            self.held = [torch.cat([x.flatten() for x in self.held])]
        self.optimizer = torch.optim.AdamW([x.requires_grad_() for x in self.held], lr=0.01)

    def step(self):
        grads = [p.grad.float() * self.times for p in self.weights]
        if len(self.held) == 1:
            grads = [torch.cat([g.flatten() for g in grads])]
        for x, g in zip(self.held, grads):
            x.grad = g
        self.optimizer.step()
        if self.stale:
            return
        with torch.no_grad():
            whole = torch.cat([x.flatten() for x in self.held]).split([p.numel() for p in self.weights])
            for p, x in zip(self.weights, whole):
                p.copy_(x.view_as(p))


class Scripts(unittest.TestCase):
    """Weights in FP32 that a script keeps behind its model's."""

    def step(self, **how):
        torch.manual_seed(1)
        model = Model().bfloat16()
        kept, folder, told = Kept(model, **how), os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
        os.environ["PLUMB_TRACE"] = "1"
        with contextlib.redirect_stderr(told):
            plumb.start(model, folder, layout={"tp": 1}, steps=[2])
            for _ in range(2):
                with plumb.step(kept.optimizer):
                    ids = torch.randint(24, (4, 8))
                    model.zero_grad()
                    F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
                    kept.step()
        os.environ["PLUMB_TRACE"] = "0"
        plumb.start(model)
        said = json.loads(subprocess.run([PROGRAM, "replay", folder, "--json"], capture_output=True, text=True).stdout)
        ids = header_of(os.path.join(folder, "step_000002", "rank_00000.safetensors"))[0]
        with open(os.path.join(folder, "manifest.json")) as manifest:
            return {one["id"]: one["ratio"] for one in said["tensors"]}, ids, said, json.load(manifest), told.getvalue()

    def test_are_found_by_what_they_hold_and_replayed(self):
        for times in 1, 0.25:
            ratios, ids, said, manifest, _ = self.step(times=times)
            self.assertEqual((said["findings"], said["exit_code"]), ([], 0))
            updates = {f"fc1.weight/{what}" for what in ("exp_avg", "exp_avg_sq", "main", "param")}
            self.assertLessEqual(updates if ROUNDS_AT_ONCE else updates - {"param"}, set(ratios))
            self.assertNotIn("updates", manifest["may_differ"])
            self.assertEqual("fc1.weight/clipped_grad" in ids, times != 1)

    def test_that_the_model_never_gets_are_a_finding(self):
        torch.manual_seed(2)
        _, _, _, manifest, told = self.step(stale=True)  # in the step before, too: so nobody knows that these are its weights
        self.assertIn("updates", manifest["may_differ"])
        self.assertIn("no weights of the model", told)

    def test_that_come_into_being_within_the_step_are_said_not_to_be_judged(self):
        class Inside(torch.optim.AdamW):
            def step(self):
                weights = self.param_groups[0]["params"]
                if not hasattr(self, "mains"):
                    self.mains = [p.detach().float().requires_grad_() for p in weights]
                for p, x in zip(weights, self.mains):
                    x.grad = p.grad.float()
                self.param_groups[0]["params"] = self.mains
                super().step()
                self.param_groups[0]["params"] = weights
                with torch.no_grad():
                    for p, x in zip(weights, self.mains):
                        p.copy_(x)

        for kind in Inside, torch.optim.AdamW:
            model = nn.Linear(4, 4).bfloat16()
            os.environ["PLUMB_TRACE"] = "1"
            folder, told = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
            with contextlib.redirect_stderr(told):
                plumb.start(model, folder, layout={"tp": 1})
                optimizer = kind(model.parameters())
                with plumb.step(optimizer):
                    model(torch.randn(3, 4).bfloat16()).sum().backward()
                    optimizer.step()
            os.environ["PLUMB_TRACE"] = "0"
            plumb.start(model)
            self.assertEqual("that were in none of its groups before the step" in told.getvalue(), kind is Inside)

    def test_beside_an_average_are_those_that_take_a_gradient(self):
        weights = [nn.Parameter(torch.randn(3, 2).bfloat16()) for _ in range(2)]
        average, held = ([p.detach().float() for p in weights] for _ in range(2))
        for x in held:
            x.requires_grad_()
        mains, others = mains_of_a_script(weights, average + held)
        self.assertTrue(all(mains[p] is x for p, x in zip(weights, held)))
        self.assertEqual({id(x) for x in others}, {id(x) for x in average})

    def test_of_another_model_are_no_riddle(self):
        model, other = nn.Linear(4, 4), nn.Linear(4, 4)
        for frozen in False, True:
            model.weight.requires_grad_(not frozen)
            os.environ["PLUMB_TRACE"] = "1"
            folder, told = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
            with contextlib.redirect_stderr(told):
                plumb.start(model, folder, layout={"tp": 1})
                optimizer = torch.optim.AdamW([p for p in (*model.parameters(), *other.parameters()) if p.requires_grad])
                with plumb.step(optimizer):
                    other(model(torch.randn(3, 4))).sum().backward()
                    optimizer.step()
            os.environ["PLUMB_TRACE"] = "0"
            plumb.start(model)
            self.assertNotIn("no weights of the model", told.getvalue())

    def test_that_are_none_of_the_model_s_are_said_not_to_be_judged(self):
        _, ids, _, manifest, told = self.step(flat=True)
        self.assertIn("an optimizer holds tensors (1) that are no weights of the model", manifest["may_differ"]["updates"])
        self.assertIn("If that is meant, give step() no optimizer", told)
        self.assertFalse([name for name in ids if "/param" in name or "/clipped_grad" in name])


if __name__ == "__main__":
    unittest.main()
