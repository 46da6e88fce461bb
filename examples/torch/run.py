"""Runs the examples of this folder, healthy and with each mistake, and has `plumb` judge them.

    run.py PLUMB FOLDER [--only EXAMPLE] [--seeds N] [--formats fp32,bf16] [--trained] [--rows FILE [--tensors FILE]]
           [--brief | --healthy | --rewrite | --beside] [--dither] [--sketch]

Programs and patches are copied to FOLDER, traces go there, too. For each example, format and seed it says whether the
traced program prints the losses of the untraced one; how far the twins foretold the distance of the healthy candidate
(the share of its tensors with predicted / observed in [0.8, 1.25], and in [0.5, 2]); whether the healthy run was accused;
and who was blamed for each mistake. The exit code is 77 without PyTorch, and 1 where anything is not as it should be;
--brief leaves all but the first mistake of each example out, --healthy all; --rewrite says how many tensors are wrong by
themselves, by rewritten runs, and writes no rows; --dither has the candidate's own reruns (PLUMB_DITHER) in place of twins
of the reference; --sketch has sketches of all traces judged (`plumb sketch`). --trained begins with weights of 300 steps on one process.
--rows adds what was seen to a table, a line for each healthy run and each mistake, with the verdicts of the rules flat,
assert-close and perturbation beside; a run that stands there is not made again. Small mistakes may be missed, and are told
so. --beside makes the runs of such a table once more, without twins, for what those rules say alone; what had stood there
otherwise is told.
--tensors adds up, over the seeds of that table, how far each tensor of the healthy runs lay from the reference and how
far its twins did (mean squares of |difference| / |reference|), of the tensors that twins judge.
"""
import argparse
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import runpy
import shutil
import socket
import subprocess
import sys
import warnings

from mistakes import EXACT, MISTAKES, ONLY, SMALL
from tables import Rows, Sums, say_how

HERE = pathlib.Path(__file__).resolve().parent
NEEDS = {"megatron_core": "megatron.core", "megatron_experts": "megatron.core", "megatron_context": "megatron.core",
         "megatron_data": "megatron.core",
         "megatron_pipeline": "megatron.core", "hugging_face": "transformers"}
TWINS, AGAIN = ([f"{of}-twin{k}" for k in range(1, 5)] for of in ("reference", "again"))


# The server imports PyTorch once, its children are copies of it. CUDA works in no copy.
FORKS = multiprocessing.get_context("spawn" if "cuda" in sys.argv else "forkserver")


def one_process(folder, arguments, environment, said, errors):
    """What `python ARGUMENTS` does in `folder`, by a process that has imported PyTorch already."""
    for file, to in ((said, 1), (errors, 2)):
        with open(file, "wb") as opened:
            os.dup2(opened.fileno(), to)
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(HERE.parents[1] / "python")]
    sys.argv = arguments
    warnings.simplefilter("ignore")
    runpy.run_path(arguments[0], run_name="__main__")


def why_not(example):
    """What is missing here, or nothing."""
    for what, needed in ("PyTorch 2.4 or later with torch.distributed", "torch.distributed.tensor.parallel, torch.nn; "
                         "torch.nn.RMSNorm"), ("a package", NEEDS.get(example)):
        if needed:
            ran = subprocess.run([sys.executable, "-W", "ignore", "-c", "import " + needed], capture_output=True, text=True)
            if ran.returncode:
                reason = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
                return f"this needs {what}, and its import says: {reason}"
    return None


class Runs:
    def __init__(self, plumb, folder, example, options):
        self.plumb, self.folder, self.example, self.options, self.rewrite = plumb, folder, example, options, ""
        self.twins, self.dither, self.perturbs, self.sketch, self.tiles = True, False, False, False, set()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.program("plain")
        self.program("traced", "trace")

    def program(self, name, *patches):
        into = self.folder / name
        into.mkdir()
        for file in HERE.glob("*.py"):
            shutil.copy(file, into)
        shutil.copy(HERE.parents[1] / "model/data/devils_dictionary.txt", into / "text.txt")
        for patch in patches:
            text = (HERE / "patches" / f"{self.example}.{patch}.patch").read_bytes()
            subprocess.run(["patch", "--quiet", "--no-backup-if-mismatch"], input=text, cwd=into, check=True)

    def run(self, program, ranks, trace="0", twins_of="", more=()):
        """The losses that it prints, with more options than those of all. PyTorch's threads sometimes abort a process that has done all: then once more."""
        for attempt in range(4):
            said, errors, codes = self.run_once(program, ranks, trace, twins_of, [*self.options, *more])
            if not any(codes):
                return said
            if attempt == 3 or "terminate called without an active exception" not in errors:
                sys.exit(f"{self.example}, {program}: {errors}")

    def run_once(self, program, ranks, trace, twins_of, options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started, out = [], self.folder / "out"
        out.mkdir(exist_ok=True)
        for rank in range(ranks):
            more = {"PLUMB_TRACE": str(trace), "PLUMB_REWRITE": str(self.rewrite)}
            if twins_of and (self.twins or "experts" in self.example):  # whose choices the reference follows
                more["PLUMB_TWINS"] = str(twins_of)
            if twins_of and self.perturbs:
                more["PLUMB_PERTURB"] = "1"
            if ranks > 1:
                more["PLUMB_DITHER"] = str(int(self.dither))
                more.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(ranks), RANK=str(rank),
                            LOCAL_RANK=str(rank))
            files = [out / f"{kind}-{rank}" for kind in ("said", "errors")]
            started.append(FORKS.Process(target=one_process, args=(
                self.folder / program, [f"{self.example}.py", *map(str, options)], more, *files)))
            started[-1].start()
        for one in started:
            one.join(600)
            if one.exitcode is None:
                one.kill()
                one.join()
        read = lambda kind: "".join((out / f"{kind}-{rank}").read_text(encoding="utf-8", errors="replace")
                                    for rank in range(ranks))
        return read("said"), read("errors"), [one.exitcode for one in started]

    def sketched(self, trace):
        """In tiles. Of twins and the reference once."""
        if trace not in self.tiles:
            self.tiles.add(trace)
            ran = subprocess.run([self.plumb, "sketch", trace, "-o", f"tiles/{trace}", "--shards", "8"], cwd=self.folder,
                                 capture_output=True, text=True)
            if ran.returncode:
                sys.exit(f"{self.example}: plumb sketch {trace}: {ran.stderr}")
        return f"tiles/{trace}"

    def check(self, reference, candidate, *more):
        if self.sketch:
            reference, candidate = self.sketched(reference), self.sketched(candidate)
            more = [self.sketched(word) if (self.folder / word / "manifest.json").exists() else word for word in more]
        report = self.folder / "report.jsonl"
        report.unlink(missing_ok=True)
        if "--twins" in more:
            # In a rewritten run all that modules take in is exact; but in FP32 silu rounds its last numbers otherwise.
            forward = "|/(in|out)$" if self.rewrite and "--bf16" in self.options else ""
            more = [*more, "--exact", EXACT[self.example] + forward]
        ran = subprocess.run([self.plumb, "check", reference, candidate, *more, "--report", report.name],
                             cwd=self.folder, capture_output=True, text=True)
        if not report.exists():
            sys.exit(f"{self.example}: plumb check {candidate}: {ran.stderr}")
        verdict, *lines = [json.loads(line) for line in report.read_text().splitlines()]
        return verdict, {line["id"]: line for line in lines if line["type"] == "tensor"}

    def twins_for(self, candidate):
        """Of the reference, or the candidate's own."""
        return [f"{candidate}-twin{k}" for k in range(1, 5)] if self.dither else TWINS

    def distances(self, judged):
        """Of each tensor that twins judge (`judged`: the lines of that report) how far the healthy candidate and each
        twin lie from the reference, of its size. Of its own reruns: how far they and the reference lie from it."""
        around, other = ("healthy", "reference") if self.dither else ("reference", "healthy")
        far = [self.check(around, one, "--rule", "flat")[1] for one in (other, *self.twins_for("healthy"))]
        all_of = {id: [one[id]["relative"] for one in far] for id, line in judged.items() if line["statistic"] != "replay"}
        return {id: of for id, of in all_of.items() if None not in of and any(of)}

    def changes(self, candidate):
        """Whether its traced step differs from the healthy one in any bit."""
        pieces = lambda run: [file.read_bytes() for file in sorted((self.folder / run).glob("step_*/rank_*.safetensors"))]
        return int(pieces(candidate) != pieces("healthy"))


def foretold(distances):
    """Predicted / observed, of each tensor in which the healthy candidate differs; and each twin by the others."""
    ratios, others = {}, []
    for id, (seen, *twins) in distances.items():
        squares = [twin ** 2 for twin in twins]
        if seen:
            ratios[id] = math.sqrt(sum(squares) / len(twins)) / seen
            others += [math.sqrt((sum(squares) - one) / (len(twins) - 1) / one) for one in squares if one]
    return ratios, others


def changed_lines(example):
    """Lines that the traced program has in place of others or beside them."""
    patch = (HERE / "patches" / f"{example}.trace.patch").read_text().splitlines()
    return sum(line.startswith("+") and not line.startswith("+++") for line in patch)


def beside(runs, candidate):
    """What the rules that others use say of it; and the relative difference of the tensor that is farthest off, below
    which a flat margin finds it."""
    ways = {"flat": (), "assert-close": ()}
    if runs.perturbs:
        ways["perturbation"] = "--perturbed", "reference-perturbed"
    said = {rule: runs.check("reference", candidate, "--rule", rule, *more) for rule, more in ways.items()}
    finite = [line["relative"] for line in said["flat"][1].values() if line["relative"] is not None]
    found = {f"{rule.replace('-', '_')}_found": int(verdict["exit_code"] == 1) for rule, (verdict, _) in said.items()}
    return {**found, "farthest": f"{max(finite, default=0):.3g}"}


def judged(plumb, folder, example, options, mistakes, keep, add, dither=False, sketch=False):
    """One line of figures, and what is wrong. `keep` gets each run and its figures, `add` the healthy run's distances."""
    runs, wrong = Runs(plumb, folder, example, options), []
    runs.dither, runs.sketch, runs.twins, runs.perturbs = dither, sketch, not dither, not dither
    losses = [runs.run("plain", 2) == runs.run("traced", 2, folder / "healthy"),
              runs.run("plain", 1) == runs.run("traced", 1, folder / "reference", folder / "healthy")]
    for equal, what in zip(losses, ("candidate", "reference")):
        if not equal:
            wrong.append(f"tracing changes the losses of the {what}")
    verdict, lines = runs.check("reference", "healthy", "--twins", *runs.twins_for("healthy"))
    distances = runs.distances(lines)
    ratios, others = foretold(distances)
    share = lambda low, high, of=ratios.values(): sum(low <= r <= high for r in of) / max(len(of), 1)
    add(distances)
    if verdict["exit_code"] == 1 or verdict["exit_code"] and not dither:
        wrong.append(f"the healthy run is not acquitted: exit code {verdict['exit_code']}, blamed '{verdict['blamed']}'")
    of_all = {"changed_lines": changed_lines(example), "losses_equal": int(all(losses)), "tensors": verdict["tensors"],
              "differ": len(ratios), "near": f"{share(.8, 1.25):.4f}", "within": f"{share(.5, 2):.4f}",
              "draws_near": f"{share(.8, 1.25, others):.4f}"}
    keep("healthy", {**of_all, "unjudged": verdict["unjudged"], "exit_code": verdict["exit_code"],
                     "blamed": verdict["blamed"] or "-", "right": int(not verdict["exit_code"]), "changes": 0,
                     **beside(runs, "healthy")})
    found = []
    for mistake in mistakes:
        runs.program(mistake, mistake, "trace")
        runs.run(mistake, 2, folder / ("with-" + mistake), more=["--steps", 1])  # the one that is traced
        bad, _ = runs.check("reference", "with-" + mistake, "--twins", *runs.twins_for("with-" + mistake))
        right = bad["exit_code"] == 1 and bad["blamed"] in mistakes[mistake].split()
        keep(mistake, {**of_all, "unjudged": bad["unjudged"], "exit_code": bad["exit_code"], "blamed": bad["blamed"] or "-",
                       "right": int(right), "changes": runs.changes("with-" + mistake), **beside(runs, "with-" + mistake)})
        small = mistake in SMALL.get(example, {})
        missed = "missed" if small and bad["exit_code"] != 1 else "WRONG"
        found.append(f"{mistake} {'right' if right else missed} ({bad['blamed']} by {bad['blamed_by']})")
        if not right and not small:
            wrong.append(f"{mistake}: blamed is '{bad['blamed']}', exit code {bad['exit_code']}")
    return (f"{len(ratios)} of {verdict['tensors']} differ, {100 * share(.8, 1.25):.1f} % in [0.8, 1.25] (a twin by the "
            f"others: {100 * share(.8, 1.25, others):.1f}), {100 * share(.5, 2):.1f} % in [0.5, 2]; "
            f"{verdict['unjudged']} not judged; healthy "
            + {0: "acquitted", 3: "UNDECIDED"}.get(verdict["exit_code"], "ACCUSED") + "; " + ", ".join(found)), wrong


def filled(plumb, folder, example, options, mistakes, known, keep):
    """A line of what rules beside twins say of these runs, made without twins; and what stood in the table otherwise."""
    lacking = [run for run in ["healthy", *mistakes] if not known(run)]
    if lacking:
        return "not filled in", [f"no rows of {', '.join(lacking)} to fill in; make them without --beside"]
    runs, wrong, found = Runs(plumb, folder, example, [*options, "--steps", 1]), [], []
    runs.twins, runs.perturbs = False, True
    runs.run("traced", 2, folder / "healthy")
    runs.run("traced", 1, folder / "reference", folder / "healthy")
    for run in ["healthy", *mistakes]:
        if run in mistakes:
            runs.program(run, run, "trace")
            runs.run(run, 2, folder / ("with-" + run))
        said, was = beside(runs, "healthy" if run == "healthy" else "with-" + run), known(run)
        wrong += [f"{run}: {name} is {value}, and was {was[name]}" for name, value in said.items()
                  if was.get(name) not in (None, "", str(value))]
        keep(run, {**was, **said})
        found.append(f"{run} {said['perturbation_found']}")
    return "found by perturbation: " + ", ".join(found), wrong


def by_rewriting(plumb, folder, example, options, mistakes):
    """How many tensors are wrong with each mistake, and how many of them by themselves: where modules hand on what the
    reference has (docs/pytorch.md, Which module)."""
    runs, wrong, said = Runs(plumb, folder, example, [*options, "--steps", 1]), [], []
    runs.run("traced", 2, folder / "healthy")
    runs.run("traced", 1, folder / "reference", folder / "healthy")
    runs.rewrite = 1
    runs.run("traced", 1, folder / "again", folder / "healthy")
    for mistake in ["", *mistakes]:
        if mistake:
            runs.program(mistake, mistake, "trace")
        found = []
        for runs.rewrite, candidate, twins in (("", "as-it-is", TWINS), (folder / "reference", "rewritten", AGAIN)):
            runs.run(mistake or "traced", 2, folder / candidate)
            runs.check("reference", candidate, "--twins", *twins)
            lines = map(json.loads, (folder / "report.jsonl").read_text().splitlines())
            found.append({line["id"]: None for line in lines if line["type"] == "finding"})
        right = set(mistakes.get(mistake, "").split()) & found[1].keys()
        said.append(f"{mistake or 'healthy'}: {len(found[0])} wrong, {len(found[1])} by itself"
                    + "".join(f", {id}" for id in [*found[1]][:3]))
        if bool(found[1]) if not mistake else not right and mistake not in SMALL.get(example, {}):
            wrong.append(f"by rewriting, {said[-1]}")
    return "\n  ".join(said), wrong


def trained(plumb, folder, example):
    """A file of weights after 300 steps on one process; made once."""
    file = folder / f"{example}-trained.pt"
    if not file.exists():
        runs = Runs(plumb, folder / example, example, ["--steps", "300", "--save", file])
        runs.run("plain", 1)
    return ["--load", file]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb", type=lambda name: str(pathlib.Path(name).resolve()))
    parser.add_argument("folder", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--only", choices=MISTAKES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--formats", default="fp32,bf16")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--rows", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--tensors", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--dither", action="store_true")
    parser.add_argument("--sketch", action="store_true")
    parser.add_argument("--device", default="cpu", help="cuda: of the programs of model.py; all ranks share a GPU")
    asked = parser.parse_args()
    if asked.beside and (not asked.rows or asked.rewrite or asked.dither or asked.sketch):
        parser.error("--beside fills in the table that --rows names, of runs as they are: give --rows, and leave --rewrite, "
                     "--dither and --sketch out")
    os.environ.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    examples = [asked.only] if asked.only else list(MISTAKES)
    if asked.device == "cpu":
        FORKS.set_forkserver_preload([  # and not Megatron's core, of which mistakes replace an expression when it is imported
            "torch.distributed.tensor.parallel", "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch._dynamo",
            "torch._inductor.compile_fx", "torch._inductor.test_operators", "torch.utils.cpp_extension",
            *["transformers.models.llama.modeling_llama"] * ("hugging_face" in examples)])
    trouble, rows, sums = 0, Rows(asked.rows), Sums(asked.tensors)
    weights = "trained" if asked.trained else "random"
    for file in filter(None, (asked.rows, asked.tensors)):
        say_how(file, asked)
    missing = {example: why_not(example) for example in examples}
    for example, reason in missing.items():
        if reason:
            print(f"skipped {example}: {reason}")
    here = [example for example in examples if not missing[example]]
    for seed, example, format in itertools.product(range(asked.seeds), here, asked.formats.split(",")):
        key = (example, format, weights, seed)
        mistakes = dict(list(MISTAKES[example].items())[:0 if asked.healthy else 1 if asked.brief else None])
        if not asked.brief and not asked.healthy:
            mistakes.update({small: blamed for small, blamed in SMALL.get(example, {}).items()
                             if ONLY.get((example, small), format) == format})
        last = (*key, ["healthy", *mistakes][-1])
        if rows.has(*last) if not asked.beside else rows.of(*last).get("perturbation_found"):
            continue
        options = ["--seed", str(seed)] + (["--bf16"] if format == "bf16" else [])
        options += ["--device", asked.device] if asked.device != "cpu" else []
        if asked.trained:
            options += trained(asked.plumb, asked.folder, example)
        keep = lambda run, seen, key=key: rows.add((*key, run), seen)
        if asked.beside:
            line, wrong = filled(asked.plumb, asked.folder / example, example, options, mistakes,
                                 lambda run, key=key: rows.of(*key, run), keep)
        elif asked.rewrite:
            line, wrong = by_rewriting(asked.plumb, asked.folder / example, example, options, mistakes)
        else:
            line, wrong = judged(asked.plumb, asked.folder / example, example, options, mistakes, keep,
                                 lambda distances, key=key: sums.add(key[:3], key[3], distances), asked.dither,
                                 asked.sketch)
        print(f"{example} {format} {weights} seed {seed}: {line}", *wrong, sep="\n  ", flush=True)
        trouble += len(wrong)
    return 1 if trouble else 0 if here else 77


if __name__ == "__main__":
    sys.exit(main())
