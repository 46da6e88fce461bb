"""Of experts that are dealt to ranks, and of the choices of a router: where do they lie, and does a reference that chose
otherwise than the candidate follow it, without a change of its own run?
"""
import contextlib
import io
import os
import re
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn as nn
    from torch.utils.checkpoint import checkpoint
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from small_training import read


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.fc(x)


class Experts(nn.Module):
    def __init__(self, kind=nn.ModuleList, how=""):
        super().__init__()
        self.how, self.router = how, nn.Linear(8, 4, bias=False)
        experts = [Expert() for _ in range(4)]
        self.experts = kind(experts) if kind is nn.ModuleList else kind({str(n): e for n, e in enumerate(experts)})

    def forward(self, x):
        scores = self.router(x)
        top, chosen = scores.topk(2, dim=-1) if self.how == "method" else torch.topk(scores, 2)
        y = torch.zeros_like(x)
        for n, expert in enumerate(self.experts.children()):
            word, place = (chosen == n).nonzero(as_tuple=True)
            y = y.index_add(0, word, expert(x[word]) * top[word, place, None])
        return y


class Model(nn.Module):
    def __init__(self, how="", **more):
        super().__init__()
        self.how, self.words, self.moe = how, nn.Embedding(24, 8), Experts(how=how, **more)

    def forward(self, ids):
        x = self.words(ids)
        return checkpoint(self.moe, x, use_reentrant=False) if self.how == "recompute" else self.moe(x)


def step(model, ids):
    model.zero_grad()
    loss = model(ids).square().mean()
    loss.backward()
    return loss.item()


@contextlib.contextmanager
def traced(model, candidate="", **options):
    """Begins to trace; gives the folder, and what was said."""
    folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
    os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS=candidate)
    with contextlib.redirect_stderr(said):
        plumb.start(model, folder, **options)
        yield folder, said
    os.environ.update(PLUMB_TRACE="", PLUMB_TWINS="")
    plumb.start(model)


def as_rank(rank, experts=("ep",), **mesh):
    """Speaks as one of several ranks, which is all that placements need."""
    run = plumb._run
    run.ranks, run.mesh, run.rank = 2, mesh, rank
    run.batch = run.experts = [axis for axis in mesh if axis in experts]
    run.at_axis = {axis: rank for axis in mesh}


def fresh(how="", **more):
    torch.manual_seed(1)
    return Model(how, **more), torch.randint(24, (16,))


def candidate_of(chosen, halves=True, placements=None):
    """The trace of two ranks that chose so, each for a half of all words."""
    folder = os.path.join(tempfile.mkdtemp(), "candidate")
    for rank, part in enumerate(chosen.chunk(2) if halves else [chosen, chosen]):
        plumb.write_rank(folder, 1, rank, {"m0/moe/choice": plumb.stored(
            "I64", part.shape, part.flatten().tolist(), shape=list(chosen.shape), placements=placements or [
                plumb.shard("dp", 0) if halves else plumb.replicate("dp")])})
    plumb.write_manifest(folder, producer="a test", ranks=2, steps=[1], mesh={"dp": 2}, must_agree={"model": "Model"})
    with open(os.path.join(folder, "layout.json"), "w") as out:
        out.write('{"mesh": {"dp": 2}, "weights": {}, "inputs": {}, "outputs": {}}')
    return folder


def own_choice():
    model, ids = fresh()
    with traced(model) as (folder, _), plumb.step(None):
        step(model, ids)
    return read(folder)[0]["m0/moe/choice"]


class Placed(unittest.TestCase):
    def says(self, **mesh):
        model, ids = fresh()
        with traced(model, layout={axis: 1 for axis in mesh}) as (folder, _):
            as_rank(0, **mesh)
            with plumb.step(None):
                step(model, ids)
        return read(folder)[1]

    def test_an_expert_is_where_it_is_found_and_words_are_dealt(self):
        says = self.says(ep=2)
        for name in "moe.experts.1.fc.weight", "moe.experts.1.fc.weight/grad", "m0/moe.experts.1.fc/in", "m0/moe.experts.1/out":
            self.assertEqual(says[name]["placements"], [], name)
        rows = says["m0/moe.experts.1.fc/in"]["shape"][0]
        self.assertLess(rows, 16)
        self.assertEqual(says["m0/moe.router/out"]["placements"], [plumb.shard("ep", 0)])
        self.assertEqual(says["m0/moe.router/out"]["shape"], [32, 4])
        self.assertEqual(says["moe.router.weight/grad"]["placements"], [plumb.replicate("ep")])

    def test_without_such_an_axis_it_is_as_any_module(self):
        says = self.says(tp=2)
        self.assertEqual(says["moe.experts.1.fc.weight"]["placements"], [plumb.replicate("tp")])

    def test_twins_do_not_cut_what_one_rank_adds_up(self):
        cuts = plumb._Cuts.__new__(plumb._Cuts)
        cuts.layout, cuts.batch = {"inputs": {}, "experts": ["ep"]}, {"ep"}
        self.assertEqual(cuts.inputs_of("moe.experts.1.fc"), [])
        self.assertEqual(cuts.inputs_of("moe.router"), [plumb.shard("ep", 0)])

    def test_experts_that_each_rank_counts_from_0_are_called_by_their_number_in_the_whole(self):
        class Local(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.ModuleDict({"local_experts": nn.ModuleList(Expert() for _ in range(2))})
                                            for _ in range(2))

        model = Local()
        names = lambda place: [plumb._numbers_in_the_whole(model, place)(name) for name, _ in model.named_parameters()]
        self.assertEqual(names(0), [name for name, _ in model.named_parameters()])
        self.assertEqual(names(3), [f"layers.{layer}.local_experts.{n}.fc.weight" for layer in (0, 1) for n in (6, 7)])
        for module, number in zip(model.layers, (2, 3)):
            module.layer_number = number
        self.assertEqual(names(1), [f"layers.{layer}.local_experts.{n}.fc.weight" for layer in (1, 2) for n in (2, 3)])

    def test_a_list_of_some_experts_returns_nothing_that_compares(self):
        class Listed(nn.Module):
            def __init__(self):
                super().__init__()
                self.experts = nn.Sequential()
                self.experts.add_module("local_experts", nn.Sequential(Expert()))

            def forward(self, x):
                return self.experts(x)

        model = Listed()
        with traced(model) as (folder, _), plumb.step(None):
            step(model, torch.randn(3, 8))
        self.assertNotIn("m0/experts/out", read(folder)[0])
        self.assertIn("m0/experts.local_experts.0/out", read(folder)[0])


class Chosen(unittest.TestCase):
    def test_choices_and_their_scores_are_taken_once(self):
        for how in "", "method", "recompute":
            model, ids = fresh(how)
            with traced(model) as (folder, _), plumb.step(None):
                step(model, ids)
            values, says = read(folder)
            self.assertTrue(torch.equal(values["m0/moe/scores"], values["m0/moe.router/out"]), how)
            self.assertTrue(torch.equal(values["m0/moe/choice"], values["m0/moe/scores"].topk(2)[1]), how)
            self.assertEqual(says["m0/moe/choice"]["role"], "decision")
            self.assertEqual([name for name in values if re.search("choice", name)], ["m0/moe/choice"])

    def test_whoever_chooses_afterwards_does_so_as_ever(self):
        before = torch.topk, torch.Tensor.topk
        own_choice()
        self.assertEqual((torch.topk, torch.Tensor.topk), before)
        self.assertNotIn("topk", vars(torch.Tensor))

    def follow(self, candidate, how=""):
        """Losses of the run, traces of reference and twin, and what was said."""
        model, ids = fresh(how)
        with traced(model, candidate) as (folder, said):
            with plumb.step(None):
                losses = [step(model, ids)]
            taken = read(folder)[0]
            for k in plumb.twins(1):
                with plumb.twin(k):
                    losses.append(step(model, ids))
        grads = {name: p.grad.clone() for name, p in model.named_parameters()}
        return losses, grads, taken, read(folder)[0], read(folder + "-twin1")[0], said.getvalue()

    def test_where_none_fell_otherwise_nothing_is_made_twice(self):
        losses, _, taken, reference, twin, said = self.follow(candidate_of(own_choice()))
        self.assertEqual(len(losses), 2)
        self.assertNotIn("choices", said)
        self.assertTrue(torch.equal(twin["m0/moe/choice"], taken["m0/moe/choice"]))

    def test_reference_and_twins_follow_the_candidate_and_the_run_does_not(self):
        other = own_choice()
        other[3] = torch.tensor([n for n in range(4) if n not in other[3].tolist()])  # one word goes to the other two
        for how in "", "recompute":
            for halves in True, False:
                losses, grads, taken, reference, twin, said = self.follow(candidate_of(other, halves), how)
                self.assertIn("1 of 16 choices fall otherwise", said)
                self.assertEqual(len(losses), 3)
                self.assertNotEqual(losses[0], losses[1])
                self.assertFalse(torch.equal(taken["m0/moe/choice"], other))
                for trace in reference, twin:
                    self.assertTrue(torch.equal(trace["m0/moe/choice"], other))
                rows = [sum(len(trace[f"m0/moe.experts.{n}.fc/in"]) for n in range(4)) for trace in (taken, reference)]
                self.assertEqual(rows, [32, 32])
                self.assertTrue(torch.equal(reference["m0/moe/scores"], taken["m0/moe/scores"]))
                alone, ids = fresh(how)
                self.assertEqual(step(alone, ids), losses[0])
                for name, p in alone.named_parameters():
                    self.assertTrue(torch.equal(p.grad, grads[name]), name)

    def test_the_manifest_says_how_many(self):
        other = own_choice().flip(0)
        model, ids = fresh()
        with traced(model, candidate_of(other)) as (folder, _):
            with plumb.step(None):
                step(model, ids)
            for k in plumb.twins(1):
                with plumb.twin(k):
                    step(model, ids)
        with open(os.path.join(folder, "manifest.json")) as file:
            self.assertRegex(file.read(), r'"choices that follow the candidate": "\d+ of 16"')

    def test_choices_that_lie_otherwise_are_told_and_not_followed(self):
        other = own_choice().flip(0)
        losses, _, _, _, _, said = self.follow(candidate_of(other, placements=[plumb.shard("dp", 0, zigzag=True)]))
        self.assertIn("1 choices of the candidate are not followed", said)
        self.assertEqual(len(losses), 2)

    def test_a_candidate_of_another_shape_is_not_followed(self):
        losses, *_ = self.follow(candidate_of(own_choice()[:8]))
        self.assertEqual(len(losses), 2)


if __name__ == "__main__":
    unittest.main()
