"""stef scores what a text-to-SQL agent did in production, record by record, from the texts alone.

The public names are loaded when first used, so that `import stef` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stef.errors import StefError
    from stef.record import Message, QueryRecord
    from stef.result import Evaluation
    from stef.version import __version__

__all__ = ["Evaluation", "Message", "QueryRecord", "StefError", "__version__"]

_PLACES = {
    "Evaluation": "stef.result",
    "Message": "stef.record",
    "QueryRecord": "stef.record",
    "StefError": "stef.errors",
    "__version__": "stef.version",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute may be anything
    if name not in _PLACES:
        raise AttributeError(f"module 'stef' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
