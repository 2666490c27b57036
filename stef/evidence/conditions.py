"""What the alignment of the filters says for or against the statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from stef.evidence.facts import Facts, Signal
from stef.matching import EFFECTS, SELF_DEFEATING
from stef.names import similarity
from stef.result import Category, FilterEvidence, Match
from stef.spec import Filter
from stef.timespan import Interval
from stef.values import Anything

# Finding → feature, reason code, sentence.
_SAYS: Mapping[Match, tuple[str, str, str]] = MappingProxyType(
    {
        Match.MISSING: ("missing", "missing_filter", "asked for {asked}, and the SQL has no such condition"),
        Match.INEFFECTIVE: ("ineffective", "missing_filter", "{found} has no effect: {note}"),
        Match.WRONG_VALUE: ("wrong_value", "wrong_value", "asked for {asked}, found {found}"),
        Match.WRONG_OPERATOR: ("wrong_operator", "wrong_value", "asked for {asked}, found {found}"),
        Match.WRONG_COLUMN: ("wrong_column", "wrong_column", "asked for {asked}, found {found}: {note}"),
        Match.EXTRA: ("extra", "extra_filter", "nobody asked for {found}"),
        Match.INTRODUCED: ("introduced", "extra_filter", "{found} comes from the expansion and not from the question"),
        Match.UNDETERMINED: ("undetermined", "other", "{about} cannot be checked: {note}"),
    }
)


def filters(facts: Facts) -> Iterator[Signal]:
    """Every filter that is not simply matched or benign."""
    for item in facts.alignment.filters:
        if item.match in _SAYS and not _is_guess(item):
            yield _signal(item)


def _is_guess(item: FilterEvidence) -> bool:
    """Whether it is a mention that may be no condition, and that the SQL does not have."""
    return item.match is Match.UNDETERMINED and item.found is None


def _signal(item: FilterEvidence) -> Signal:
    feature, code, sentence = _SAYS[item.match]
    about = item.asked or item.found
    if code == "wrong_value" and about is not None and isinstance(about.value, Interval):
        code = "wrong_time_window"
    return Signal(feature, _value(item), code, sentence.format(**_parts(item)))


def _value(item: FilterEvidence) -> float:
    """What was perhaps not asked for is not surely missing: a vague mention counts less than its certainty."""
    return max(0.0, 1.5 * item.certainty - 0.5) if item.match is Match.MISSING else item.certainty


def _parts(item: FilterEvidence) -> dict[str, str]:
    asked, found = str(item.asked or ""), str(item.found or "")
    return {"asked": asked, "found": found, "about": asked or found, "note": item.note}


def nothing_met(facts: Facts) -> Iterator[Signal]:
    """None of several or the only required filter is there: the figure is about something else."""
    if facts.alignment.category is Category.NONE:
        yield Signal("none_met", 1.0, "missing_filter", "no condition of the question reached the SQL")


def against_rules(facts: Facts) -> Iterator[Signal]:
    """A column that R_app lets in with one value stands there with another (`is_deleted = 1`)."""
    for item in facts.alignment.filters:
        if item.match is not Match.EXTRA or item.found is None:
            continue
        allowed = _allowed_instead(item.found, facts)
        if allowed:
            detail = f"the rules allow {allowed}, and the SQL has {item.found}"
            yield Signal("against_rules", 1.0, "wrong_value", detail)
            return


def _allowed_instead(found: Filter, facts: Facts) -> str:
    """The rule on the same column, or ""."""
    for condition in facts.rules.benign_filters:
        for rule in condition.filters:
            if similarity(rule.column, found.column) == 1.0 and not isinstance(rule.value, Anything):
                return condition.text
    return ""


def self_defeating(facts: Facts) -> Iterator[Signal]:
    """A condition that cannot do what it is there for is an error whoever asked for it."""
    known = {item.found for item in facts.alignment.filters if item.match is Match.INEFFECTIVE}
    for item in facts.sql.filters:
        if item.effect in SELF_DEFEATING and item not in known:
            yield Signal("ineffective", 0.9, "missing_filter", f"{item} has no effect: {EFFECTS[item.effect]}")
            return
