"""Of experts that are dealt to ranks, and of the choices of a router: where do they lie, and does a reference that chose
otherwise than the candidate follow it, without a change of its own run?
"""
import contextlib
import io
import math
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
from plumbline.capture.names import numbers_in_the_whole
from plumbline.capture.run import Run
from plumbline.twins.cuts import Cuts
from plumbline.write import replicate, shard, stored, write_manifest, write_rank
from small_training import of_rows, read


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


def candidate_of(chosen, halves=True, placements=None, scores=None):
    """The trace of two ranks that chose so, each for a half of all words; of scores that lead there, or False: of none."""
    folder = os.path.join(tempfile.mkdtemp(), "candidate")
    if scores is None:
        scores = torch.zeros(len(chosen), 4).scatter(1, chosen, torch.tensor([[2.0, 1.0]]).expand(len(chosen), 2))
    whole = {"m0/moe/choice": chosen, **({} if scores is False else {"m0/moe/scores": scores})}
    parts = {name: x.chunk(2) if halves else [x, x] for name, x in whole.items()}
    for rank in range(2):
        write_rank(folder, 1, rank, {name: stored(
            "I64" if name.endswith("choice") else "F32", parts[name][rank].shape, parts[name][rank].flatten().tolist(),
            shape=list(x.shape), placements=placements or [shard("dp", 0) if halves else replicate("dp")])
            for name, x in whole.items()})
    write_manifest(folder, producer="a test", ranks=2, steps=[1], mesh={"dp": 2}, must_agree={"model": "Model"})
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
        self.assertEqual(says["m0/moe.router/out"]["placements"], [shard("ep", 0)])
        self.assertEqual(says["m0/moe.router/out"]["shape"], [32, 4])
        self.assertEqual(says["moe.router.weight/grad"]["placements"], [replicate("ep")])

    def test_without_such_an_axis_it_is_as_any_module(self):
        says = self.says(tp=2)
        self.assertEqual(says["moe.experts.1.fc.weight"]["placements"], [replicate("tp")])

    def test_twins_do_not_cut_what_one_rank_adds_up(self):
        cuts = Cuts.__new__(Cuts)
        cuts.layout, cuts.batch = {"inputs": {}, "experts": ["ep"]}, {"ep"}
        self.assertEqual(cuts.inputs_of("moe.experts.1.fc"), [])
        self.assertEqual(cuts.inputs_of("moe.router"), [shard("ep", 0)])

    def test_experts_that_each_rank_counts_from_0_are_called_by_their_number_in_the_whole(self):
        class Local(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.ModuleDict({"local_experts": nn.ModuleList(Expert() for _ in range(2))})
                                            for _ in range(2))

        model = Local()
        names = lambda place: [numbers_in_the_whole(model, place)(name) for name, _ in model.named_parameters()]
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
        losses, _, _, _, _, said = self.follow(candidate_of(other, placements=[shard("dp", 0, zigzag=True)]))
        self.assertIn("1 choices of the candidate are not followed", said)
        self.assertEqual(len(losses), 2)

    def test_rows_that_do_not_follow_from_the_candidates_scores_are_not_followed(self):
        own, inf, nan = own_choice(), math.inf, math.nan
        scores = torch.zeros(16, 4).scatter(1, own, torch.tensor([[2.0, 1.0]]).expand(16, 2))
        other = own.clone()
        for row, (of, right) in enumerate([
                ([3, 2, 1, 0], [0, 1]), ([3, 2, 1, 0], [1, 0]), ([3, 1, 1, 0], [2, 0]), ([5, -inf, -inf, -inf], [0, 3]),
                ([nan, 9, 1, 0], [0, 1]), ([0.0, -0.0, -1, -2], [1, 0])]):
            scores[row], other[row] = torch.tensor(of), torch.tensor(right)
        wrong = {8: ([3, 2, 1, 0], [0, 2]), 9: ([3, 2, 1, 0], [2, 3]), 10: ([3, 2, 1, 0], [0, 0]), 11: ([3, 3, 3, 3], [2, 2]),
                 12: ([nan, 9, 1, 0], [1, 2]), 13: ([1, 0, -inf, -inf], [0, 2])}
        for row, (of, chosen) in wrong.items():
            scores[row], other[row] = torch.tensor(of), torch.tensor(chosen)
        for how in "", "recompute":
            _, _, taken, reference, twin, said = self.follow(candidate_of(other, scores=scores), how)
            self.assertIn("6 of 16 choices that this run would follow do not follow from the scores", said)
            right = torch.tensor([row not in wrong for row in range(16)])
            for trace in reference, twin:
                self.assertTrue(torch.equal(trace["m0/moe/choice"], torch.where(right[:, None], other, own)), how)
            self.assertTrue(torch.equal(taken["m0/moe/choice"], own))

    def test_where_all_choices_are_wrong_none_is_followed(self):
        own = own_choice()
        other = torch.tensor([[n for n in range(4) if n not in row] for row in own.tolist()])
        scores = torch.zeros(16, 4).scatter(1, own, 1.0)
        losses, _, taken, reference, _, said = self.follow(candidate_of(other, scores=scores))
        self.assertEqual(said.count("16 of 16 choices that this run would follow do not follow"), 1)
        self.assertEqual(len(losses), 2)
        self.assertTrue(torch.equal(reference["m0/moe/choice"], own))

    def test_the_smallest_are_right_where_the_reference_takes_these(self):
        run = object.__new__(Run)
        run.backward, run.following, run.turned, run.unfounded = 0, True, [0, 0], 0
        x, scores = torch.tensor([[1.0, 0.0, 1.0, 0.0]]), torch.tensor([[0.0, 1.0, 2.0, 3.0]])
        for largest, chosen, follows in (False, [0, 1], True), (True, [0, 1], False), (True, [3, 2], True), (False, [3, 2], False):
            chosen, choose = torch.tensor([chosen]), lambda x: torch.topk(x, 2, largest=largest)
            out = run._as_there(choose(x), x, 1, choose, scores, chosen)
            self.assertEqual(torch.equal(out[1], chosen), follows)
        self.assertEqual((run.turned, run.unfounded), ([2, 4], 2))

    def test_without_the_scores_nothing_is_followed_and_that_is_told(self):
        losses, _, taken, reference, _, said = self.follow(candidate_of(own_choice().flip(0), scores=False))
        self.assertIn("1 choices of the candidate are not followed, since its trace lacks the scores", said)
        self.assertEqual(len(losses), 2)
        self.assertTrue(torch.equal(reference["m0/moe/choice"], taken["m0/moe/choice"]))

    def test_a_candidate_of_another_shape_is_not_followed(self):
        losses, *_ = self.follow(candidate_of(own_choice()[:8]))
        self.assertEqual(len(losses), 2)


class Gate(nn.Module):
    """A router with a weight of its own: which its twins call by parts of the batch, too."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs, self.weight = outputs, nn.Parameter(torch.randn(4, 8))

    def forward(self, x):
        scores = (x[:, None] * self.weight).sum(-1)
        top, chosen = scores.topk(2)
        top = torch.zeros_like(scores).scatter(1, chosen, top)
        return {"one": top, "all": (scores, top, chosen), "one of all": top - top.mean()}[self.outputs]


class Gated(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.gate, self.head = nn.Embedding(24, 8), nn.ModuleDict({"0": Gate(outputs)}), nn.Linear(4, 4)

    def forward(self, ids):
        out = self.gate["0"](self.words(ids))
        return self.head(out[1] if isinstance(out, tuple) else out)


class CutByParts(unittest.TestCase):
    def test_twins_take_the_choices_of_the_step_alone_and_all_its_gradients(self):
        for outputs, cut in ("one", True), ("all", False), ("one of all", False):
            values, one, said = of_rows(Gated(outputs), torch.randint(24, (16,)))
            self.assertEqual(set(values), set(one), outputs)
            self.assertIn("m0/gate.0/choice", values)
            self.assertEqual("could not cut the sums of gate.0" in said, not cut, said)
            self.assertEqual(torch.equal(values["gate.0.weight/grad"], one["gate.0.weight/grad"]), not cut, outputs)
            far = (values["words.weight/grad"] - one["words.weight/grad"]).norm() / one["words.weight/grad"].norm()
            self.assertLess(far, 1e-5, outputs)


class Fused(nn.Module):
    """Of transformers 5: the weights of all experts are one tensor, and rows lie expert by expert."""

    def __init__(self):
        super().__init__()
        self.up, self.act = nn.Parameter(torch.randn(4, 8, 8)), nn.GELU()

    def forward(self, x):
        rows = torch.cat([self.act(x[n::4] @ self.up[n]) for n in range(4)])
        return torch.zeros_like(x).index_add(0, torch.arange(len(x)).view(-1, 4).t().flatten(), rows)


class FusedExperts(unittest.TestCase):
    def test_rows_within_are_not_taken_and_what_comes_out_is(self):
        model = nn.ModuleDict({"experts": Fused(), "shared_experts": nn.Sequential(nn.Linear(8, 8))})
        model.forward = lambda x: model["shared_experts"](model["experts"](x))
        with traced(model) as (folder, said), plumb.step(None):
            model(torch.randn(8, 8)).sum().backward()
        self.assertIn("what 1 modules within fused experts take and give is not taken, first experts.act", said.getvalue())
        taken = read(folder)[0]
        self.assertFalse([name for name in taken if "experts.act" in name])
        for name in "m0/experts/out", "m0/experts/grad_out", "experts.up/grad", "m0/shared_experts.0/in":
            self.assertIn(name, taken)


if __name__ == "__main__":
    unittest.main()
