"""Folding of column names and words, shared by both readers.

Names are matched softly: snake and camel case are split, plurals folded, common abbreviations written out.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stef.values import SHORT, fold, strip_accents

# Vowel signs of Indic scripts and Thai are no `\w`, and belong to the letter before them.
_MARKS = r"\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962-\u0963\u0980-\u0983\u09bc-\u09cd\u0a00-\u0dff\u0e31-\u0e4e"
_PARTS = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|(?:[^\W\d_a-zA-Z]|[{_MARKS}])+")
# What people shorten in column names, by whole part.
_ABBREVIATIONS = {
    "acct": "account", "addr": "address", "amt": "amount", "avg": "average", "bal": "balance", "cat": "category",
    "cd": "code", "cnt": "count", "cntry": "country", "cty": "city", "curr": "currency", "cust": "customer",
    "dept": "department", "desc": "description", "dist": "district", "dob": "birthdate", "dt": "date",
    "emp": "employee", "fname": "firstname", "freq": "frequency", "grp": "group", "id": "id", "inv": "invoice",
    "lang": "language", "lat": "latitude", "lname": "lastname", "lng": "longitude", "loc": "location",
    "lon": "longitude", "max": "maximum", "mfr": "manufacturer", "mgr": "manager", "min": "minimum", "mth": "month",
    "nbr": "number", "nm": "name", "no": "number", "num": "number", "org": "organization", "pct": "percent",
    "perc": "percent", "pop": "population", "pos": "position", "prc": "price", "prod": "product",
    "prov": "province", "qty": "quantity", "rcpt": "receipt", "reg": "region", "rev": "revenue", "seq": "sequence",
    "st": "street", "stat": "status", "tel": "telephone", "tot": "total", "trans": "transaction", "ts": "timestamp",
    "txn": "transaction", "typ": "type", "usr": "user", "val": "value", "vol": "volume", "wt": "weight",
    "yr": "year",
}  # fmt: skip
_ES = ("ches", "shes", "sses", "xes", "zes")


def tokens(name: str) -> tuple[str, ...]:
    """Split a column name or a few words into folded parts: `custAcctNo`, `cust_acct_no`, "Customer account number".

    Returns:
        Lower-case parts without accents, singular, abbreviations written out; () for "".
    """
    return _short_tokens(name) if len(name) <= SHORT else _text_tokens(name)


def _tokens(name: str) -> tuple[str, ...]:
    bare = strip_accents(name.strip("`\"[]'"))
    return tuple(map(_part, _PARTS.findall(bare)))


_short_tokens = lru_cache(maxsize=4096)(_tokens)
# The texts of one record, which several steps look at.
_text_tokens = lru_cache(maxsize=64)(_tokens)


def stems(name: str) -> frozenset[str]:
    """Stems of the parts of a name, or of the words of a text."""
    return _short_stems(name) if len(name) <= SHORT else _text_stems(name)


def _stems(name: str) -> frozenset[str]:
    return frozenset(map(stem, tokens(name)))


_short_stems = lru_cache(maxsize=4096)(_stems)
_text_stems = lru_cache(maxsize=64)(_stems)


@lru_cache(maxsize=4096)
def _part(part: str) -> str:
    word = fold(part)
    return _ABBREVIATIONS.get(word, singular(word))


@lru_cache(maxsize=4096)
def singular(word: str) -> str:
    """Fold an English plural (`cities` → `city`, `boxes` → `box`, `orders` → `order`); others stay."""
    if len(word) < 4 or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(_ES):
        return word[:-2]
    return word.removesuffix("s")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude stem for matching word families (`signed` ~ `signing` ~ `signs`); not a dictionary form."""
    word = singular(fold(word))
    for ending in ("ation", "ment", "ing", "ed", "ly", "er", "ion"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
    if len(word) <= 3:
        return word
    bare = word.rstrip("e")
    return bare[:-1] + "i" if bare.endswith("y") else bare


@lru_cache(maxsize=4096)
def similarity(left: str, right: str) -> float:
    """How far two names speak of the same thing: 1.0 the same parts, 0.0 none shared.

    The share is taken of the shorter name, so that `date` and `signed_date` score high but below 1.
    """
    a, b = tokens(left), tokens(right)
    if not a or not b:
        return 0.0
    if a == b or "".join(a) == "".join(b):
        return 1.0
    stems_a, stems_b = stems(left), stems(right)
    shared = len(stems_a & stems_b)
    if not shared:
        return 0.6 if _prefixed("".join(a), "".join(b)) else 0.0
    smaller, larger = sorted((len(stems_a), len(stems_b)))
    return 0.8 * shared / smaller + 0.15 * shared / larger


def _prefixed(left: str, right: str) -> bool:
    """Whether one is a shortening of the other that is long enough to mean it (`descr` – `description`)."""
    short, long = sorted((left, right), key=len)
    return len(short) >= 4 and long.startswith(short)
