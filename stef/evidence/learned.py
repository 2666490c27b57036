"""What the log itself has shown against what a statement does: evidence that the texts alone cannot give.

Each lesson is one function. What it yields with a sentence is clear enough to be told as a reason; what it yields
without one is a number for the model. Names begin with `log_`; what is not known is absent, and never a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stef.catalogue import Catalogue, observe
from stef.evidence.contents import spellings, types, values_elsewhere
from stef.evidence.facts import Facts, Signal
from stef.evidence.likeness import similar_filters, similar_roles, similar_uses, words_meant
from stef.evidence.schema import (
    ambiguous,
    columns_misplaced,
    columns_rare,
    columns_unknown,
    links_new,
    roles,
    routes,
)
from stef.evidence.shown import Lesson, Shown
from stef.evidence.usage import fitting, resembling, together, usual, usual_roles

# A feature found again and again counts so much at most.
_MOST = 12.0

LESSONS: tuple[Lesson, ...] = (
    columns_misplaced,
    columns_unknown,
    columns_rare,
    ambiguous,
    links_new,
    routes,
    roles,
    values_elsewhere,
    spellings,
    types,
    words_meant,
    similar_uses,
    similar_roles,
    similar_filters,
    usual,
    usual_roles,
    fitting,
    together,
    resembling,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the log says of a statement.

    Attributes:
        signals: What is clear enough to be told.
        features: For the model, by name; what is unknown is absent.
    """

    signals: tuple[Signal, ...] = ()
    features: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def learned(facts: Facts, catalogue: Catalogue | None) -> Learned:
    """Hold a statement against the catalogue of its database, the record's own question left out.

    Args:
        facts: The record.
        catalogue: Of its database; None when there is none.
    """
    if catalogue is None:
        return Learned()
    own = observe(facts.sql, facts.question_text, key=catalogue.key)
    shown = Shown(catalogue.without(own.question), own, facts.question_text)
    if not shown.view.knows_enough:
        return Learned()
    features: dict[str, float] = {}
    signals: list[Signal] = []
    for lesson in LESSONS:
        for signal in lesson(shown):
            features[signal.feature] = min(_MOST, features.get(signal.feature, 0.0) + signal.value)
            if signal.detail:
                signals.append(signal)
    return Learned(signals=tuple(signals), features={name: round(value, 4) + 0.0 for name, value in features.items()})
