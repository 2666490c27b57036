"""What γ rests on: the probability of the verdict's token, agreement among samples, or what the model says of itself.

γ is the probability that the verdict is right, and a label can only say that a statement is right or wrong: so the
probabilities of the two verdicts that affirm are added, and those of the two that do not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from stef.judge.completion import Token
from stef.judge.reply import Reply
from stef.result import Confidence, Verdict

# Where in a reply the value of the verdict begins.
_VALUE = re.compile(
    r"verdict[\"'*_` ]{0,8}\s*[:=：]\s*[\"'*_` ]{0,8}(?=(?:likely|potentially|in)?[\s_-]?(?:in)?correct)", re.IGNORECASE
)
_WORDS = {verdict: verdict.value.replace("_", "").casefold() for verdict in Verdict}
# With less of the probability on verdicts, the place was not one at which the model chose among them.
_LEAST_MASS = 0.02


class Basis(StrEnum):
    """What a confidence rests on."""

    TOKEN = "token"  # noqa: S105 - of a model's reply
    AGREEMENT = "agreement"
    SAID = "said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the samples of one request say together.

    Attributes:
        reply: The first one that gives the verdict.
        confidence: γ, before any calibration.
        basis: What it rests on.
        samples: How many there are.
        agreement: Share of them on the side of the verdict, above 0 to 1.
    """

    reply: Reply
    confidence: Confidence
    basis: Basis
    samples: int
    agreement: float


def opinion(replies: Sequence[tuple[Reply, tuple[Token, ...]]]) -> Opinion:
    """Settle one verdict and its γ from samples of the same request.

    The side that most samples take wins, a draw goes to the side that does not affirm; of the two verdicts of a side
    the commoner one, and of two equally common ones the milder.

    Raises:
        ValueError: There is no sample.
    """
    verdict = _settled([reply.verdict for reply, _ in replies])
    siding = [reply for reply, _ in replies if reply.verdict.affirms is verdict.affirms]
    agreement = len(siding) / len(replies)
    confidence, basis = _confidence(replies, verdict, siding)
    return Opinion(
        reply=next(reply for reply in siding if reply.verdict is verdict),
        confidence=round(confidence, 4),
        basis=basis,
        samples=len(replies),
        agreement=agreement,
    )


def _settled(verdicts: Sequence[Verdict]) -> Verdict:
    if not verdicts:
        raise ValueError("no sample")
    affirming = sum(verdict.affirms for verdict in verdicts) * 2 > len(verdicts)
    counts = Counter(verdict for verdict in verdicts if verdict.affirms is affirming)
    mild = {Verdict.LIKELY_CORRECT, Verdict.POTENTIALLY_INCORRECT}
    return max(counts, key=lambda verdict: (counts[verdict], verdict in mild))


def _confidence(
    replies: Sequence[tuple[Reply, tuple[Token, ...]]], verdict: Verdict, siding: Sequence[Reply]
) -> tuple[Confidence, Basis]:
    affirming = [affirmed(tokens) for _, tokens in replies]
    known = [p for p in affirming if p is not None]
    if len(known) == len(replies):
        p = fmean(known)
        return (p if verdict.affirms else 1 - p), Basis.TOKEN
    if len(replies) > 1:
        # Laplace's rule of succession: three that agree are no certainty.
        return (len(siding) + 1) / (len(replies) + 2), Basis.AGREEMENT
    return siding[0].confidence, Basis.SAID


def affirmed(tokens: Sequence[Token]) -> float | None:
    """Probability that a reply takes the side which affirms, from the token that begins its last verdict.

    Returns:
        0 to 1; None where the tokens do not show it.
    """
    whole = "".join(token.text for token in tokens)
    places = [found.end() for found in _VALUE.finditer(whole)]
    if not places:
        return None
    start = 0
    for token in tokens:
        end = start + len(token.text)
        if places[-1] < end:
            return _share(token, token.text[: places[-1] - start])
        start = end
    return None


def _share(token: Token, lead: str) -> float | None:
    """Probability of the affirming side among the tokens that could begin a verdict at a place.

    Args:
        token: The one that was chosen.
        lead: What stands in it before the verdict.
    """
    odds = dict(token.others) | {token.text: token.logprob}
    affirming = denying = 0.0
    for text, logprob in odds.items():
        verdict = _begun(text.removeprefix(lead))
        if verdict is not None and not math.isnan(logprob):
            mass = math.exp(min(logprob, 0.0))
            affirming, denying = (affirming + mass, denying) if verdict.affirms else (affirming, denying + mass)
    whole = affirming + denying
    return affirming / whole if whole >= _LEAST_MASS else None


def _begun(text: str) -> Verdict | None:
    """The verdict that a token begins; None for anything else. No two of them begin with the same letter."""
    letters = "".join(filter(str.isalpha, text)).casefold()
    fitting = [verdict for verdict, word in _WORDS.items() if word.startswith(letters) or letters.startswith(word)]
    return fitting[0] if letters and fitting else None
