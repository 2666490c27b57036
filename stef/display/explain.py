"""One result in full: what each text asks for, what matched, what was forgiven, and how Φ came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stef.data import evidence_words
from stef.display.grid import Cell, Styled, block, heading, line, table
from stef.display.results import BAND_STYLES, MATCH_MARKS, VERDICT_STYLES, ending, reason_text
from stef.display.text import number
from stef.finding import Severity
from stef.result import Drift, Evaluation, FilterEvidence, Judgement, Outcome, Route
from stef.spec import Filter, Limit, QuerySpec

if TYPE_CHECKING:
    from rich.console import Console

_SEVERITY_STYLES = {Severity.INFO: "", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}
_DRIFT_STYLES = {Drift.PRESERVED: "green", Drift.DROPPED: "red", Drift.CHANGED: "red", Drift.ADDED: "yellow"}


def show_explanation(console: Console, evaluation: Evaluation) -> None:
    """Print everything that led to the result; the specs where it carries them."""
    _head(console, evaluation)
    block(console, "Question", evaluation.question)
    if evaluation.sql:
        block(console, "SQL", evaluation.sql)
    _specs(console, evaluation)
    _evidence(console, evaluation)
    _expansion(console, evaluation)
    if evaluation.normalizations:
        heading(console, "Tolerances")
        table(console, ("rule", "what it forgave"), [(item.rule, item.detail) for item in evaluation.normalizations])
    if evaluation.findings:
        heading(console, "Findings")
        rows: list[Sequence[Cell]] = [
            (Styled(item.severity, _SEVERITY_STYLES[item.severity]), item.code, item.detail)
            for item in evaluation.findings
        ]
        table(console, ("severity", "code", "detail"), rows)
    _weighed(console, evaluation)
    _verdict(console, evaluation)
    _score(console, evaluation)


def _head(console: Console, evaluation: Evaluation) -> None:
    if evaluation.outcome is Outcome.SCORED and evaluation.band:
        ended = Styled(f"Φ {evaluation.phi} {evaluation.band}", f"bold {BAND_STYLES[evaluation.band]}")
    else:
        ended = Styled(f"{evaluation.outcome}: {ending(evaluation)}", "bold red")
    line(console, Styled(evaluation.event_id or evaluation.event_key, "bold"), "  ", ended)
    facts = {
        "agent": " ".join(filter(None, (evaluation.agent, evaluation.agent_version))),
        "app": evaluation.app,
        "database": evaluation.database,
        "dialect": evaluation.provenance.dialect,
        "asked at": evaluation.asked_at and evaluation.asked_at.isoformat(),
        "scoring configuration": evaluation.scoring_config,
    }
    for name, value in facts.items():
        if value:
            line(console, f"  {name}: {value}")


def _specs(console: Console, evaluation: Evaluation) -> None:
    if evaluation.spec is None:
        return
    sides = [
        (title, spec)
        for title, spec in (
            ("question", evaluation.spec.question),
            ("expansion", evaluation.spec.expansion),
            ("SQL", evaluation.spec.sql),
        )
        if spec is not None
    ]
    evidence = evaluation.alignment.filters if evaluation.alignment else ()
    rows: list[list[Cell]] = [["filters", *([_marked(item, evidence) for item in spec.filters] for _, spec in sides)]]
    parts = [(title, _parts(spec)) for title, spec in sides]
    names = dict.fromkeys(name for _, part in parts for name in part)
    rows += [[name, *([Styled(text) for text in part.get(name, ())] for _, part in parts)] for name in names]
    heading(console, "What each text asks for")
    table(console, ("", *(title for title, _ in sides)), rows)


def _marked(item: Filter, evidence: Sequence[FilterEvidence]) -> Styled:
    """A filter with the mark and colour of what became of it."""
    found = next((e for e in evidence if item in (e.asked, e.found)), None) or next(
        (e for e in evidence if _same_place(item, e.asked) or _same_place(item, e.found)), None
    )
    mark, style = MATCH_MARKS[found.match] if found else ("·", "dim")
    doubt = "" if item.certainty >= 0.995 else f" (certainty {item.certainty:.2f})"
    return Styled(f"{mark} {item}{doubt}", style)


def _same_place(item: Filter, other: Filter | None) -> bool:
    """Whether rules or tolerances rewrote the one into the other: both were read from the same words."""
    return other is not None and bool(item.text) and (item.text, item.span) == (other.text, other.span)


def _parts(spec: QuerySpec) -> dict[str, list[str]]:
    """What a spec holds beside its filters, as lines by part; parts that are empty are left out."""
    parts = {
        "aggregates": [f"{a.function}({'distinct ' if a.distinct else ''}{a.of})" for a in spec.aggregations],
        "columns": [projection.name for projection in spec.projections],
        "group by": [f"{key.column} by {key.unit}" if key.unit else key.column for key in spec.group_by],
        "order by": [f"{key.by or key.aggregate} {key.direction}" for key in spec.order_by],
        "limit": [_limit(spec.limit)] if spec.limit else [],
        "distinct": ["yes"] if spec.distinct else [],
        "tables": list(spec.tables),
        "joins": [f"{join.kind} {join.table}" for join in spec.joins],
        "set operations": list(spec.set_operations),
        "windows": list(spec.windows),
        "placeholders": list(spec.placeholders),
        "follow-up": ["yes"] if spec.elliptical else [],
    }
    return {name: lines for name, lines in parts.items() if lines}


def _limit(limit: Limit) -> str:
    text = "?" if limit.count is None else str(limit.count)
    text += f" per {', '.join(limit.per)}" if limit.per else ""
    text += f", {limit.offset} skipped" if limit.offset else ""
    text += ", ties kept" if limit.ties else ""
    return text + (", below an aggregate or a filter" if limit.below else "")


def _evidence(console: Console, evaluation: Evaluation) -> None:
    alignment = evaluation.alignment
    if alignment is None:
        return
    heading(console, f"Filters: {alignment.category}" + (", all extras benign" if alignment.benign else ""))
    rows: list[list[Cell]] = []
    for item in alignment.filters:
        mark, style = MATCH_MARKS[item.match]
        asked, found = (str(side) if side else "–" for side in (item.asked, item.found))
        needed = "required" if item.required else ""
        rows.append([Styled(f"{mark} {item.match.replace('_', ' ')}", style), asked, found, needed,
                     number(item.certainty, 2), item.note])  # fmt: skip
    if rows:
        table(console, ("finding", "asked", "in the SQL", "", "certainty", "note"), rows, numbers=("certainty",))


def _expansion(console: Console, evaluation: Evaluation) -> None:
    expansion = evaluation.expansion
    if expansion is None:
        return
    state = "drifted from the question" if expansion.drifted else "keeps to the question"
    heading(console, f"Expansion: {state}" + (" (a follow-up)" if expansion.elliptical else ""))
    rows: list[list[Cell]] = [
        [Styled(c.drift, _DRIFT_STYLES[c.drift]), str(c.question or "–"), str(c.expansion or "–")]
        for c in expansion.changes
    ]
    if rows:
        table(console, ("", "question", "expansion"), rows)


def _weighed(console: Console, evaluation: Evaluation) -> None:
    """What moved `p_offline` most, and which way."""
    if not evaluation.weighed:
        return
    words = evidence_words()
    heading(console, "What weighed most")
    rows: list[Sequence[Cell]] = [
        (
            Styled(f"{item.log_odds:+.2f}", "red" if item.log_odds < 0 else "green"),
            item.feature,
            "unknown" if item.value is None else f"{item.value:g}",
            words.get(item.feature, ""),
        )
        for item in evaluation.weighed
    ]
    table(console, ("log-odds", "evidence", "value", "what it is"), rows)


def _verdict(console: Console, evaluation: Evaluation) -> None:
    judge = evaluation.judge
    if judge is None:
        return
    heading(console, "Verdict")
    who = " ".join(filter(None, (judge.kind, judge.model)))
    verdict = Styled(judge.verdict, f"bold {VERDICT_STYLES[judge.verdict]}")
    line(console, "  ", verdict, f", confidence γ {judge.confidence:.2f}, by {who}")
    if judge.raw_verdict is not None and judge.raw_verdict is not judge.verdict:
        line(console, f"  lowered from {judge.raw_verdict}: {judge.cap}")
    if about := _about(judge):
        line(console, f"  {about}")
    if judge.fallback:
        line(console, Styled(f"  offline in place of the model ({judge.fallback})", "yellow"))
    for reason in judge.reasons:
        line(console, f"  - {reason_text(reason.code, reason.detail)}")


def _about(judge: Judgement) -> str:
    """How a verdict came about, where there is something to say of it."""
    basis = {"token": "γ from the probability of the verdict's token", "agreement": "γ from agreement", "said": ""}
    parts = [basis.get(judge.basis, "")]
    if judge.samples > 1:
        parts.append(f"{judge.samples} samples")
    if judge.cached:
        parts.append("given before for the same case")
    if judge.flipped:
        parts.append("asked again, the model took the other side")
    if judge.raw_confidence is not None and judge.raw_confidence != judge.confidence and not judge.cap:
        parts.append(f"γ before calibration {judge.raw_confidence:.2f}")
    routes = {Route.SURE: "the evidence was sure enough to ask no model", Route.NOT_DRAWN: "not drawn for the model"}
    if judge.route is not None:
        parts.append(routes[judge.route])
    return "; ".join(filter(None, parts))


def _score(console: Console, evaluation: Evaluation) -> None:
    score = evaluation.score
    if score is None:
        return
    points = min(10, score.filters + score.verdict + score.delta)
    heading(console, "Score")
    line(console, f"  B = min(10, filters {score.filters} + verdict {score.verdict} + δ {score.delta}) = {points}")
    line(
        console,
        f"  Φ = B × 10 × Γ = {points} × 10 × {score.multiplier:g} = ",
        Styled(f"{score.phi} ({score.band})", f"bold {BAND_STYLES[score.band]}"),
    )
    raw = f" ({number(evaluation.p_raw, 2)} before calibration)" if evaluation.provenance.calibration else ""
    line(console, f"  p_offline {number(evaluation.p_offline, 2)}{raw}, p_correct {number(evaluation.p_correct, 2)}")
