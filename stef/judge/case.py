"""What a judge is given, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stef.apprules import NO_RULES, AppRules
from stef.catalogue import Catalogue
from stef.finding import Finding
from stef.record import QueryRecord
from stef.result import Alignment, Evidence, Expansion, JudgeKind, Judgement, Normalization, Specs
from stef.understand import Compared, Understood


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCase:
    """One record with everything that the symbolic side found.

    Attributes:
        record: As read; its texts are untrusted.
        statement: The SQL to be scored, comments removed.
        specs: What the three texts ask for.
        findings: Safety, policy and hostile-input findings.
        asked: The question as it came, where the record has it in tokens; never shown.
        notes: What a reader of the texts must know beside them, a sentence each, of ours and not of the record.
        catalogue: What the log has shown of the record's database; None where nothing is known.
    """

    record: QueryRecord
    statement: str
    specs: Specs
    alignment: Alignment
    evidence: Evidence
    expansion: Expansion | None = None
    normalizations: tuple[Normalization, ...] = ()
    findings: tuple[Finding, ...] = ()
    rules: AppRules = NO_RULES
    notes: tuple[str, ...] = ()
    asked: str = ""
    catalogue: Catalogue | None = None


def case_of(
    record: QueryRecord,
    seen: Understood,
    compared: Compared,
    *,
    findings: tuple[Finding, ...] = (),
    rules: AppRules = NO_RULES,
    catalogue: Catalogue | None = None,
) -> JudgeCase:
    """What a judge is given of a record that was understood and compared.

    Args:
        record: As read.
        seen: What was found in it.
        compared: The same's comparison, which is there where there is a statement to score.
        findings: All of them; those of `seen` are among them.
        rules: That hold for the record.
        catalogue: Of the record's database.
    """
    return JudgeCase(
        record=record,
        statement=seen.parsed.sql,
        specs=seen.specs,
        alignment=compared.alignment,
        evidence=compared.evidence,
        expansion=compared.expansion,
        normalizations=compared.normalizations,
        findings=findings,
        rules=rules,
        catalogue=catalogue,
    )


class Judge(Protocol):
    """Gives verdicts.

    Attributes:
        kind: For results.
        identity: Everything about it that decides a verdict (prompt digest, model, parameters); part of the
            `scoring_config`. "" for offline.
    """

    kind: JudgeKind
    identity: str

    async def judge(self, case: JudgeCase) -> Judgement:
        """Judge one case.

        Raises:
            JudgeError: There is no verdict, and none may be made up.
        """
        ...
