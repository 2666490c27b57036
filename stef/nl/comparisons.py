"""Conditions on amounts: "at least 500 euros", "older than 20", "3 or more complaints", "between 10 and 20"."""

from __future__ import annotations

from decimal import Decimal

from stef.lexicon import Kind, Role
from stef.nl.numbers import Amount, read_amount
from stef.nl.reading import Reading
from stef.nl.times import elapsed
from stef.nl.tokens import Form
from stef.spec import Filter, Op, Scope
from stef.values import NumberRange, Unknown, Unresolved, Value

# Words of a measure before or behind its amount that are looked at.
_REACH = 3


def comparisons(r: Reading) -> list[Filter]:
    """All conditions on amounts, left to right."""
    found: list[Filter] = []
    end = 0
    for i in _starts(r):
        if i < end or r.taken[i]:
            continue
        read = _between(r, i) or _compared(r, i)
        if read is None and i in r.amounts:
            read = _trailing(r, i) or _equal(r, i)
        if read is not None:
            end, condition = read
            found.append(condition)
            r.take(i, end)
    return found


def _starts(r: Reading) -> list[int]:
    """Where a condition may begin: an average is compared with as an amount is."""
    compared = r.places(Kind.COMPARE, Kind.COMPARATIVE)
    if not r.amounts:
        return compared if r.holds(Kind.THAN_AVERAGE) else []
    opened = r.places(Kind.BETWEEN, Kind.OF, Kind.DIRECTION, Kind.RELATIVE_PRONOUN)
    return sorted({*r.amounts, *compared, *opened})


def _between(r: Reading, i: int) -> tuple[int, Filter] | None:
    """Read "between X and Y", "from X to Y", "X to Y kg", "10-20"."""
    lead = r.mark(i, Kind.BETWEEN)
    opened = lead is not None or r.has(i, Kind.OF) or r.plays(i, Role.FROM, Role.WITH)
    start = r.skip(lead.end if lead else i + 1, Kind.ARTICLE) if opened else i
    low = read_amount(r, start, spelled=lead is not None) if start in r.amounts else None
    if low is None or not r.has(low.end, Kind.TO) or (r.has(low.end, Kind.AND) and lead is None):
        return None
    high = read_amount(r, low.end + 1, spelled=lead is not None)
    if high is None or high.number.value < low.number.value or not r.free(start, high.end):
        return None
    if not opened and not high.measure and r[low.end].form is not Form.PUNCT:
        return None
    certainty = 0.9 if lead else 0.8 if r.plays(i, Role.FROM) else 0.6 if high.measure else 0.45
    value = NumberRange(low.number.value, high.number.value)
    return _built(r, i, high, Op.RANGE, value, certainty)


def _compared(r: Reading, i: int) -> tuple[int, Filter] | None:
    """An operator in words or as a sign, and the amount behind it."""
    if not r.has(i, Kind.COMPARE, Kind.COMPARATIVE):
        return None
    measure = ""
    mark = r.mark(i, Kind.COMPARE)
    comparative = r.mark(i, Kind.COMPARATIVE)
    if comparative is not None and (mark is None or comparative.end >= mark.end):
        measure, _, sign = comparative.payload.rpartition(" ")
        mark = comparative
    elif mark is not None:
        sign = mark.payload
    else:
        return None
    op = Op(sign)
    start = r.skip(mark.end, Kind.ARTICLE) if not r.has(mark.end, Kind.NUMBER) else mark.end
    if r.has(start, Kind.OF):
        start += 1
    if past := elapsed(r, i, start, op):
        return past
    amount = read_amount(r, start)
    if amount is None:
        return _expression(r, i, mark.end, op, measure)
    if r.plays(i, Role.SPATIAL) and not r.free(start, amount.end):
        return None
    if _is_relative(r, amount):
        return _expression(r, i, amount.end, op, measure, certain=False)
    if measure in {"length", "age"} and amount.measure not in {"", "amount"}:
        measure = amount.measure
    certainty = 0.45 if r[i].form is Form.SIGN and not r.is_noun(i - 1) else _certainty(r, i, op, amount)
    return _built(r, i, amount, op if not _negated(r, i) else op.negated, amount.number, certainty, measure)


def _negated(r: Reading, i: int) -> bool:
    return r.has(i - 1, Kind.NOT) or (
        r.has(i - 2, Kind.NOT) and r.has(i - 1, Kind.VERB, Kind.HAVE, Kind.BE, Kind.MEASURE_VERB)
    )


def _is_relative(r: Reading, amount: Amount) -> bool:
    """Read "more than 20 % of the average", "at least 1.5 times greater than": the bound is an expression."""
    behind = amount.end
    if r.has(behind, Kind.TIMES) and r.has(behind + 1, Kind.COMPARE, Kind.THAN_AVERAGE):
        return True
    if amount.number.unit == "%":
        return r.has(r.skip(behind, Kind.OF), Kind.THAN_AVERAGE) or r.has(
            r.skip(behind, Kind.OF, Kind.ARTICLE), Kind.AGGREGATE
        )
    return r.has(behind, Kind.TIMES) and r.has(behind + 1, Kind.ARTICLE)


def _certainty(r: Reading, i: int, op: Op, amount: Amount) -> float:
    if amount.number.value == 1 and op in {Op.GE, Op.EQ} and not amount.number.unit:
        return 0.45  # "at least one" is most often what a join does by itself
    if amount.number.value == 0 and op is Op.GT:
        return 0.45
    asked = r.ends(i, Kind.ASK)
    if r.has(i - 1, Kind.EACH, Kind.TOP) or (asked is not None and r.marked(asked, Kind.ASK).payload == "list"):
        return 0.4  # "list at least five" is about rows
    return 0.7 if r.plays(i, Role.LOOSE) else 0.85


def _expression(
    r: Reading, i: int, end: int, op: Op, measure: str, *, certain: bool = True
) -> tuple[int, Filter] | None:
    """A bound that is no number: "more than the average"; supports a match, is never required."""
    if certain and not r.has(end, Kind.THAN_AVERAGE):
        return None
    column = measure or before(r, i)
    value = Unknown(r.source(i, min(end + 1, len(r))), Unresolved.EXPRESSION)
    return end, _filter(r, i, end, op, value, 0.4, column, implied=not column)


def _trailing(r: Reading, i: int) -> tuple[int, Filter] | None:
    """The operator behind the amount: "3 or more complaints", "65 years or older"."""
    amount = read_amount(r, i)
    if amount is None:
        return None
    mark = r.mark(amount.end, Kind.AFTER_VALUE)
    if mark is None:
        mark = r.mark(amount.end + 1, Kind.AFTER_VALUE) if r.is_noun(amount.end) else None
    if mark is None or (r.has(mark.end - 1, Kind.EXTREME) and not amount.measure):
        return None
    if r[amount.end].text == "+" and r.starts[amount.end] != r.stops[amount.end - 1]:
        return None
    noun = r.low(amount.end) if r.is_noun(amount.end) and mark.end > amount.end + 1 else ""
    column = _measure_of(r, r.low(mark.end - 1)) or noun or behind(r, mark.end)
    end, condition = _built(
        r, i, amount, Op(mark.payload), amount.number, _certainty(r, i, Op(mark.payload), amount), column
    )
    return max(end, mark.end), condition


def _measure_of(r: Reading, word: str) -> str:
    """The measure that a comparative speaks of ("older": age), or ""."""
    found = [p.payload for p in r.lexicon.phrases.get(word, ()) if p.kind is Kind.COMPARATIVE and len(p.words) == 2]
    return found[0].partition(" ")[0] if found else ""


def _equal(r: Reading, i: int) -> tuple[int, Filter] | None:
    """An amount that is a value: "a score of 10", "exactly 3 rooms", "with 4 drawers", "3 years old"."""
    token = r[i]
    if token.form is not Form.NUMBER and not (r.has(i - 1, Kind.EXACTLY) and r.has(i, Kind.NUMBER)):
        return None
    amount = read_amount(r, i, spelled=True)
    if amount is None or _is_relative(r, amount):
        return None
    if r.has(i - 1, Kind.IDENTIFY) or (r.has(i - 1, Kind.BE) and r.has(i - 2, Kind.IDENTIFY)):
        return _identified(r, i, amount)
    if amount.measure == "age":
        return _built(r, i, amount, Op.EQ, amount.number, 0.8, "age")
    if r.has(i - 1, Kind.OF) and (column := before(r, i - 1)) and not r.has(i - 2, Kind.AGGREGATE, Kind.ORDER):
        certainty = 0.75 if not r.is_noun(amount.end) and not r.has(i - 2, Kind.TOP) else 0.45
        return _built(r, i, amount, Op.EQ, amount.number, certainty, column)
    led = r.has(i - 1, Kind.EXACTLY, Kind.HAVE) or r.plays(i - 1, Role.WITH)
    if led and r.is_noun(amount.end):
        return _built(r, i, amount, Op.EQ, amount.number, 0.7 if amount.number.value != 1 else 0.45)
    if (r.has(i - 1, Kind.BE) or r[i - 1].text == "=") and (column := before(r, i - 1)):
        return _built(r, i, amount, Op.EQ, amount.number, 0.6, column)
    column = r.low(i - 1) if r.is_noun(i - 1) else ""
    if amount.measure == "duration" or r[i - 1].text == "/" or r[i + 1].text == "/":
        return None
    return _built(r, i, amount, Op.EQ, amount.number, 0.45 if column else 0.3, column)


def _identified(r: Reading, i: int, amount: Amount) -> tuple[int, Filter]:
    """Read "post ID 12", "yard 4", "customers number 3"."""
    at = i - 2 if r.has(i - 1, Kind.BE) else i - 1
    sign = r.marked(at, Kind.IDENTIFY).payload
    column = r.words(at - 1, at + 1) if r.is_noun(at - 1) and sign == "part" else r.low(at)
    if sign == "sign" and r.is_noun(at - 1):
        column = r.words(at - 2, at) if r.has(at - 1, Kind.NAME) and r.is_noun(at - 2) else r.low(at - 1)
    end = amount.bare_end
    return end, _filter(r, i, end, Op.EQ, amount.number, 0.75 if amount.number.value != Decimal(0) else 0.45, column)


def _built(
    r: Reading, start: int, amount: Amount, op: Op, value: Value, certainty: float, column: str = ""
) -> tuple[int, Filter]:
    implied = False
    if not column and not amount.measure:
        column = behind(r, amount.end)
    if not column:
        spoken = _spoken_measure(r, amount.end)
        column = spoken or _subject(r, start, amount)
        said = not spoken and r.has(start - 1, Kind.OF) and r.is_noun(start - 2)
        implied = bool(amount.measure) and not said and (not column or amount.measure not in {"", "amount"})
        if not column or (amount.measure == "amount" and r.has(start - 1, Kind.OF)):
            column, implied = amount.measure or column, True
    end = amount.end
    return end, _filter(r, start, end, op, value, certainty, column, implied=implied)


def _subject(r: Reading, start: int, amount: Amount) -> str:
    """What stands before the comparison; the thing that "which" asks for has no unit of its own."""
    column = before(r, start)
    if (
        column
        and amount.number.unit
        and amount.measure != "amount"
        and r.has(start - 1, Kind.BE)
        and r.has(start - 2 - len(column.split()), Kind.ASK)
    ):
        return ""
    return column


def _filter(
    r: Reading, start: int, end: int, op: Op, value: Value, certainty: float, column: str, *, implied: bool = False
) -> Filter:
    return Filter(
        column=column,
        op=op,
        value=value,
        scope=Scope.QUESTION,
        certainty=certainty,
        implied_column=implied,
        text=r.source(start, end),
        span=r.span(start, end),
    )


def _spoken_measure(r: Reading, i: int) -> str:
    """The measure that an adjective behind the amount names ("180 cm tall")."""
    mark = r.mark(i, Kind.MEASURE_VERB)
    return mark.payload if mark else ""


def behind(r: Reading, i: int) -> str:
    """The nouns behind an amount: what it counts ("2 reminders")."""
    i = r.skip(i, Kind.DISTINCT, Kind.ARTICLE)
    if r.plays(i, Role.OLD) or r.has(i, Kind.TIMES):
        return ""
    words: list[str] = []
    while len(words) < _REACH and r.is_noun(i) and not r.has(i, Kind.MONTH, Kind.RELATIVE):
        if not r.continues(i) and (words or not r.continues(i + 1)):
            break
        words.append(r.low(i))
        i += 1
    return " ".join(words)


def before(r: Reading, i: int) -> str:
    """The nouns before a comparison: what is compared ("height is over", "a score of at least")."""
    i -= 1
    steps = 0
    while (
        i >= 0
        and steps < 6
        and (r.has(i, Kind.BE, Kind.OF, Kind.NOT, Kind.ARTICLE, Kind.HAVE) or r.plays(i, Role.LINKING))
    ):
        i, steps = i - 1, steps + 1
    verb = r.mark(i, Kind.MEASURE_VERB)
    if verb is not None and verb.payload != r.low(i):
        return verb.payload
    words: list[str] = []
    while len(words) < _REACH and r.is_noun(i) and not r.is_break(i) and not r.opens(i):
        words.insert(0, r.low(i))
        i -= 1
    return " ".join(words)
