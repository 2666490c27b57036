"""The README says what the code does: its lists are complete, its examples run, its schemas are the code's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import click
import jsonschema
import pytest
import yaml

import stef.cli
from stef import consume, demolog, result, rulefiles
from stef.compare import FIELDS, Answer
from stef.config import SETTINGS
from stef.consume import file as consumer_file
from stef.finding import SEVERITIES
from stef.ingest import Rejection
from stef.judge.reply import ReasonCode
from stef.normalize import TOLERANCES
from stef.record import QueryRecord
from stef.result import COVERAGE_LOSSES, Band, Category, Drift, Match, Outcome, Reason, Verdict
from stef.score import FILTER_POINTS
from tests.generated import tables

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = {"stef/resources/result.schema.json", "rules/app.schema.json"}


# ── reading the README ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is, and its text."""

    language: str
    file: str
    text: str


def blocks(*languages):
    """The blocks of some languages, in their order."""
    found = [
        Block(language, file, text)
        for language, file, text in re.findall(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
        if language in languages
    ]
    assert found, languages
    return found


def table(first):
    """The rows of the table whose head begins with a text, as lists of cells."""
    found = re.search(rf"^\| {re.escape(first)} \|.*\n\| ---.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert found, first
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in found[1].splitlines()
    ]


def codes(text):
    """What stands between back-ticks."""
    return re.findall(r"`([^`]+)`", text)


def column(first):
    """The codes in the first column of a table."""
    return [code for row in table(first) for code in codes(row[0])]


def after(words):
    """The codes of the sentence that begins with some words."""
    found = re.search(re.escape(words) + r"(.*?)\.(?:\s|$)", TEXT, re.DOTALL)
    assert found, words
    return codes(found[1])


# ── the lists are those of the code ──────────────────────────────────────────────────────────────────────────────────


def test_the_caps_are_the_codes():
    """The table of caps is made from the one that the judge obeys."""
    found = re.search("<!-- caps:begin -->(.*?)<!-- caps:end -->", TEXT, re.DOTALL)
    assert found is not None
    assert tables().caps() == found[1].strip()


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("Category", Category),
        ("Band", Band),
        ("Finding of a filter", Match),
        ("Outcome", Outcome),
        ("Reason", Reason),
        ("Dead letter", Rejection),
    ],
)
def test_a_table_has_every_word_of_its_list(head, kind):
    """Each word that a result or a dead letter may hold is explained, and no other."""
    assert [member.value for member in kind] == column(head)


def test_the_answers_of_a_comparison_are_listed():
    """The README knows the words that a comparison ends with, and no others."""
    assert {answer.value for answer in Answer} == set(column("Answer"))


def test_the_points_are_those_of_the_code():
    """The points of the categories are those that are added up."""
    assert {category.value: points for category, points in FILTER_POINTS.items()} == {
        codes(row[0])[0]: int(row[2]) for row in table("Category")
    }


def test_reasons_stand_with_their_outcome_and_their_coverage():
    """The README says of each reason which outcome it belongs to and whether it lowers the coverage."""
    rows = {codes(row[0])[0]: row for row in table("Reason")}
    failed = {name for name, row in rows.items() if row[1] == Outcome.FAILED}
    assert {name for name, row in rows.items() if row[1] == Outcome.SKIPPED} == rows.keys() - failed
    assert {"timeout", "internal"} | {name for name in rows if name.startswith("judge_")} == failed
    assert {reason.value for reason in COVERAGE_LOSSES} | failed == {
        name for name, row in rows.items() if row[3].startswith("yes")
    }


def test_the_words_of_the_judge_are_listed():
    """Verdicts, reason codes, tolerances and drifts are all named where they are explained."""
    assert [verdict.value for verdict in Verdict] == after("**verdict** is the judge's answer:")
    assert [code.value for code in ReasonCode] == after("Their codes:")
    assert [rule.__name__ for rule in TOLERANCES] == after("no user would call an error:")
    assert [drift.value for drift in Drift] == after("The check of the expansion against the question")


def test_every_finding_is_explained():
    """The table of findings has each code with its severity, and no other."""
    assert {code.value: severity.value for code, severity in SEVERITIES.items()} == {
        codes(row[0])[0]: row[1] for row in table("Finding")
    }


def test_the_fields_of_a_result_are_explained():
    """The table of fields has every field of a result and of its larger parts, and no other."""
    rows = {name: row[1] for row in table("Field") for name in codes(row[0])}
    assert {field.name for field in fields(result.Evaluation)} == set(rows)
    parts = {
        "score": result.Score,
        "judge": result.Judgement,
        "findings": result.Finding,
        "normalizations": result.Normalization,
        "expansion": result.Expansion,
        "spec": result.Specs,
    }
    told = {name: set(codes(rows[name])) - {"--specs"} for name in parts}
    assert {name: {field.name for field in fields(part)} for name, part in parts.items()} == told
    both = [*fields(result.Alignment), *fields(result.FilterEvidence)]
    assert {field.name for field in both} == set(codes(rows["alignment"]))


def test_the_fields_of_a_record_are_named():
    """The README names every field that a record may have."""
    named = {"question", "sql", *after("A record may also have")}
    assert set(QueryRecord.model_fields) - {"metadata"} == named


def test_the_keys_of_rules_are_explained():
    """The table of rules has every key, and says rightly what a record may set."""
    rows = {key: row[2] for row in table("Key") for key in codes(row[0])}
    keys = {field.alias or name for name, field in rulefiles.AppRulesFile.model_fields.items()} - {"$schema"}
    assert keys == set(rows)
    assert set(rulefiles.INLINE_KEYS) == {key for key, who in rows.items() if who == "yes"}
    for key, who in rows.items():
        value = {"fiscal_year_start_month": 4, "week_start": "monday", "timezone": "Asia/Tokyo", "dialect": "mysql"}
        given = {key: value.get(key, {"default_limit": 5, "default_order_by": "a"}.get(key))}
        if who == "if there is no file":
            operator = rulefiles.compile_rules({"version": "1"}, name="app")
            assert operator == rulefiles.merged(operator, given, trust=True)
            assert rulefiles.NO_RULES != rulefiles.merged(rulefiles.NO_RULES, given, trust=True)


def test_the_parts_of_a_consumer_are_explained():
    """The table of a consumer's parts has every part and the keys of each."""
    rows = {name: set(codes(row[1])) for row in table("Part") for name in codes(row[0])}
    assert set(consumer_file.Consumer.model_fields) - {"path", "name"} == set(rows)
    expected = {
        "source": {*consumer_file.KafkaIn.model_fields, *consumer_file.FileIn.model_fields}
        - {"kind", "session_seconds", "poll_seconds"},
        "rules": set(consumer_file.RulesIn.model_fields),
        "judge": set(consumer_file.JudgeIn.model_fields),
        "privacy": set(consumer_file.PrivacyIn.model_fields),
        "limits": set(consumer_file.LimitsIn.model_fields),
        "dead_letters": {"path", "topic"},
        "sinks": {"store", "jsonl", "kafka", "prometheus", "path", "specs", "topic", "address"},
    }
    assert {} == {part: keys - rows[part] for part, keys in expected.items() if keys - rows[part]}


def test_the_fields_to_group_by_are_named():
    """The README names everything that `--by` takes."""
    assert set(FIELDS) == set(after("`--by` takes"))


def test_the_weight_of_a_confidence_and_the_bands_are_told_rightly():
    """Borders in the text are those of the code."""
    from stef.score import band, multiplier

    assert [1.0, 0.8, 0.8, 0.5] == [multiplier(gamma) for gamma in (0.85, 0.849, 0.65, 0.649)]
    borders = {codes(row[0])[0]: re.match(r"(\d+) and more", row[1]) for row in table("Band")}
    least = {name: int(found[1]) for name, found in borders.items() if found}
    assert {"Excellent": 90, "Good": 75, "Marginal": 50} == least
    assert list(least) == [band(points).value for points in least.values()]


# ── commands and flags ───────────────────────────────────────────────────────────────────────────────────────────────


def commands():
    """Usage → command; groups that do nothing themselves left out."""
    found = {}

    def walk(group, path):
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                walk(command, f"{path}{name} ")
            if not isinstance(command, click.Group) or command.invoke_without_command:
                found[path + name] = command

    walk(stef.cli.main, "")
    return found


COMMANDS = commands()
SETTING_FLAGS = {row.flag for row in SETTINGS}


def flags(command):
    """The flags of a command that are no settings."""
    options = [item for item in command.params if isinstance(item, click.Option)]
    return {name for option in options for name in option.opts} - SETTING_FLAGS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_flags_of_a_command_are_listed(name):
    """The reference has every flag of every command, and no other."""
    parts = re.split(r"[;:]|\.\s", " ".join(flag_list().split()))
    sentence = next((part for part in parts if f"`{name}` has" in part), "")
    assert flags(COMMANDS[name]) == {code for code in codes(sentence) if code.startswith("--")}


def flag_list():
    """The paragraph that lists the flags."""
    found = re.search(r"Flags beside the settings below:.*?\n\n", TEXT, re.DOTALL)
    assert found is not None
    return found[0]


def test_the_readme_knows_no_other_flag():
    """Whatever looks like a flag is one, of stef or of pip."""
    known = {*SETTING_FLAGS, "--version", "--help", "--require-hashes", "--no-deps", "--no-build-isolation"}
    known |= {flag for command in COMMANDS.values() for flag in flags(command)}
    assert set() == set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) - known


def command_lines():
    """Every line of an example that starts stef."""
    lines = [line for block in blocks("sh", "console") for line in block.text.splitlines()]
    lines += [line for block in blocks("text") for line in block.text.splitlines() if line.startswith("$ ")]
    found = [line.removeprefix("$ ") for line in lines if re.search(r"(?:^|\s)stef ", line)]
    assert found
    return found


@pytest.mark.parametrize("line", dict.fromkeys(command_lines()))
def test_a_command_line_can_be_read(line):
    """Examples that cannot run here (a broker, a model) still name commands and flags that exist."""
    words = shlex.split(re.sub(r"\s>.*", "", line))
    words = words[words.index("stef") + 1 :]
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    context = COMMANDS[name].make_context(name, words[len(name.split()) :])
    assert name.split()[-1] == context.command.name


# ── the examples run ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The examples of the README in their order, in one folder: the commands with what came of them."""
    folder = tmp_path_factory.mktemp("readme")
    bin_folder = tmp_path_factory.mktemp("bin")
    shim = bin_folder / "stef"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stef "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("STEF_")},
        "PYTHONPATH": str(ROOT),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "110",
    }
    done = []
    for block in blocks("console", "yaml", "json", "jsonl"):
        if block.language == "console":
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    command = ["bash", "-c", line[2:]]
                    process = subprocess.run(
                        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
                    )
                    done.append((line[2:], process))
        elif block.file:
            path = folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return done


def test_the_examples_end_well(ran):
    """Every command of the README that needs nothing from outside ends with 0."""
    assert [] == [(line, process.stderr) for line, process in ran if process.returncode != 0]


def test_the_rules_example_moves_the_score_as_told(ran):
    """The worked example of rules says the scores that really come out."""
    told = re.findall(r"`h-1` (?:has a Φ of|has|falls to) (\d+)", TEXT)
    scores = [
        found[1]
        for line, process in ran
        if line == "stef score harbour.jsonl" and (found := re.search(r"^h-1\s+(\d+)", process.stdout, re.MULTILINE))
    ]
    assert told == scores


def test_the_python_example_prints_what_stands_below_it(tmp_path):
    """The example of the library runs and prints the block after it."""
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found[2] == done.stdout


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.file)
def test_a_consumer_in_the_readme_is_one(block, tmp_path):
    """A consumer that a reader copies can be read."""
    path = tmp_path / Path(block.file).name
    path.write_text(block.text, encoding="utf-8")
    read = consume.read(str(path), {})
    assert yaml.safe_load(block.text)["name"] == read.name
    assert set(read.mapping) == set(getattr(consume.wiring.field_mapping(read), "fields", ()))


@pytest.mark.parametrize("path", sorted((ROOT / "consumers").glob("*.yaml")), ids=lambda path: path.name)
def test_a_starter_consumer_can_be_read(path):
    """The consumers that come with stef are right without any environment."""
    assert path.stem == consume.read(str(path), {}).name


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.text.split('"')[7])
def test_rules_in_the_readme_compile_and_fit_the_schema(block):
    """Rules that a reader copies are rules, for stef and for an editor that knows the schema."""
    content = json.loads(block.text)
    assert content["version"] == rulefiles.compile_rules(content).version
    assert [] == list(jsonschema.Draft202012Validator(rulefiles.json_schema()).iter_errors(content))


def test_links_lead_somewhere():
    """Every link within the README has its heading, and every link to a file its file."""
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(([^)\s]+)\)", TEXT)
    assert [] == [link for link in links if link.startswith("#") and link[1:] not in anchors]
    files = [link for link in links if not link.startswith(("#", "https://"))]
    assert [] == [link for link in files if not (ROOT / link).exists()]


# ── exit codes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "arguments", "given"),
    [
        (0, ["score"], '{"question": "How many boats?", "sql": "SELECT COUNT(*) FROM boats"}\n'),
        (1, ["db", "erase", "nobody", "--store", "empty.db"], ""),
        (2, ["compare", "--by", "colour", "results.jsonl"], ""),
        (2, ["score", "--concurrency", "many"], ""),
        (3, ["rules", "check", "no.json"], ""),
        (4, ["compare", "--store", "absent.db"], ""),
        (5, ["score"], "no record\n"),
        (6, ["calibrate", "--store", "empty.db"], ""),
    ],
)
def test_a_command_ends_with_the_code_that_is_told(code, arguments, given, tmp_path):
    """The codes of the README are those that a shell sees."""
    from stef.store import Store

    Store.open(str(tmp_path / "empty.db")).close()
    (tmp_path / "results.jsonl").write_text("", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "stef", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert code == done.returncode, done.stderr
    assert str(code) in [row[0] for row in table("Exit code")]


# ── the schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_schema_file_is_what_the_code_says(name):
    """The schemas in the repository are made from the code."""
    assert tables().schema_text(name) == (ROOT / name).read_text(encoding="utf-8")


def test_every_schema_is_made_by_the_script():
    """No schema is written by hand."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("stef", "rules")
        for path in (ROOT / folder).rglob("*.schema.json")
    }
    assert FILES == set(tables().SCHEMAS) == found


@pytest.fixture(scope="module")
def validator():
    """Checks results."""
    schema = json.loads((ROOT / "stef/resources/result.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Results of a small demo log, with their specs."""
    folder = tmp_path_factory.mktemp("scored")
    demolog.write(str(folder / "log.jsonl"), seed=7, per_version=40)
    done = subprocess.run(
        [sys.executable, "-m", "stef", "score", str(folder / "log.jsonl"), "--json", "--specs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"scored", "skipped"} == {row["outcome"] for row in rows}
    return rows


def test_results_fit_their_schema(scored, validator):
    """Every result, with its specs and without, is what the schema says."""
    bare = [{name: value for name, value in row.items() if name != "spec"} for row in scored]
    assert [] == [error.message for row in (*scored, *bare) for error in validator.iter_errors(row)]


@pytest.mark.parametrize(
    "change",
    [
        {"phi": 101},
        {"phi": "90"},
        {"outcome": "perhaps"},
        {"reason": "mood"},
        {"result_version": 0},
        {"received_at": 5},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_no_result(scored, validator, change):
    """The schema is strict enough to be of use."""
    assert [] != list(validator.iter_errors({**scored[0], **change}))


@pytest.mark.parametrize("name", sorted(field.name for field in fields(result.Evaluation) if field.name != "spec"))
def test_a_result_has_all_its_fields(scored, validator, name):
    """A field that has no value is null and not absent."""
    assert [] != list(validator.iter_errors({key: value for key, value in scored[0].items() if key != name}))


def test_the_starter_rules_fit_the_schema():
    """The rules that come with stef are right for an editor that knows the schema."""
    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "rules/app.schema.json").read_text(encoding="utf-8")))
    files = [path for path in (ROOT / "rules").glob("*.json") if not path.name.endswith(".schema.json")]
    assert files
    assert [] == [
        error.message for path in files for error in schema.iter_errors(json.loads(path.read_text(encoding="utf-8")))
    ]
