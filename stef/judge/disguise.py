"""Texts as a model would read them, with their disguises taken off, for the search for speech to the judge.

A disguise is taken off by its kind: what a reader does not see, letters that look like others, letters set apart,
digits for letters, what is encoded, what is written backwards, what is cut into several literals or lines.
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from urllib.parse import unquote

# Marks (category Mn) that are not seen and can carry hidden text: variation selectors, the combining grapheme joiner.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_MOST_KEPT = 4096  # characters that are not looked up again
_LAYOUT = frozenset("\n\t")  # kept although they are control characters

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"\w+")
_COMMENT_MARK = re.compile(r"^[ \t]*(?:--+|//+|#+|/\*+!?\d*|\*+/)[ \t]*|[ \t]*\*+/[ \t]*$", re.MULTILINE)
_COMMENTS = ("--", "//", "#", "/*", "*/")
_JOINT = re.compile(r"'\s*(?:\|\||\+)\s*'")

# Cyrillic and Greek letters that pass for Latin ones, and Latin ones of another size.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝАВЕКМНОРСТХІЈЅοανικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aeopcyxijsdhqwABEKMHOPCTXIJSoavikptuxABEZHIKMNOPTYX"
)
_SMALL = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢгдклмнптв", "abcdefghijklmnoprstuvwyzrдklmhntb")
_DIGITS = str.maketrans("013457@$", "oieastas")
_DIGIT_INSIDE = re.compile(r"(?<!\w)(?=\w*[a-z]{2})[a-z]*[013457@$]+(?:[a-z]+[013457@$]*)+(?!\w)", re.IGNORECASE)
_WAVY = re.compile("[A-Z](?<=[a-z][A-Z])[a-z][A-Z]")
_DIGIT_AND_LETTER = re.compile(r"[013457@$][a-zA-Z]")
_MIXED = re.compile(r"[a-zA-Z][013457@$]+[a-zA-Z]|(?<!\w)[013457]+[a-zA-Z]{2}")
_APART = re.compile(r"(?<!\w)\w(?:([ .\-*·])\w(?!\w)(?:\1\w(?!\w)){3,})")
_BACKWARDS = ("tcerroc", "tcidrev", "erongi", "rotaulave")

_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{4,5})\}?|x([0-9a-fA-F]{2}))")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}[^%]*%[0-9A-Fa-f]{2}")
_BASE64 = re.compile(r"(?<![\w+/=-])[\w+/-]{24,}={0,2}")
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:0x|\\x)?((?:[0-9a-fA-F]{2}[ :]?){12,})(?![0-9a-fA-F])")
_BYTES = re.compile(r"\b[0-9a-fA-F]{2}[ :][0-9a-fA-F]{2}[ :][0-9a-fA-F]{2}[ :]")
_LONG_WORD = 24


def clean(text: str) -> str:
    """Remove what a reader does not see: control, bidi, zero-width, tag and variation characters.

    Returns:
        The text with every kind of line break as a line feed; tabs stay, lone surrogates become U+FFFD.
    """
    if text.replace("\n", "").replace("\t", "").isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return _UNSEEN.sub("", _BREAKS.sub("\n", text).translate(_SEEN))


class _Seen(dict[int, str]):
    """What a reader sees of each character, looked up once."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = "" if char in _LAYOUT else unicodedata.category(char)
        seen = "\ufffd" if category == "Cs" else "" if category in {"Cc", "Cf"} else char
        if len(self) < _MOST_KEPT:
            self[code] = seen
        return seen


_SEEN = _Seen()


def readings(text: str) -> tuple[str, ...]:
    """The ways in which a model may read a text, the plain one first; case and line breaks are kept.

    Args:
        text: Untrusted, of bounded length.

    Returns:
        Each reading once. What was encoded stands behind the text that held it.
    """
    whole = _decoded(clean(text))
    plain = _undone(whole)
    return tuple(dict.fromkeys((plain, *_others(whole, plain))))


def _undone(text: str) -> str:
    """One statement's marks and joints gone, identifiers split into words, look-alikes in mixed words Latin."""
    if "||" in text or "+" in text:
        text = _JOINT.sub("", text)
    if any(mark in text for mark in _COMMENTS):
        text = _COMMENT_MARK.sub("", text)
    if not text.isascii() and not (text := unicodedata.normalize("NFKC", text)).isascii():
        text = _WORD.sub(_latin, text)
    return _CAMEL.sub(" ", text).replace("_", " ")


def _latin(word: re.Match[str]) -> str:
    """Look-alikes turn Latin in words that mix scripts; words of one script stay."""
    return word[0].translate(_LOOK_ALIKES) if re.search("[a-zA-Z]", word[0]) else word[0]


def _others(whole: str, plain: str) -> Iterator[str]:
    """Readings that would spoil an honest text, and stand beside the plain one for that reason."""
    if not plain.isascii():
        yield _bare(plain)
    if _WAVY.search(whole):
        yield _undone(whole.lower())
    if _APART.search(plain):
        yield _APART.sub(lambda run: run[0].replace(run[1], ""), plain)
    if _DIGIT_AND_LETTER.search(plain) and _MIXED.search(plain):
        yield _DIGIT_INSIDE.sub(lambda word: word[0].translate(_DIGITS), plain)
    lower = whole.lower()
    if any(word in lower for word in _BACKWARDS):
        yield _undone(whole[::-1])


def _bare(text: str) -> str:
    """Latin letters without accents, and all that looks like them."""
    parts = unicodedata.normalize("NFD", text.translate(_LOOK_ALIKES).translate(_SMALL))
    kept = (char for at, char in enumerate(parts) if not (unicodedata.combining(char) and parts[at - 1 : at].isascii()))
    return unicodedata.normalize("NFC", "".join(kept))


def _decoded(text: str) -> str:
    """Put what is encoded in a text behind it."""
    if "&" in text:
        text = html.unescape(text)
    if "\\" in text:
        text = _ESCAPE.sub(_escaped, text)
    if _PERCENT.search(text):
        text = f"{text}\n{unquote(text)}"
    hidden = list(_hidden(text))
    # Once more: what was encoded twice.
    hidden += [again for one in hidden for again in _hidden(one)]
    return clean("\n".join([text, *hidden])) if hidden else text


def _escaped(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2], 16))


def _hidden(text: str) -> Iterator[str]:
    """What long words and rows of bytes stand for; most texts have neither."""
    if max(map(len, text.split()), default=0) < _LONG_WORD and not _BYTES.search(text):
        return
    for run in _BASE64.findall(text):
        yield from _as_text(_from_base64, run)
    for run in _HEX.findall(text):
        yield from _as_text(bytes.fromhex, run.replace(":", " "))


def _from_base64(run: str) -> bytes:
    run = run.rstrip("=")
    return base64.b64decode(run + "=" * (-len(run) % 4), altchars=b"-_" if {"-", "_"} & {*run} else None, validate=True)


def _as_text(decode: Callable[[str], bytes], run: str) -> Iterator[str]:
    try:
        found = decode(run).decode()
    except ValueError:  # no such code, or no text in it
        return
    if found.isprintable() and " " in found:
        yield found
