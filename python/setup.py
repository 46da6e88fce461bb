"""Builds libplumb.so by CMake from the sources around this folder, and puts it into the package.

PLUMB_LIBRARY=FILE takes a library that is built already. PLUMB_NATIVE=ON builds for the processor of this machine
alone; else the package runs on every machine of the architecture.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70
    from wheel.bdist_wheel import bdist_wheel

SOURCES = pathlib.Path(__file__).resolve().parent.parent


def sentence(text):
    sys.exit("plumb: " + text)


def version():
    lists = SOURCES / "CMakeLists.txt"
    if not lists.exists():
        sentence(f"{lists} is missing; install from a clone: pip install ./python")
    return re.search(r"project\(plumb VERSION ([0-9.]+)", lists.read_text()).group(1)


def built(folder):
    """The library, built in that folder."""
    if shutil.which("cmake") is None:
        sentence("building libplumb.so needs cmake; install what packages.txt lists, or set PLUMB_LIBRARY to a built one")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(SOURCES), "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release",
                 "-DPLUMB_ONLY_C=ON", "-DPLUMB_NATIVE=" + os.environ.get("PLUMB_NATIVE", "OFF")]
    for command in configure, ["cmake", "--build", folder, "--target", "plumb_c", "--parallel"]:
        if subprocess.run(command).returncode != 0:
            sentence("building libplumb.so failed; what it says stands above")
    return pathlib.Path(folder) / "c" / "libplumb.so"


class Build(build_py):
    def run(self):
        super().run()
        editable = getattr(self, "editable_mode", False)
        into = pathlib.Path(__file__).parent / "plumbline" if editable else pathlib.Path(self.build_lib) / "plumbline"
        into.mkdir(parents=True, exist_ok=True)
        given = os.environ.get("PLUMB_LIBRARY")
        with tempfile.TemporaryDirectory(prefix="plumb-build-") as folder:
            library = pathlib.Path(given) if given else built(folder)
            if not library.is_file():
                sentence(f"PLUMB_LIBRARY names {library}, which is no file; name a libplumb.so")
            shutil.copy(library, into / "libplumb.so")


class Wheel(bdist_wheel):
    """Of one platform, for every Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


# Nothing is left beside the sources.
made = tempfile.mkdtemp(prefix="plumb-python-")
setup(version=version(), cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=WithLibrary,
      options={"build": {"build_base": made}, "egg_info": {"egg_base": made}})
