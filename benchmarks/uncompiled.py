"""Run a script with sqlglot as plain Python, also where its compiled modules are installed.

python benchmarks/uncompiled.py SCRIPT [ARGUMENTS]
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class SourceOnly:
    """Finds sqlglot's modules as source, before the usual finders prefer the compiled ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        """The source file of a module of sqlglot; None for all else."""
        if name.partition(".")[0] != "sqlglot":
            return None
        finders = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)) for folder in path or sys.path)
        return next((spec for finder in finders if (spec := finder.find_spec(name)) is not None), None)


if __name__ == "__main__":
    sys.meta_path.insert(0, SourceOnly)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
