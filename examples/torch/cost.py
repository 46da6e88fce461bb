"""What capture, twins and a check cost, in steps of the model beside.

    cost.py PLUMB [--width N] [--layers N] [--sequences N] [--steps N]

In one process steps that are traced and steps that are not take turns, so that a busy machine slows both. Medians, on
one thread; a check by all that plumb finds.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
try:
    import torch
    import torch.nn.functional as F

    import model
    import plumbline.trace as plumb
    from plumbline.write import shard
except ImportError as missing:
    print(f"skipped: this needs PyTorch, and an import says: {missing}")
    sys.exit(77)


def asked_for():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb", type=os.path.abspath)
    for name, default in ("width", 512), ("layers", 4), ("sequences", 8), ("steps", 7):
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


def layout_of(built):
    """Tensor parallel on two ranks: rows of o and down, columns of all other layers."""
    dims = {name: 1 if name.split(".")[-2] in ("o", "down") else 0
            for name, p in built.named_parameters() if p.dim() == 2}
    return {"mesh": {"tp": 2}, "batch": [], "inputs": {}, "outputs": {},
            "weights": {name: [shard("tp", dim)] for name, dim in dims.items()}}


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(asked, folder):
    """Seconds of plain steps, of traced ones, and of twins."""
    built = model.Model()
    optimizer = torch.optim.AdamW(built.parameters(), lr=1e-3)
    plain, traced, twins, layout = [], [], [], layout_of(built)

    def step(n):
        ids, targets = model.batch_of(n, 0)
        optimizer.zero_grad()
        F.cross_entropy(built(ids).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()

    def taken(n):
        with plumb.step(optimizer):
            step(n)

    def twin(k, n):
        with plumb.twin(k, layout):
            step(n)

    plumb.start(built, os.path.join(folder, "reference"), layout={"tp": 1}, steps=range(2, 2 * asked.steps + 1, 2))
    for n in range(1, 2 * asked.steps + 1):
        seconds = seconds_of(lambda n=n: taken(n))
        (plain if n % 2 else traced).append(seconds)
        for old in pathlib.Path(folder).glob("*/step_*"):  # but for the last, nobody reads them
            if int(old.name[5:]) < n:
                shutil.rmtree(old)
        twins += [seconds_of(lambda k=k, n=n: twin(k, n)) for k in plumb.twins()]
    size = sum(p.numel() * p.element_size() for p in built.parameters())
    return plain[1:], traced[1:], twins[4:], size  # the first of each warms up


def main():
    asked = asked_for()
    model.WIDTH, model.HIDDEN, model.LAYERS, model.SEQUENCES = asked.width, 11 * asked.width // 4, asked.layers, asked.sequences
    torch.set_num_threads(1)
    os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")
    with tempfile.TemporaryDirectory() as folder:
        plain, traced, twins, size = measured(asked, folder)
        step = f"step_{2 * asked.steps:06d}"
        names = [f"reference{end}/{step}" for end in ("", "-twin1", "-twin2", "-twin3", "-twin4")]
        written = sum(file.stat().st_size for file in pathlib.Path(folder, names[0]).glob("*.safetensors"))
        command = [asked.plumb, "check", *names[:2], "--twins", *names[2:]]
        checks = [seconds_of(lambda: subprocess.run(command, cwd=folder, capture_output=True)) for _ in range(3)]
    one = statistics.median(plain)
    print(f"{size / 1e6:.0f} MB of weights, {asked.sequences * model.TOKENS} tokens, FP32, PyTorch {torch.__version__}, one thread; "
          f"a step takes {1000 * one:.0f} ms")
    for what, seconds in ("a step that is traced, and written", traced), ("a twin", twins), ("a check by three twins", checks):
        print(f"{what}: {statistics.median(seconds) / one:.2f} steps")
    print(f"the trace of a step: {written / 1e6:.0f} MB, {written / size:.1f} times the weights")


if __name__ == "__main__":
    main()
