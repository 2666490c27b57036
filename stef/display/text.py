"""Text from a log, made safe for a terminal.

What agents and users write is hostile until shown otherwise: escape sequences retitle windows and fake output, bidi
marks turn text around, zero-width characters hide it.
"""

from __future__ import annotations

import unicodedata

# Invisible although Python calls them printable: fillers, joiners, variation selectors, the empty Braille cell.
_INVISIBLE = frozenset(
    {
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    }
)


def clean(text: str, *, lines: bool = False) -> str:
    r"""Replace what a terminal would obey or hide by its visible notation (`\x1b`, `\u202e`).

    Args:
        text: Untrusted.
        lines: Keep line breaks; else they become spaces, as tabs and the spaces of other scripts do.
    """
    if text.isascii() and text.isprintable():
        return text
    if lines:
        return "\n".join(clean(line) for line in text.replace("\r\n", "\n").split("\n"))
    return "".join(map(_visible, text.replace("\r\n", " ")))


def _visible(character: str) -> str:
    if character.isprintable() and ord(character) not in _INVISIBLE:
        return character
    if character in "\t\n" or unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe(text: str, *, lines: bool = False) -> str:
    """`clean`, and nothing in it is read as rich's markup: for text that goes into a marked-up string."""
    from rich.markup import escape

    return escape(clean(text, lines=lines))


def short(text: str, limit: int = 300) -> str:
    """Cut a text that is longer than `limit` characters and say by how much."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit} characters)"


def percent(share: float | None) -> str:
    """A share as people read it; a dash when there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def number(value: float | None, digits: int = 1) -> str:
    """A number, or a dash when there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None) -> str:
    """A difference with its sign, or a dash when there is none."""
    return "–" if value is None else f"{value:+.1f}".replace("-", "−")
