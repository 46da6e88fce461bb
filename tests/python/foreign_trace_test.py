"""Are the traces of examples/foreign_trace judged: the healthy run passes, each mistake is found where it was made?

    foreign_trace_test.py PLUMB SOURCE
"""
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

PLUMB, SOURCE = sys.argv[1:3]


def asked(verb, folder, candidate, *more):
    at = lambda name: str(pathlib.Path(folder, name))
    twins = [at(f"twin{k}") for k in range(1, 5)]
    return subprocess.run([PLUMB, verb, at("reference"), at(candidate), "--twins", *twins, *more],
                          capture_output=True, text=True)


class ForeignTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = cls.place.name
        example = runpy.run_path(str(pathlib.Path(SOURCE, "examples/foreign_trace/write_traces.py")))
        example["main"](cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_a_healthy_run_passes_with_all_its_tensors_judged(self):
        said = asked("check", self.folder, "healthy")
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertIn("verdict: PASS by twins: rounding explains every difference in 14 tensors", said.stdout)
        self.assertNotIn("not judged", said.stdout)

    def test_each_mistake_is_found_where_it_was_made(self):
        for name, blamed, by in (("heads", "layers.1.attn/out", "norm"), ("tied", "table/grad", "structure"),
                                 ("slice", "table/exp_avg", "structure")):
            for verb in "check", "localize":
                said = asked(verb, self.folder, name)
                self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
                self.assertIn(f"blamed: {blamed}\n", said.stdout, (verb, said.stdout))
                self.assertIn(f"by: {by}\n", said.stdout, (verb, said.stdout))

    def test_reports_name_what_is_to_blame(self):
        page = pathlib.Path(self.folder, "report.html")
        said = asked("check", self.folder, "heads", "--report", str(page))
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn("layers.1.attn/out", page.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=0, argv=[sys.argv[0]])
