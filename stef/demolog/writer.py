"""Writes one version's records from the script."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from stef.data import zone
from stef.demolog.script import Form, Planted, Script, Slip, Template, Version, edited
from stef.timespan import Calendar, Unit, shift

# Kinds that any template can have; the others stand in the template.
_GENERAL = frozenset({Planted.DML, Planted.BROKEN, Planted.TEMPLATED, Planted.INJECTION})
_SLOT = re.compile(r"\{([a-z]+(?:_[a-z0-9]+)*)(?:\.([a-z0-9_]+))?\}")
_LITERAL = re.compile(r"'[^'\n]*'|(?<![\w.])\d+(?![\w.])")
# Where a cut leaves a statement that no dialect can read: behind an opening bracket or an operator.
_CUTS = re.compile(r"(?<!EXTRACT)\(|[<>=]+ ")


def cuts(sql: str) -> tuple[str, ...]:
    """Beginnings of the statement that cannot be read, between a quarter and all of its length."""
    return tuple(sql[: found.end()].rstrip() for found in _CUTS.finditer(sql) if found.end() >= len(sql) // 4)


@dataclass(frozen=True, slots=True)
class _Filled:
    """Values chosen for one record."""

    chosen: Mapping[str, Form]
    days: Mapping[str, str]

    def text(self, pattern: str, *, stored: bool) -> str:
        """Fill the slots, in the said or the stored form."""

        def value(found: re.Match[str]) -> str:
            name, more = found[1], found[2]
            if name == "t":
                return self.days[more]
            form = self.chosen[name]
            return form.more[more] if more else (form.sql if stored else form.say)

        return _SLOT.sub(value, pattern)


def _days(asked_at: datetime, timezone: str, fiscal_year_start_month: int) -> dict[str, str]:
    """First days of periods (`…_end`: last days), as the user's calendar has them."""
    local = asked_at.astimezone(zone(timezone)).replace(tzinfo=None)
    calendar = Calendar(now=local, fiscal_year_start_month=fiscal_year_start_month)
    wanted = {
        "this_week": (Unit.WEEK, 0), "last_week": (Unit.WEEK, -1), "next_week": (Unit.WEEK, 1),
        "this_month": (Unit.MONTH, 0), "last_month": (Unit.MONTH, -1), "next_month": (Unit.MONTH, 1),
        "month_before_last": (Unit.MONTH, -2), "this_year": (Unit.YEAR, 0), "last_year": (Unit.YEAR, -1),
    }  # fmt: skip
    starts = {name: _start(calendar, unit, offset) for name, (unit, offset) in wanted.items()}
    starts["last_month_end"] = shift(starts["this_month"], Unit.DAY, -1)
    starts |= {f"days_{count}": shift(local, Unit.DAY, -count) for count in (30, 90)}
    starts["fiscal_year"] = _start(calendar, Unit.YEAR, 0, fiscal=True)
    starts["last_fiscal_year"] = _start(calendar, Unit.YEAR, -1, fiscal=True)
    return {name: start.date().isoformat() for name, start in starts.items()}


def _start(calendar: Calendar, unit: Unit, offset: int, *, fiscal: bool = False) -> datetime:
    period = calendar.period(unit, offset, fiscal=fiscal)
    if period is None or period.start is None:
        raise ValueError("a calendar without a clock")
    return period.start


class Writer:
    """Writes one version's records; the only state is its own random numbers."""

    def __init__(self, plan: Script, version: Version, seed: int) -> None:
        self._plan, self._version = plan, version
        self._random = random.Random(f"{seed}/{version.label}")  # noqa: S311 - repeatable, not secret
        self._deck: list[Template] = []

    def log(self, count: int) -> Iterator[dict[str, Any]]:
        """Write `count` records in no order of time."""
        refused = round(count * self._plan.shares["refused"])
        kinds: list[Planted | None] = list(self._kinds(round(count * self._version.wrong)))
        kinds += [None] * (count - refused - len(kinds))
        for kind in kinds:
            yield self._answer(kind)
        for _ in range(refused):
            yield self._refusal()

    def _kinds(self, count: int) -> list[Planted]:
        """Every kind once, the rest by weight."""
        kinds = list(self._plan.weights)
        self._random.shuffle(kinds)
        rest = self._random.choices(kinds, [self._plan.weights[kind] for kind in kinds], k=max(0, count - len(kinds)))
        return kinds[:count] + rest

    def _answer(self, kind: Planted | None) -> dict[str, Any]:
        template = self._pick(kind)
        asked_at = self._moment()
        app = self._plan.apps[template.app]
        days = _days(asked_at, app["timezone"], app["fiscal_year_start_month"])
        filled = _Filled(self._choose(template.slots), days)
        expanded, drift = self._expansion(template, kind)
        sql = self._statement(template, kind, filled)
        return self._record(
            app=template.app,
            asked_at=asked_at,
            database=template.database,
            question=filled.text(self._random.choice(template.ask), stored=False),
            expanded_question=expanded and filled.text(expanded, stored=False),
            sql=self._wrapped(sql),
            dialect=self._dialect(template),
            metadata={"planted": kind and kind.value, "template": template.id, "expansion_kind": drift},
        )

    def _pick(self, kind: Planted | None) -> Template:
        if kind is not None and kind not in _GENERAL:
            return self._random.choice([template for template in self._plan.templates if kind in template.slips])
        if not self._deck:
            self._deck = self._random.sample(self._plan.templates, len(self._plan.templates))
        return self._deck.pop()

    def _choose(self, slots: Mapping[str, tuple[Form, ...]]) -> dict[str, Form]:
        """Choose each slot's value and another one of the same list, all different."""
        chosen: dict[str, Form] = {}
        names = [*slots, *(f"{name}_other" for name in slots)]
        for name in names:
            values = slots[name.removesuffix("_other")]
            used = {id(form) for form in chosen.values()}
            chosen[name] = self._random.choice([form for form in values if id(form) not in used] or list(values))
        return chosen

    def _expansion(self, template: Template, kind: Planted | None) -> tuple[str | None, str]:
        """The expansion, and whether it keeps to the question: `faithful`, `drifted`, or `none`."""
        slip = template.slips.get(kind) if kind else None
        if slip is not None and slip.expand:
            return slip.expand, "drifted"
        if not template.always_expand and not self._chance("expanded"):
            return None, "none"
        if kind is None and template.drift and self._chance("drifted"):
            return self._random.choice(template.drift), "drifted"
        return self._random.choice(template.expand), "faithful"

    def _statement(self, template: Template, kind: Planted | None, filled: _Filled) -> str:
        slip = self._slip(template, kind)
        sql = filled.text(edited(template.sql, slip) if slip else template.sql, stored=True)
        match kind:
            case Planted.DML:
                write: str = self._random.choice(self._plan.apps[template.app]["dml"])
                return self._random.choice([write, f"{sql};\n{write}"])
            case Planted.BROKEN:
                return self._random.choice(cuts(sql))
            case Planted.TEMPLATED:
                found = self._random.choice(list(_LITERAL.finditer(sql)))
                return sql[: found.start()] + self._random.choice(self._plan.template_marks) + sql[found.end() :]
            case Planted.INJECTION:
                return f"{sql}\n{self._random.choice(self._plan.injections)}"
            case _:
                return sql

    def _slip(self, template: Template, kind: Planted | None) -> Slip | None:
        """What changes the statement: for a right one another way to write it, for an injection any error."""
        if kind is None:
            varied = bool(template.variants) and self._chance("varied")
            return self._random.choice(template.variants) if varied else None
        if kind is Planted.INJECTION:
            return self._random.choice([slip for slip in template.slips.values() if not slip.expand])
        return template.slips.get(kind)

    def _refusal(self) -> dict[str, Any]:
        app = self._random.choice(list(self._plan.apps))
        refusal = self._random.choice(self._plan.apps[app]["refusals"])
        return self._record(
            app=app,
            asked_at=self._moment(),
            question=refusal["ask"],
            sql=refusal["sql"],
            metadata={"planted": None, "template": "refusal", "expansion_kind": "none"},
        )

    def _record(self, *, app: str, asked_at: datetime, **fields: object) -> dict[str, Any]:
        traced = self._chance("traced")
        trace, span, event = (f"{self._random.getrandbits(bits):0{bits // 4}x}" for bits in (128, 64, 48))
        ids = {"trace_id": trace, "span_id": span} if traced else {"event_id": f"evt-{event}"}
        about = {
            "agent": self._plan.agent,
            "agent_version": self._version.label,
            "app": app,
            "asked_at": asked_at.isoformat().replace("+00:00", "Z"),
            "timezone": self._plan.apps[app]["timezone"],
        }
        return ids | about | {name: value for name, value in fields.items() if value is not None or name == "sql"}

    def _moment(self) -> datetime:
        """A moment of a working day, so that the day is the same in every zone of the log."""
        day = self._version.start + timedelta(days=self._random.randrange(self._version.days))
        seconds = self._random.randrange(8 * 3600, 16 * 3600)
        return datetime.combine(day, time(), tzinfo=UTC) + timedelta(seconds=seconds)

    def _wrapped(self, sql: str) -> str:
        if not self._chance("wrapped"):
            return sql
        return self._random.choice(self._plan.wrappers).replace("{sql}", sql)

    def _dialect(self, template: Template) -> str | None:
        own = self._plan.apps[template.app]["dialect"] == template.dialect
        if own and self._chance("dialect_unnamed"):
            return None
        return self._random.choice(self._plan.dialect_names[template.dialect])

    def _chance(self, share: str) -> bool:
        return self._random.random() < self._plan.shares[share]
