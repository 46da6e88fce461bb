"""Mistakes in a library, of whose code nothing stands here: a module is imported with one expression of it replaced."""
import importlib.machinery
import re
import sys


class on_import:
    """In this process, `by` in place of what the regular expression finds in the module's source, once."""

    def __init__(self, module, expression, by):
        if module in sys.modules:
            raise ImportError(f"{module} is imported already: rewrite it before")
        self.module, self.expression, self.by = module, expression, by
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
        if times != 1:
            raise ImportError(f"{name} has '{self.mistake.expression}' {times} times, and not once: it is another version")
        return compile(source, self.path, "exec")
