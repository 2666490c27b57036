"""One reply of a model, what the calls of a judgement took, and what a client of a model must be able to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply.

    Attributes:
        text: As it stands in the reply.
        logprob: Natural logarithm of its probability.
        others: The likeliest tokens at its place with theirs, itself among them or not.
    """

    text: str
    logprob: float
    others: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply; None for figures that the provider does not give.

    Attributes:
        cut: It ended at the model's output limit.
        cost_usd: US dollars.
        model: Who answered, where another than the one that was asked did; else "".
        tokens: Of the text, with their probabilities; () where the provider gives none.
    """

    text: str
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model: str = ""
    tokens: tuple[Token, ...] = ()


@dataclass(slots=True, kw_only=True)
class Spent:
    """What the calls of one judgement took together; None where nobody said."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 0

    def add(self, done: Completion) -> None:
        """Count one reply in."""
        self.input_tokens = _sum(self.input_tokens, done.input_tokens)
        self.output_tokens = _sum(self.output_tokens, done.output_tokens)
        self.cost_usd = _sum(self.cost_usd, done.cost_usd)


_Amount = TypeVar("_Amount", int, float)


def _sum(left: _Amount | None, right: _Amount | None) -> _Amount | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked.

    Attributes:
        messages: As the provider gets them.
        schema: JSON schema of the reply.
        nonce: The mark of this judgement, which stands in the messages and means nothing beyond them.
        sample: Number of the sample, from 0; the same request may be made several times.
    """

    messages: Sequence[Message]
    schema: Mapping[str, Any]
    nonce: str = ""
    sample: int = 0


class Client(Protocol):
    """Calls a model, or plays back what one said."""

    async def complete(self, request: Request, spent: Spent) -> Completion:
        """Make one attempt, and count it.

        Raises:
            CallError: No reply.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections and files."""
        ...
