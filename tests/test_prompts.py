"""Prompt files: what is checked when they are loaded, and how values are put in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stef.errors import PromptError
from stef.judge.dossier import REQUIRED, VARIABLES
from stef.judge.llm import load_prompt
from stef.prompts import Order, load, locate

SHIPPED = Path(__file__).parents[1] / "prompts"
OFFERED = ("question", "sql", "nonce")
GOOD = """---
name: mine
version: 3
description: Asks.
variables: [question, sql]
order: reasons_first
reply:
  type: object
  required: [verdict, reasons]
  properties:
    verdict: {type: string}
    reasons: {type: array}
---
You judge.
<!-- user -->
Question: {{ question }}
SQL: {{sql}} again {{ sql }}
"""


def _written(folder: Path, text: str | bytes) -> Path:
    path = folder / "mine.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_prompt_is_read_and_filled(tmp_path: Path) -> None:
    """Front matter, the two messages and every placeholder arrive where they belong."""
    prompt = load(_written(tmp_path, GOOD), offered=OFFERED, required=["question"])
    assert ("mine", "3", "Asks.", ("question", "sql")) == (
        prompt.name,
        prompt.version,
        prompt.description,
        prompt.variables,
    )
    assert Order.REASONS_FIRST is prompt.order
    assert ["reasons", "verdict"] == list(prompt.reply["properties"])
    shown = prompt.render({"question": "Why?", "sql": "SELECT 1"})
    assert ("You judge.", "Question: Why?\nSQL: SELECT 1 again SELECT 1") == (shown.system, shown.user)


def test_without_a_divider_all_is_the_users(tmp_path: Path) -> None:
    """A prompt without `<!-- user -->` has no system message."""
    shown = load(_written(tmp_path, GOOD.replace("<!-- user -->\n", "")), offered=OFFERED).render(
        {"question": "Why?", "sql": "SELECT 1"}
    )
    assert ("", True) == (shown.system, shown.user.startswith("You judge.\nQuestion: Why?"))


@given(
    st.lists(st.sampled_from([*"{} x", "{{ sql }}", "{{", "}}", "<!-- user -->", "\\1", "\\g<0>"]), max_size=20).map(
        "".join
    )
)
def test_values_are_not_looked_at_again(value: str) -> None:
    """A value that holds a placeholder, a divider or an escape stays what it is."""
    folder = Path(os.environ["STEF_TEST_PROMPTS"])
    prompt = load(folder / "mine.md", offered=OFFERED)
    shown = prompt.render({"question": value, "sql": "S"})
    assert f"Question: {value}\nSQL: S again S" == shown.user


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> object:
    """A folder with the good prompt, for tests that cannot take a fixture of their own."""
    folder = tmp_path_factory.mktemp("prompts")
    _written(folder, GOOD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEF_TEST_PROMPTS", str(folder))
        yield


@pytest.mark.parametrize("values", [{"question": "q"}, {"question": "q", "sql": "s", "nonce": "n"}, {}])
def test_rendering_wants_exactly_the_declared_variables(tmp_path: Path, values: dict[str, str]) -> None:
    """Too few or too many values are a programmer's error."""
    prompt = load(_written(tmp_path, GOOD), offered=OFFERED)
    with pytest.raises(ValueError, match="do not fit"):
        prompt.render(values)


BROKEN = (
    ("no-front-matter", GOOD.replace("---\n", "", 1), "line 1", "no front matter"),
    ("unclosed", GOOD.replace("---\nYou", "You"), "line 1", "no front matter"),
    ("empty", "", "line 1", "no front matter"),
    ("not-utf8", b"---\nname: \xff", "byte 10", "no UTF-8"),
    ("yaml", GOOD.replace("version: 3", "version: [3"), "line 4", "found"),
    ("yaml-twice", GOOD.replace("version: 3", "name: mine"), "line 3", "'name' twice"),
    ("yaml-list", "---\n- a\n---\ntext", "front matter", "a list"),
    ("key-unknown", GOOD.replace("version:", "verson:"), "front matter", "version (did you mean this?)"),
    ("key-missing", GOOD.replace("order: reasons_first\n", ""), "front matter", "no order"),
    ("name-other", GOOD.replace("name: mine", "name: yours"), "name", "'yours'"),
    ("description-empty", GOOD.replace("Asks.", "''"), "description", "empty text"),
    ("order-unknown", GOOD.replace("reasons_first", "reason_first"), "order", "reasons_first (did you mean this?)"),
    ("variables-text", GOOD.replace("[question, sql]", "question"), "variables", "text"),
    ("variable-unknown", GOOD.replace("[question, sql]", "[question, sql, query]"), "variables", "'query'"),
    (
        "variable-misspelt",
        GOOD.replace("[question, sql]", "[queston, sql]"),
        "variables",
        "question (did you mean this?)",
    ),
    ("variable-twice", GOOD.replace("[question, sql]", "[question, sql, sql]"), "variables", "sql twice"),
    ("variable-number", GOOD.replace("[question, sql]", "[1]"), "variables", "unknown variable 1"),
    ("variable-unused", GOOD.replace("{{ question }}", "?"), "variables", "question, which the text does not use"),
    ("variable-required", GOOD.replace("[question, sql]", "[sql]"), "variables", "no question"),
    ("placeholder-undeclared", GOOD.replace("{{sql}}", "{{ nonce }}"), "line 17", "undeclared variable nonce"),
    ("placeholder-misspelt", GOOD.replace("{{sql}}", "{{ sqll }}"), "line 17", "sql (did you mean this?)"),
    ("placeholder-odd", GOOD.replace("{{sql}}", "{{ sql | upper }}"), "line 17", "'{{ sql | upper }}'"),
    ("placeholder-open", GOOD.replace("{{sql}}", "{{ sql"), "line 17", "'{{'"),
    ("placeholder-empty", GOOD.replace("{{sql}}", "{{ }}"), "line 17", "'{{ }}'"),
    ("placeholder-in-system", GOOD.replace("You judge.", "You judge {{ who }}."), "line 14", "undeclared variable who"),
    ("divider-twice", GOOD + "<!-- user -->\n", "line 18", "a second"),
    (
        "user-empty",
        GOOD[: GOOD.index("<!--")].replace("[question, sql]", "[question]") + "{{ question }}\n<!-- user -->\n",
        "text",
        "empty message",
    ),
    ("reply-list", GOOD.replace("  type: object\n", "  type: array\n"), "reply", "type object"),
    (
        "reply-required",
        GOOD.replace("required: [verdict,", "required: [verdit,"),
        "reply.required",
        "verdict (did you mean",
    ),
    (
        "reply-required-text",
        GOOD.replace("required: [verdict, reasons]", "required: verdict"),
        "reply.required",
        "text",
    ),
)


@pytest.mark.parametrize(("text", "place", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_prompt_fails_when_loaded(tmp_path: Path, text: str | bytes, place: str, words: str) -> None:
    """Whatever is unknown, missing or misspelt is named with file, place, what was found and what is allowed."""
    path = _written(tmp_path, text)
    with pytest.raises(PromptError) as caught:
        load(path, offered=OFFERED, required=["question"])
    assert (str(path), place) == (caught.value.path, caught.value.place)
    assert words in str(caught.value)
    assert caught.value.allowed


def test_windows_line_ends_and_bom_change_nothing(tmp_path: Path) -> None:
    """The digest is of the text, not of how an editor saved it."""
    plain = load(_written(tmp_path, GOOD), offered=OFFERED)
    saved = load(_written(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()), offered=OFFERED)
    assert plain.digest == saved.digest


def test_digest_changes_with_any_word(tmp_path: Path) -> None:
    """A changed prompt is another judge."""
    first = load(_written(tmp_path, GOOD), offered=OFFERED).digest
    second = load(_written(tmp_path, GOOD.replace("You judge.", "You judge!")), offered=OFFERED).digest
    assert first != second


def test_missing_file_names_what_there_is(tmp_path: Path) -> None:
    """A prompt that does not exist is an error that lists the ones that do."""
    with pytest.raises(PromptError) as caught:
        locate(tmp_path, "juge")
    assert ("no such file", "judge") == (caught.value.found, caught.value.allowed)


@pytest.mark.parametrize("name", ["../judge", "a/b", "", "Judge", ".hidden", "a\x00"])
def test_name_is_no_path(tmp_path: Path, name: str) -> None:
    """A prompt is named, never addressed."""
    with pytest.raises(PromptError):
        locate(tmp_path, name)


def test_users_prompt_comes_before_the_shipped_one(tmp_path: Path) -> None:
    """A file in the user's folder wins; without one the shipped prompt is used."""
    assert SHIPPED / "judge.md" == locate(tmp_path, "judge").resolve()
    (tmp_path / "judge.md").write_text("mine", encoding="utf-8")
    assert tmp_path / "judge.md" == locate(tmp_path, "judge")


def test_shipped_prompt_is_right() -> None:
    """The prompt that comes with stef loads, shows every text that is offered, and says nothing of a record twice."""
    prompt = load_prompt(SHIPPED, "judge")
    assert set(VARIABLES) == set(prompt.variables)
    assert set(REQUIRED) <= set(prompt.variables)
    assert not [part for part in prompt.system if part.variable]
