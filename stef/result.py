"""What goes out: alignment, verdict, score, and the evaluation that holds them.

The JSON form of `Evaluation` is a public contract; its schema is generated into `stef/resources/result.schema.json`
and carries `RESULT_VERSION`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated

from annotated_types import Interval as Within
from pydantic import TypeAdapter

from stef.finding import Finding
from stef.forest import Weighed
from stef.provenance import Provenance
from stef.spec import Filter, QuerySpec

RESULT_VERSION = 1
SEMANTICS_VERSION = 1  # bumped whenever a golden case changes

Phi = Annotated[int, Within(ge=0, le=100)]
Confidence = Annotated[float, Within(ge=0.0, le=1.0)]
Probability = Annotated[float, Within(ge=0.0, le=1.0)]


class Outcome(StrEnum):
    """How a message ended; exactly one of these."""

    SCORED = "scored"
    SKIPPED = "skipped"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


class Reason(StrEnum):
    """Why a record was skipped or failed."""

    NO_SQL = "no_sql"
    NOT_A_QUERY = "not_a_query"
    TEMPLATED = "templated"
    BROKEN = "broken"  # unparsable: no dialect could take it
    UNSUPPORTED = "unsupported"  # unparsable: ours is the gap
    OPAQUE = "opaque"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    EMPTY = "empty"
    DUPLICATE = "duplicate"
    SAMPLED_OUT = "sampled_out"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    JUDGE_REPLY_INVALID = "judge_reply_invalid"
    JUDGE_BUDGET = "judge_budget"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


# Skipped, and yet it should have had a score: these lower the coverage.
COVERAGE_LOSSES = frozenset(
    {
        Reason.NOT_A_QUERY,
        Reason.TEMPLATED,
        Reason.BROKEN,
        Reason.UNSUPPORTED,
        Reason.OPAQUE,
        Reason.TOO_LARGE,
        Reason.TOO_DEEP,
    }
)


class Category(StrEnum):
    """How the filters of question and SQL align: the paper's four categories."""

    FULL = "FULL"
    FULL_WITH_EXTRAS = "FULL_WITH_EXTRAS"
    PARTIAL = "PARTIAL"
    NONE = "NONE"


class Match(StrEnum):
    """What became of one filter."""

    MATCHED = "matched"
    WRONG_VALUE = "wrong_value"
    WRONG_OPERATOR = "wrong_operator"
    WRONG_COLUMN = "wrong_column"
    INEFFECTIVE = "ineffective"
    MISSING = "missing"
    EXTRA = "extra"
    BENIGN_EXTRA = "benign_extra"
    INTRODUCED = "introduced"
    UNDETERMINED = "undetermined"


FAULTS = frozenset({Match.WRONG_VALUE, Match.WRONG_OPERATOR, Match.WRONG_COLUMN, Match.INEFFECTIVE, Match.MISSING})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterEvidence:
    """One filter of either side and what became of it.

    Attributes:
        asked: The filter of the question (or of its expansion), if there is one.
        found: The filter of the SQL, if there is one.
        required: It had to be met.
        certainty: 0 to 1: how sure the finding is.
        note: One short sentence when the finding needs a reason.
    """

    match: Match
    asked: Filter | None = None
    found: Filter | None = None
    required: bool = False
    certainty: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The four-way category and the evidence for it."""

    category: Category
    filters: tuple[FilterEvidence, ...] = ()
    benign: bool = False  # FULL_WITH_EXTRAS, and R_app confirms every extra

    def having(self, *matches: Match) -> tuple[FilterEvidence, ...]:
        """The evidence with one of these findings."""
        return tuple(item for item in self.filters if item.match in matches)


class Drift(StrEnum):
    """What the expansion did to one constraint of the question."""

    PRESERVED = "preserved"
    DROPPED = "dropped"
    ADDED = "added"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionChange:
    """One constraint in Qu, in Qe, or in both."""

    drift: Drift
    question: Filter | None = None
    expansion: Filter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The expansion check Qu → Qe; reported and counted, no part of Φ.

    `elliptical`: Qu is a follow-up; what Qe adds is its interpretation and no drift.
    """

    changes: tuple[ExpansionChange, ...] = ()
    elliptical: bool = False

    @property
    def drifted(self) -> bool:
        """Whether the expansion adds, drops or changes a constraint against the user's words."""
        kinds = {change.drift for change in self.changes}
        return bool(kinds & {Drift.DROPPED, Drift.CHANGED} or (Drift.ADDED in kinds and not self.elliptical))


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalization:
    """The trace of one tolerance: which rule forgave what, and why."""

    rule: str
    detail: str


class Verdict(StrEnum):
    """The judge's four-step answer, best first."""

    CORRECT = "CORRECT"
    LIKELY_CORRECT = "LIKELY_CORRECT"
    POTENTIALLY_INCORRECT = "POTENTIALLY_INCORRECT"
    INCORRECT = "INCORRECT"

    @property
    def affirms(self) -> bool:
        """Whether it says that the SQL answers the question."""
        return self in {Verdict.CORRECT, Verdict.LIKELY_CORRECT}

    @property
    def rank(self) -> int:
        """0 for CORRECT up to 3 for INCORRECT."""
        return list(Verdict).index(self)


class JudgeKind(StrEnum):
    """Who judged."""

    OFFLINE = "offline"
    LLM = "llm"
    CASCADE = "cascade"


class Route(StrEnum):
    """Why a model that could have been asked was not."""

    SURE = "sure"  # p_offline lies outside the cascade's thresholds
    NOT_DRAWN = "not_drawn"  # only a share of the records goes to the model


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReason:
    """Why the judge says so: a code from the closed list and one sentence."""

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one judgement took; None where nothing was said.

    Attributes:
        input_tokens: Of all calls of this judgement together, as are the others.
        cost_usd: US dollars.
        seconds: Wall-clock time of the calls.
        attempts: Calls made, repairs and retries included.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with its confidence.

    Attributes:
        verdict: After the caps.
        confidence: γ: probability that the verdict is right.
        reasons: Most telling first.
        raw_verdict: As the judge gave it, when a cap lowered it.
        cap: The fact that capped it, else "".
        fallback: Offline verdict in place of a model's: "", "outage" or "budget".
        model: Who answered.
        raw_confidence: γ before any calibration; None where nothing is calibrated.
        basis: What a model's γ rests on: "token", "agreement" or "said".
        samples: Replies that the verdict rests on.
        cached: It was given before, for the same case.
        flipped: Whether the model, asked more than once, took both sides; None where it was asked once.
        route: Why no model was asked.
        chance: Probability that the model was asked, where only a share of the records is.
    """

    kind: JudgeKind
    verdict: Verdict
    confidence: Confidence
    reasons: tuple[JudgeReason, ...] = ()
    raw_verdict: Verdict | None = None
    cap: str = ""
    fallback: str = ""
    model: str = ""
    usage: Usage | None = None
    raw_confidence: Confidence | None = None
    basis: str = ""
    samples: int = 1
    cached: bool = False
    flipped: bool | None = None
    route: Route | None = None
    chance: Probability | None = None

    @property
    def weight(self) -> float:
        """How many records it stands for in a mean, where only a share of them was drawn: 0 for one that was not."""
        if self.chance is None:
            return 1.0
        return 0.0 if self.route is Route.NOT_DRAWN else 1 / self.chance


class Band(StrEnum):
    """Φ in words."""

    EXCELLENT = "Excellent"  # 90 and more
    GOOD = "Good"  # 75 and more
    MARGINAL = "Marginal"  # 50 and more
    POOR = "Poor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Φ and its parts: `B = min(10, filters + verdict + delta)`, `Φ = B × 10 × multiplier`.

    Source: STEF paper (arXiv 2604.28049); the points are those of the score profile `stef-1`.
    """

    phi: Phi
    band: Band
    filters: int
    verdict: int
    delta: int
    multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Specs:
    """The three specs of a record, as asked for with `--specs`."""

    sql: QuerySpec | None = None
    question: QuerySpec | None = None
    expansion: QuerySpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the symbolic side found beside the filters.

    Attributes:
        p_offline: Probability that S answers Qu, before any judge.
        p_raw: The same before a calibration; None where none was tried.
        reasons: Machine reason codes, most telling first.
        weighed: The three features that weighed most.
        features: Every feature of the model by name, before weighting.
    """

    p_offline: Probability
    p_raw: Probability | None = None
    reasons: tuple[JudgeReason, ...] = ()
    weighed: tuple[Weighed, ...] = ()
    features: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One record's result: every message that is a record ends as exactly one of these.

    Null unless scored: `phi`, `band`, `p_offline`, `p_raw`, `p_correct`, `judge`, `score`.
    """

    event_key: str
    outcome: Outcome
    scoring_config: str
    provenance: Provenance
    received_at: datetime
    event_id: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    app: str | None = None
    database: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    asked_at: datetime | None = None
    reason: Reason | None = None
    detail: str = ""  # of a skip or a failure, one sentence
    phi: Phi | None = None
    band: Band | None = None
    p_offline: Probability | None = None
    p_raw: Probability | None = None  # p_offline before calibration
    weighed: tuple[Weighed, ...] = ()  # what moved p_offline most
    p_correct: Probability | None = None
    alignment: Alignment | None = None
    expansion: Expansion | None = None
    normalizations: tuple[Normalization, ...] = ()
    judge: Judgement | None = None
    score: Score | None = None
    findings: tuple[Finding, ...] = ()
    question: str = ""
    sql: str = ""  # the statement that was scored
    content_digest: str = ""
    spec: Specs | None = None
    result_version: int = RESULT_VERSION


@cache
def adapter() -> TypeAdapter[Evaluation]:
    """The border out: writes, reads back and describes `Evaluation`."""
    return TypeAdapter(Evaluation)


def to_json(evaluation: Evaluation, *, specs: bool = False) -> str:
    """One line of JSON; with `specs` the three specs stand under `spec`."""
    exclude = None if specs else {"spec"}
    return adapter().dump_json(evaluation, exclude=exclude).decode()


def from_json(text: str | bytes) -> Evaluation:
    """Read a line that `to_json` wrote.

    Raises:
        pydantic.ValidationError: It is no result.
    """
    return adapter().validate_json(text)
