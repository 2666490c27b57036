"""Loads what people edit or translate (lexicons, lists, weights, zones) into frozen values for the pure part."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from stef.forest import forest
from stef.lexicon import Lexicon, build
from stef.phrasebook import Phrasebook
from stef.phrasebook import build as build_phrasebook
from stef.weights import Weights

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def resource(name: str) -> Any:  # noqa: ANN401 - YAML is untyped; each caller reads it into a frozen value
    """Read a YAML file of the package."""
    return yaml.load(_text(name), Loader=_LOADER)  # noqa: S506 - a safe loader either way


def _text(name: str) -> str:
    return resources.files("stef.resources").joinpath(name).read_text(encoding="utf-8")


@cache
def zone(name: str) -> ZoneInfo | None:
    """The time zone of that IANA name, or None when there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@cache
def lexicon(language: str) -> Lexicon:
    """The words of a language (ISO 639-1).

    Raises:
        FileNotFoundError: There are none for it.
    """
    table = resource(f"lexicon.{language}.yaml")
    return build(table["language"], table["phrases"], table["roles"], table["endings"])


@cache
def phrasebook(language: str) -> Phrasebook:
    """The phrases of a language (ISO 639-1) other than English.

    Raises:
        FileNotFoundError: There are none for it.
    """
    return build_phrasebook(resource(f"lexicon.{language}.yaml"))


@cache
def phrasebooks() -> tuple[Phrasebook, ...]:
    """All phrasebooks, by language: each `lexicon.<language>.yaml` but that of English."""
    names = (file.name for file in resources.files("stef.resources").iterdir())
    found = sorted(name.split(".")[1] for name in names if name.startswith("lexicon.") and name.endswith(".yaml"))
    return tuple(phrasebook(language) for language in found if language != "en")


@dataclass(frozen=True, slots=True)
class InjectionSign:
    """A sign that a text speaks to the judge; signs of one text whose weights reach 1 make a finding.

    Attributes:
        name: Unique.
        weight: 1.0 is enough by itself.
        what: In a few words, for the finding.
        pattern: Searched in folded text.
        needs: Words of which the folded text must hold one; () where there are none that the pattern always needs.
        cased: The pattern is searched in text that keeps its capitals.
    """

    name: str
    weight: float
    what: str
    pattern: re.Pattern[str]
    needs: tuple[str, ...] = ()
    cased: bool = False


@cache
def injection_signs() -> tuple[InjectionSign, ...]:
    """The signs of `injection.yaml`, `{words}` of its word lists filled in."""
    content = resource("injection.yaml")
    words: dict[str, str] = {}
    for name, forms in content["words"].items():
        words[name] = f"(?:{'|'.join(forms)})"
    return tuple(
        InjectionSign(
            name=str(row["name"]),
            weight=float(row["weight"]),
            what=str(row["what"]),
            pattern=_pattern(str(row["pattern"]), words),
            needs=tuple(content["stems"][row["needs"]] if "needs" in row else ()),
            cased=bool(row.get("cased", False)),
        )
        for row in content["signs"]
    )


def _pattern(text: str, words: dict[str, str]) -> re.Pattern[str]:
    """Fill in word lists; a space stands for any white space."""
    filled = re.sub(r"\{([a-z]+)\}", lambda found: words[found[1]], text)
    return re.compile(re.sub(r" (\??)", lambda found: r"\s*" if found[1] else r"\s+", filled), re.MULTILINE)


@cache
def denied_functions() -> Mapping[str, str]:
    """Functions that no agent's statement should call, lower-case, with what they do."""
    return MappingProxyType({name: kind for kind, names in resource("functions.yaml").items() for name in names})


@cache
def evidence_words() -> Mapping[str, str]:
    """Feature of the evidence → what it is, in a few words."""
    return MappingProxyType(resource("evidence.yaml"))


@cache
def weights() -> Weights:
    """The offline model that is shipped."""
    content = resource("weights.yaml")
    texts, log = (_text(f"forest.{name}.json") for name in ("texts", "log"))
    digest = hashlib.sha256(json.dumps([content, texts, log], sort_keys=True).encode())
    return Weights(
        name=content["name"],
        digest=digest.hexdigest()[:16],
        terms=MappingProxyType(content["terms"]),
        kept=frozenset(content["kept"]),
        thresholds=MappingProxyType(content["thresholds"]),
        texts=forest(json.loads(texts)),
        log=forest(json.loads(log)),
    )
