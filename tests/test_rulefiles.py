"""Rules files: a case is a line in `tests/cases/rules/<topic>.jsonl`."""

from __future__ import annotations

import jsonschema
import pytest

from stef.apprules import NO_RULES
from stef.errors import RulesError
from stef.rulefiles import INLINE_KEYS, AppRulesFile, compile_rules, digest, json_schema, load, load_folder, merged
from stef.values import Anything
from tests.records import load as load_cases

CASES = load_cases("rules")
GOOD = [one for one in CASES if one.values[0]["rule"] == "conditions"]
BAD = [one for one in CASES if one.values[0]["rule"] == "refused"]


@pytest.mark.parametrize("case", GOOD)
def test_a_condition_is_compiled_to_the_filters_of_its_case(case):
    """A condition is written as people write it, and compiled to canonical filters joined by AND."""
    rules = compile_rules(case["content"])
    conditions = (*rules.benign_filters, *rules.mandatory_filters)
    assert case["filters"] == [[str(part) for part in one.filters] for one in conditions]


@pytest.mark.parametrize("case", BAD)
def test_an_error_says_file_place_found_and_allowed(case):
    """The message names the file and the JSON path, shows what stands there and says what could."""
    with pytest.raises(RulesError) as caught:
        compile_rules(case["content"], path="rules/harbour.json")
    assert ("rules/harbour.json", case["place"]) == (caught.value.path, caught.value.place)
    assert [] == [text for text in case["says"] if text not in str(caught.value)]


def test_every_key_of_a_rules_file_is_read():
    """A file that sets all keys changes all fields."""
    content = {
        "version": "7",
        "description": "Boats",
        "column_mappings": {"length": "length_m"},
        "benign_filters": ["is_deleted = 0"],
        "mandatory_filters": ["club_id = *"],
        "value_synonyms": {"hull": {"steel": ["S"], "wood": "W"}},
        "default_order_by": "name, launched_on DESC",
        "default_limit": 50,
        "limit_guard": 200,
        "fiscal_year_start_month": 7,
        "week_start": "sunday",
        "timezone": "Europe/Oslo",
        "dialect": "mysql",
        "allowed_tables": ["boats"],
        "denied_functions": ["sleep"],
        "out_of_scope": ["salaries"],
        "private_values": ["Heron"],
        "private_columns": ["owner_id"],
    }
    rules = compile_rules(content, name="harbour")
    unset = [key for key in content if getattr(rules, key) == getattr(NO_RULES, key)]
    assert [] == unset
    assert set(content) | {"schema_"} == set(AppRulesFile.model_fields)
    assert (6, [("name", "asc"), ("launched_on", "desc")]) == (
        rules.week_start,
        [(key.by, key.direction.value) for key in rules.default_order_by],
    )


def test_star_takes_any_one_value():
    """`*` is a value that stands for every single one."""
    condition = compile_rules({"mandatory_filters": ["club_id = *"]}).mandatory_filters[0]
    assert (Anything(),) == tuple(part.value for part in condition.filters)


def test_the_schema_takes_and_refuses_what_the_model_does():
    """An editor that checks the schema shows the same mistakes: unknown keys, wrong types, numbers out of range."""
    schema = jsonschema.Draft202012Validator(json_schema())
    assert [] == [one.id for one in GOOD if not schema.is_valid(one.values[0]["content"])]
    by_schema = {"unknown-key", "wrong-type", "number-as-text", "too-small", "month", "day", "no-object"}
    taken = {one.values[0]["id"] for one in BAD if schema.is_valid(one.values[0]["content"])}
    assert set() == by_schema & taken


def test_the_digest_ignores_layout_and_order_of_keys():
    """The content is what counts."""
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('{"limit_guard": 1,}', "line 1", "JSON"),
        ("[]", "$", "an object"),
        ('{"limit_guard": 5, "limit_guard": 6}', "$", "'limit_guard' twice"),
        ('{"column_mappings": {"a": "b", "a": "c"}}', "$", "'a' twice"),
    ],
)
def test_a_file_that_is_no_rules_file_is_an_error_with_its_path(tmp_path, text, place, says):
    """The path, the place and the reason are in the message."""
    path = tmp_path / "boats.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RulesError) as caught:
        load(path)
    assert str(path) == caught.value.path
    assert caught.value.place.startswith(place)
    assert says in str(caught.value)


def test_a_file_of_other_bytes_and_a_missing_file_are_errors(tmp_path):
    """Nothing but UTF-8 is read, and a file that is not there says so."""
    (tmp_path / "latin.json").write_bytes(b'{"description": "\xe4"}')
    with pytest.raises(RulesError, match="UTF-8"):
        load(tmp_path / "latin.json")
    with pytest.raises(RulesError, match="No such file"):
        load(tmp_path / "none.json")


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    """Editors on some systems write one."""
    (tmp_path / "boats.json").write_bytes(b"\xef\xbb\xbf" + b'{"limit_guard": 7}')
    assert 7 == load(tmp_path / "boats.json").limit_guard


def test_the_registry_knows_applications_by_file_name_only(tmp_path):
    """An application is a key: a name with a path in it finds nothing, whatever lies there."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "boats.json").write_text("{}", encoding="utf-8")
    (folder / "app.schema.json").write_text("not read", encoding="utf-8")
    (tmp_path / "secret.json").write_text("{}", encoding="utf-8")
    registry = load_folder(folder)
    assert ["boats"] == list(registry)
    assert [] == [name for name in ("../secret", "../rules/boats", "boats.json", "/etc/passwd", "") if name in registry]


def test_no_folder_is_no_rules(tmp_path):
    """A folder that is not there holds no application."""
    assert {} == load_folder(tmp_path / "none")


OPERATOR = compile_rules(
    {
        "column_mappings": {"length": "length_m", "weight": "tons"},
        "mandatory_filters": ["club_id = *"],
        "allowed_tables": ["boats"],
        "denied_functions": ["sleep"],
        "limit_guard": 500,
        "dialect": "mysql",
    },
    name="harbour",
)


@pytest.mark.parametrize("key", sorted(set(AppRulesFile.model_fields) - {"schema_", *INLINE_KEYS}))
def test_a_record_cannot_set_what_belongs_to_the_operator(key):
    """Only mappings, synonyms and benign filters count inside a record; safety keys and λ_min do not."""
    values = {
        "mandatory_filters": [], "allowed_tables": ["*"], "denied_functions": [], "limit_guard": 1, "default_limit": 1,
        "default_order_by": ["a"], "timezone": "Asia/Tokyo", "dialect": "tsql", "week_start": "friday",
        "fiscal_year_start_month": 9, "version": "9", "description": "x", "out_of_scope": ["x"],
        "private_values": ["x"], "private_columns": ["x"],
    }  # fmt: skip
    inline = {key: values[key], "column_mappings": {"length": "len"}}
    assert getattr(OPERATOR, key) == getattr(merged(OPERATOR, inline, trust=True), key)


def test_a_record_s_mappings_win_over_the_file_s():
    """The record knows what it was asked with; what it does not name stays."""
    rules = merged(OPERATOR, {"column_mappings": {"length": "len"}, "benign_filters": ["`is_x` = 0"]}, trust=True)
    assert {"length": "len", "weight": "tons"} == dict(rules.column_mappings)
    assert ["is_x = 0"] == [str(part) for one in rules.benign_filters for part in one.filters]
    assert (OPERATOR.digest, "harbour") == (rules.digest, rules.name)
    assert rules.inline_digest


def test_without_trust_a_record_s_rules_do_not_count():
    """The setting turns them off altogether."""
    assert merged(OPERATOR, {"column_mappings": {"length": "len"}}, trust=False) is OPERATOR


def test_without_an_operator_s_file_a_record_may_say_how_its_calendar_is():
    """Nobody else says so, and neither safety nor λ_min hangs on it."""
    inline = {"fiscal_year_start_month": 4, "default_limit": 20, "limit_guard": 1, "mandatory_filters": ["a = 1"]}
    rules = merged(NO_RULES, inline, trust=True)
    assert (4, 20, NO_RULES.limit_guard, ()) == (
        rules.fiscal_year_start_month,
        rules.default_limit,
        rules.limit_guard,
        rules.mandatory_filters,
    )


def test_wrong_rules_inside_a_record_are_an_error():
    """The pipeline reports them as a finding and goes on with the operator's."""
    with pytest.raises(RulesError, match="app_rules"):
        merged(OPERATOR, {"column_mappings": {"length": 3}}, trust=True)
