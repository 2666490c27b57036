"""What was found last, by what it was found for: bounded, and the least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A memory of the last `size` values.

    Args:
        size: Most values that are kept; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._found: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """What was kept under a key, or None."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        self._found[key] = value
        self._found.move_to_end(key)
        while len(self._found) > self.size:
            self._found.popitem(last=False)
        return value
