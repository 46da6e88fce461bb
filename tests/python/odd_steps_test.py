"""Are steps traced, and their twins made, that do what few do: complex weights, sparse gradients, gradients of gradients,
loss scalers, frozen statistics? Is the run the one that it is without tracing?
"""
import contextlib
import copy
import io
import os
import tempfile
import unittest

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


if __name__ == "__main__":
    unittest.main()
