"""Mistakes in a library, of whose code nothing stands here: a module is imported with one expression of it replaced."""
import importlib.machinery
import re
import sys


class on_import:
    """In this process, `by` in place of what the regular expression finds in the module's source, in so many places."""

    def __init__(self, module, expression, by, times=1):
        if module in sys.modules:
            raise ImportError(f"{module} is imported already: rewrite it before")
        self.module, self.expression, self.by, self.times = module, expression, by, times
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = _Loader(self, name, spec.origin)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mistake, name, path):
        super().__init__(name, path)
        self.mistake = mistake

    def get_code(self, name):
        source, times = re.subn(self.mistake.expression, self.mistake.by, self.get_source(name))
        if times != self.mistake.times:
            raise ImportError(f"{name} has '{self.mistake.expression}' {times} times, and not {self.mistake.times}: it is "
                              "another version")
        return compile(source, self.path, "exec")
