"""Tables that run.py keeps: of runs, and of tensors over seeds; and what made them, beside."""
import csv
import json
import pathlib
import re
import subprocess
import sys


class Table:
    """Of what was seen, kept after each change."""
    def __init__(self, file):
        self.file, self.known = file, {}
        if file and file.exists():
            with open(file, newline="", encoding="utf-8") as old:
                self.known = {tuple(row[name] for name in self.KEY): row for row in csv.DictReader(old)}

    def put(self, key, seen):
        row = {name: str(value) for name, value in {**dict(zip(self.KEY, key)), **seen}.items()}
        self.known[tuple(row[name] for name in self.KEY)] = row

    def keep(self):
        if not self.file:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        half = self.file.with_suffix(".new")
        with open(half, "w", newline="", encoding="utf-8") as new:
            writer = csv.DictWriter(new, self.KEY + self.SEEN, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.known.values())
        half.replace(self.file)


class Rows(Table):
    """A row for each run."""
    KEY = ["example", "format", "weights", "seed", "run"]
    SEEN = ["changed_lines", "losses_equal", "tensors", "differ", "near", "within", "draws_near", "unjudged", "exit_code",
            "blamed", "right", "changes", "flat_found", "assert_close_found", "perturbation_found", "farthest"]

    def has(self, *key):
        return tuple(map(str, key)) in self.known

    def of(self, *key):
        """What is known of a run."""
        row = self.known.get(tuple(map(str, key)), {})
        return {name: row[name] for name in self.SEEN if name in row}

    def add(self, key, seen):
        self.put(key, seen)
        self.keep()


class Sums(Table):
    """A row for each tensor of a program: squares, added up over its seeds."""
    KEY = ["example", "format", "weights", "tensor"]
    SEEN = ["seeds", "predicted", "observed"]

    def add(self, cell, seed, distances):
        """Once for each seed, in their order: a run that was stopped is made again, and finds itself counted."""
        for id, (seen, *twins) in distances.items():
            old = self.known.get((*cell, id), {"seeds": "", "predicted": 0, "observed": 0})
            if str(seed) not in old["seeds"].split():
                mean = sum(twin ** 2 for twin in twins) / len(twins)
                self.put((*cell, id), {"seeds": f"{old['seeds']} {seed}".strip(),
                                       "predicted": f"{float(old['predicted']) + mean:.6g}",
                                       "observed": f"{float(old['observed']) + seen ** 2:.6g}"})
        self.keep()


def say_how(file, asked):
    """Beside the rows: what made them, for whoever believes them; and what filled them in."""
    said = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    versions = said(sys.executable, "-W", "ignore", "-c", "import torch; print('PyTorch', torch.__version__)")
    processor = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in processor if line.startswith("model name")]
    commit = re.search(r"commit (\S+)", said(asked.plumb, "--version"))
    words = [pathlib.Path(word).name for word in sys.argv[3:]]
    facts = {"command": " ".join(["examples/torch/run.py", "PLUMB", "FOLDER", *words]),
             "commit": commit[1] if commit else "unknown", "device": models[0] if models else "unknown", "flags": versions,
             "seeds": "in the rows; trained weights: seed 0, 300 steps"}
    about = file.with_suffix(".json")
    if asked.beside and about.exists():
        facts = {**json.loads(about.read_text(encoding="utf-8")), "filled": f"{facts['command']}, commit {facts['commit']}"}
    file.parent.mkdir(parents=True, exist_ok=True)
    about.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
