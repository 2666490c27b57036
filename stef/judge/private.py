"""A case whose values are hidden before a model sees it, and a verdict whose reasons say them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stef.apprules import AppRules
from stef.judge.case import JudgeCase
from stef.privacy import Contents, Kinds, Tokens, Veil, veiled
from stef.privacy.redact import Hider
from stef.result import Judgement, JudgeReason
from stef.sql.dialects import canonical, guesses

Restore = Callable[[Judgement], Judgement]
HideCase = Callable[[JudgeCase], tuple[JudgeCase, Restore]]
_NOTE = (
    "values are hidden: a word such as name_0123456789ab, where name may also be text, mail, phone or another, stands "
    "for one, the same word always for the same value, case and white space aside"
)


def as_it_is(case: JudgeCase) -> tuple[JudgeCase, Restore]:
    """Hide nothing."""
    return case, lambda judgement: judgement


def hiding(kinds: Kinds, tokens: Tokens) -> HideCase:
    """Hides the values of a case in everything that a model is shown of it.

    Args:
        kinds: What patterns tell.
        tokens: Makes the tokens.

    Returns:
        A function of a case; it gives the hidden case, and a function that brings the values back into a judgement.
    """

    def hide(case: JudgeCase) -> tuple[JudgeCase, Restore]:
        veil = _veil(kinds, tokens, case)
        return _hidden(case, veil), lambda judgement: _restored(judgement, veil)

    return hide


def _veil(kinds: Kinds, tokens: Tokens, case: JudgeCase) -> Veil:
    record = case.record
    dialect = canonical(record.dialect or case.rules.dialect)
    said = Contents(
        question=record.question,
        expansion=record.expanded_question or "",
        sql=case.statement,
        dialect=guesses(case.statement)[0] if dialect is None else dialect,
        specs=case.specs,
        alignment=case.alignment,
    )
    return veiled(kinds, tokens, said, case.rules)


def _hidden(case: JudgeCase, veil: Veil) -> JudgeCase:
    record = case.record
    hider = Hider(veil, record.question, record.expanded_question or "")
    said = {
        name: veil.prose(text)
        for name in ("question", "expanded_question", "dialect", "timezone")
        if (text := getattr(record, name))
    }
    statement = veil.code(case.statement)
    # Nothing else of a record is shown; what is not there cannot be shown by mistake later.
    bare: dict[str, Any] = {"app_rules": None, "parameters": None, "metadata": {}}
    return replace(
        case,
        record=record.model_copy(update={**said, **bare, "sql": statement}),
        statement=statement,
        asked=record.question,
        specs=hider.specs(case.specs),
        alignment=hider.alignment(case.alignment),
        expansion=case.expansion and hider.expansion(case.expansion),
        normalizations=hider.details(case.normalizations),
        findings=hider.details(case.findings),
        rules=_hidden_rules(case.rules, hider),
        notes=(_NOTE, *veil.relations()) if veil.tokens else (),
    )


def _hidden_rules(rules: AppRules, hider: Hider) -> AppRules:
    """What is shown of the rules: their conditions and synonyms may name a value of the record."""
    veil = hider.veil
    synonyms = {
        column: {
            veil.prose(word): tuple(hider.value(value, veil.prose, like=False, sql=False) for value in values)
            for word, values in words.items()
        }
        for column, words in rules.value_synonyms.items()
    }
    return replace(
        rules,
        column_mappings=MappingProxyType(
            {veil.prose(word): veil.code(column) for word, column in rules.column_mappings.items()}
        ),
        benign_filters=tuple(replace(item, text=veil.code(item.text)) for item in rules.benign_filters),
        value_synonyms=MappingProxyType(synonyms),
    )


def _restored(judgement: Judgement, veil: Veil) -> Judgement:
    reasons = (_said(reason, veil) for reason in judgement.reasons)
    return replace(judgement, reasons=tuple(reasons))


def _said(reason: JudgeReason, veil: Veil) -> JudgeReason:
    return replace(reason, detail=veil.restore(reason.detail))
