"""What made a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What made a result; `scoring_config` is the digest of what decides the score.

    Attributes:
        basis: The same digest without the epoch of a store's catalogue: a result of an earlier epoch answers a second
            delivery.
        catalogue: Digest of the epoch.
        dialect: The one that read the statement.
        dialect_logged: The one that the record names.
        inline_rules: Digest of R_app carried by the record.
    """

    stef: str
    semantics: int
    score_profile: str
    sqlglot: str
    weights: str
    rules: str = ""
    prompt: str = ""
    judge: str = ""
    model: str = ""
    parameters: str = ""
    basis: str = ""
    catalogue: str = ""
    calibration: str = ""
    judge_calibration: str = ""
    dialect: str = ""  # the one that read the statement
    dialect_logged: str = ""  # the one that the record names
    inline_rules: str = ""  # digest of R_app carried by the record
    trust_inline_rules: bool = True
