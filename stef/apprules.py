"""R_app: what an application declares about itself, frozen, conditions compiled.

Read from `rules/<app>.json` by `rulefiles.py`; the pure core sees only this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stef.names import similarity
from stef.spec import Filter, OrderKey
from stef.values import Text, Value, fold, same

LIMIT_GUARD = 1000


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as people write it (`is_deleted = 0`, `tenant_id = *`) and its canonical filters (joined by AND)."""

    text: str
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRules:
    """An application's rules.

    Attributes:
        name: Key in the registry of rules files; "" for none.
        digest: Of the whole content, 16 hexadecimal digits; "" for no rules.
        column_mappings: Business word → physical column or expression.
        benign_filters: Conditions that may be added without being asked for.
        mandatory_filters: Conditions that every statement must have, such as the tenant's.
        value_synonyms: Column → word → stored values that mean it.
        default_order_by: Sort that the application adds by itself.
        default_limit: Row cap that the application adds by itself; None for none.
        limit_guard: λ_min: a cap of so many rows or more that nobody asked for is a safety guard.
        fiscal_year_start_month: 1 to 12; None when not declared.
        week_start: 0 = Monday … 6 = Sunday; None when not declared.
        timezone: IANA name; "" when not declared.
        dialect: Of the application's SQL; "" when not declared.
        allowed_tables: Tables that may be read, `*` as a wildcard; () for no restriction.
        denied_functions: Functions that may not be called, beside the built-in list.
        out_of_scope: Topics that the application does not answer.
        private_values: Texts that never leave the process as they are, wherever they stand.
        private_columns: Columns whose values never do, numbers and dates too.
        inline_digest: Digest of rules that the record carried and that were merged in; "" for none.
    """

    name: str = ""
    digest: str = ""
    version: str = ""
    description: str = ""
    column_mappings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    benign_filters: tuple[Condition, ...] = ()
    mandatory_filters: tuple[Condition, ...] = ()
    value_synonyms: Mapping[str, Mapping[str, tuple[Value, ...]]] = field(default_factory=lambda: MappingProxyType({}))
    default_order_by: tuple[OrderKey, ...] = ()
    default_limit: int | None = None
    limit_guard: int = LIMIT_GUARD
    fiscal_year_start_month: int | None = None
    week_start: int | None = None
    timezone: str = ""
    dialect: str = ""
    allowed_tables: tuple[str, ...] = ()
    denied_functions: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    private_values: tuple[str, ...] = ()
    private_columns: tuple[str, ...] = ()
    inline_digest: str = ""

    def physical(self, word: str) -> str | None:
        """The physical column or expression that a business word is mapped to, or None."""
        target = self.column_mappings.get(word)
        if target is not None or not word:
            return target
        wanted = fold(word)
        for name, column in self.column_mappings.items():
            if fold(name) == wanted or similarity(name, word) == 1.0 or _without_particle(name) == wanted:
                return column
        return None

    def stored_values(self, column: str, word: str) -> tuple[Value, ...]:
        """The stored values that a word means for a column; () when nothing is declared.

        An unknown column ("") looks through all of them.
        """
        found: list[Value] = []
        for name, words in self.value_synonyms.items():
            if column and similarity(name, column) < 0.6:
                continue
            for spoken, stored in words.items():
                if fold(spoken) == fold(word) or any(same(Text(word), value) for value in stored):
                    found.extend((Text(spoken), *stored))
        return tuple(found)


_PARTICLES = frozenset({"up", "in", "out", "off", "on", "down", "over", "back", "away"})


def _without_particle(phrase: str) -> str:
    """The verb of a phrase such as "signed up"; "" for other phrases."""
    verb, _, particle = fold(phrase).partition(" ")
    return verb if particle in _PARTICLES else ""


NO_RULES = AppRules()
