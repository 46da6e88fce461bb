"""What scripts do that no example does: two lengths of one embedding, a schedule inside the step, clipping by a norm that
ranks add up, weights that are others while a module computes, choices in another order, tensors of one rank alone.
"""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import warnings

try:
    import torch
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb
from plumbline.twins.cuts import Cuts
from plumbline.write import replicate, shard
from small_training import read
from experts_test import as_rank, candidate_of, fresh, own_choice, step as choose

SHARDS = {"mesh": {"dp": 2}, "batch": [], "inputs": {}, "outputs": {}, "weights": {
    f"{n}.weight": [shard("dp", 0)] for n in range(3)}}


@contextlib.contextmanager
def traced(model, twins="", **options):
    folder = os.path.join(tempfile.mkdtemp(), "run")
    os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS=twins)
    with contextlib.redirect_stderr(io.StringIO()):
        plumb.start(model, folder, **options)
        yield folder
    os.environ.update(PLUMB_TRACE="", PLUMB_TWINS="")
    plumb.start(model)


class TwoLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(24, 8), nn.Embedding(9, 8)

    def forward(self, source, target):
        last = self.words(target) + self.places(torch.arange(target.shape[1]))
        return self.words(source).mean() + last.mean() + self.words(target[:, :-1]).mean()


class GivenPlaces(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(24, 8), nn.Embedding(9, 8)

    def forward(self, ids, places, count):
        return (self.words(ids) + self.places(places)).mean() + 0 * count.sum()


class Scripts(unittest.TestCase):
    def test_positions_that_the_model_is_given_are_no_words(self):
        model = GivenPlaces()
        for places in torch.arange(9), torch.arange(9)[None]:
            with traced(model, layout={"dp": 1}) as folder:
                as_rank(0, experts=("dp",), dp=2)
                plumb._run.experts = []
                with plumb.step(None):
                    model(torch.randint(24, (2, 9)), places, torch.tensor(3)).backward()
            _, says = read(folder)
            self.assertEqual(says["m0/places/out"]["placements"], [replicate("dp")])
            self.assertEqual(says["m0/words/out"]["placements"], [shard("dp", 0)])

    def test_a_choice_by_name_is_taken(self):
        class Chooses(nn.Module):
            def forward(self, x):
                return torch.topk(input=x, k=2, dim=0)[0]

        model = nn.Sequential(nn.Linear(4, 4), Chooses())
        with traced(model, layout={"tp": 1}) as folder, plumb.step(None):
            model(torch.randn(3, 4)).sum().backward()
        self.assertEqual(list(read(folder)[0]["m0/1/choice"].shape), [2, 4])

    def test_an_embedding_of_two_lengths_is_of_a_batch_and_one_of_positions_is_not(self):
        model = TwoLengths()
        with traced(model, layout={"dp": 1}) as folder:
            as_rank(0, experts=("dp",), dp=2)
            plumb._run.experts = []
            with plumb.step(None):
                model(torch.randint(24, (2, 9)), torch.randint(24, (2, 7))).backward()
        _, says = read(folder)
        for call in "", "@2", "@3":
            self.assertEqual(says[f"m0/words{call}/out"]["placements"], [shard("dp", 0)], call)
        self.assertEqual(says["m0/places/out"]["placements"], [replicate("dp")])

    def test_a_schedule_inside_the_step_goes_on_as_without_twins(self):
        def rates(twins, make=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.5 ** n)):
            torch.manual_seed(1)
            model = nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            schedule = make(optimizer)
            seen = []

            def train():
                optimizer.zero_grad()
                model(torch.ones(2, 4)).square().sum().backward()
                optimizer.step()
                schedule.step()

            with traced(model, "given below" if twins else "", layout={"tp": 1}), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what PyTorch 1.13 says of its own schedules of schedules
                warnings.filterwarnings("error", message=".*optimizer.step")  # that it was overridden, or comes too late
                for _ in range(3):
                    with plumb.step(optimizer):
                        train()
                    for k in plumb.twins(twins):
                        with plumb.twin(k, SHARDS):
                            train()
                    seen.append((schedule.last_epoch, optimizer.param_groups[0]["lr"]))
            return seen

        self.assertEqual(rates(0), [(1, 0.5), (2, 0.25), (3, 0.125)])
        self.assertEqual(rates(2), rates(0))

        def warm_up(optimizer):
            kinds = torch.optim.lr_scheduler
            parts = [kinds.ConstantLR(optimizer, 0.25, 1), kinds.ExponentialLR(optimizer, 0.5)]
            return kinds.SequentialLR(optimizer, parts, [1])

        self.assertEqual(rates(2, warm_up), rates(0, warm_up))
        self.assertEqual(len({rate for _, rate in rates(0, warm_up)}), 3)

    @unittest.skipUnless(hasattr(torch.nn.utils.clip_grad, "_get_total_norm"), "this PyTorch adds up no norm for clipping")
    def test_twins_clip_by_norms_of_shares(self):
        torch.manual_seed(1)
        model, x = nn.Sequential(*(nn.Linear(32, 32, bias=False) for _ in range(3))), torch.randn(64, 32)
        whole = torch.nn.utils.clip_grad._get_total_norm

        def train():
            model.zero_grad()
            model(x).square().sum().backward()
            return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        cuts = Cuts.__new__(Cuts)
        cuts.layout, cuts.mesh, cuts.norm = SHARDS, SHARDS["mesh"], whole
        cuts.names = {p: name for name, p in model.named_parameters()}
        norm = train()
        otherwise = 0
        for _ in range(20):
            grads = [torch.randn_like(p) for p in model.parameters()]
            for p, grad in zip(model.parameters(), grads):
                p.grad = grad
            shares = [torch.stack([g.chunk(2)[r].norm() for g in grads]).norm() for r in range(2)]
            self.assertEqual(cuts.total_norm(grads), torch.stack(shares).norm())
            otherwise += cuts.total_norm(grads) != whole(grads)
        self.assertGreater(otherwise, 0)
        cuts.layout = {**SHARDS, "weights": {}}
        self.assertEqual(cuts.total_norm(grads), whole(grads))
        with traced(model, "given below", layout={"dp": 1}):
            with plumb.step(None):
                self.assertEqual(train(), norm)
            with plumb.twin(1, SHARDS):
                self.assertAlmostEqual(float(train() / norm), 1, delta=1e-6)
        self.assertIs(torch.nn.utils.clip_grad._get_total_norm, whole)

    def test_a_weight_that_is_another_while_its_module_computes_is_known_by_name(self):
        model = nn.Sequential(nn.Linear(4, 4))
        own, other = model[0].weight, nn.Parameter(torch.randn(4, 4))
        with traced(model, layout={"tp": 1}) as folder:
            run = plumb._run
            model[0].register_forward_pre_hook(lambda module, _: setattr(module, "weight", other))  # as FSDP2 does
            self.assertEqual(run._name_of("0", "weight", other), "0.weight")
            self.assertIsNone(run._name_of("0", "weight", other.bfloat16()))
            self.assertIsNone(run._name_of("1", "weight", other))
            with plumb.step(None):
                model(torch.ones(2, 4)).sum().backward()
            model[0].weight = own
        self.assertEqual(read(folder)[1]["m0/0/out"]["made_by"]["inputs"], ["m0/0/in", "0.weight", "0.bias"])

    def test_what_a_layer_takes_whole_is_not_dealt_as_its_weight(self):
        class Cuts(nn.Linear):
            def forward(self, x):
                return nn.functional.linear(x[..., :self.in_features], self.weight)

        model = nn.Sequential(nn.Linear(4, 4, bias=False), Cuts(2, 4, bias=False), nn.Linear(4, 4, bias=False))
        with traced(model, layout={"tp": 1}, places={r"[12]\.weight": "out in[tp]"}) as folder:
            as_rank(0, experts=(), tp=2)
            with plumb.step(None):
                model(torch.ones(3, 4)).sum().backward()
        says = read(folder)[1]
        self.assertEqual((says["m0/1/in"]["placements"], says["m0/1/in"]["shape"]), ([replicate("tp")], [3, 4]))
        self.assertEqual((says["m0/2/in"]["placements"], says["m0/2/in"]["shape"]), ([shard("tp", 1)], [3, 8]))

    def test_other_micro_batches_than_the_candidates_are_told(self):
        model, x = nn.Sequential(nn.Linear(4, 4)), torch.ones(3, 4)
        with traced(model) as candidate, plumb.step(None):
            model(x).sum().backward()
        for count in 1, 2:
            said = io.StringIO()
            with traced(model, candidate), contextlib.redirect_stderr(said), plumb.step(None):
                for _ in range(count):
                    model(x).sum().backward()
            self.assertEqual("step 1 has 2 micro-batches here and 1 in the candidate" in said.getvalue(), count == 2)
            self.assertEqual("micro-batches" in said.getvalue(), count == 2)

    def test_choices_in_another_order_are_followed_too(self):
        other = own_choice()
        other[3] = other[3].flip(0)
        model, ids = fresh()
        with traced(model, candidate_of(other)) as folder:
            with plumb.step(None):
                choose(model, ids)
            self.assertEqual(list(plumb.twins(1)), [0, 1])
            with plumb.twin(0):
                choose(model, ids)
        self.assertTrue(torch.equal(read(folder)[0]["m0/moe/choice"], other))

    def test_what_each_rank_has_alone_lies_on_no_axis_and_is_not_cut(self):
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
        with traced(model, layout={"dp": 1}, places={r"^1[./]": None}) as folder:
            as_rank(0, experts=(), dp=2)
            plumb._run.batch = ["dp"]
            with plumb.step(None):
                model(torch.randn(6, 4)).sum().backward()
        _, says = read(folder)
        for name in "1.weight", "m0/1/in", "m0/1/out":
            self.assertEqual((says[name]["placements"], says[name]["shape"][-1]), ([], 4), name)
        self.assertEqual(says["m0/0/out"]["placements"], [shard("dp", 0)])
        with open(os.path.join(folder, "layout.json")) as file:
            layout = json.load(file)
        cuts = Cuts.__new__(Cuts)
        cuts.layout, cuts.batch = layout, {"dp"}
        self.assertEqual(cuts.inputs_of("1"), [])
        self.assertNotEqual(cuts.inputs_of("0"), [])


if __name__ == "__main__":
    unittest.main()
