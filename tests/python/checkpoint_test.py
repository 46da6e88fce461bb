"""Does plumbline.checkpoint make traces of checkpoints, under the ids of the capture, that plumb judges rightly? Is what
is damaged refused in one sentence, with nothing written?

    checkpoint_test.py PLUMB
"""
import contextlib
import io
import json
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import unittest

from plumbline import checkpoint, trace
from plumbline.write import WIDTHS, shard

try:
    import torch
except (ImportError, OSError):
    torch = None
OLD = not hasattr(getattr(torch, "nn", None), "RMSNorm")  # PyTorch 1.13 reads no numbers with weights_only
NO_PYTORCH = "PyTorch 2.4 or later cannot be imported; ./run test torch installs it"

PROGRAM = os.path.abspath(sys.argv.pop(1)) if sys.argv[1:2] != ["--save"] else ""
WHOLE = [float(n) for n in range(1, 31)]  # of 5 rows
TYPES = {"F32": "f", "F64": "d", "I64": "q", "U8": "B"}


def save(file, tensors):
    """A file of safetensors: by name the type, the shape and the numbers, or bytes."""
    header, data, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (dtype, shape, values) in tensors.items():
        raw = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{TYPES[dtype]}", *values)
        header[name], at = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}, at + len(raw)
        data.append(raw)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def held(folder, rank=0, step=1):
    """What is said of a rank's tensors, and their bytes."""
    raw = pathlib.Path(folder, f"step_{step:06d}/rank_{rank:05d}.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    says, data = header.pop("__metadata__"), raw[8 + length:]
    for id, entry in header.items():
        assert (8 + length + entry["data_offsets"][0]) % WIDTHS[entry["dtype"]] == 0, id
    return {id: (json.loads(says[id]), data[slice(*entry["data_offsets"])]) for id, entry in header.items()}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.at = pathlib.Path(self.place.name)

    def run_it(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = checkpoint.main([str(self.at / arguments[0]), str(self.at / arguments[1]), *arguments[2:]])
        return code, said.getvalue()

    def makes(self, *arguments):
        code, said = self.run_it(*arguments)
        self.assertEqual(code, 0, said)
        return said

    def refuses(self, saved, expected, *more):
        before = sorted(os.listdir(self.at))
        code, said = self.run_it(saved, "never", *more)
        self.assertEqual(code, 2, said)
        self.assertRegex(said, expected)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(sorted(os.listdir(self.at)), before)

    def check(self, reference, candidate, *more):
        ran = subprocess.run([PROGRAM, "check", reference, candidate, *more], cwd=self.at, capture_output=True,
                             text=True)
        return ran.returncode, ran.stdout + ran.stderr

    def bits(self, reference, candidate):
        """By twins that are the reference, of which all are to be equal."""
        return self.check(reference, candidate, "--twins", *[reference] * 3, "--exact", ".")


class Safetensors(InFolder):
    def save(self, name, values=WHOLE, **more):
        save(self.at / name, {"w": ("F32", [5, 6], values), "n": ("I64", [], [7]), **more})

    def test_a_file_has_the_ids_of_a_capture_and_its_own_bytes(self):
        self.save("a.safetensors", **{"module.v": ("BF16", [1], b"\x80\x3f"), "z": ("F32", [1], [1])})
        said = self.makes("a.safetensors", "t", "--step", "4", "--agree", "m=GPT")
        self.assertIn("4 tensors of step 4 on 1 rank", said)
        tensors = held(self.at / "t", step=4)
        self.assertEqual(tensors["w/param"], ({"shape": [5, 6]}, struct.pack("<30f", *WHOLE)))
        self.assertEqual(tensors["n/param"], ({"shape": [], "role": "given"}, struct.pack("<q", 7)))
        self.assertEqual(tensors["v/param"][1], b"\x80\x3f")
        self.assertEqual(json.loads((self.at / "t/manifest.json").read_text())["must_agree"], {"m": "GPT"})
        ran = subprocess.run([PROGRAM, "inspect", "t"], cwd=self.at, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_it_needs_the_standard_library_alone(self):
        self.save("a.safetensors")
        ran = subprocess.run([sys.executable, "-S", "-m", "plumbline.checkpoint", "a.safetensors", "t"], cwd=self.at,
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_no_tensor_is_in_memory_as_a_whole(self):
        self.save("a.safetensors", big=("U8", [1 << 26], bytes(1 << 26)))
        tracemalloc.start()
        self.makes("a.safetensors", "t")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertLess(peak, 1 << 25)

    def test_a_difference_of_one_bit_is_found_and_a_small_one_passes_flat(self):
        self.save("a.safetensors")
        self.save("b.safetensors", [*WHOLE[:9], 10.000001, *WHOLE[10:]])
        for name in "ab":
            self.makes(name + ".safetensors", name)
        code, said = self.bits("a", "b")
        self.assertEqual(code, 1, said)
        self.assertIn("FAIL by twins: 1 finding in 1 tensor", said)
        self.assertEqual(self.check("a", "b", "--rule", "flat")[0], 0)
        self.save("c.safetensors", n=("I64", [], [8]))
        self.makes("c.safetensors", "c")
        self.assertIn("n/param", self.bits("a", "c")[1])

    def test_what_one_checkpoint_lacks_is_a_finding(self):
        self.save("a.safetensors", v=("F32", [2], [1, 2]))
        self.save("b.safetensors")
        for name in "ab":
            self.makes(name + ".safetensors", name)
        code, said = self.check("a", "b", "--rule", "flat")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"v/param +structure .* is not there, and the reference has it")

    def test_names_are_changed_by_rules(self):
        self.save("a.safetensors")
        names = self.at / "names.json"
        rule = {"match": r"^(w)(/.*)$", "id": r"layers.0.\1eight\2"}
        names.write_text(json.dumps({"schema": "plumb-overrides/1", "tensors": [rule]}))
        self.makes("a.safetensors", "t", "--names", str(names))
        self.assertEqual(set(held(self.at / "t")), {"layers.0.weight/param", "n/param"})
        for change, expected in (({"id": "same"}, "calls two tensors same"), ({"match": "x"}, "matches no tensor"),
                                 ({"id": r"\7"}, "cannot rename"), ({"says": {}}, "plumb check --placement")):
            names.write_text(json.dumps({"tensors": [{**rule, "match": "", **change}]}))
            self.refuses("a.safetensors", expected, "--names", str(names))

    def index(self, **where):
        (self.at / "hf").mkdir(exist_ok=True)
        (self.at / "hf/model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))

    def test_a_folder_is_read_by_its_index(self):
        self.index(w="one.safetensors", v="two.safetensors")
        self.save("hf/one.safetensors")
        save(self.at / "hf/two.safetensors", {"v": ("F32", [2], [1, 2])})
        save(self.at / "hf/other.safetensors", {"w": ("F32", [1], [0])})
        self.makes("hf", "t")
        self.assertEqual(set(held(self.at / "t")), {"w/param", "n/param", "v/param"})
        self.refuses("hf/..", "no checkpoint")

    def test_an_index_that_does_not_fit_is_refused(self):
        self.index(w="one.safetensors", v="two.safetensors")
        self.save("hf/one.safetensors")
        self.refuses("hf", "index.json names two.safetensors, which is not there")
        self.index(w="one.safetensors", v="one.safetensors")
        self.refuses("hf", "says that 'v' is in one.safetensors, and it is not")
        self.index(w="../one.safetensors")
        self.refuses("hf", "does not lie beside it")

    def test_the_same_name_twice_is_refused(self):
        (self.at / "two").mkdir()
        for name in "ab":
            self.save(f"two/{name}.safetensors")
        self.refuses("two", "are both w/param")

    def test_what_is_damaged_is_refused(self):
        self.save("a.safetensors")
        file = self.at / "a.safetensors"
        whole = file.read_bytes()
        for damaged, expected in ((whole[:-1], "cut off: 'n' ends behind"), (whole[:30], "cut off"),
                                  (b"abc", "cut off"), (whole.replace(b"[5, 6]", b"[5, 7]"), "gives 'w' 120 bytes"),
                                  (whole.replace(b'"shape"', b'"shepe"'), "its header is none"),
                                  (whole.replace(b"[0, 120]", b"[9, 120]"), "gives 'w' 111 bytes")):
            file.write_bytes(damaged)
            self.refuses("a.safetensors", expected)
        self.refuses("nothing", "is not there")

    def test_a_type_that_plumb_does_not_read_is_refused_or_left_out(self):
        self.save("a.safetensors", c=("C64", [1], bytes(8)))
        self.refuses("a.safetensors", "holds 'c/param' as C64")
        self.makes("a.safetensors", "t", "--skip", "^c/")
        self.assertNotIn("c/param", held(self.at / "t"))

    def test_a_trace_that_is_there_stays(self):
        self.save("a.safetensors")
        self.makes("a.safetensors", "t")
        code, said = self.run_it("a.safetensors", "t", "--step", "2")
        self.assertEqual((code, os.listdir(self.at / "t").count("step_000002")), (2, 0))
        self.assertIn("is there already", said)


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 4, bias=False))


def trained(model, optimizer, steps=2):
    for n in range(steps):
        optimizer.zero_grad()
        model(torch.randn(3, 6, generator=torch.Generator().manual_seed(n))).square().sum().backward()
        optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


@unittest.skipIf(OLD, NO_PYTORCH)
class TorchSave(InFolder):
    def test_ids_and_values_are_those_of_a_capture_of_the_step(self):
        model = model_of()
        optimizer = torch.optim.AdamW(model.parameters())
        os.environ["PLUMB_TRACE"] = "1"
        trace.start(model, self.at / "captured", layout={"tp": 1}, steps=[2])
        for n in range(2):
            with trace.step(optimizer):
                saved = trained(model, optimizer, 1)
        os.environ["PLUMB_TRACE"] = ""
        trace.start(model)
        torch.save(saved, self.at / "saved.pt")
        self.makes("saved.pt", "saved")
        captured = {id: x for id, x in held(self.at / "captured", step=2).items()
                    if re.search("/(param|exp_avg|exp_avg_sq)$", id)}
        mine = held(self.at / "saved", step=2)
        self.assertEqual({id: raw for id, (_, raw) in captured.items()}, {id: raw for id, (_, raw) in mine.items()})
        self.assertEqual(mine["0.weight/exp_avg"][0]["phase"], captured["0.weight/exp_avg"][0]["phase"])

    def test_numbers_stay_where_nothing_says_the_names(self):
        model = model_of()
        p = list(model.parameters())
        groups = [{"params": [p[0], p[2]]}, {"params": [p[1], p[3], p[4]]}]  # of the shapes of the model's order
        torch.save(trained(model, torch.optim.AdamW(groups)), self.at / "a.pt")
        self.assertIn("they keep its numbers", self.makes("a.pt", "t"))
        self.assertIn("optimizer.0/exp_avg", held(self.at / "t", step=2))
        named = [{"params": [one]} for one in reversed(list(model.named_parameters()))]
        torch.save(trained(model, torch.optim.AdamW(named)), self.at / "b.pt")
        self.makes("b.pt", "named")
        self.assertEqual(held(self.at / "named", step=2)["2.weight/exp_avg"][0]["shape"], [4, 5])

    def test_what_is_no_weight_is_refused(self):
        torch.save(model_of(), self.at / "a.pt")
        self.refuses("a.pt", "it asks for torch.nn")
        for damaged in b"", b"hello\n", os.urandom(300):
            (self.at / "a.pt").write_bytes(damaged)
            self.refuses("a.pt", "is nothing that torch.load")
        torch.save({"epoch": 3}, self.at / "a.pt")
        self.refuses("a.pt", "holds no tensor")
        torch.save({"w": torch.ones(3).to_sparse()}, self.at / "a.pt")
        self.refuses("a.pt", "save plain tensors")


def save_two_ranks(folder, rank, values):
    """What each of two processes does: 5 rows lie on 3 and 2, the vector is whole on both."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    dist.init_process_group("gloo", store=dist.FileStore(folder + ".store", 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    whole = torch.tensor(values).reshape(5, 6)
    lies = lambda x, dim: distribute_tensor(x, mesh, [Shard(dim)])
    state = {"exp_avg": lies(whole / 8, 1), "step": torch.tensor(3.0)}
    optimizer = {"state": {"layer.weight": state}, "param_groups": [{"lr": 0.1, "params": ["layer.weight"]}]}
    dcp.save({"model": {"layer.weight": lies(whole, 0), "layer.bias": torch.arange(5.0)}, "optimizer": optimizer},
             checkpoint_id=folder)
    dist.destroy_process_group()


@unittest.skipIf(OLD, NO_PYTORCH)
class Distributed(InFolder):
    @classmethod
    def setUpClass(cls):
        cls.once = tempfile.TemporaryDirectory()
        for name, last in ("right", 30.0), ("wrong", 30.000002):
            folder = os.path.join(cls.once.name, name)
            save = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--save", folder, str(last)]
            ranks = [subprocess.Popen([*save, str(rank)], stderr=subprocess.DEVNULL) for rank in range(2)]
            if any([one.wait(300) for one in ranks]):
                raise RuntimeError("torch.distributed.checkpoint saved nothing")

    @classmethod
    def tearDownClass(cls):
        cls.once.cleanup()

    def setUp(self):
        super().setUp()
        for name in "right", "wrong":
            (self.at / name).mkdir()
            for file in pathlib.Path(self.once.name, name).iterdir():
                (self.at / name / file.name).write_bytes(file.read_bytes())

    def whole(self):
        whole = torch.tensor(WHOLE).reshape(5, 6)
        torch.save({"model": {"layer.weight": whole, "layer.bias": torch.arange(5.0)}, "optimizer": {
            "state": {0: {"exp_avg": whole / 8, "step": 3}}, "param_groups": [
                {"params": [0], "param_names": ["layer.weight"]}]}}, self.at / "whole.pt")
        self.makes("whole.pt", "whole")

    def test_shards_make_the_whole_and_one_other_bit_is_found(self):
        self.whole()
        self.assertIn("3 tensors of step 3 on 2 ranks", self.makes("right", "of-right"))
        self.makes("wrong", "of-wrong")
        says, raw = held(self.at / "of-right", rank=1, step=3)["layer.weight/param"]
        self.assertEqual(says["offsets"], [{"global": [3, 0], "local": [0, 0], "size": [2, 6]}])
        self.assertEqual(raw, struct.pack("<12f", *WHOLE[18:]))
        for rank in range(2):
            mine = {index.fqn for index, where in self.saved().storage_data.items()
                    if where.relative_path == f"__{rank}_0.distcp" and index.offset}
            self.assertEqual(len(held(self.at / "of-right", rank, 3)), len(mine), mine)
        code, said = self.bits("whole", "of-right")
        self.assertEqual(code, 0, said)
        self.assertIn("the candidate has the reference's bits in every tensor", said)
        code, said = self.bits("whole", "of-wrong")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"FAIL by twins: \d findings? in 3 tensors")

    def test_a_shard_that_is_missing_or_short_is_refused(self):
        file = self.at / "right/__1_0.distcp"
        raw = file.read_bytes()
        file.write_bytes(raw[:-1])
        self.refuses("right", "__1_0.distcp was cut off")
        file.unlink()
        self.refuses("right", "__1_0.distcp is not there")
        file.write_bytes(bytes(len(raw)))
        self.refuses("right", "is nothing that torch.load")
        where = next(where for index, where in self.saved().storage_data.items()
                     if index.fqn == "model.layer.weight" and index.offset[0] == 3)
        file.write_bytes(raw[:where.offset] + bytes(where.length) + raw[where.offset + where.length:])
        self.refuses("right", "is nothing that torch.load")  # while it is written

    def saved(self):
        return pickle.loads(pathlib.Path(self.once.name, "right/.metadata").read_bytes())

    def metadata(self, change):
        file = self.at / "right/.metadata"
        metadata = self.saved()
        change(metadata)
        file.write_bytes(pickle.dumps(metadata))

    def test_pieces_that_do_not_fit_are_refused(self):
        chunks = lambda metadata: metadata.state_dict_metadata["model.layer.weight"].chunks
        self.metadata(lambda metadata: chunks(metadata).pop())
        self.refuses("right", r"of 'model.layer.weight' \(5 x 6\) there are 18 of 30 numbers: a shard is missing")

        def moved(metadata):
            chunk = chunks(metadata)[1]
            key = next(key for key in metadata.storage_data if key.fqn == "model.layer.weight" and key.offset[0] == 3)
            chunk.offsets = torch.Size([2, 0])
            metadata.storage_data[type(key)(key.fqn, chunk.offsets)] = metadata.storage_data[key]
        self.metadata(moved)
        self.refuses("right", r"the pieces at \[0, 0\] and \[2, 0\] overlap")
        self.metadata(lambda metadata: chunks(metadata)[1].__setattr__("offsets", torch.Size([4, 0])))
        self.refuses("right", r"in which file the piece of 'model.layer.weight' at \[4, 0\] is")
        self.metadata(lambda metadata: chunks(metadata)[1].__setattr__("sizes", torch.Size([3, 6])))
        self.refuses("right", "its piece at .* ends at")
        self.metadata(lambda metadata: setattr(metadata, "storage_data", 3))
        self.refuses("right", "is none of torch.distributed.checkpoint")

    def test_metadata_that_ask_for_more_are_refused_and_not_done(self):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(evil),)

        evil = self.at / "done"
        (self.at / "right/.metadata").write_bytes(pickle.dumps(Evil()))
        self.refuses("right", "it asks for posix.mkdir|it asks for nt.mkdir")
        self.assertFalse(evil.exists())


@unittest.skipIf(OLD, NO_PYTORCH)
class WithTwins(InFolder):
    """The last of five twins, saved, is the candidate; the others judge it."""
    STATES = "/exp_avg(_sq)?$"

    def saved_twin(self, fault=1):
        model = model_of()
        optimizer = torch.optim.AdamW(model.parameters())
        layout = {"mesh": {"tp": 2}, "batch": [], "inputs": {}, "outputs": {},
                  "weights": {"0.weight": [shard("tp", 1)], "2.weight": [shard("tp", 1)]}}
        os.environ.update(PLUMB_TRACE="1", PLUMB_TWINS="given below")
        with contextlib.redirect_stderr(io.StringIO()):
            trace.start(model, str(self.at / "reference"), layout={"tp": 1})
            with trace.step(optimizer):
                trained(model, optimizer, 1)
            for k in trace.twins(5):
                with trace.twin(k, layout):
                    saved = trained(model, optimizer, 1)
                    saved["optimizer"]["state"][4]["exp_avg"] *= fault
                    torch.save(saved, self.at / "saved.pt")
        os.environ.update(PLUMB_TRACE="", PLUMB_TWINS="")
        trace.start(model)
        self.makes("saved.pt", "saved", "--agree", "model=Sequential")
        twins = [f"reference-twin{k}" for k in range(1, 5)]
        return self.check("reference", "saved", "--twins", *twins, "--only", self.STATES)

    def test_a_healthy_checkpoint_is_acquitted_by_twins_of_a_capture(self):
        code, said = self.saved_twin()
        self.assertEqual(code, 0, said)
        self.assertIn("PASS by twins", said)
        code, said = self.check("reference", "saved", "--rule", "flat")
        self.assertEqual(code, 1, said)  # for all that a checkpoint lacks
        self.assertIn("is not there, and the reference has it", said)

    def test_a_state_that_is_wrong_by_a_thousandth_is_blamed(self):
        code, said = self.saved_twin(1.001)
        self.assertEqual(code, 1, said)
        self.assertIn("blamed: 2.weight/exp_avg\n", said)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--save"]:
        save_two_ranks(sys.argv[2], int(sys.argv[4]), [*WHOLE[:-1], float(sys.argv[3])])
        sys.exit()
    if torch is None:
        print("PyTorch cannot be imported: its checkpoints are not tested; ./run test torch installs it")
    unittest.main(verbosity=0)
