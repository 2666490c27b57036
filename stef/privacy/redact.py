"""Hides values in what was found in a record: specs, alignment, reasons; and in the result that leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from stef.apprules import NO_RULES, AppRules
from stef.finding import Finding
from stef.privacy.edits import Edit, moved
from stef.privacy.gather import Contents, veiled
from stef.privacy.kinds import Kinds
from stef.privacy.tokens import Tokens
from stef.privacy.veil import Veil
from stef.result import Alignment, Evaluation, Expansion, Specs
from stef.spec import Aggregation, Filter, GroupKey, Limit, Op, OrderKey, Projection, QuerySpec, Source, Span
from stef.timespan import Interval
from stef.values import Column, Many, Number, NumberRange, Text, Unknown, Value

T = TypeVar("T")
Write = Callable[[str], str]
# What of each part of a spec is text that may hold a value.
_TEXTS: dict[type, tuple[str, ...]] = {
    Filter: ("column", "text", "path"),
    Aggregation: ("of", "text"),
    Projection: ("name", "columns", "text"),
    GroupKey: ("column", "text"),
    OrderKey: ("by", "columns", "text"),
    Limit: ("per", "text"),
}
_LIKES = frozenset({Op.LIKE, Op.NOT_LIKE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted(Evaluation):
    """A result whose values are tokens; `original` is never written, and serves counts that keep no text."""

    original: Evaluation | None = field(default=None, repr=False, compare=False)


class Hider:
    """Hides the parts of what was found, under one veil."""

    def __init__(self, veil: Veil, question: str, expansion: str) -> None:
        self.veil = veil
        self._texts = [(text, veil.edits(text)) for text in (question, expansion)]
        self._asked: dict[int, tuple[Filter, Filter]] = {}

    def specs(self, specs: Specs) -> Specs:
        """The three specs; places in question and expansion are those of the hidden texts."""
        return Specs(
            sql=specs.sql and self.spec(specs.sql),
            question=specs.question and self.spec(specs.question),
            expansion=specs.expansion and self.spec(specs.expansion),
        )

    def spec(self, spec: QuerySpec) -> QuerySpec:
        """One spec."""
        sql = spec.source is Source.SQL
        write = self.veil.code if sql else self.veil.prose
        return replace(
            spec,
            projections=self._parts(spec.projections, write),
            aggregations=self._parts(spec.aggregations, write),
            filters=tuple(self.filter(item, sql=sql) for item in spec.filters),
            group_by=self._parts(spec.group_by, write),
            order_by=self._parts(spec.order_by, write),
            limit=spec.limit and self._part(spec.limit, write),
            truncated=tuple(map(write, spec.truncated)),
            windows=tuple(map(write, spec.windows)),
            faults=tuple(map(self.veil.prose, spec.faults)),
        )

    def filter(self, item: Filter, *, sql: bool) -> Filter:
        """One condition."""
        done = self._asked.get(id(item))
        if done is None:
            # The condition is kept with what became of it, so that no other takes its place in the memory.
            done = self._asked[id(item)] = (item, self._filter(item, sql=sql))
        return done[1]

    def _filter(self, item: Filter, *, sql: bool) -> Filter:
        write = self.veil.code if sql else self.veil.prose
        hidden = self._part(item, write)
        around = None if sql else self._around(item)
        if around is not None:
            return replace(hidden, value=Text(around), text=around)
        value = self.value(item.value, write, like=item.op in _LIKES, sql=sql)
        return hidden if value is item.value else replace(hidden, value=value)

    def _around(self, item: Filter) -> str | None:
        """The token of a hidden value that the words of a condition are only a part of."""
        span = item.span
        if span is None:
            return None
        over = (edit for edit in self._edits(item) if edit.start < span.end and edit.end > span.start)
        return next((edit.text for edit in over if edit.start < span.start or edit.end > span.end), None)

    def _edits(self, item: Any) -> Sequence[Edit]:  # noqa: ANN401 - any part with a place
        """The edits of the text that a part was read from."""
        span = item.span
        found = (edits for text, edits in self._texts if text[span.start : span.end] == item.text)
        return next(found, self._texts[0][1])

    def _parts(self, items: Sequence[T], write: Write) -> tuple[T, ...]:
        return tuple(self._part(item, write) for item in items)

    def _part(self, item: T, write: Write) -> T:
        new: dict[str, Any] = {}
        for name in _TEXTS[type(item)]:
            old = getattr(item, name)
            said = write(old) if isinstance(old, str) else tuple(map(write, old))
            if said != old:
                new[name] = said
        span = item.span  # type: ignore[attr-defined]
        if span is not None and (edits := self._edits(item)):
            new["span"] = Span(moved(span.start, edits), moved(span.end, edits, end=True))
        return replace(item, **new) if new else item  # type: ignore[type-var]

    def value(self, value: Value, write: Write, *, like: bool, sql: bool) -> Value:
        """One value; a number or a date stays unless it is private."""
        match value:
            case Text(raw):
                said = self.veil.literal(raw, like=like) if sql or self.veil.knows(raw) else write(raw)
                return value if said == raw else Text(said)
            case Many(members):
                hidden = (self.value(member, write, like=like, sql=sql) for member in members)
                return Many(tuple(hidden))  # type: ignore[arg-type]
            case Number(number):
                return self._private(value, f"{number.normalize():f}")
            case Interval():
                return self._private(value, str(value))
            case NumberRange(low, high):
                pair = tuple(self._private(Number(bound), f"{bound.normalize():f}") for bound in (low, high))
                return Many(pair) if any(isinstance(bound, Text) for bound in pair) else value  # type: ignore[arg-type]
            case Unknown(text, why):
                return Unknown(write(text), why)
            case Column(name):
                return Column(write(name))
            case _:
                return value

    def _private(self, value: Value, canon: str) -> Value:
        token = self.veil.of_canon(canon)
        return value if token is None else Text(token)

    def alignment(self, alignment: Alignment) -> Alignment:
        """What became of each condition."""
        return replace(
            alignment,
            filters=tuple(
                replace(
                    item,
                    asked=item.asked and self.filter(item.asked, sql=False),
                    found=item.found and self.filter(item.found, sql=True),
                    note=self.veil.prose(item.note),
                )
                for item in alignment.filters
            ),
        )

    def expansion(self, expansion: Expansion) -> Expansion:
        """What the expansion did."""
        changes = (
            replace(
                change,
                question=change.question and self.filter(change.question, sql=False),
                expansion=change.expansion and self.filter(change.expansion, sql=False),
            )
            for change in expansion.changes
        )
        return replace(expansion, changes=tuple(changes))

    def details(self, items: Sequence[T]) -> tuple[T, ...]:
        """Findings, tolerances, reasons: whatever has a detail."""
        return tuple(self._detail(item) for item in items)

    def _detail(self, item: Any) -> Any:  # noqa: ANN401 - any of the parts with a detail
        detail = self.veil.prose(item.detail)
        # A finding's place is one of a text that has changed.
        gone = {"span": None} if isinstance(item, Finding) and item.span is not None else {}
        return item if detail == item.detail and not gone else replace(item, detail=detail, **gone)


def redacted(
    kinds: Kinds, tokens: Tokens, evaluation: Evaluation, *, expansion: str = "", rules: AppRules = NO_RULES
) -> Redacted:
    """A result as it may leave: every value that names somebody is a token.

    Args:
        kinds: What patterns tell.
        tokens: Makes the tokens.
        evaluation: The result.
        expansion: The record's expansion; a result holds none.
        rules: With private values and columns.

    Returns:
        The result; its keys, digests and figures are those of the original.
    """
    found = evaluation.spec or Specs()
    unread = found.sql is None
    veil = veiled(
        kinds,
        tokens,
        Contents(
            question=evaluation.question,
            expansion=expansion,
            sql=evaluation.sql,
            dialect=evaluation.provenance.dialect,
            specs=found,
            alignment=evaluation.alignment,
        ),
        rules,
    )
    hider = Hider(veil, evaluation.question, expansion)
    judge = evaluation.judge
    same = {item.name: getattr(evaluation, item.name) for item in fields(Evaluation)}
    changed = {
        "question": veil.prose(evaluation.question),
        # What is no SQL may be a sentence.
        "sql": veil.prose(veil.code(evaluation.sql)) if unread else veil.code(evaluation.sql),
        "detail": veil.prose(evaluation.detail),
        "spec": evaluation.spec and hider.specs(evaluation.spec),
        "alignment": evaluation.alignment and hider.alignment(evaluation.alignment),
        "expansion": evaluation.expansion and hider.expansion(evaluation.expansion),
        "normalizations": hider.details(evaluation.normalizations),
        "findings": hider.details(evaluation.findings),
        "judge": judge and replace(judge, reasons=hider.details(judge.reasons)),
    }
    return Redacted(**{**same, **changed}, original=evaluation)
