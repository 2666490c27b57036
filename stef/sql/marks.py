"""Marks of templates that nobody filled in: jinja, f-strings, shell variables, slots in angle brackets.

They are looked for before parsing: inside an expression sqlglot takes `{{ start }}` for a struct and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\$\{[^}\n]*\}", re.DOTALL)
_SLOT = re.compile(
    r"""<\s*[A-Za-z_][\w ]{0,60}?\s(?:here|goes\ here|value|name|placeholder)\s*>   # <threshold here>
      | <(?:your|insert|enter)[\w ]{0,60}>
      | \[(?:your|insert)\ [\w ]{1,60}\]""",
    re.IGNORECASE | re.VERBOSE,
)
_FSTRING = re.compile(r"(?<![\w{])\{\s{0,9}([A-Za-z_][\w.]*)\s{0,9}\}(?!\})")
_QUOTED_FSTRING = re.compile(r"'\{[A-Za-z_]\w*\}'")


def template_mark(text: str, code: str, parameters: Container[str], *, braces: bool = True) -> str | None:
    """The first mark that was not filled in, or None.

    Args:
        text: The statements.
        code: The same, contents of strings blanked.
        parameters: Names whose values are known: `{p}` is then a bind parameter.
        braces: `{p}` is a mark; in ClickHouse it may be a parameter.
    """
    if "{" not in text and "<" not in code and "[" not in code:
        return None
    mark = (_TEMPLATE.search(text) if _may_close(text) else None) or _SLOT.search(code)
    if mark is None and braces and "}" in text:
        loose = next((found for found in _FSTRING.finditer(code) if found[1] not in parameters), None)
        mark = loose or _QUOTED_FSTRING.search(text)
    return mark.group() if mark is not None else None


def _may_close(text: str) -> bool:
    """Without a closing mark the search would try every opening one to the end of the text."""
    return "}" in text
