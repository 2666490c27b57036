"""Texts from a log, made fit to be shown to a model, and the search for texts that speak to the model.

Everything that a record holds was written by somebody who may want a better score. It goes to the model between two
marks that carry a nonce which nobody can know beforehand, without characters that a reader does not see.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from stef import data
from stef.finding import Finding, FindingCode, finding
from stef.values import fold

MARK = "judged"

# Kept although they are control characters.
_LAYOUT = frozenset("\n\t")
# Marks (category Mn) that are not seen and can carry hidden text: variation selectors, the combining grapheme joiner.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# What opens or closes a fence of ours or a turn in the chat templates of common models.
_FENCE_LIKE = re.compile(
    rf"""<(?=\s*/?\s*(?:{MARK}\b|\|[\w ]{{1,40}}\|>|(?:think|thinking|start_of_turn|end_of_turn|s|bos|eos)\s*>))
      | \[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])
      | <(?=<\s*/?SYS\s*>>)""",
    re.VERBOSE | re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST_SCANNED = 20_000
_TOKEN = re.compile(r"[a-z]{1,20}_[0-9a-f]{12}")
_LONGEST_TOKEN = 33


def clean(text: str) -> str:
    """Remove what a reader does not see: control, bidi, zero-width, tag and variation characters.

    Returns:
        The text with every kind of line break as a line feed; tabs stay, lone surrogates become U+FFFD.
    """
    text = _BREAKS.sub("\n", text)
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _UNSEEN.sub("", "".join(map(_seen, text)))


def _seen(char: str) -> str:
    if char in _LAYOUT:
        return char
    category = unicodedata.category(char)
    return "\ufffd" if category == "Cs" else "" if category in {"Cc", "Cf"} else char


def defuse(text: str, nonce: str) -> str:
    """Clean a text and break what looks like our fence, the nonce, or a turn of a chat template.

    Breaking puts a space into it: the words stay readable for the judge.
    """
    broken = _FENCE_LIKE.sub(lambda found: found[0] + " ", clean(text))
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


def fence(name: str, text: str, nonce: str, limit: int) -> str:
    """Put a text between two marks, defused; a cut is told in the mark too, where the text cannot fake it.

    Args:
        name: What the text is, one word of ours.
        text: Untrusted.
        nonce: Of this call.
        limit: Characters kept.
    """
    body, omitted = shorten(defuse(text, nonce), limit)
    cut = f' omitted="{omitted}"' if omitted else ""
    return f'<{MARK}-{nonce} name="{name}"{cut}>\n{body}\n</{MARK}-{nonce}>'


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
        signs = _signs(text)
        if sum(sign.weight for sign in signs) >= 1.0:
            what = ", ".join(dict.fromkeys(sign.what for sign in signs))
            found.append(finding(FindingCode.PROMPT_INJECTION_SUSPECTED, f"the {name} speaks to the judge: {what}"))
    return tuple(found)


def _signs(text: str) -> tuple[data.InjectionSign, ...]:
    if len(text) > _MOST_SCANNED:
        text = text[: _MOST_SCANNED // 2] + "\n" + text[-_MOST_SCANNED // 2 :]
    plain = _plain(text)
    return tuple(sign for sign in data.injection_signs() if sign.pattern.search(plain))


def _plain(text: str) -> str:
    """Fold for the search: unseen characters, look-alike letters, identifiers and line breaks lose their disguise."""
    lines = _CAMEL.sub(" ", clean(text)).replace("_", " ").splitlines()
    return "\n".join(line for line in (fold(_latin(line)) for line in lines) if line)


# Cyrillic and Greek letters that pass for Latin ones.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝАВЕКМНОРСТХІЈЅοανικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aeopcyxijsdhqwABEKMHOPCTXIJSoavikptuxABEZHIKMNOPTYX"
)
_WORD = re.compile(r"\w+")


def _latin(line: str) -> str:
    """Turn look-alikes into Latin letters in words that mix scripts; words of one script stay."""
    if line.isascii():
        return line
    return _WORD.sub(lambda word: word[0].translate(_LOOK_ALIKES) if re.search("[a-zA-Z]", word[0]) else word[0], line)
