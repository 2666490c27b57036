"""Hides the values of one record in all its texts, and brings them back into what is said about it.

A value is hidden wherever it stands, whoever wrote it: found as a literal of the SQL it is hidden in the question too,
whatever its case and white space, so that a reader of the tokens still sees which values agree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stef.privacy.edits import Edit, applied, fitting
from stef.privacy.kinds import DATE, NAME, NUMBER, SHAPES, TEXT, Kinds
from stef.privacy.literals import Literal, Part, is_keyword, literals, scanned
from stef.privacy.tokens import Tokens
from stef.values import fold

_WORD = re.compile(r"[^\W_]+")
# What people put in quotes; an apostrophe inside a word opens none.
_QUOTED = re.compile(
    r"""(?<!\w)'([^'\n]{2,80})'(?!\w)|"([^"\n]{2,80})"|“([^”\n]{2,80})”|„([^“”\n]{2,80})[“”]"""
    r"""|«([^»\n]{2,80})»|‘([^’\n]{2,80})’(?!\w)|「([^」\n]{1,80})」|『([^』\n]{1,80})』"""
)
_WILDCARDS = re.compile(r"([%_*]+)")
_OUTER = re.compile(r"([%*]*)(.*?)([%*]*)", re.DOTALL)
_IDENTIFIER = re.compile(r"[\w$]+")
_SHORTEST_PLURAL = 4
_SHORT = 2


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to write a hidden value: its words, folded, the whole from first to last word, folded, and its token."""

    words: tuple[str, ...]
    folded: str
    token: str


class Veil:
    """The values of one record, and their tokens.

    Args:
        kinds: What patterns tell.
        tokens: Makes the tokens.
        texts: All texts of the record, in which no token may stand by chance.
        physical: Names of tables and columns, lower-case; they are no values, whatever they are called.
        private_columns: Columns whose literals are always hidden, lower-case.
        dialect: Canonical name of the SQL's.
    """

    def __init__(
        self,
        kinds: Kinds,
        tokens: Tokens,
        *,
        texts: Iterable[str] = (),
        physical: frozenset[str] = frozenset(),
        private_columns: frozenset[str] = frozenset(),
        dialect: str = "",
    ) -> None:
        self._kinds, self._tokens = kinds, tokens
        self._written = "\n".join(texts).lower()
        self._physical, self._private, self._dialect = physical, private_columns, dialect
        self._by_canon: dict[str, str] = {}  # canonical form → token
        self._values: dict[str, str] = {}  # token → the value as first written
        self._forms: dict[str, list[_Form]] = {}  # first word → forms
        self._unspaced: dict[str, str] = {}  # value of a script without spaces → token
        self._names: dict[str, str] = {}  # value as a part of a name, such as `new_york` → token
        self._read: dict[str, tuple[Literal, ...]] = {}
        self._edits_of: dict[str, list[Edit]] = {}
        self._said_of: dict[str, str] = {}
        self._hidden: set[tuple[str, str]] = set()
        self._kind_of: dict[str, tuple[str, str]] = {}
        self._plain: dict[str, bool] = {}
        self._coded: dict[str, str] = {}

    # What is hidden.

    def hide(self, value: str, also: str = "") -> str:
        """Hide a value wherever it stands from now on.

        Args:
            value: As written.
            also: Another way in which the texts say it.

        Returns:
            Its token.
        """
        value = value.strip()
        kind, canon = self._of(value)
        token = self._by_canon.get(canon)
        if token is None:
            token = self._token(kind, canon)
            self._by_canon[canon] = token
            self._values[token] = value
            if kind not in SHAPES:
                self._add_form(canon, token)
        if (value, also) not in self._hidden:
            self._hidden.add((value, also))
            for form in (value, also.strip()):
                self._add_form(form, token)
        return token

    def hide_as(self, value: str, said: str) -> None:
        """Hide a value that is no text, such as a date, and the words that say it."""
        kind = DATE if value.startswith("[") else NUMBER
        token = self._by_canon.get(value)
        if token is None:
            token = self._by_canon[value] = self._token(kind, value)
            self._values[token] = said
        self._add_form(value, token)
        self._add_form(said, token)

    def hide_literals(self, sql: str) -> None:
        """Hide every literal of a statement that names somebody or stands beside a private column."""
        for item in self._literals(sql):
            if item.part is Part.PATTERN:
                for part in _WILDCARDS.split(item.text)[::2]:
                    self._hide_literal(part, private=item.private)
            elif item.part is Part.STRING and (item.private or not self.is_plain(item.text)):
                self._hide_literal(_OUTER.fullmatch(item.text)[2], private=item.private)  # type: ignore[index]
            elif item.part is Part.NUMBER and item.private:
                self.hide(item.text)

    def hide_patterns(self, text: str) -> None:
        """Hide what a pattern tells in a text."""
        for found in self._kinds.find(text):
            self.hide(text[found.start : found.end])

    def hide_name(self, text: str) -> None:
        """Hide a name, or the rest of it where the SQL has parted it and some of its words are hidden already."""
        edits = self.edits(text)
        if not edits:
            self.hide(text)
            return
        done = 0
        for edit in [*edits, Edit(len(text), len(text), "")]:
            rest = text[done : edit.start].strip()
            if rest[:1].isupper() and len(rest) > 1:
                self.hide(rest)
            done = edit.end

    def hide_quoted(self, text: str) -> None:
        """Hide what stands in quotes in a text of people."""
        if any(mark in text for mark in "'\"“„«‘「『"):
            for found in _QUOTED.finditer(text):
                said = found[found.lastindex or 0]
                if not self.is_name(said):
                    self._hide_literal(said)

    def _hide_literal(self, text: str, *, private: bool = False) -> None:
        if text.strip() and (private or not self.is_plain(text)):
            self.hide(text)

    def knows(self, text: str) -> bool:
        """Whether a text is a value that is hidden."""
        return bool(self._by_canon) and self._of(text)[1] in self._by_canon

    def is_plain(self, literal: str) -> bool:
        """Whether a literal names nobody by its form."""
        done = self._plain.get(literal)
        if done is None:
            done = self._plain[literal] = self._kinds.is_plain(literal)
        return done

    def is_name(self, said: str) -> bool:
        """Whether the words of a question are those of a table or a column, and no value."""
        folded = fold(said)
        return folded in self._physical or folded.replace(" ", "_") in self._physical

    def of_canon(self, canon: str) -> str | None:
        """The token of a value in its canonical form, or None when it is not hidden."""
        return self._by_canon.get(canon)

    def shares_word(self, text: str) -> bool:
        """Whether a text has a word of a hidden value."""
        known = {word for forms in self._forms.values() for form in forms for word in form.words}
        return any(len(word) > _SHORT and word in known for word in map(_folded, _WORD.findall(text)))

    def _of(self, text: str) -> tuple[str, str]:
        done = self._kind_of.get(text)
        if done is None:
            done = self._kind_of[text] = self._kinds.of(text)
        return done

    def _token(self, kind: str, canon: str) -> str:
        turn = 0
        while (token := self._tokens.token(kind, canon, turn)) in self._values or token in self._written:
            turn += 1
        return token

    def _add_form(self, text: str, token: str) -> None:
        spots = list(_WORD.finditer(text))
        if not spots:
            return
        words = tuple(_folded(spot[0]) for spot in spots)
        form = _Form(words, fold(text[spots[0].start() : spots[-1].end()]), token)
        known = self._forms.setdefault(words[0], [])
        if form in known:
            return
        # What was written before may hold it.
        self._edits_of.clear()
        self._said_of.clear()
        self._coded.clear()
        known.append(form)
        known.sort(key=lambda other: -len(other.words))
        self._names["_".join(words)] = token
        if token.startswith(NAME):
            for word in words:
                if len(word) > _SHORT and not is_keyword(word):
                    self._names.setdefault(word, token)
        if not text.isascii() and any(char.isalpha() and char.lower() == char.upper() for char in text):
            self._unspaced[text] = token

    def say_as(self, text: str) -> None:
        """From now on restore the values that a text has as they stand there."""
        for edit in reversed(self.edits(text)):
            self._values[edit.text] = text[edit.start : edit.end]

    # What is written.

    def prose(self, text: str) -> str:
        """A text of people with its values hidden."""
        done = self._said_of.get(text)
        if done is None:
            done = self._said_of[text] = applied(text, self.edits(text)) if text else ""
        return done

    def code(self, sql: str) -> str:
        """SQL, or a part of it, with its literals hidden; names of tables and columns stay."""
        done = self._coded.get(sql)
        if done is None:
            done = self._coded[sql] = applied(sql, list(self._code_edits(sql)))
        return done

    def restore(self, text: str) -> str:
        """Put the values back in place of their tokens; a token of nobody's stays."""
        if "_" not in text or not self._values:
            return text
        return self._kinds.tokens.sub(lambda found: self._values.get(found[0].lower(), found[0]), text)

    def relations(self) -> Iterator[str]:
        """Which hidden values are a part of which: what cannot be seen from the tokens."""
        forms = {form for group in self._forms.values() for form in group}
        named = sorted((form for form in forms if form.token.startswith((NAME, TEXT))), key=lambda form: form.folded)
        for part in named:
            for whole in named:
                if part.token != whole.token and _within(part.words, whole.words):
                    yield f"{part.token} is a part of {whole.token}"

    @property
    def tokens(self) -> Mapping[str, str]:
        """Token → the value as first written."""
        return self._values

    def edits(self, text: str) -> list[Edit]:
        """Where values stand in a text, in order, none over another."""
        done = self._edits_of.get(text)
        if done is None:
            done = self._edits(text)
            self._edits_of[text] = done
        return done

    def _edits(self, text: str) -> list[Edit]:
        found = [Edit(it.start, it.end, self._of_pattern(text[it.start : it.end])) for it in self._kinds.find(text)]
        said = list(self._said(text))
        return sorted(fitting(said, found), key=lambda edit: edit.start) if said or found else found

    def _of_pattern(self, text: str) -> str:
        return self._by_canon.get(self._of(text)[1]) or self.hide(text)

    def _said(self, text: str) -> Iterator[Edit]:
        for value, token in self._unspaced.items():
            start = text.find(value)
            while start >= 0:
                yield Edit(start, start + len(value), token)
                start = text.find(value, start + len(value))
        if self._forms:
            yield from self._words_said(text)

    def _words_said(self, text: str) -> Iterator[Edit]:
        spots = [(found.start(), found.end(), _folded(found[0])) for found in _WORD.finditer(text)]
        if not any(word in self._forms or (word[-1] == "s" and word[:-1] in self._forms) for _, _, word in spots):
            return
        for place, (start, _, word) in enumerate(spots):
            for form in (*self._forms.get(word, ()), *self._plural_forms(word)):
                end = _matched(form, spots[place : place + len(form.words)], text)
                if end:
                    yield Edit(start, end, form.token)
                    break

    def _plural_forms(self, word: str) -> Iterable[_Form]:
        """The genitive of a name: Annas, said of Anna."""
        if len(word) <= _SHORTEST_PLURAL or word[-1] != "s":
            return ()
        return [form for form in self._forms.get(word[:-1], ()) if len(form.words) == 1]

    def _literals(self, sql: str) -> tuple[Literal, ...]:
        done = self._read.get(sql)
        if done is None:
            done = self._read[sql] = literals(sql, self._dialect, self._private)
        return done

    def _code_edits(self, sql: str) -> Iterator[Edit]:
        if _IDENTIFIER.fullmatch(sql) is not None and not sql.isdigit():
            yield from self._in_name(sql, 0)
            return
        # Parts of a statement come in one way of quoting, and are many.
        for item in self._read.get(sql) or scanned(sql):
            match item.part:
                case Part.STRING | Part.PATTERN:
                    yield from self._in_string(item)
                case Part.NUMBER:
                    yield from self._in_number(item)
                case Part.QUOTED if self.knows(item.text):
                    yield Edit(item.start, item.end, self.hide(item.text))
                case Part.QUOTED if _IDENTIFIER.fullmatch(item.text) is None:
                    yield Edit(item.start, item.end, self.prose(item.text))
                case Part.CODE:
                    yield Edit(item.start, item.end, self.prose(item.text))
                case _:
                    yield from self._in_name(item.text, item.start)

    def _in_string(self, item: Literal) -> Iterator[Edit]:
        new = self.literal(item.text, like=item.part is Part.PATTERN, private=item.private)
        if new != item.text:
            yield Edit(item.start, item.end, new)

    def literal(self, text: str, *, like: bool, private: bool = False) -> str:
        """The content of a string literal, hidden; wildcards stay outside the tokens.

        Args:
            text: Without quotes, escapes resolved.
            like: Wildcards inside it count, as after LIKE.
            private: It is compared with a private column.
        """
        if self.knows(text):
            return self.hide(text)
        if not like and not private and self.is_plain(text):
            return text
        parts = _WILDCARDS.split(text) if like else _OUTER.fullmatch(text).groups()  # type: ignore[union-attr]
        return "".join(self._part(part, private=private) for part in parts)

    def _part(self, text: str, *, private: bool) -> str:
        stays = not text.strip() or _WILDCARDS.fullmatch(text) is not None
        if stays or not (private or self.knows(text) or not self.is_plain(text)):
            return text
        return self.hide(text)

    def _in_number(self, item: Literal) -> Iterator[Edit]:
        kind, canon = self._of(item.text)
        token = self._by_canon.get(canon) or self._by_canon.get(item.text)
        if token is not None or item.private or kind not in {NUMBER, DATE}:
            yield Edit(item.start, item.end, token or self.hide(item.text))

    def _in_name(self, name: str, start: int) -> Iterator[Edit]:
        """A name that is no table's and no column's, such as an alias, may be made of a value: `alice_orders`."""
        folded = name.lower()
        if not self._names or folded in self._physical:
            return
        if "_" not in folded:
            token = self._names.get(folded)
            if token is not None:
                yield Edit(start, start + len(name), token)
            return
        around = f"_{folded}_"
        found: list[Edit] = []
        for words, token in self._names.items():
            at = around.find(f"_{words}_") if words in folded else -1
            if at >= 0 and len(around) == len(name) + 2:
                found.append(Edit(start + at, start + at + len(words), token))
        if found:
            yield from sorted(fitting(found, ()), key=lambda edit: edit.start)


def _folded(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def _matched(form: _Form, spots: list[tuple[int, int, str]], text: str) -> int:
    """Where a form that begins at the first spot ends in the text; 0 when it does not stand there."""
    if len(spots) < len(form.words):
        return 0
    start, end = spots[0][0], spots[-1][1]
    if tuple(spot[2] for spot in spots) == form.words:
        return end if len(spots) == 1 or fold(text[start:end]) == form.folded else 0
    return end - 1 if len(spots) == 1 and spots[0][2] == f"{form.words[0]}s" else 0


def _within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    size = len(part)
    return size < len(whole) and any(whole[i : i + size] == part for i in range(len(whole) - size + 1))
