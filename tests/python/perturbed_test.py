"""Is the perturbed reference (PLUMB_PERTURB) the step that was traced, with its first floats moved by an epsilon each and
nothing else? Does `plumb check --perturbed` judge by it?    perturbed_test.py PLUMB
"""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from small_training import OLD, read, same, torch  # says why it skips, where there is no PyTorch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

import plumbline.trace as plumb
from experts_test import candidate_of, fresh, own_choice

PLUMB = sys.argv.pop(1) if len(sys.argv) > 1 and __name__ == "__main__" else "plumb"
WORDS = torch.arange(16) % 12


class Small(nn.Module):
    def __init__(self, again=False, dtype=torch.float32):
        super().__init__()
        self.again, self.words, self.places = again, nn.Embedding(12, 8, dtype=dtype), nn.Embedding(16, 8, dtype=dtype)
        self.fc = nn.Linear(8, 8, dtype=dtype)

    def read_in(self, ids):
        return self.words(ids) * self.places(torch.arange(len(ids)))

    def forward(self, ids):
        return self.fc(checkpoint(self.read_in, ids, use_reentrant=False) if self.again else self.read_in(ids))


class OfFloats(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x, scale=None):
        return self.fc(x if scale is None else x * scale)


class Alone(nn.Module):
    """Makes its floats itself."""
    def __init__(self):
        super().__init__()
        self.weight, self.inner = nn.Parameter(torch.ones(8)), nn.Identity()

    def forward(self, ids):
        return self.inner(self.weight * ids[:8].float())


def runs(model, *given, environment=None, **by_name):
    """A step, traced, and what plumb asks for behind it: the folder, the weights after it, and what was said."""
    folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
    asked = {"PLUMB_TRACE": "1", "PLUMB_PERTURB": "1", **(environment or {})}
    os.environ.update(asked)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = model(*given, **by_name).float().square().mean()
        loss.backward()
        optimizer.step()

    try:
        with contextlib.redirect_stderr(said):
            plumb.start(model, folder)
            with plumb.step(optimizer):
                step()
            for k in plumb.twins():
                with plumb.twin(k):
                    step()
    finally:
        for name in asked:
            os.environ.pop(name, None)
        plumb.start(None)
    return folder, [p.detach().clone() for p in model.parameters()], said.getvalue()


def seeded(make, *args, **more):
    torch.manual_seed(1)
    return make(*args, **more)


class Perturbed(unittest.TestCase):
    def moved(self, was, now):
        """By how many epsilons of the type each number was moved: one up, or one down, as it is rounded."""
        epsilon = torch.finfo(was.dtype).eps
        up, down = ((was.double() * (1 + sign * epsilon)).to(was.dtype) for sign in (1, -1))
        self.assertTrue(bool(((now == up) | (now == down)).all()))
        return (now == up).double().mean().item(), (now == down).double().mean().item()

    def test_moves_what_is_made_of_words_by_an_epsilon_up_or_down(self):
        for dtype in torch.float32, torch.bfloat16:
            folder, _, _ = runs(seeded(Small, dtype=dtype), WORDS)
            values, other = read(folder)[0], read(folder + "-perturbed")[0]
            for name in "m0/words/out", "m0/places/out":
                for share in self.moved(values[name], other[name]):
                    self.assertTrue(0.3 < share < 0.7, (name, share))
            begun = [name for name in values if name in ("m0/input", "m0/words/in") or "before" in name or "/" not in name]
            self.assertTrue({"fc.weight", "m0/input", "m0/words/in"} < set(begun))
            for name in begun:
                self.assertTrue(torch.equal(values[name], other[name]), name)
            for name in "m0/fc/in", "m0/fc/out", "m0/fc/grad_out", "m0/words/grad_out", "words.weight/grad", "fc.weight/grad":
                self.assertFalse(torch.equal(values[name], other[name]), name)
            self.assertIn("places words", pathlib.Path(folder + "-perturbed/manifest.json").read_text())

    def test_goes_on_as_if_there_had_been_none(self):
        _, weights, _ = runs(seeded(Small), WORDS)
        _, plain, _ = runs(seeded(Small), WORDS, environment={"PLUMB_PERTURB": "0"})
        self.assertTrue(all(map(torch.equal, weights, plain)))

    def test_is_the_same_where_a_checkpoint_makes_words_again(self):
        plain, again = (runs(seeded(Small, again), WORDS)[0] for again in (False, True))
        self.assertTrue(same(read(plain)[0], read(again)[0]))
        self.assertTrue(same(read(plain + "-perturbed")[0], read(again + "-perturbed")[0]))

    def test_moves_floats_that_the_model_takes_and_records_them_as_they_were(self):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
        folder, _, _ = runs(seeded(OfFloats), x)
        values, other = read(folder)[0], read(folder + "-perturbed")[0]
        self.assertTrue(torch.equal(values["m0/input"], other["m0/input"]))
        self.moved(values["m0/fc/in"], other["m0/fc/in"])
        self.assertFalse(torch.equal(values["m0/fc/in"], other["m0/fc/in"]))
        self.assertTrue(torch.equal(x, torch.randn(4, 8, generator=torch.Generator().manual_seed(2))))  # the caller's own

    @unittest.skipIf(OLD, "PyTorch 1.13 shows no hook what goes by name")
    def test_moves_floats_that_go_by_name(self):
        x = torch.ones(4, 8)
        folder, _, _ = runs(seeded(OfFloats), x, scale=x)
        values, other = read(folder)[0], read(folder + "-perturbed")[0]
        steps = ((other["m0/fc/in"] - values["m0/fc/in"]) / torch.finfo(torch.float32).eps).round().unique()
        self.assertGreaterEqual(len(steps), 3)  # both factors moved: by two, by none, by two down
        self.assertTrue(torch.equal(x, torch.ones(4, 8)))

    def test_without_floats_to_move_none_is_written_and_that_is_told(self):
        folder, _, said = runs(seeded(Alone), WORDS)
        self.assertIn("no perturbed run is written", said)
        self.assertTrue(os.path.exists(folder) and not os.path.exists(folder + "-perturbed"))

    def test_of_a_rewritten_run_is_refused(self):
        with self.assertRaisesRegex(ValueError, "PLUMB_PERTURB is of runs that are not rewritten"):
            runs(seeded(Small), WORDS, environment={"PLUMB_REWRITE": "1"})

    def test_follows_the_choices_of_the_reference_or_of_the_candidate_that_it_follows(self):
        chosen = own_choice()
        folder, _, _ = runs(*fresh())
        self.assertTrue(torch.equal(read(folder + "-perturbed")[0]["m0/moe/choice"], chosen))
        turned = chosen.clone()
        turned[3] = turned[3].flip(0)
        for others in chosen, turned:
            folder, _, _ = runs(*fresh(), environment={"PLUMB_TWINS": candidate_of(others)})
            self.assertTrue(torch.equal(read(folder + "-perturbed")[0]["m0/moe/choice"], others))
            self.assertTrue(os.path.exists(folder + "-twin4"))

    def test_a_turn_of_the_routers_scores_turns_no_choice(self):
        model, ids = fresh()
        with torch.no_grad():  # scores of experts 0 and 1 are a rounding apart: the movement would turn some
            model.moe.router.weight[1] = model.moe.router.weight[0] * (1 + 2.0 ** -23)
        folder, _, _ = runs(model, ids)
        values, other = read(folder)[0], read(folder + "-perturbed")[0]
        own = other["m0/moe/scores"].topk(2, dim=-1)[1]
        self.assertFalse(torch.equal(own, values["m0/moe/choice"]), "no choice would have turned: the test shows nothing")
        self.assertTrue(torch.equal(other["m0/moe/choice"], values["m0/moe/choice"]))

    def test_is_what_the_papers_rule_judges_by(self):
        def off_by(factor):  # in one word of 16
            model, factors = seeded(Small), torch.ones(16, 1)
            factors[0] = factor
            model.fc.register_forward_hook(lambda module, given, out: out * factors)
            return runs(model, WORDS, environment={"PLUMB_PERTURB": "0"})[0]

        folder, _, _ = runs(seeded(Small), WORDS)
        ask = lambda candidate, perturbed: subprocess.run(
            [PLUMB, "check", folder, candidate, "--rule", "perturbation", "--perturbed", perturbed], capture_output=True, text=True)
        said = ask(off_by(1 + 2.0 ** -23), folder + "-perturbed")
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        said = ask(off_by(1.001), folder + "-perturbed")
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn("FAIL by perturbation", said.stdout)
        said = ask(folder, folder)
        self.assertEqual(said.returncode, 2, said.stdout + said.stderr)
        self.assertIn("of a PyTorch program: PLUMB_PERTURB=1", said.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=0)
