"""Are steps traced, and their twins made, that do what few do: complex weights, sparse gradients, gradients of gradients,
loss scalers, frozen statistics? Is the run the one that it is without tracing?
"""
import contextlib
import copy
import dataclasses
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

from plumbline.capture.values import tensors_in
from small_training import nn, plumb, read, torch

ROWS = {"mesh": {"dp": 2}, "batch": ["dp"], "weights": {}, "inputs": {}, "outputs": {}}


def run_of(model, loss, traced, scaler=None):
    """Two steps, the first traced, with a twin: the weights, the folder, and what was said."""
    torch.manual_seed(1)
    model = copy.deepcopy(model)
    x = torch.randn(8, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()

    def step():
        optimizer.zero_grad()
        of_all = loss(model, x)
        if scaler is None:
            of_all.backward()
            return optimizer.step()
        scaler.scale(of_all).backward()
        scaler.step(optimizer)
        scaler.update()

    os.environ.update(PLUMB_TRACE="1" if traced else "", PLUMB_TWINS="given below" if traced else "")
    with contextlib.redirect_stderr(said):
        plumb.start(model, folder, layout={"dp": 1})
        for _ in range(2):
            with plumb.step(optimizer):
                step()
            for k in plumb.twins(1):
                with plumb.twin(k, ROWS):
                    step()
    os.environ["PLUMB_TRACE"] = ""
    os.environ.pop("PLUMB_TWINS")
    plumb.start(model)
    return [p.detach().clone() for p in model.parameters()], folder, said.getvalue()


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.fc, self.w = nn.Linear(6, 6), nn.Parameter(torch.randn(4, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(self.fc(x)) * self.w, n=6)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.fc, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6).eval()

    def forward(self, x):
        return self.norm(self.fc(x))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.words, self.fc = nn.Embedding(5, 6, sparse=True), nn.Linear(6, 6)

    def forward(self, x):
        return self.fc(self.words((x[:, 0] > 0).long()))


def squares(model, x):
    return model(x).square().mean()


class OddSteps(unittest.TestCase):
    def of(self, model, loss=squares, scaled=False):
        """The reference's tensors, its twin's if there is one, and what was said."""
        scalers = [torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=1) if scaled else None for _ in range(2)]
        plain, _, _ = run_of(model, loss, False, scalers[0])
        weights, folder, said = run_of(model, loss, True, scalers[1])
        for a, b in zip(plain, weights):
            self.assertTrue(torch.equal(a, b))
        if scaled:
            self.assertEqual(scalers[0].get_scale(), scalers[1].get_scale())
        twin = read(folder + "-twin1")[0] if os.path.exists(folder + "-twin1") else None
        return read(folder)[0], twin, said

    def test_complex_weights_are_taken_as_pairs(self):
        values, twin, said = self.of(Spectral())
        self.assertEqual(list(values["w/grad"].shape), [4, 2])
        self.assertGreater(values["w/grad"].norm(), 0)
        self.assertFalse(torch.equal(values["fc.weight/grad"], twin["fc.weight/grad"]))
        self.assertIn("could not cut the sums of w", said)

    def test_statistics_that_stay_are_not_changed(self):
        values, twin, _ = self.of(Frozen())
        self.assertFalse(torch.equal(values["fc.weight/grad"], twin["fc.weight/grad"]))

    def test_sparse_gradients_are_taken_whole_and_not_cut(self):
        values, twin, said = self.of(Words())
        self.assertEqual(list(values["words.weight/grad"].shape), [5, 6])
        self.assertIn("could not cut the sums of words.weight", said)
        self.assertFalse(torch.equal(values["fc.weight/grad"], twin["fc.weight/grad"]))

    def test_gradients_that_a_step_computes_with_are_not_those_of_its_loss(self):
        def penalty(model, x):
            x = x.clone().requires_grad_()
            slope, = torch.autograd.grad(model(x).tanh().sum(), x, create_graph=True)
            return squares(model, x.detach()) + slope.square().mean()

        plain = torch.autograd.grad
        torch.manual_seed(2)
        _, twin, said = self.of(nn.Sequential(nn.Linear(6, 6)), penalty)
        self.assertIs(torch.autograd.grad, plain)
        self.assertIsNone(twin)
        self.assertEqual(said.count("no twins are written: the step calls torch.autograd.grad"), 1)

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "older than PyTorch 2.3")
    def test_twins_leave_the_scale_of_the_loss_as_it_was(self):
        torch.manual_seed(2)
        values, twin, _ = self.of(nn.Sequential(nn.Linear(6, 6)), scaled=True)
        self.assertLess((values["0.weight/grad"] - twin["0.weight/grad"]).norm(), 1e-5 * values["0.weight/grad"].norm())


@dataclasses.dataclass(**({"slots": True} if sys.version_info >= (3, 10) else {}))
class Lengths:
    of: object


class Takes(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, lengths=None):
        return self.fc(x)


class Nests(nn.Module):
    """Calls what it has in an odd way."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(2)
        self.how, self.own = how, nn.ModuleDict({"0": Takes()})

    def forward(self, x):
        inner = self.own["0"]
        if self.how == "slots":
            return inner(x, Lengths(torch.tensor([1, 2])))
        if self.how in ("strided", "jagged"):
            nested = torch.nested.nested_tensor([x[:3], x[3:]], layout=getattr(torch, self.how))
            return torch.cat(inner(nested).unbind())
        return torch.vmap(inner)(x) if self.how == "vmap" else torch.func.jacrev(inner)(x[0])


class NotTaken(unittest.TestCase):
    """Tensors that have no numbers to take: the step goes on, all else is there, and one sentence says it."""

    def of(self, model, loss=squares):
        plain, _, _ = run_of(model, loss, False)
        weights, folder, said = run_of(model, loss, True)
        for a, b in zip(plain, weights):
            self.assertTrue(torch.equal(a, b))
        return read(folder)[0], said

    def test_fields_of_a_class_with_slots_are_seen(self):
        values, _ = self.of(Nests("slots"))
        self.assertIn("m0/own.0/out", values)
        self.assertEqual(len(tensors_in(Lengths(torch.ones(2)))), 1)

    @unittest.skipUnless(hasattr(torch, "func") and hasattr(torch, "nested"), "older than PyTorch 2.0")
    def test_nested_tensors_and_those_of_transforms(self):
        for how in "strided", "jagged", "vmap", "jacrev":
            why = "it is nested" if how in ("strided", "jagged") else "within vmap"
            values, said = self.of(Nests(how))
            self.assertEqual(said.count(f"tensors are not taken, first m0/own.0.fc/in: {why}"), 1, said)
            self.assertIn("own.0.fc.weight/grad", values)
            self.assertNotIn("m0/own.0.fc/in", values)

    def test_lazy_modules_are_taken_from_their_first_call_on_and_have_no_twins(self):
        torch.manual_seed(1)
        model, x = nn.Sequential(nn.LazyLinear(6)), torch.randn(8, 6)
        folder, said = os.path.join(tempfile.mkdtemp(), "run"), io.StringIO()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")
        with contextlib.redirect_stderr(said):
            plumb.start(model, folder)
            with plumb.step(optimizer):
                squares(model, x).backward()
                optimizer.step()
            self.assertEqual(list(plumb.twins()), [])
        os.environ.update(PLUMB_TRACE="", PLUMB_TWINS="")
        plumb.start(model)
        values = read(folder)[0]
        self.assertIn("0.weight/grad", values)
        self.assertNotIn("0.weight", values)
        self.assertEqual(said.getvalue().count("a lazy module's has no numbers"), 1)
        self.assertEqual(said.getvalue().count("no twins are made"), 1)

    def test_scripted_modules_have_no_hooks(self):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(6, 6), torch.jit.script(nn.Sequential(nn.Linear(6, 6))))
        with mock.patch(__name__ + ".copy.deepcopy", lambda model: (model.load_state_dict(was), model)[1]):
            was = {name: x.clone() for name, x in model.state_dict().items()}
            values, said = self.of(model)
        self.assertEqual(said.count("what 2 scripted modules take and give is not taken, first 1: they have no hooks"), 1, said)
        self.assertIn("1.0.weight/grad", values)
        self.assertIn("m0/0/out", values)


class Closures(unittest.TestCase):
    """Steps whose forward and backward passes the optimizer calls, as Lightning's."""

    def of(self, kind, call, clip=lambda model: None):
        torch.manual_seed(1)
        model, x = nn.Sequential(nn.Linear(6, 6)), torch.randn(8, 6)
        optimizer, grads = kind(model.parameters()), []

        def closure():
            optimizer.zero_grad()
            loss = squares(model, x)
            loss.backward()
            grads.append(model[0].weight.grad.clone())
            clip(model)
            grads.append(model[0].weight.grad.clone())
            return loss

        folder = os.path.join(tempfile.mkdtemp(), "run")
        os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")
        with contextlib.redirect_stderr(io.StringIO()):
            plumb.start(model, folder, layout={"dp": 1})
            with plumb.step(optimizer):
                self.assertIsNotNone(call(optimizer, closure))
            with plumb.twin(1, ROWS):
                call(optimizer, closure)
        os.environ["PLUMB_TRACE"] = ""
        os.environ.pop("PLUMB_TWINS")
        plumb.start(model)
        return read(folder)[0], read(folder + "-twin1")[0], grads[:len(grads) // 2]

    def test_gradients_are_those_that_the_closure_made(self):
        sgd = lambda weights: torch.optim.SGD(weights, lr=0.1)
        for call in (lambda optimizer, closure: optimizer.step(closure),
                     lambda optimizer, closure: optimizer.step(closure=closure)):
            values, twin, grads = self.of(sgd, call)
            self.assertTrue(torch.equal(values["0.weight/grad"], grads[0]))
            self.assertFalse(torch.equal(values["0.weight/grad"], twin["0.weight/grad"]))
            self.assertIn("0.weight/param", values)

    def test_of_several_calls_those_of_the_last_are_taken(self):
        lbfgs = lambda weights: torch.optim.LBFGS(weights, lr=0.1, max_iter=3)
        clip = lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        values, _, grads = self.of(lbfgs, lambda optimizer, closure: optimizer.step(closure), clip)
        self.assertGreater(len(grads), 2)
        self.assertTrue(torch.equal(values["0.weight/grad"], grads[-2]))
        self.assertTrue(torch.equal(values["0.weight/clipped_grad"], grads[-1]))


if __name__ == "__main__":
    unittest.main()
