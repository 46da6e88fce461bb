"""Three of the programs beside, annotated for the type checker spmd_types: which of their mistakes does it see?

Each program is copied, annotated by `patches/PROGRAM.types.patch`, given a mistake by `patches/PROGRAM.MISTAKE.patch`
(here or beside run.py), and takes a step on a fake process group, as rank 0 of two and as rank 1. DDP and FSDP2 are
those of in_the_open.py. Where types see nothing, rulecheck holds the numbers of FUNCTIONS against their annotations.
The exit code is 77 without PyTorch or spmd_types, and 1 where EXPECTED says otherwise.
"""
import contextlib
import importlib
import io
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.simplefilter("ignore")
try:
    import torch
    import torch.distributed as dist
    import spmd_types as spmd
    import spmd_types.checker
    from spmd_types.rulecheck import RuleCheckError, rulecheck
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.testing._internal.distributed.fake_pg import FakeStore  # its module registers the backend "fake"
except ImportError as missing:
    print(f"skipped: this needs PyTorch and spmd_types, and an import says: {missing}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent
AXIS = {"by_hand": "tp", "sharded_optimizer": "dp", "fully_sharded": "dp"}
GLOBAL = {"sharded_optimizer"}  # checked by global types, which know what is dealt along which dimension
MIXES, UNTYPED = "Invariant type on axis default_pg cannot mix", "args[1] missing axis default_pg"
DIFFERS = "rulecheck: the output is typed I on 'tp', but ranks"
EXPECTED = {  # how the first error begins; "" where none is seen
    "by_hand": {
        "healthy": "", "copy": MIXES, "mask": "", "top": DIFFERS, "padded": "", "hook": "", "still": MIXES,
        "again": "all_reduce: expected input type PerMeshAxisLocalSpmdType.P"},
    "sharded_optimizer": {
        "healthy": "", "counted": "div: Partial type in nonlinear argument", "module": MIXES, "inner": "", "ends": "",
        "race": ""},
    "fully_sharded": {"healthy": "", "divide": "", "ignored": UNTYPED, "labels": "", "reduce": "", "declared": ""}}
FUNCTIONS = {"by_hand": {"CopyToRanks": {"x": spmd.I}, "CrossEntropy": {"logits": spmd.S(1), "targets": spmd.I}}}
STEPS = 6  # of a healthy program; the first is not timed


def patch_of(example, name):
    return next(file for at in (HERE, PROGRAMS) if (file := at / "patches" / f"{example}.{name}.patch").exists())


def patched(folder, example, *patches):
    folder.mkdir()
    for file in [*PROGRAMS.glob("*.py"), HERE / "in_the_open.py"]:
        shutil.copy(file, folder)
    shutil.copy(PROGRAMS.parents[1] / "model/data/devils_dictionary.txt", folder / "text.txt")
    for name in patches:
        subprocess.run(["patch", "--quiet", "--no-backup-if-mismatch"], input=patch_of(example, name).read_bytes(),
                       cwd=folder, check=True)
    program = folder / f"{example}.py"
    text = program.read_text(encoding="utf-8")
    for opaque in ("torch.nn.parallel", "torch.distributed.fsdp"):
        text = text.replace(f"from {opaque} import", "from in_the_open import")
    program.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def imported(folder, example):
    for name in ("model", "in_the_open", example):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(example)
    finally:
        sys.path.remove(str(folder))


def run(program, example, rank, typed=True, steps=1):
    """The first line that types say, and seconds of each step."""
    seconds, error, plain = [], "", program.train_step

    def train_step(*arguments):
        start = time.perf_counter()
        try:
            with spmd.checker.typecheck(local=example not in GLOBAL) if typed else contextlib.nullcontext():
                return plain(*arguments)
        finally:
            seconds.append(time.perf_counter() - start)

    dist.init_process_group("fake", rank=rank, world_size=2, store=FakeStore())
    sys.argv = [example, "--steps", str(steps)]
    program.train_step = train_step
    try:
        with spmd.set_current_mesh(init_device_mesh("cpu", (2,), mesh_dim_names=(AXIS[example],))), \
                contextlib.redirect_stdout(io.StringIO()):
            program.main()
    except spmd.SpmdTypeError as found:
        error = str(found).splitlines()[0]
    finally:
        program.train_step, sys.excepthook = plain, sys.__excepthook__
        if dist.is_initialized():
            dist.destroy_process_group()
    return error, seconds


def rules_hold(program, example):
    """Does each function compute what its annotation says? The first that does not."""
    values = {"x": torch.randn(6, 8), "logits": torch.randn(6, 8), "targets": torch.randint(8, (6,))}
    for name, places in FUNCTIONS.get(example, {}).items():
        try:
            rulecheck(getattr(program, name), tuple(values[of] for of in places), mesh={"tp": 2},
                      placements={of: {"tp": place} for of, place in places.items()}, local_tensor_mode=True)
        except RuleCheckError as found:
            return str(found).splitlines()[0]
    return ""


def judged(folder, example, mistake):
    """The first error of two ranks, and milliseconds until then, or of both steps."""
    patched(folder, example, "types", *[mistake] * (mistake != "healthy"))
    with imported(folder, example) as program:
        milliseconds = 0
        for rank in (0, 1):
            error, seconds = run(program, example, rank)
            milliseconds += 1000 * sum(seconds)
            if error:
                return error, milliseconds
        return rules_hold(program, example), milliseconds


def costs(folder, example):
    with imported(folder, example) as program:
        typed, plain = (statistics.median(run(program, example, 0, typed, STEPS)[1][1:]) for typed in (True, False))
    text = patch_of(example, "types").read_text(encoding="utf-8").splitlines()
    lines = [line[1:] for line in text if line.startswith("+") and not line.startswith("+++")]
    return (f"{example}: {len(lines)} lines ({sum(len(line) + 1 for line in lines)} bytes) of annotations; a step that "
            f"is type-checked takes {typed / plain:.1f} times one that is not (medians of {STEPS - 1})")


def main():
    for optimizer in (torch.optim.AdamW, ZeroRedundancyOptimizer):  # gradients, which it reads, have no types
        spmd.register_no_typecheck(optimizer.step)
    wrong, said = 0, []
    print(f"{'program':18}{'mistake':9}{'ms':>5}  types see")
    with tempfile.TemporaryDirectory() as folder:
        for example, mistakes in EXPECTED.items():
            for mistake, expected in mistakes.items():
                at = pathlib.Path(folder) / f"{example}-{mistake}"
                error, milliseconds = judged(at, example, mistake)
                right = error.startswith(expected) if expected else not error
                wrong += not right
                print(f"{example:18}{mistake:9}{milliseconds:5.0f}  {error or '-'}", flush=True)
                if not right:
                    print(f"  WRONG: expected was '{expected or '-'}'")
            said.append(costs(pathlib.Path(folder) / f"{example}-healthy", example))
    print(*said, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
