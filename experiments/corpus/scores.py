#!/usr/bin/env python3
"""How well do the rules of `plumb check` do on the corpus that others are scored on?

Makes a corpus (`plumb corpus`), has each rule judge each case from its traces alone, holds the verdicts against the
labels (`plumb score`) and writes rows, rates and provenance.

    scores.py --plumb build/plumb -o results [--bugs REGEX] [--weights random,trained] [--seeds N] [--keep DIR]
"""
import argparse, csv, json, os, re, shutil, subprocess, sys, tempfile

RULES = ["twins,replay", "perturbation", "flat", "assert-close"]
EXACT = 1e300  # the ratio of an error where none is tolerated: above all others
COLUMNS = ["bug", "family", "weights", "recipe", "layout", "seed", "bites", "checker", "verdict", "blamed", "score"]


def run(command, codes=(0,)):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


def options_of(rule, case, at):
    if rule == "twins,replay":
        return ["--twins"] + [at(twin) for twin in case["twins"]]
    return ["--rule", rule] + (["--perturbed", at(case["perturbed"])] if rule == "perturbation" else [])


def verdict(plumb, rule, case, at):
    """A case judged by one rule: the line that `plumb score` reads. What is refused is undecided, and told."""
    done = run([plumb, "check", at(case["reference"]), at(case["candidate"]), "--json"] + options_of(rule, case, at),
               (0, 1, 2, 3))
    if done.returncode == 2:
        print(f"{case['case']}, {rule}: {done.stderr.strip()}", file=sys.stderr)
        return {"case": case["case"], "verdict": "undecided", "blamed": "", "score": 0}
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ratios = [line["ratio"] for line in lines if line["type"] in ("finding", "tensor")]
    first = next((line["id"] for line in lines if line["type"] == "finding"), "")
    return {"case": case["case"], "verdict": {0: "pass", 1: "fail", 3: "undecided"}[done.returncode],
            "blamed": lines[0]["blamed"] or first, "score": max(EXACT if r is None else r for r in ratios)}


def rate(share):
    if not share["of"]:
        return ["0", "0", "-", "-"]
    return [str(share["hits"]), str(share["of"])] + [f"{x:.4f}" for x in share["interval"]]


def rates_of(weights, rule, score):
    shares = [score["detected"], score["false_alarms"], score["undecided"]["buggy"], score["undecided"]["healthy"],
              score["blamed"]["tensor"], score["blamed"]["module"], score["scores"]["detected"]]
    return [weights, rule, *(cell for share in shares for cell in rate(share)), f"{score['scores']['area']:.4f}",
            " ".join(score["passed"]) or "-"]


SHARES = ["detected", "false_alarms", "undecided_buggy", "undecided_healthy", "blamed_tensor", "blamed_module",
          "detected_at_level"]
RATES = ["weights", "checker", *(name + end for name in SHARES for end in ("", "_of", "_low", "_high")), "area",
         "passed"]


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def judge(plumb, folder, weights, rows, rates):
    at = lambda name: os.path.join(folder, name)
    labels = {label["case"]: label for label in json.load(open(at("labels.json")))["cases"]}
    for rule in RULES:
        verdicts = [verdict(plumb, rule, case, at) for case in json.load(open(at("cases.json")))["cases"]]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(v) + "\n" for v in verdicts)
            file.flush()
            score = json.loads(run([plumb, "score", at("labels.json"), file.name, "--json"]).stdout)
        rates.append(rates_of(weights, rule, score))
        for v in verdicts:
            label = dict(labels[v["case"]], checker=rule, verdict=v["verdict"], blamed=v["blamed"] or "-")
            label.update(bug=label["bug"] or "-", bites=int(label.get("bites", 0)), score=f"{v['score']:.4g}")
            rows.append([label[name] for name in COLUMNS])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--plumb", required=True)
    arguments.add_argument("-o", "--output", required=True)
    arguments.add_argument("--bugs")
    arguments.add_argument("--weights", default="random,trained")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--keep", help="a folder in which the corpora stay")
    asked = arguments.parse_args()
    rows, rates = [], []
    with tempfile.TemporaryDirectory() as temporary:
        for weights in asked.weights.split(","):
            folder = os.path.join(asked.keep or temporary, weights)
            run([asked.plumb, "corpus", "-o", folder, "--small", "--twins", "4", "--perturbed", "--weights", weights,
                 "--seeds", str(asked.seeds)] + (["--bugs", asked.bugs] if asked.bugs else []))
            judge(asked.plumb, folder, weights, rows, rates)
            if not asked.keep:
                shutil.rmtree(folder)
    os.makedirs(asked.output, exist_ok=True)
    at = lambda name: os.path.join(asked.output, name)
    write(at("corpus.csv"), COLUMNS, rows)
    write(at("corpus-rates.csv"), RATES, rates)
    version = run([asked.plumb, "--version"]).stdout
    options = f"--weights {asked.weights} --seeds {asked.seeds}" + (f" --bugs '{asked.bugs}'" if asked.bugs else "")
    with open(at("corpus.json"), "w") as file:
        json.dump({"command": f"experiments/corpus/scores.py {options}", "seeds": "in the rows",
                   "commit": re.search(r"commit (\S+)", version)[1], "python": sys.version.split()[0]},
                  file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
