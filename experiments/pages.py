#!/usr/bin/python3
"""Two pages of docs/ that are made of rows and cards: the scoreboard and the catalogue of bugs.

    pages.py PLUMB          writes docs/scoreboard.md and docs/bugs.md
    pages.py PLUMB --check  says whether they are those of these rows and cards

PLUMB is the program: it prints the cards (`plumb bugs --json`).
"""
import csv
import json
import pathlib
import subprocess
import sys
import textwrap

from doses_plot import middle, size_of

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = pathlib.Path(__file__).parent / "results"
OURS, STRUCTURE = "twins;replay", "structure"
RULES = {OURS: "twins and replay (default)", "perturbation": "perturbation (the paper's)",
         "depth-law": "depth-law (its adopter's)", "flat": "flat 8.29 % (the paper's constant)",
         "assert-close": "assert_close (PyTorch's)"}
KINDS = {"computation": "something else is computed", "communication": "something else is exchanged, or with others",
         "missing-sum": "a sum or an exchange does not happen", "stale-data": "data of another time: races, reused buffers",
         "scaling": "a factor", "sharding": "another part of a tensor", "precision": "a format, a number of bits",
         "hardware": "a unit, a memory or a wire is broken"}
RARE = 0.02  # the false-positive rate below which TrainCheck's figures are given


def rows(name):
    with open(next(RESULTS.glob(f"*/{name}.csv")), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def provenance(name):
    path = next(RESULTS.glob(f"*/{name}.json"))
    says = json.loads(path.read_text(encoding="utf-8"))
    return f"`{says['command']}`, commit {says['commit'][:12]}, device `{path.parent.name}`"


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines])


def wrapped(text):
    return "\n".join(textwrap.wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False))


def share(n, of):
    return f"{n} of {of}"


def rate_of(rates, kind, weights, rule, at):
    for r in rates:
        if (r["kind"], r["weights"], r["rule"], r["at"]) == (kind, weights, rule, at):
            return r
    return None


def by_rule(rates):
    lines = []
    for rule, name in RULES.items():
        given, equal = rate_of(rates, "all", "all", rule, "as given"), rate_of(rates, "all", "all", rule,
                                                                              "our false alarms")
        n = given["trials"]
        lines.append([name, share(given["detected_or_structure"], n), share(given["blamed_right_with_structure"], n),
                      share(given["healthy_accused"], n)] +
                     ([share(equal["detected_or_structure"], n), share(equal["blamed_right_with_structure"], n),
                       equal["healthy_accused"], equal["margin"]] if equal else ["the same", "the same", "", ""]))
    return table(["rule", "found, as given", "blamed exactly", "healthy runs accused", "found at our false alarms",
                  "blamed exactly", "accused", "at the margin"], lines)


def by_kind(rates):
    lines = []
    for kind, what in KINDS.items():
        line = [f"{kind}: {what}"]
        for rule in RULES:
            r = rate_of(rates, kind, "all", rule, "as given" if rule == OURS else "our false alarms")
            line.append(share(r["detected_or_structure"], r["trials"]))
        lines.append(line)
    return table(["kind"] + [name.split(" (")[0] for name in RULES.values()], lines)


def missed(trials):
    """Bugs that the default rules have not found, or blamed elsewhere, in some trial."""
    of = {}
    for r in trials:
        if r["rule"] != OURS:
            continue
        found = r["detected"] == "1" or r["structure"] == "1"
        n = of.setdefault(r["bug"], [0, 0, 0])
        n[0] += 1
        n[1] += not found
        n[2] += found and r["blamed_right"] != "1"
    bad = [[f"`{bug}`", n[0], n[1], n[2]] for bug, n in of.items() if n[1] or n[2]]
    if not bad:
        return "The default rules found every bug in every trial, and blamed the tensor where it bites."
    return table(["bug", "trials", "not found", "found, another tensor blamed"], bad)


def margins(rates):
    """At false-alarm rates of each rule's own, is any below the rate that others publish theirs at?"""
    n = rate_of(rates, "all", "all", OURS, "as given")
    return float(n["healthy_accused"]) / float(n["trials"])


def of_joints(trials):
    lines = []
    for kind in dict.fromkeys(r["kind"] for r in trials):
        shown = [r for r in trials if r["kind"] == kind and r["changed"] == "1"]
        count = lambda column: sum(r[column] == "1" for r in shown)
        lines.append([kind, len(shown), count("twins_replay"), count("perturbation"), count("flat"),
                      count("assert_close"), count("accused")])
    total = ["all"] + [sum(line[i] for line in lines) for i in range(1, len(lines[0]))]
    return table(["kind of fault", "runs in which a bit changed", "default", "perturbation", "flat 8.29 %", "assert_close",
                  "healthy runs that the default rules accuse"], lines + [total])


def of_hardware(rates):
    of = {}
    for r in rates:
        n = of.setdefault((r["kind"], r["dose"]), {})
        for column in list(r)[3:]:
            n[column] = n.get(column, 0) + int(r[column])
    lines = [[kind, dose, n["changed"], n["default_found"], n["default_blamed_right"], n["perturbation_found"],
              n["flat_found"], n["assert_close_found"]] for (kind, dose), n in of.items()]
    return table(["what", "dose", "runs in which a bit changed", "default", "blamed exactly", "perturbation", "flat 8.29 %",
                  "assert_close"], lines)


def of_benign(rates, on_a_gpu):
    of = {}
    for r in rates:
        n = of.setdefault(r["control"], [0, 0, 0, 0])
        for i, column in enumerate(list(r)[2:]):
            n[i] += int(r[column])
    of = {control: n for control, n in of.items() if n[0] > 0}
    for r in on_a_gpu:
        n = of.setdefault(r["control"] + ", on an H100", [0, 0, 0, 0])
        for i, one in enumerate((True, r["other_bits"] != "0", r["default_accused"] == "1", r["perturbation_accused"] == "1")):
            n[i] += one
    total = [sum(n[i] for n in of.values()) for i in range(4)]
    return table(["what is other", "runs", "of other bits", "accused by default", "accused by perturbation"],
                 [[control] + n for control, n in of.items()] + [["all"] + total])


def of_doses(rates):
    """Of each fault the smallest size that a rule sees: the middle of families and recipes."""
    shown = [(OURS, "as given"), ("twins", "as given"), ("perturbation", "as given"), ("perturbation", "our false alarms"),
             ("depth-law", "our false alarms"), ("flat", "our false alarms"), ("assert-close", "our false alarms")]
    lines = []
    for fault in dict.fromkeys(r["fault"] for r in rates):
        of = [r for r in rates if r["fault"] == fault]
        sizes = [middle([size_of(r["smallest"]) for r in of if (r["rule"], r["at"]) == way]) for way in shown]
        there = middle([size_of(r["smallest_tried"]) for r in of])
        lines.append([f"{of[0]['tensor']}, {of[0]['kind']}: {fault}", f"{there:.2g}"] +
                     ["none" if size is None else f"{size:.2g}" for size in sizes])
    lines.sort()
    return table(["fault", "smallest tried", "default", "twins alone", "perturbation as given",
                  "perturbation at our false alarms", "depth-law", "flat 8.29 %", "assert_close"], lines)


def of_late(rates):
    lines = []
    for step in dict.fromkeys(r["step"] for r in rates):
        of = [r for r in rates if r["step"] == step]
        lines.append([step] + [sum(int(r[column]) for r in of) for column in list(rates[0])[2:]])
    return table(["step", "runs", "a bit changed", "found", "blamed exactly", "healthy runs accused"], lines)


COSTS = {"visible": "worse, and its curve tells within the first half of the run", "late": "worse, and its curve tells later",
         "silent": "worse, and its curve never tells", "alarming": "not worse, and its curve tells",
         "harmless": "not worse, and its curve does not tell", "cannot go on": "ranks lack what the next step needs"}


def of_costs(rates):
    """How many bugs end how, and which; healthy runs with bits of their own judged by the others."""
    healthy = {(r["model"], r["recipe"], r["end"], r["above_healthy"]): r["kind"] for r in rates if r["bug"] == "none"}
    lines = []
    for kind, what in COSTS.items():
        bugs = [f"`{r['bug']}`" for r in rates if r["bug"] != "none" and r["kind"] == kind]
        lines.append([f"{kind}: {what}", len(bugs), list(healthy.values()).count(kind), ", ".join(bugs)])
    return table(["the model at the end", "bugs", f"of {len(healthy)} healthy runs", "which"], lines)


def scoreboard():
    trials, rates = rows("detection-rate"), rows("detection-rate-rates")
    bugs = len({r["bug"] for r in trials})
    alarms = margins(rates)
    joints, doses, late = rows("joint-faults"), rows("smallest-fault-rates"), rows("late-bugs-rates")
    silent = sorted({f"{r['joint']}/{r['kind']}" for r in joints if r["changed"] == "1" and r["twins_replay"] != "1"})
    parts = [
        "# Scoreboard: which rule finds which bug",
        wrapped("""This page is made of committed rows by `experiments/pages.py`; a test holds it against them. No rate of
        detection stands here without the rate of false alarms of the same rule on the same runs without the bug."""),
        "## Known bugs",
        wrapped(f"""{bugs} bugs ([the catalogue](bugs.md)), every family that each can bite in, random and trained weights,
        {len({r['seed'] for r in trials})} seeds: {len([r for r in trials if r['rule'] == OURS])} runs with a bug, and as
        many without. *Found* is by the rule or by structure, which needs no rule (replicas that differ, tensors that are
        missing, numbers that are none); *blamed exactly* is the tensor where the bug bites. The last four columns move
        each rule's tolerance by one factor, until it accuses no more of the healthy runs than the default rules do.
        Rows: {provenance("detection-rate")}."""),
        by_rule(rates),
        "![Which rule notices which bug](../experiments/results/" +
        next(RESULTS.glob("*/detection-rate.svg")).parent.name + "/detection-rate.svg)",
        "Found, by kind of bug, where each rule accuses no more healthy runs than the default ones:",
        by_kind(rates),
        missed(trials),
        "## Faults that nobody reported",
        wrapped(f"""At each of {len({r['joint'] for r in joints})} joints of the model every kind of wrong answer that its
        type allows (`injectors/generic.hpp`): in the first setting in which a bit changes, on random and on trained
        weights. Structure counts for every rule. Rows: {provenance("joint-faults")}."""),
        of_joints(joints),
        "Not found by the default rules: " + (", ".join(f"`{s}`" for s in silent) + "." if silent else "none."),
        "## Hardware",
        wrapped(f"""One tensor of one rank, drawn from all that forward and backward make in BF16 under tp2. Bits are those
        of a word of BF16: 0 to 6 its fraction, 7 to 14 its exponent, 15 its sign. A rule of sizes counts as finding what
        it does not accuse the healthy run of as well. Rows: {provenance("hardware-corruption")}."""),
        of_hardware(rows("hardware-corruption-rates")),
        "## What nobody would call a bug",
        wrapped(f"""Healthy runs that are other runs than the reference: their ranks add in another order, their products
        are another library's, activations are made again, micro-batches or gradients are dealt otherwise; in four recipes,
        two families, on random and trained weights. *Of other bits*: some tensor has other bits than the reference. Rules
        as they are given; one healthy run in a hundred may be accused. Rows: {provenance("benign-controls")}; those of
        cuBLAS are of an H100 (`results/h100/benign-controls-cublas.csv`)."""),
        of_benign(rows("benign-controls-rates"), rows("benign-controls-cublas")),
        "## How small a fault is seen",
        wrapped(f"""Faults of any size in one tensor of a healthy run, on trained weights (dp2,tp2; GPT and Llama; BF16 and
        FP8; four batches): the smallest size from which upwards a rule sees every fault, in the middle of all. The rules of
        others stand at the margin at which they accuse as few of
        {next(r for r in doses if r["rule"] == OURS)["healthy"]} healthy runs of the same model in the same recipe as the
        default rules do, which is none. None: not even the largest, 1. Rows: {provenance("smallest-fault")}."""),
        of_doses(doses),
        "![How small a fault does each rule still see?](../experiments/results/" +
        next(RESULTS.glob("*/smallest-fault.svg")).parent.name + "/smallest-fault.svg)",
        "## Bugs that begin late",
        wrapped(f"""{len({r["bug"] for r in late})} bugs leave the first step of a job right: what goes wrong is kept from
        step to step, or happens after an evaluation. Each step is checked from the state that a right run has reached
        (`--every-step`, `--resync`). Rows: {provenance("late-bugs")}."""),
        of_late(late),
        "## What bugs cost who trains on",
        wrapped(f"""Every bug for 2000 steps of a tiny model (2 layers, width 32), beside healthy runs of the same model in
        other layouts over the same data. *Worse*: the loss of a right step over batches that it has not seen lies above
        those of healthy runs by more than one of these in a hundred would. *Tells*: the curve that the run reports leaves
        the band of theirs for good, by more than its width and a pixel. Rows: {provenance("training-cost")}; the healthy
        runs and the first 46 bugs were made at 94792dd."""),
        of_costs(rows("training-cost-rates")),
        "## Beside published figures",
        table(["who", "bugs", "found", "false alarms"],
              [["TTrace (arXiv 2506.09280)", "14, real", "14 of 14", "none given"],
               ["TrainCheck (OSDI'25, arXiv 2506.14813)", "20, real", "18 of 20", "< 2 % with 5 to 6 programs to learn from"],
               ["signals of curves (TrainCheck's baseline)", "the same 20", "2 of 20", "none given"],
               ["plumb, default rules", f"{bugs} planted, most after reports",
                share(rate_of(rates, "all", "all", OURS, "as given")["detected_or_structure"],
                      rate_of(rates, "all", "all", OURS, "as given")["trials"]) + " runs",
                f"{100 * alarms:.2g} % of healthy runs"]]),
        wrapped("""The others ran on real programs, each bug once; ours are planted into one small model whose promise is
        known, each in several runs. So the rows say what a rule can see, and not that every program can be judged as well
        as that model."""),
        "## Make it again",
        wrapped("""All rows of this page on two cores; each command goes on where it was stopped or killed, and says how
        many rows and how much time are left."""),
        "```\nmpirun -n 2 plumb experiment detection-rate --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment joint-faults --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment hardware-corruption --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment benign-controls --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment smallest-fault --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment late-bugs --world mpi -o mine\n"
        "mpirun -n 2 plumb experiment training-cost --world mpi -o mine\n```",
    ]
    return "\n\n".join(parts) + "\n"


def seen_by(trials):
    of = {}
    for r in trials:
        found = r["detected"] == "1" or r["structure"] == "1"
        n = of.setdefault(r["bug"], {}).setdefault(r["rule"], [0, 0])
        n[0] += found
        n[1] += 1
    return of


def catalogue(bugs):
    seen = seen_by(rows("detection-rate"))
    parts = ["# Catalogue of bugs that can be planted",
             wrapped("""Each is a card of `injectors/bugs/`. This page is made of the cards and of the rows of
             [the scoreboard](scoreboard.md) by `experiments/pages.py`. *Seen by* counts runs in which a rule, as it is
             given, or structure finds the bug; rules of sizes also accuse healthy runs (scoreboard). Try one:
             `plumb catch ID`.""")]
    for kind, what in KINDS.items():
        parts.append(f"## {kind}: {what}")
        for bug in [b for b in bugs if b["kind"] == kind]:
            needs = bug["needs"]
            wants = ", ".join([needs["layout"], needs["recipe"]] + needs["families"] +
                              [f"{k} {v}" for k, v in needs["settings"].items()])
            n = seen.get(bug["id"], {})
            counts = "; ".join(f"{RULES[rule].split(' (')[0]} {share(*n[rule])}" for rule in RULES if rule in n)
            paper = f" Bug {bug['paper']['bug']} of TTrace's table ({bug['paper']['match']})." if bug["paper"] else ""
            dose = "" if bug["dose"] == "none" else f" Dose: {bug['dose']}."
            parts += [f"### {bug['id']}", wrapped(f"**{bug['title']}.** {bug['story']}{paper}"),
                      wrapped(f"Reported: {bug['seen_in']}. Bites in: {wants}. Hides: {bug['hides_when']}.{dose} Seen by: "
                              f"{counts or 'no rows yet'}.")]
    return "\n\n".join(parts) + "\n"


def main():
    program = sys.argv[1]
    bugs = json.loads(subprocess.run([program, "bugs", "--json"], check=True, capture_output=True).stdout)["bugs"]
    pages = {ROOT / "docs" / "scoreboard.md": scoreboard(), ROOT / "docs" / "bugs.md": catalogue(bugs)}
    old = [str(path.relative_to(ROOT)) for path, text in pages.items()
           if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit("not of these rows and cards: " + ", ".join(old) + "; write them: ./run plots" if old else 0)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
