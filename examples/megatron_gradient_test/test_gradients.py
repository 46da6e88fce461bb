"""Are the gradients of a GPT of Megatron's core on two ranks those that one rank computes, up to what rounding does?

    test_gradients.py PLUMB FOLDER [--layouts tp2,pp2,padded] [--format bf16] [--mistake norm] [--junit FILE]
    PLUMB=build/plumb pytest test_gradients.py

For each layout the candidate runs one step, then the reference on one process, and its four twins. `plumb check`
judges the gradients that the optimizer got (main_grad). --junit has a test case for each layout, and one for each
tensor. --mistake plants one of examples/torch/patches: then the test fails. Exit code 1: a layout failed; 77: all are
skipped.
"""
import argparse
import os
import pathlib
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
TORCH = HERE.parent / "torch"
sys.path[:0] = [str(TORCH), str(HERE.parents[1] / "python")]

import run  # noqa: E402  of examples/torch
from plumbline._saved import header_of  # noqa: E402

PROGRAMS = {"tp2": "megatron_core", "pp2": "megatron_pipeline", "padded": "padded_vocabulary"}
GRADIENTS = r"\.weight(/grad)?$"  # and what they start from, in which nothing may differ
run.EXACT["padded_vocabulary"] = run.EXACT["megatron_core"]


class Runs(run.Runs):
    """Of a program of examples/torch, or of one that lies here."""

    def program(self, name, *patches):
        own = HERE / f"{self.example}.py"
        super().program(name, *(() if own.exists() else patches))
        if own.exists():
            (self.folder / name / own.name).write_bytes(own.read_bytes())

    def judged(self, *more):
        """The verdict on the gradients; where it is open, since something before them differs, that on all tensors."""
        asked = ["reference", "candidate", "--twins", *run.TWINS, *more, "--report", "report.xml", "--force"]
        verdict, _ = self.check(*asked, "--only", GRADIENTS)
        return self.check(*asked)[0] if verdict["exit_code"] == 3 else verdict


def what_is_wrong(verdict):
    """In one line; nothing of a pass."""
    if verdict["exit_code"] == 0:
        return ""
    if verdict["exit_code"] == 1:
        return f"blamed: {verdict['blamed']} by {verdict['blamed_by']}; {verdict['findings']} findings"
    return f"inconclusive: {verdict['unjudged']} tensors differ and were not judged"


def rows_behind_the_words(folder):
    """The largest of the gradients of the padding's rows, which the last rank has."""
    file = folder / "candidate/step_000001/rank_00001.safetensors"
    header, begin = header_of(file)
    entry = header["embedding.word_embeddings.weight/grad"]
    first, last = entry["data_offsets"]
    with open(file, "rb") as opened:
        opened.seek(begin + first)
        values = struct.unpack(f"<{(last - first) // 4}f", opened.read(last - first))
    return max(map(abs, values[-6 * entry["shape"][1]:])), max(map(abs, values))


def of_tensor_parallel(runs):
    """Query, key and value lie fused, a group behind the other. Would they be found, if they were merged otherwise?"""
    verdict = runs.judged("--placement", str(HERE / "dealt_by_matrix.json"))
    if verdict["exit_code"] != 1 or "linear_qkv" not in verdict["blamed"]:
        return f"query, key and value merged wrongly are not found: {what_is_wrong(verdict) or 'a pass'}"
    return ""


def of_padding(runs):
    """Nobody asks for words of the padding: their rows have no gradient. Not told of it, plumb finds other shapes."""
    padding, words = rows_behind_the_words(runs.folder)
    if padding != 0 or words == 0:
        return f"the padding's gradients are as large as {padding}, those of words as {words}"
    verdict = runs.judged()
    return "" if verdict["exit_code"] == 1 else "256 rows are taken for 250"


CONTROLS = {"tp2": of_tensor_parallel, "padded": of_padding}
PLACEMENT = {"padded": ["--placement", str(HERE / "padded_vocabulary.json")]}


def outcome(layout, plumb, folder, format="bf16", mistake=None):
    """What is wrong, or nothing; how many tensors were judged, and their test cases."""
    runs = Runs(plumb, folder, PROGRAMS[layout], ["--steps", "1"] + ["--bf16"] * (format == "bf16"))
    if mistake:
        runs.program(mistake, mistake, "trace")
    runs.run(mistake or "traced", 2, folder / "candidate")
    runs.run("traced", 1, folder / "reference", folder / "candidate")
    verdict = runs.judged(*PLACEMENT.get(layout, []))
    cases = list(xml.parse(folder / "report.xml").getroot())
    wrong = what_is_wrong(verdict)
    if not wrong and not mistake and layout in CONTROLS:
        wrong = CONTROLS[layout](runs)
    return wrong, verdict["tensors"], cases


def prepared():
    """Why nothing can be run, or nothing."""
    os.environ.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    run.FORKS.set_forkserver_preload(["torch.distributed", "torch._dynamo"])
    return run.why_not("megatron_core")


def planted(mistake):
    """The layouts whose program has a patch of the mistake."""
    return [layout for layout, program in PROGRAMS.items() if mistake in known(program)]


def known(program):
    return [*run.MISTAKES.get(program, {}), *run.SMALL.get(program, {})]


def tested(suite, layout, skipped, asked):
    """A test case of the suite, and a line."""
    case = xml.SubElement(suite, "testcase", classname="megatron.gradients", name=layout)
    if skipped:
        xml.SubElement(case, "skipped", message=skipped)
        print(f"skipped {layout}: {skipped}")
        return []
    try:
        wrong, judged, cases = outcome(layout, asked.plumb, asked.folder / layout, asked.format, asked.mistake)
    except SystemExit as trouble:  # a run that ended early, a check that was refused
        wrong, judged, cases = str(trouble).strip(), 0, []
    if wrong:
        xml.SubElement(case, "failure", message=wrong)
    for of_tensors in cases:
        of_tensors.set("name", f"{layout}: tensors")
    said = f"FAIL, {wrong}" if wrong else "PASS"
    print(f"{layout} {asked.format}: {said}, {judged} tensors judged", flush=True)
    return cases


def count(suite):
    for what, kind in ("failures", "failure"), ("skipped", "skipped"):
        suite.set(what, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("tests", str(len(suite)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb", type=lambda name: str(pathlib.Path(name).resolve()))
    parser.add_argument("folder", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--layouts", type=lambda text: text.split(","))
    parser.add_argument("--format", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--mistake", choices=[name for program in PROGRAMS.values() for name in known(program)])
    parser.add_argument("--junit", type=pathlib.Path)
    asked = parser.parse_args()
    layouts = asked.layouts or (planted(asked.mistake) if asked.mistake else list(PROGRAMS))
    skipped, root = prepared(), xml.Element("testsuites")
    suite = xml.SubElement(root, "testsuite", name="layouts")
    for layout in layouts:
        root.extend(tested(suite, layout, skipped, asked))
    count(suite)
    if asked.junit:
        xml.indent(root)
        xml.ElementTree(root).write(asked.junit, encoding="UTF-8", xml_declaration=True)
    return 77 if skipped else int(suite.get("failures") != "0")


# As pytest finds them, where the environment names the program.

def passes(layout):
    plumb, skipped = os.environ.get("PLUMB"), prepared()
    if not plumb or skipped:
        raise unittest.SkipTest(skipped or "PLUMB does not name the program")
    with tempfile.TemporaryDirectory() as folder:
        wrong, _, _ = outcome(layout, os.path.abspath(plumb), pathlib.Path(folder, layout))
    assert not wrong, wrong


def test_tensor_parallel():
    passes("tp2")


def test_pipeline_parallel():
    passes("pp2")


def test_padded_vocabulary():
    passes("padded")


if __name__ == "__main__":
    sys.exit(main())
