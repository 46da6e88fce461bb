"""Does safetensors of PyPI open what plumbline.write writes, and does it hold what was meant?"""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

from plumbline.write import WIDTHS, shard, stored, write_manifest, write_rank

try:
    from safetensors import safe_open
except ImportError:
    safe_open = None


class Writer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run_ = pathlib.Path(self.folder.name, "run")
        self.tensors = {
            "a": stored("F32", [2, 3], range(6), shape=[4, 3], placements=[shard("tp", 0)], order=1),
            "b": stored("BOOL", [3], [True, False, True], role="given"),
            "c": stored("I64", [1], [1 << 40]),
            "d": stored("BF16", [2], b"\x80\x3f\x00\xc0", from_=["a", "b"]),
            "e": stored("F64", [], [0.1]),
            "f": stored("F32", [0, 3], [])}
        write_manifest(self.run_, producer="me", ranks=1, steps=[7], must_agree={}, mesh={"tp": 1}, version="1")
        write_rank(self.run_, 7, 0, self.tensors)
        self.file = self.run_ / "step_000007/rank_00000.safetensors"

    def tearDown(self):
        self.folder.cleanup()

    def test_what_is_said_stands_in_the_metadata(self):
        raw = self.file.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + length])
        self.assertEqual((8 + length) % 8, 0)
        says = json.loads(header["__metadata__"]["d"])
        self.assertEqual(says, {"from": ["a", "b"]})
        for name, entry in header.items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                self.assertEqual(first % WIDTHS[entry["dtype"]], 0, name)
                self.assertEqual(raw[8 + length + first:8 + length + last], self.tensors[name][2], name)
        self.assertEqual(sorted(os.listdir(self.run_)), ["manifest.json", "step_000007"])

    def test_a_file_is_synced_before_its_name_and_its_folder_after(self):
        done = []

        def noting(word, do, name_of):
            def noted(*given):
                done.append((word, os.path.basename(name_of(*given))))
                return do(*given)
            return noted

        by_number = lambda number: os.readlink(f"/proc/self/fd/{number}")
        with unittest.mock.patch.object(os, "fsync", noting("sync", os.fsync, by_number)), \
                unittest.mock.patch.object(os, "replace", noting("name", os.replace, lambda old, new: new)):
            write_rank(self.run_, 8, 0, self.tensors)
        file = "rank_00000.safetensors"
        self.assertEqual(done, [("sync", "run"), ("sync", file + ".partial"), ("name", file), ("sync", "step_000008")])

    def test_another_number_of_values_is_refused(self):
        for held, values in (([2, 2], [1.0]), ([3], b"abcd")):
            with self.assertRaises(ValueError):
                stored("F32", held, values)

    @unittest.skipIf(safe_open is None, "safetensors is not installed")
    def test_safetensors_opens_it(self):
        with safe_open(str(self.file), framework="np") as file:
            self.assertEqual(sorted(file.keys()), sorted(self.tensors))
            self.assertEqual(file.get_tensor("a").tolist(), [[0, 1, 2], [3, 4, 5]])
            self.assertEqual(file.get_tensor("b").tolist(), [True, False, True])
            self.assertEqual(file.get_tensor("c").tolist(), [1 << 40])
            self.assertEqual(file.get_tensor("e").tolist(), 0.1)
            self.assertEqual(file.get_slice("f").get_shape(), [0, 3])
            self.assertEqual(json.loads(file.metadata()["a"])["order"], 1)


if __name__ == "__main__":
    if safe_open is None:
        print("safetensors of PyPI is not installed: what it opens is not tested")
    unittest.main(verbosity=0, argv=[sys.argv[0]])
