"""Prompt files: `prompts/<name>.md`, front matter in YAML and the text under it.

The text holds placeholders `{{ name }}`, one for each variable that the front matter declares. A line
`<!-- user -->` divides it into the system message above and the user's message below; without one, all of it is the
user's message. A file is checked when it is loaded: what is unknown, missing or misspelt is a `PromptError`, never a
surprise at the first record. Values are put in once and not looked at again, so that a value which contains a
placeholder stays text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from stef import starter
from stef.errors import PromptError, nearest

_FRONT = re.compile(r"---\n(?P<front>.*?\n)---\n(?P<text>.*)", re.DOTALL)
_DIVIDER = re.compile(r"^<!-- user -->[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{(?P<inside>[^{}\n]*)\}\}|\{\{")
_VARIABLE = re.compile(r"[a-z][a-z0-9_]*")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_REQUIRED = ("name", "description", "variables", "reply", "order")
_KEYS = (*_REQUIRED, "version")


class Order(StrEnum):
    """What the model writes first; small models judge better verdict first, large ones reasons first."""

    VERDICT_FIRST = "verdict_first"
    REASONS_FIRST = "reasons_first"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the text: literal, or the name of a variable."""

    text: str
    variable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The two messages; `system` is "" when the prompt has none."""

    system: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt file, checked.

    Attributes:
        name: The file's name without `.md`.
        version: As the file says; "" when it does not.
        description: One sentence.
        variables: Declared ones; each stands in the text at least once.
        reply: JSON schema of the reply, properties in the order asked for.
        order: What the model writes first.
        system: Parts of the system message.
        user: Parts of the user's message.
        digest: Of the whole file, 16 hexadecimal digits.
        path: Where it was read from.
    """

    name: str
    version: str
    description: str
    variables: tuple[str, ...]
    reply: Mapping[str, Any]
    order: Order
    system: tuple[Part, ...]
    user: tuple[Part, ...]
    digest: str
    path: str

    def render(self, values: Mapping[str, str]) -> Rendered:
        """Put the values in.

        Args:
            values: Exactly the declared variables.

        Raises:
            ValueError: A variable is missing, or one is given that the prompt does not declare.
        """
        if set(values) != set(self.variables):
            odd = ", ".join(sorted(set(values) ^ set(self.variables)))
            raise ValueError(f"prompt {self.name}: values do not fit the declared variables: {odd}")
        return Rendered(system=_fill(self.system, values), user=_fill(self.user, values))


def _fill(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    return "".join(values[part.text] if part.variable else part.text for part in parts).strip()


def locate(folder: Path, name: str) -> Path:
    """Find a prompt: in the user's folder, else the one that comes with stef.

    Raises:
        PromptError: The name is no plain name, or there is no such prompt.
    """
    if not _NAME.fullmatch(name):
        raise PromptError(str(folder), "", f"the prompt name {name!r}", "small letters, digits, - and _")
    places = (folder, starter.folder() / "prompts")
    for place in places:
        if (place / f"{name}.md").is_file():
            return place / f"{name}.md"
    known = sorted({path.stem for place in places if place.is_dir() for path in place.glob("*.md")})
    raise PromptError(str(folder / f"{name}.md"), "", "no such file", nearest(name, known))


def load(path: Path, *, offered: Collection[str], required: Collection[str] = ()) -> Prompt:
    """Read a prompt file and check all of it.

    Args:
        path: The file.
        offered: Variables that can be filled in.
        required: Those of them that the prompt must use.

    Raises:
        PromptError: The file cannot be read, or something in it is unknown, missing or not allowed.
    """
    text = _read(path)
    found = _FRONT.match(text)
    if found is None:
        raise PromptError(str(path), "line 1", "no front matter", "a block between two lines of ---, then the text")
    front = _front(path, found["front"])
    variables = _variables(path, front["variables"], offered, required)
    body, first = found["text"], text.count("\n", 0, found.start("text")) + 1
    system, user = _divide(path, body, first, variables)
    _all_used(path, (*system, *user), variables)
    order = _order(path, front["order"])
    return Prompt(
        name=_own_name(path, front["name"]),
        version=str(front.get("version", "")),
        description=_words(path, "description", front["description"]),
        variables=variables,
        reply=_schema(path, front["reply"], order),
        order=order,
        system=system,
        user=user,
        digest=hashlib.sha256(text.encode()).hexdigest()[:16],
        path=str(path),
    )


def _read(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(str(path), f"byte {error.start}", "bytes that are no UTF-8", "text in UTF-8") from None
    except OSError as error:
        raise PromptError(str(path), "", error.strerror or type(error).__name__, "a file that can be read") from None
    return text.replace("\r\n", "\n")


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice: the second would win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen:
                raise yaml.constructor.ConstructorError(problem=f"the key {name!r} twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _front(path: Path, text: str) -> dict[str, Any]:
    try:
        front = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a safe loader with one check more
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "what cannot be read"
        raise PromptError(str(path), f"line {mark.line + 2}" if mark else "front matter", problem, "YAML") from None
    if not isinstance(front, dict):
        raise PromptError(str(path), "front matter", f"{_kind(front)}", "keys and values: " + ", ".join(_KEYS))
    for key in front:
        if key not in _KEYS:
            raise PromptError(str(path), "front matter", f"the key {key!r}", nearest(str(key), _KEYS))
    for key in _REQUIRED:
        if key not in front:
            raise PromptError(str(path), "front matter", f"no {key}", "all of " + ", ".join(_REQUIRED))
    return front


def _kind(value: object) -> str:
    names = {dict: "keys and values", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), "a number")


def _words(path: Path, place: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PromptError(str(path), place, _kind(value) if value != "" else "empty text", "text")
    return value.strip()


def _own_name(path: Path, value: object) -> str:
    if value != path.stem:
        raise PromptError(str(path), "name", repr(value), f"the file's own name, {path.stem}")
    return path.stem


def _order(path: Path, value: object) -> Order:
    if value not in set(Order):
        raise PromptError(str(path), "order", repr(value), nearest(str(value), Order))
    return Order(str(value))


def _variables(path: Path, value: object, offered: Collection[str], required: Collection[str]) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise PromptError(str(path), "variables", _kind(value), "a list of names")
    for name in value:
        if name not in offered:
            raise PromptError(str(path), "variables", f"the unknown variable {name!r}", nearest(str(name), offered))
        if value.count(name) > 1:
            raise PromptError(str(path), "variables", f"{name} twice", "each name once")
    for name in required:
        if name not in value:
            raise PromptError(str(path), "variables", f"no {name}", "at least " + ", ".join(sorted(required)))
    return tuple(value)


def _divide(path: Path, body: str, first: int, variables: tuple[str, ...]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    dividers = list(_DIVIDER.finditer(body))
    if len(dividers) > 1:
        line = first + body.count("\n", 0, dividers[1].start())
        raise PromptError(str(path), f"line {line}", "a second <!-- user -->", "one")
    start, end = (dividers[0].span()) if dividers else (0, 0)
    system = _parts(path, body[:start], first, variables)
    user = _parts(path, body[end:], first + body.count("\n", 0, end), variables)
    if not "".join(part.text for part in user).strip():
        raise PromptError(str(path), "text", "an empty message for the user", "text")
    return system, user


def _parts(path: Path, text: str, first: int, variables: tuple[str, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    position = 0
    for found in _PLACEHOLDER.finditer(text):
        place = f"line {first + text.count(chr(10), 0, found.start())}"
        name = (found["inside"] or "").strip()
        if not _VARIABLE.fullmatch(name):
            raise PromptError(str(path), place, f"{found[0]!r}", "a placeholder such as {{ question }}")
        if name not in variables:
            raise PromptError(str(path), place, f"the undeclared variable {name}", nearest(name, variables))
        parts += (Part(text[position : found.start()]), Part(name, variable=True))
        position = found.end()
    return (*parts, Part(text[position:]))


def _all_used(path: Path, parts: tuple[Part, ...], variables: tuple[str, ...]) -> None:
    used = {part.text for part in parts if part.variable}
    for name in variables:
        if name not in used:
            raise PromptError(
                str(path), "variables", f"{name}, which the text does not use", f"{{{{ {name} }}}} in the text"
            )


def _schema(path: Path, value: object, order: Order) -> Mapping[str, Any]:
    """Check the outline of the reply schema and put its properties in the order asked for."""
    if not isinstance(value, dict) or value.get("type") != "object" or not isinstance(value.get("properties"), dict):
        raise PromptError(str(path), "reply", _kind(value), "a JSON schema of type object with properties")
    properties: dict[str, Any] = value["properties"]
    required = value.get("required", [])
    if not isinstance(required, list):
        raise PromptError(str(path), "reply.required", _kind(required), "a list of names")
    for name in required:
        if name not in properties:
            raise PromptError(str(path), "reply.required", f"{name!r}", nearest(str(name), properties))
    first = ("verdict", "confidence")
    names = sorted(properties, key=lambda name: (name in first) is (order is Order.REASONS_FIRST))
    ordered = {name: properties[name] for name in names}
    needed = [name for name in names if name in required]
    return MappingProxyType({**value, "properties": ordered, "required": needed})
