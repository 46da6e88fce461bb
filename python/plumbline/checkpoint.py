"""A checkpoint as a trace, which `plumb check` holds against that of another run or another checkpoint of it:

    python -m plumbline.checkpoint CHECKPOINT TRACE [--step N] [--names FILE] [--agree NAME=TEXT] [--skip REGEX]

CHECKPOINT is a file of safetensors, or a folder of them (with an index, as Hugging Face has it, or without); a folder
of torch.distributed.checkpoint; or a file of torch.save. The first needs the standard library alone, the others
PyTorch. Ids are those of plumbline.trace behind a step: NAME/param, and NAME/exp_avg and the like of the optimizer. No
more than one tensor, or one rank's piece of it, is in memory. docs/pytorch.md has more. Exit code 2: trouble, in one
sentence, and nothing is written.
"""
import argparse
import json
import math
import os
import re
import shutil
import struct
import sys

from plumbline._saved import Refused, first_line, read
from plumbline.capture.names import plain_name
from plumbline.write import WIDTHS, sync_names, write_manifest

AROUND = ("app", "model", "module", "state_dict", "model_state_dict")  # keys under which programs keep weights
EXACT = ("BOOL", "I32", "I64")  # masks, counts, positions: equal or wrong (shorter ones may be codes of a state)
MOST_RANKS = 4096  # of a trace


# Ids, as plumbline.trace has them behind a step

def state_in(path, optimizers):
    """Of an optimizer's state: where it is, of which parameter, and which one."""
    for n, word in enumerate(path):
        if path[:n] in optimizers and word == "state" and len(path) == n + 3:
            return path[:n], path[n + 1], path[n + 2]
        if path[:n] in optimizers and word.startswith("state.") and len(path) == n + 1:  # flattened
            name, _, key = word[len("state."):].rpartition(".")
            return path[:n], name, key
    return None


def of_weight(path):
    while len(path) > 1 and path[0] in AROUND:
        path = path[1:]
    return plain_name(".".join(path))


def numbered(content, prefix, states, weights):
    """Names of the parameters that an optimizer numbers: where it says them, or where it has one group, and the model
    as many weights, of the same shapes in the same order."""
    said, groups = {}, set()
    for path, value in content.others.items():
        inside = path[len(prefix):]
        if path[:len(prefix)] == prefix and inside[0] == "param_groups":
            groups.add(inside[1])
            said[inside[1:]] = value
    names = {str(number): said.get((path[0], "param_names", path[2])) for path, number in said.items()
             if len(path) == 3 and path[1] == "params"}
    if names and None not in names.values():
        return {number: plain_name(name) for number, name in names.items()}
    fits = content.ordered and len(groups) == 1 and len(names) == len(weights) and all(
        number.isdigit() and int(number) < len(weights) and (not x.shape or weights[int(number)].shape == x.shape)
        for number, x in states)
    return {number: of_weight(weights[int(number)].path) for number in names} if fits else {}


def id_of(state, x, names):
    """`names`: of each optimizer's parameters, by its numbers."""
    if state is None:
        return of_weight(x.path) + "/param"
    prefix, name, key = state
    if not name.isdigit():
        return f"{plain_name(name)}/{key}"
    return f"{names[prefix].get(name) or '.'.join((*(prefix or ('optimizer',)), name))}/{key}"


def by_id(content):
    """The tensors by id, and the step that the optimizers say."""
    every = [x.path for x in content.tensors] + list(content.others)
    optimizers = {path[:n] for path in every for n, word in enumerate(path) if word.split(".")[0] == "param_groups"}
    states = [(state_in(x.path, optimizers), x) for x in content.tensors]
    rest = [x for state, x in states if state is None]
    weights = [x for x in rest if x.path[0] in AROUND and len(x.path) > 1] or rest
    names = {prefix: numbered(content, prefix, [(of[1], x) for of, x in states if of and of[0] == prefix], weights)
             for prefix in optimizers}
    out = {}
    for state, x in states:
        if state and state[2] == "step" and not x.shape:
            continue
        id = id_of(state, x, names)
        if id in out:
            raise Refused(f"'{'.'.join(out[id].path)}' and '{'.'.join(x.path)}' of the checkpoint are both {id}")
        out[id] = x
    if any(state and state[1].isdigit() and state[1] not in names[state[0]] for state, _ in states):
        print("plumb: nothing says of which parameters the optimizer's states are: they keep its numbers",
              file=sys.stderr)
    return out, step_of(content, optimizers)


def step_of(content, optimizers):
    """The largest that an optimizer counted; 1 where none says it."""
    said = [(state_in(path, optimizers), value) for path, value in content.others.items()]
    return int(max((value for state, value in said if state and state[2] == "step" and
                    isinstance(value, (int, float)) and math.isfinite(value)), default=1))


def renamed(tensors, file):
    """By the rules of a file as --placement takes it, of which `match` and `id` are meant here."""
    with open(file, encoding="utf-8") as opened:
        try:
            rules = [(rule["match"], re.compile(rule["match"]), rule) for rule in json.load(opened)["tensors"]]
        except (ValueError, KeyError, TypeError, AttributeError, re.error) as wrong:
            raise Refused(f"{file} has no rules for names ({first_line(wrong)}); see docs/trace-format.md") from None
    used, out = set(), {}
    for id, x in tensors.items():
        name = id
        for text, match, rule in rules:
            found = match.search(id) or match.search(name)
            if not found:
                continue
            if "id" not in rule or rule.keys() - {"match", "id", "optional"}:
                raise Refused(f"{file} does not only rename '{text}': give the file to plumb check --placement")
            used.add(text)
            try:
                name = found.expand(rule["id"])
            except re.error as wrong:
                raise Refused(f"{file} cannot rename '{text}' to '{rule['id']}': {wrong}") from None
        if name in out:
            raise Refused(f"{file} calls two tensors {name}")
        out[name] = x
    for text, _, rule in rules:
        if not rule.get("optional") and text not in used:
            raise Refused(f"{file} has the rule '{text}', which matches no tensor of the checkpoint")
    return out


# The trace

def by_rank(tensors):
    """What each rank's file holds: (id, tensor, piece). A rank that has two pieces of one tensor is two."""
    pieces = [(id, x, piece) for id, x in tensors.items() for piece in x.pieces]
    ranks = 1 + max((piece.rank for _, _, piece in pieces), default=0)
    out, seen = {}, {}
    for id, x, piece in pieces:
        again = seen[id, piece.rank] = seen.get((id, piece.rank), -1) + 1
        out.setdefault(piece.rank + again * ranks, []).append((id, x, piece))
    if max(out, default=0) >= MOST_RANKS:
        raise Refused(f"the pieces lie on {max(out) + 1} ranks, and a trace has no more than {MOST_RANKS}")
    return [out.get(rank, []) for rank in range(max(out, default=0) + 1)]


def said_of(id, x, piece):
    says = {"shape": x.shape}
    if piece.offset:
        says["offsets"] = [{"global": piece.offset, "local": [0] * len(piece.size), "size": piece.size}]
    if not id.endswith("/param"):
        says["phase"] = "reduce"  # as the capture says of states
    if x.dtype in EXACT:
        says["role"] = "given"
    return json.dumps(says)


def write_rank(file, held):
    held = sorted(held, key=lambda one: -WIDTHS[one[1].dtype])  # so that each begins at a multiple of its width
    header, at = {"__metadata__": {}}, 0
    for id, x, piece in held:
        size = x.shape if piece.size is None else piece.size
        end = at + math.prod(size) * WIDTHS[x.dtype]
        header[id] = {"dtype": x.dtype, "shape": size, "data_offsets": [at, end]}
        header["__metadata__"][id], at = said_of(id, x, piece), end
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for id, _, piece in held:
            piece.write(out)
            if out.tell() != 8 + len(text) + header[id]["data_offsets"][1]:
                raise Refused(f"the checkpoint changed while '{id}' was read")
        out.flush()
        os.fsync(out.fileno())
    return at


def write(folder, tensors, step, agree):
    """All of it, or nothing: the folder has its name when it is whole."""
    ranks, half = by_rank(tensors), f"{folder.rstrip('/')}.partial-{os.getpid()}"
    at = os.path.join(half, f"step_{step:06d}")
    try:
        os.makedirs(at)
        size = sum(write_rank(os.path.join(at, f"rank_{rank:05d}.safetensors"), held)
                   for rank, held in enumerate(ranks))
        sync_names(at)
        write_manifest(half, producer="checkpoint", ranks=len(ranks), steps=[step], must_agree=agree)
        os.rename(half, folder)
        sync_names(os.path.dirname(os.path.abspath(folder)))
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    print(f"plumb: {len(tensors)} tensors of step {step} on {len(ranks)} rank{'s' * (len(ranks) > 1)} are in "
          f"{folder}, {size / 1e6:.1f} MB")


def convert(checkpoint, folder, step=None, names=None, agree=None, skip=None):
    """Writes the trace `folder` of a checkpoint. Raises Refused, in one sentence, and writes nothing."""
    if os.path.lexists(folder):
        raise Refused(f"{folder} is there already: name another folder")
    tensors, said = by_id(read(checkpoint))
    tensors = renamed(tensors, names) if names else tensors
    tensors = {id: x for id, x in tensors.items() if not (skip and skip.search(id))}
    if not tensors:
        raise Refused(f"{checkpoint} holds no tensor" + (" that --skip leaves" if skip else ""))
    for id, x in tensors.items():
        if x.dtype not in WIDTHS:
            raise Refused(f"{checkpoint} holds '{id}' as {x.dtype}, which plumb does not read: --skip leaves it out")
    step = said if step is None else step
    if not 1 <= step <= 999999:
        raise Refused(f"the step is {step}, and a trace has steps from 1 to 999999: say another with --step")
    write(folder, tensors, step, agree or {})


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m plumbline.checkpoint", description=__doc__.partition("\n\n")[0])
    parser.add_argument("checkpoint", help="a file or folder of safetensors, a folder of "
                        "torch.distributed.checkpoint, a file of torch.save")
    parser.add_argument("trace", help="the folder to write")
    parser.add_argument("--step", type=int, help="behind which it was saved (without: what the optimizer says, or 1)")
    parser.add_argument("--names", help="a file of rules for ids, as plumb check --placement takes them")
    parser.add_argument("--agree", action="append", default=[], metavar="NAME=TEXT",
                        help="what the other run's must_agree has: model=GPT of a trace of plumbline.trace")
    parser.add_argument("--skip", metavar="REGEX", help="ids to leave out")
    asked = parser.parse_args(arguments)
    agree = [text.partition("=") for text in asked.agree]
    if not all(equals for _, equals, _ in agree):
        parser.error("--agree wants NAME=TEXT")
    try:
        skip = re.compile(asked.skip) if asked.skip else None
        agreed = {name: text for name, _, text in agree}
        convert(asked.checkpoint, asked.trace, asked.step, asked.names, agreed, skip)
    except re.error as wrong:
        parser.error(f"--skip is no regular expression: {wrong}")
    except (Refused, OSError) as wrong:
        print(f"plumb: {first_line(wrong)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
