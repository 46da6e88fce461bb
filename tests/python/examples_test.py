"""Do the mistakes of examples/torch and their patches belong together, and does run.py refuse what it would ignore? No PyTorch is needed."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TORCH = pathlib.Path(__file__).resolve().parents[2] / "examples/torch"
sys.path.insert(0, str(TORCH))
import mistakes  # noqa: E402

ALL = {program: [*mistakes.MISTAKES[program], *mistakes.SMALL.get(program, {})] for program in mistakes.MISTAKES}


class Mistakes(unittest.TestCase):
    def test_three_large_ones_or_more_of_each_program(self):
        self.assertEqual(sorted(ALL), sorted(file.name.split(".")[0] for file in (TORCH / "patches").glob("*.trace.patch")))
        for program, large in mistakes.MISTAKES.items():
            self.assertGreaterEqual(len(large), 3, program)
            self.assertIn(program, mistakes.EXACT)

    def test_have_a_patch_each_and_each_patch_is_one(self):
        there = sorted(file.name for file in (TORCH / "patches").glob("*.patch"))
        self.assertEqual(there, sorted(f"{program}.{name}.patch" for program in ALL for name in [*ALL[program], "trace"]))

    @unittest.skipUnless(shutil.which("patch"), "there is no program 'patch'")
    def test_patches_fit_programs_with_and_without_tracing(self):
        for program, names in ALL.items():
            for name in names:
                with tempfile.TemporaryDirectory() as folder:
                    for file in TORCH.glob("*.py"):
                        shutil.copy(file, folder)
                    for one in (name, "trace"):
                        text = (TORCH / "patches" / f"{program}.{one}.patch").read_bytes()
                        done = subprocess.run(["patch", "--no-backup-if-mismatch"], input=text, cwd=folder,
                                              capture_output=True)
                        self.assertEqual(done.returncode, 0, f"{program}.{one}: {done.stdout.decode()}")


class Beside(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([sys.executable, str(TORCH / "run.py"), "plumb", "folder", "--beside", *words],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        return done.stderr.splitlines()[-1]

    def test_wants_rows_and_no_other_kind_of_run(self):
        for words in ((), ("--rows", "x.csv", "--dither"), ("--rows", "x.csv", "--sketch"), ("--rows", "x.csv", "--rewrite")):
            self.assertIn("give --rows, and leave --rewrite, --dither and --sketch out", self.refused(*words))


if __name__ == "__main__":
    unittest.main()
