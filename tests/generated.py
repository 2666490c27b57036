"""The script that writes what is generated: the tables of the README and the schemas."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def tables() -> ModuleType:
    """The script, loaded from where it lies; it belongs to no package."""
    spec = importlib.util.spec_from_file_location("tables", Path(__file__).parents[1] / ".ci" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
