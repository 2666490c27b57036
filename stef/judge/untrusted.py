"""Texts from a log, made fit to be shown to a model, and the search for texts that speak to the model.

Everything that a record holds was written by somebody who may want a better score. It goes to the model between two
marks that carry a nonce which nobody can know beforehand, without characters that a reader does not see.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from stef import data
from stef.finding import Finding, FindingCode, finding
from stef.judge.disguise import clean, readings
from stef.values import fold

__all__ = ["LEFT_OUT", "MARK", "are_still", "clean", "defuse", "fence", "shorten", "silenced", "suspicions"]

MARK = "judged"

# What opens or closes a fence of ours or a turn in the chat templates of common models.
_FENCE_LIKE = re.compile(
    rf"""<(?=\s*/?\s*(?:{MARK}\b|\|[\w ]{{1,40}}\|>|(?:think|thinking|start_of_turn|end_of_turn|s|bos|eos)\s*>))
      | \[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])
      | <(?=<\s*/?SYS\s*>>)""",
    re.VERBOSE | re.IGNORECASE,
)
# More than a model is shown of any text, at both ends.
_MOST_SCANNED = 48_000
_ENOUGH = 1.0  # weight of the signs that make a suspicion
LEFT_OUT = "[left out]"
_QUOTES = frozenset("'\"`")
_NAME = re.compile(r"\b[^\W\d_]+(?:_[^\W\d_]+){2,}|\b[a-z]+(?:[A-Z][a-z]+){2,}")
_QUOTED = re.compile(r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|`[^`]*`""", re.DOTALL)
_SENTENCE = re.compile(r"[^\s.!?;。！？；][^\n.!?;。！？；]*")
_NO_WORD = re.compile(r"\W+")
_SHORT = 12  # characters in which nothing is said
_LONGEST_RUN = 6  # sentences or lines that only speak together
_MOST_RUNS = 200  # sentences among which such a run is looked for
# Texts of which each literal and each long name is read by itself too: there, a speech need not begin a sentence.
_TAKEN_APART = frozenset({"sql", "rules", "parameters", "facts", "schema"})
_TOKEN = re.compile(r"[a-z]{1,20}_[0-9a-f]{12}")
_LONGEST_TOKEN = 33


def defuse(text: str, nonce: str) -> str:
    """Clean a text and break what looks like our fence, the nonce, or a turn of a chat template.

    Breaking puts a space into it: the words stay readable for the judge.
    """
    broken = _FENCE_LIKE.sub(lambda found: found[0] + " ", clean(text))
    # No pattern is made of a nonce, which is another in each call, unless it is there.
    if nonce.casefold() not in broken.casefold():
        return broken
    return re.sub(re.escape(nonce), lambda found: found[0][:4] + " " + found[0][4:], broken, flags=re.IGNORECASE)


def shorten(text: str, limit: int) -> tuple[str, int]:
    """Cut the middle out of a text that is too long.

    Returns:
        The text with a mark where it was cut, and the number of characters left out (0: whole).
    """
    if len(text) <= limit:
        return text, 0
    head = limit * 3 // 4
    tail = head + len(text) - limit
    # A word that stands for a hidden value is kept or left out as a whole.
    for token in _TOKEN.finditer(text, max(0, head - _LONGEST_TOKEN), tail + _LONGEST_TOKEN):
        head = token.start() if token.start() < head < token.end() else head
        tail = token.end() if token.start() < tail < token.end() else tail
    omitted = tail - head
    return f"{text[:head]}\n[… {omitted} characters left out here …]\n{text[tail:]}", omitted


def fence(name: str, text: str, nonce: str, limit: int, *, is_still: bool = False) -> str:
    """Put a text between two marks, defused; what speaks to the judge is left out.

    The opening mark, which the text cannot fake, tells how many parts were left out, and how many characters were cut.

    Args:
        name: What the text is, one word of ours.
        text: Untrusted.
        nonce: Of this call.
        limit: Characters kept.
        is_still: Known not to speak to the judge, as `are_still` says.
    """
    silent, parts = (
        (text, 0)
        if is_still
        else silenced(text, apart=name in _TAKEN_APART, swept=_QUOTED if name == "sql" else _SENTENCE)
    )
    body, omitted = shorten(defuse(silent, nonce), limit)
    told = f' parts_left_out="{parts}"' if parts else ""
    told += f' omitted="{omitted}"' if omitted else ""
    return f'<{MARK}-{nonce} name="{name}"{told}>\n{body}\n</{MARK}-{nonce}>'


def are_still(texts: Mapping[str, str]) -> bool:
    """Whether none of the texts speaks to the judge, seen in one search of all of them.

    A sign of one text is a sign of all of them together, since every sign and every disguise is looked for in lines.

    Args:
        texts: What each text is → the text.

    Returns:
        False also where they are too long for one search.
    """
    parts = (_apart(text) if name in _TAKEN_APART else text for name, text in texts.items())
    whole = "\n".join(parts)
    return len(whole) <= _MOST_SCANNED and not _speaks(whole)


def silenced(
    text: str, *, apart: bool = False, swept: re.Pattern[str] = _SENTENCE, mark: str = LEFT_OUT
) -> tuple[str, int]:
    """Leave out of a text what speaks to the judge, so that a model which obeys has nothing to obey.

    The smallest parts that speak are looked for first: a name, a quoted text, a sentence, neighbouring sentences that
    speak together, and at the last the whole text.

    Args:
        text: Untrusted.
        apart: Read each literal and each long name by itself, too.
        swept: Parts that go for a hint, in a text that speaks elsewhere.
        mark: Put in the place of each part.

    Returns:
        The text with its marks, and how many there are (0: as it was).
    """
    if not _speaks(text, apart=apart):
        return text, 0
    text, parts = html.unescape(text), 0
    for step in _STEPS:
        if not _speaks(text, apart=apart):
            break
        text, count = _without(*step, text, mark)
        parts += count
    while _speaks(text, apart=apart):
        run = _run(text)
        if run is None:
            return mark, parts + 1
        text, parts = text[: run.start] + mark + text[run.stop :], parts + 1
    if parts:
        # Who has spoken to the judge once is not heard in half a sentence either.
        text, count = _without(swept, _hints, text, mark)
        parts += count
    return text, parts


def _without(pattern: re.Pattern[str], suspicious: Callable[[str], bool], text: str, mark: str) -> tuple[str, int]:
    count = 0

    def judged(part: re.Match[str]) -> str:
        nonlocal count
        inner = _inner(part[0])
        if not suspicious(inner):
            return part[0]
        count += 1
        return part[0].replace(inner, mark)

    return pattern.sub(judged, text), count


def _inner(part: str) -> str:
    """What stands in quotes, or the part itself."""
    return part[1:-1] if len(part) > 1 and part[0] in _QUOTES and part[0] == part[-1] else part


def _run(text: str) -> slice | None:
    """The first of the shortest runs of sentences that speak together."""
    sentences = list(_SENTENCE.finditer(text))
    if len(sentences) > _MOST_RUNS:
        return None
    for size in range(2, _LONGEST_RUN + 1):
        for first, last in zip(sentences, sentences[size - 1 :], strict=False):
            if _speaks(text[first.start() : last.end()]):
                return slice(first.start(), last.end())
    return None


def suspicions(texts: Mapping[str, str]) -> tuple[Finding, ...]:
    """Find texts that speak to whoever evaluates the record: a note to the judge, a verdict put into its mouth.

    A sign of weight 1 is enough; weaker ones count together. The signs are data, in `resources/injection.yaml`.

    Args:
        texts: What each text is ("question", "comment", "alias", …) → the text. The keys appear in the findings, the
            texts do not.

    Returns:
        At most one finding for each text, in their order.
    """
    found = []
    for name, text in texts.items():
        signs = _signs(_apart(text) if name in _TAKEN_APART else text)
        if _weight(signs) >= _ENOUGH:
            what = ", ".join(dict.fromkeys(sign.what for sign in signs))
            found.append(finding(FindingCode.PROMPT_INJECTION_SUSPECTED, f"the {name} speaks to the judge: {what}"))
    return tuple(found)


def _speaks(text: str, *, apart: bool = False) -> bool:
    return _weight(_signs(_apart(text) if apart else text)) >= _ENOUGH


def _hints(text: str) -> bool:
    return bool(_signs(text))


# Parts that are left out of a text that speaks, in this order, as long as it speaks.
_STEPS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (_NAME, _speaks),
    (_QUOTED, _speaks),
    (_SENTENCE, _speaks),
    (_SENTENCE, _hints),
)


def _apart(text: str) -> str:
    """Its long names and its literals behind a text, each on a line."""
    found = (_inner(part[0]) for pattern in (_NAME, _QUOTED) for part in pattern.finditer(text[:_MOST_SCANNED]))
    return "\n".join(dict.fromkeys((text, *(part for part in found if len(part) > _SHORT))))


def _weight(signs: tuple[data.InjectionSign, ...]) -> float:
    return sum(sign.weight for sign in signs)


@lru_cache(maxsize=256)
def _signs(text: str) -> tuple[data.InjectionSign, ...]:
    """The signs in a text; one that speaks is searched several times until what speaks is found."""
    if len(text) > _MOST_SCANNED:
        text = text[: _MOST_SCANNED // 2] + "\n" + text[-_MOST_SCANNED // 2 :]
    shown = {sign.name for reading in readings(text) for sign in _shown(reading)}
    return tuple(sign for sign in data.injection_signs() if sign.name in shown)


def _shown(reading: str) -> Iterator[data.InjectionSign]:
    """The signs in one reading.

    Words that a pattern cannot do without are looked for first: most texts have none of them, and many patterns share
    them.
    """
    folded = "\n".join(line for line in map(fold, reading.splitlines()) if line)
    words = f" {_NO_WORD.sub(' ', folded)}"
    for group in _groups():
        held = folded if group.punctuated else words
        if not group.needs or any(word in held for word in group.needs):
            yield from (sign for sign in group.signs if sign.pattern.search(reading if sign.cased else folded))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Signs that need the same words.

    Attributes:
        punctuated: Whether some of the words hold more than letters and spaces.
    """

    needs: tuple[str, ...]
    signs: tuple[data.InjectionSign, ...]
    punctuated: bool


@cache
def _groups() -> tuple[_Group, ...]:
    found: dict[tuple[str, ...], list[data.InjectionSign]] = {}
    for sign in data.injection_signs():
        found.setdefault(sign.needs, []).append(sign)
    return tuple(
        _Group(needs=needs, signs=tuple(signs), punctuated=any(re.search(r"[^\w ]", word) for word in needs))
        for needs, signs in found.items()
    )
