#!/usr/bin/env python3
"""How small an error of scale does a check see, and how small did an earlier check?

Healthy runs of two families, in three recipes and layouts, by weights of three ages, and of more layers. Each program
makes and checks its own; what a check would see it says itself (`smallest_scale` of its verdict). Where a check looks
twice, an error has to reach what both looks allow: the larger counts. Writes rows and provenance, and goes on from the
rows that it finds.

    power.py --plumb build/plumb --before OTHER/plumb -o results [--runs N]
"""
import argparse, csv, itertools, json, os, re, statistics, subprocess, sys, tempfile

HOME = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LEVEL, TWINS = 0.01, 4
COLUMNS = ["steps", "layers", "recipe", "layout", "family", "before", "first_look", "second_look"]
RUNS = [(steps, layers, recipe, layout, family)
        for (steps, layers), layouts in (((1, 4), ("tp2", "cp2", "tp4")), ((3, 4), ("tp2", "cp2", "tp4")),
                                         ((60, 4), ("tp2", "cp2", "tp4")), ((1, 16), ("tp2", "tp4")))
        for recipe, layout, family in itertools.product(("bf16", "fp8-current", "fp8-block"), layouts, ("gpt", "llama"))]


def of_twins(name):
    """A constant of the check that looks twice."""
    with open(os.path.join(HOME, "trace", "twins.hpp")) as header:
        return float(re.search(rf"constexpr \w+ {name} = (\d+);", header.read())[1])


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def commit_of(plumb):
    return re.search(r"commit (\S+)", call(plumb, "--version"))[1]


def make(plumb, folder, steps, layers, recipe, layout, family):
    model = ["--family", family, "--layers", str(layers), "--recipe", recipe, "--steps", str(steps)]
    call(plumb, "train", *model, "-o", f"{folder}/reference")
    call(plumb, "train", *model, "--layout", layout, "-o", f"{folder}/candidate")


def smallest(plumb, folder, twins, level):
    words = ["--rule", "twins", "--twins", str(int(twins)), "--false-alarm", f"{level:g}", "--json"]
    lines = call(plumb, "check", f"{folder}/reference", f"{folder}/candidate", *words).splitlines()
    return next(seen["smallest_scale"] for seen in map(json.loads, lines) if "smallest_scale" in seen)


def measure(plumb, before, run):
    with tempfile.TemporaryDirectory() as folder:
        make(before, folder, *run)
        was = smallest(before, folder, TWINS, LEVEL)
    with tempfile.TemporaryDirectory() as folder:
        make(plumb, folder, *run)
        first = smallest(plumb, folder, TWINS, LEVEL)
        # A check's first look is looser by so much than it is asked to be.
        second = smallest(plumb, folder, TWINS * of_twins("more_twins"), LEVEL / of_twins("stricter") / of_twins("looser"))
    return was, first, second


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--plumb", required=True)
    arguments.add_argument("--before", required=True)
    arguments.add_argument("-o", "--output", required=True)
    arguments.add_argument("--runs", type=int, default=len(RUNS))
    asked = arguments.parse_args()
    runs = RUNS[:: max(len(RUNS) // max(asked.runs, 1), 1)][:asked.runs]
    os.makedirs(asked.output, exist_ok=True)
    file, beside = (os.path.join(asked.output, "smallest-scale." + kind) for kind in ("csv", "json"))
    provenance = {"command": "experiments/power/power.py", "commit": commit_of(asked.plumb),
                  "before": commit_of(asked.before), "python": sys.version.split()[0], "seeds": "1"}
    rows = [COLUMNS]
    if os.path.exists(file):
        with open(file, newline="") as made, open(beside) as of:
            rows, other = list(csv.reader(made)), json.load(of)
        if other != provenance:
            sys.exit(f"{file} has rows of other programs: choose another folder")
    with open(beside, "w") as out:
        json.dump(provenance, out, indent=1)
        out.write("\n")
    for run in runs:
        words = [str(x).replace(",", ";") for x in run]
        if words in [row[:5] for row in rows]:
            continue
        was, first, second = measure(asked.plumb, asked.before, run)
        rows.append([*words, f"{was:.4g}", f"{first:.4g}", f"{second:.4g}"])
        with open(file, "w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(rows)
        print(f"{len(rows) - 1} of {len(runs)}: {' '.join(words)}: {was / max(first, second):.2f} times smaller", flush=True)
    print(f"in the median {statistics.median(float(r[5]) / max(float(r[6]), float(r[7])) for r in rows[1:]):.2f} times smaller")


if __name__ == "__main__":
    main()
