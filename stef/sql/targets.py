"""What a condition is about: the column under casts, functions and aggregates, resolved to where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import exp

from stef.sql.moments import unit_of
from stef.sql.nodes import children, kinds, named, qualifier

_MAX_LINEAGE = 12
# Functions that keep the meaning of the column for a comparison.
_TRANSPARENT = kinds(
    exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Cast, exp.TryCast, exp.Date, exp.TsOrDsToDate, exp.DateStrToDate,
    exp.TsOrDsToTimestamp, exp.TsOrDsToDatetime, exp.Timestamp, exp.Datetime, exp.StrToDate, exp.StrToTime,
    exp.TimeStrToTime, exp.Collate, exp.Round, exp.Unnest, exp.Floor, exp.Ceil,
)  # fmt: skip
_CUT_TO_DATE = kinds(exp.Date, exp.TsOrDsToDate, exp.DateStrToDate, exp.StrToDate)
_JSON = kinds(
    exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar,
)  # fmt: skip
_PARTS: Mapping[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.DayOfWeek: "weekday",
    exp.Hour: "hour",
    exp.LastDay: "trunc:month",
}
_BRANCHING = (exp.Case, exp.If)
_FORMATTED = (exp.TimeToStr, exp.ToChar)
_CUT = (exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc)
_WRAPPERS = (exp.Coalesce, exp.Abs, exp.Neg, exp.Nullif)
_NAMED_BY_TEXT = kinds(exp.Anonymous, exp.AnonymousAggFunc, exp.CombinedAggFunc, exp.ParameterizedAgg)
_NAMED_PARTS = {
    "toyear": "year", "tomonth": "month", "todayofmonth": "day", "toquarter": "quarter", "toyyyymm": "format:%Y%m",
    "toyyyymmdd": "format:%Y%m%d", "todate": "", "todatetime": "", "year": "year", "month": "month", "trunc": "",
}  # fmt: skip
_FORMATS = {
    "%Y": "year", "%m": "month", "%d": "day", "%Y-%m": "format:%Y-%m", "%Y%m": "format:%Y%m", "%Y-%m-%d": "",
    "yyyy": "year", "YYYY": "year", "MM": "month", "DD": "day", "Q": "quarter", "YYYY-MM": "format:%Y-%m",
    "YYYYMM": "format:%Y%m", "YYYY-MM-DD": "",
}  # fmt: skip
_AGGREGATES = {
    "countif": "count", "approxdistinct": "count", "approxquantile": "percentile", "percentilecont": "percentile",
    "percentiledisc": "percentile", "quantile": "percentile", "stddevpop": "stddev", "stddevsamp": "stddev",
    "variancepop": "variance", "anyvalue": "any", "arrayagg": "list", "groupconcat": "list",
}  # fmt: skip
_AGGREGATE_KINDS = {kind: _AGGREGATES.get(name := kind.__name__.lower(), name) for kind in kinds(exp.AggFunc)}
_NAMED_AGGREGATES = {
    "total": "sum", "uniq": "count", "uniqexact": "count", "countdistinct": "count", "sumif": "sum", "avgif": "avg",
    "minif": "min", "maxif": "max", "quantileif": "percentile", "string_agg": "list", "group_concat": "list",
    "count_big": "count",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The left side of a condition.

    Attributes:
        column: Bare name; `*` under COUNT(*); "" when there is none.
        table: Physical table, when it is known.
        aggregate: Function around it.
        distinct: The aggregate runs over distinct values.
        part: Calendar part or format that is taken of it: `year`, `format:%Y-%m`, `trunc:month`, `prefix:4`, …
        dated: It is cut to a date.
        window: It is a window function; the node.
        expression: It is more than a column: an arithmetic of several.
    """

    column: str = ""
    table: str = ""
    aggregate: str = ""
    distinct: bool = False
    part: str = ""
    dated: bool = False
    window: exp.Window | None = None
    expression: bool = False


@lru_cache(maxsize=4096)
def plain(column: str, table: str = "") -> Target:
    """A bare column; the same few are met again and again."""
    return Target(column=column, table=table)


@dataclass(slots=True)
class Relation:
    """A table, a common table expression or a derived table, as a select sees it.

    Attributes:
        table: Physical name; "" for a derived one.
        outputs: Output expressions of a derived one by lower-case name.
        names: Where those expressions are resolved.
        star: The derived one passes its sources' columns through.
    """

    table: str = ""
    outputs: dict[str, exp.Expr] = field(default_factory=dict)
    names: Names | None = None
    star: bool = False


@dataclass(slots=True)
class Names:
    """The sources of one select by lower-case alias, and its own output aliases.

    Attributes:
        outer: Of the query around it.
        aliases_first: An output's name hides a column, as in HAVING, QUALIFY and ORDER BY.
    """

    relations: dict[str, Relation] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    outer: Names | None = None
    aliases_first: bool = False
    _turned: Names | None = None
    _columns: dict[int, tuple[exp.Column, Target | None]] = field(default_factory=dict)

    def settle(self, aliases: Mapping[str, exp.Expr]) -> None:
        """Take the output aliases; no source comes after this, so what a column stands for can be kept."""
        self.aliases.update(aliases)
        self._columns.clear()
        self._turned = None

    def turned(self) -> Names:
        """The same names with the other precedence of aliases."""
        if self._turned is None:
            self._turned = Names(self.relations, self.aliases, self.outer, not self.aliases_first)
        return self._turned

    def resolved(self, column: exp.Column) -> Target | None:
        """What a column stands for; the nodes are kept, so that no other takes their identity."""
        known = self._columns.get(id(column))
        if known is None:
            known = self._columns[id(column)] = column, _column(column, self, 0)
        return known[1]

    def origin(self, column: exp.Column) -> tuple[Relation | None, exp.Expr | None]:
        """The relation that a column comes from, and the expression behind it when that one is derived."""
        before, name = qualifier(column).lower(), named(column).lower()
        if before:
            scope: Names | None = self
            while scope is not None and before not in scope.relations:
                scope = scope.outer
            relation = scope.relations[before] if scope is not None else None
            return relation, relation.outputs.get(name) if relation else None
        for relation in self.relations.values():
            if name in relation.outputs:
                return relation, relation.outputs[name]
        if len(self.relations) == 1:
            return next(iter(self.relations.values())), None
        return None, None


def aggregate_name(node: exp.Expr) -> str:
    """Canonical name of an aggregate function, or "" when the node is none."""
    kind = type(node)
    if kind not in _NAMED_BY_TEXT:
        return _AGGREGATE_KINDS.get(kind, "")
    name = str(node.name or node.this).lower()
    return _NAMED_AGGREGATES.get(name, "" if kind is exp.Anonymous else name)


def target(node: exp.Expr, names: Names, depth: int = 0) -> Target | None:
    """Read the left side of a condition, or None when it holds no column."""
    if isinstance(node, exp.Column):
        return _column(node, names, depth) if depth else names.resolved(node)
    if type(node) in _TRANSPARENT:
        return _seen_through(node, names, depth)
    if type(node) in _JSON:
        return _field(node, names, depth)
    if isinstance(node, exp.Window):
        return Target(window=node, expression=True)
    if isinstance(node, exp.Filter):
        return target(node.this, names, depth)
    if isinstance(node, exp.WithinGroup):
        keys = node.expression.expressions if isinstance(node.expression, exp.Order) else []
        ordered = target(keys[0].this, names, depth) if keys else None
        return Target(column=ordered.column if ordered else "", aggregate=aggregate_name(node.this) or "percentile")
    if name := aggregate_name(node):
        return _aggregate(node, name, names, depth)
    if (part := _part(node)) is not None:
        return _with_part(node, part, names, depth)
    return _mixed(node, names, depth)


def _seen_through(node: exp.Expr, names: Names, depth: int) -> Target | None:
    if not isinstance(node.this, exp.Expr):
        return None
    found = target(node.this, names, depth)
    if found is None or found.dated or not _cuts_to_date(node):
        return found
    return replace(found, dated=True)


def _cuts_to_date(node: exp.Expr) -> bool:
    to = node.args.get("to")
    return type(node) in _CUT_TO_DATE or (to is not None and to.this == exp.DataType.Type.DATE)


def _field(node: exp.Expr, names: Names, depth: int) -> Target | None:
    """A field inside a JSON column is named by its last key."""
    path = node.expression
    if isinstance(path, exp.JSONPath):
        keys = [part.this for part in path.expressions if isinstance(part, exp.JSONPathKey)]
        key = str(keys[-1]) if keys else ""
    else:
        key = path.name.strip("{}$").replace(".", ",").rpartition(",")[2] if isinstance(path, exp.Literal) else ""
    found = target(node.this, names, depth)
    return replace(found, column=key) if found is not None and key else found


def _column(node: exp.Column, names: Names, depth: int) -> Target | None:
    name = named(node)
    if depth > _MAX_LINEAGE:
        return plain(name)
    if names.aliases_first and (output := aliased(node, names)) is not None and not _same_name(output, node):
        return target(output, names.turned(), depth + 1) or plain(name)
    relation, behind = names.origin(node)
    if behind is not None and relation is not None and relation.names is not None:
        found = target(behind, relation.names, depth + 1)
        if (
            found is not None
            and (found.column or found.window or found.aggregate)
            and not (found.expression and found.window is None and not found.aggregate)
        ):
            return found
        return plain(name)
    if relation is None and not qualifier(node) and (behind := names.aliases.get(name.lower())) is not None:
        if behind is not node and not _same_name(behind, node):
            return target(behind, names, depth + 1) or plain(name)
    elif relation is not None and relation.star and relation.names is not None and len(relation.names.relations) == 1:
        return _column(exp.column(name), relation.names, depth + 1)
    return plain(name, relation.table if relation else qualifier(node))


def _same_name(output: exp.Expr, column: exp.Column) -> bool:
    return isinstance(output, exp.Column) and named(output).lower() == named(column).lower()


def aliased(node: exp.Column, names: Names) -> exp.Expr | None:
    """The select's own output that an unqualified name stands for (HAVING and ORDER BY on aliases)."""
    return None if qualifier(node) else names.aliases.get(named(node).lower())


def _aggregate(node: exp.Expr, name: str, names: Names, depth: int) -> Target:
    inner = node.args.get("this")
    if not isinstance(inner, exp.Expr) or isinstance(node, exp.Anonymous):
        inner = node.expressions[0] if node.expressions else inner if isinstance(inner, exp.Expr) else None
    distinct = isinstance(inner, exp.Distinct) or isinstance(node, exp.ApproxDistinct) or _is_uniq(node)
    if isinstance(inner, exp.Distinct):
        inner = inner.expressions[0] if inner.expressions else None
    if inner is None or isinstance(inner, exp.Star) or isinstance(node, exp.CountIf):
        return Target(column="*", aggregate=name)
    inner = _summed(inner)
    found = target(inner, names, depth + 1)
    if found is None:
        return Target(column="*" if name == "count" else "", aggregate=name, distinct=distinct)
    return Target(
        column=found.column, table=found.table, aggregate=name, distinct=distinct, expression=found.expression
    )


def _is_uniq(node: exp.Expr) -> bool:
    """Whether it is ClickHouse's count of distinct values."""
    return type(node) in _NAMED_BY_TEXT and str(node.name).lower() in {"uniq", "uniqexact"}


def _summed(node: exp.Expr) -> exp.Expr:
    """What a CASE inside an aggregate adds up: its first result, not its condition."""
    if isinstance(node, _BRANCHING):
        branch = node.args["ifs"][0] if isinstance(node, exp.Case) and node.args.get("ifs") else node
        result = branch.args.get("true")
        return result if isinstance(result, exp.Expr) else node
    return node


def _part(node: exp.Expr) -> str | None:
    """Calendar part or format that a function takes of its argument; None for other functions, "" for the whole."""
    if (part := _PARTS.get(type(node))) is not None:
        return part
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower()
    if isinstance(node, _FORMATTED):
        form = node.args.get("format")
        return _FORMATS.get(form.name, "other") if isinstance(form, exp.Expr) else "other"
    if isinstance(node, _CUT):
        unit = unit_of(node.args.get("unit"))
        return f"trunc:{unit}" if unit else "other"
    if isinstance(node, exp.Substring) and node.args.get("start") is not None and node.args["start"].name == "1":
        return f"prefix:{node.args['length'].name}" if node.args.get("length") is not None else ""
    if isinstance(node, exp.Left):
        return f"prefix:{node.expression.name}"
    if isinstance(node, exp.Anonymous):
        return _NAMED_PARTS.get(node.name.lower())
    return None


def _with_part(node: exp.Expr, part: str, names: Names, depth: int) -> Target | None:
    inner = node.args.get("expression") if isinstance(node, exp.Extract) else node.this
    if isinstance(node, exp.Anonymous):
        inner = node.expressions[0] if node.expressions else None
    found = target(inner, names, depth + 1) if isinstance(inner, exp.Expr) else None
    if found is None:
        return None
    return replace(found, part=part or found.part, dated=found.dated or not part, expression=part == "other")


def _mixed(node: exp.Expr, names: Names, depth: int) -> Target | None:
    """An arithmetic: named after its first column, aggregates noted."""
    for inner in children(node):
        if isinstance(inner, exp.Query):
            continue
        found = target(inner, names, depth + 1)
        if found is not None:
            wraps = isinstance(node, _WRAPPERS)
            return Target(
                column=found.column,
                table=found.table,
                aggregate=found.aggregate,
                part=found.part,
                expression=found.expression or not wraps,
            )
    return None
