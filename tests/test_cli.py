"""The commands, as a user types them."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from stef.cli import main
from stef.result import Outcome, Verdict, from_json

GOOD = {
    "event_id": "good",
    "agent_version": "1",
    "question": "How many boats are moored in Split?",
    "sql": "SELECT COUNT(*) FROM boats WHERE harbour = 'Split' AND state = 'moored'",
}


@pytest.fixture
def stef(tmp_path, monkeypatch):
    """Runs a command in an empty folder, with nothing of stef's in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("STEF_")]:
        monkeypatch.delenv(name)

    def call(*arguments, text=None):
        if text is not None:
            (tmp_path / "given.jsonl").write_text(text, encoding="utf-8")
            arguments = (arguments[0], "given.jsonl", *arguments[1:])
        return CliRunner().invoke(main, [str(part) for part in arguments], prog_name="stef")

    return call


def lines(*records):
    """Records as JSON lines."""
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def results(done):
    """Results that a command printed as JSON lines."""
    return [from_json(line) for line in done.stdout.splitlines()]


# ── score ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_score_reads_a_file_and_prints_json_lines(stef, tmp_path):
    """One result a record, in the order of the file, and nothing else on standard output."""
    (tmp_path / "log.jsonl").write_text(lines(GOOD, {**GOOD, "event_id": "second"}))
    done = stef("score", "log.jsonl", "--json")
    assert (0, ["good", "second"]) == (done.exit_code, [found.event_id for found in results(done)])


def test_score_reads_standard_input_and_gzip(stef, tmp_path):
    """A pipe and a compressed file give the same results as the plain one."""
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(lines(GOOD).encode()))
    packed = results(stef("score", "log.jsonl.gz", "--json"))
    process = start(tmp_path, "score", "--json", stdin=subprocess.PIPE)
    piped, said = process.communicate(lines(GOOD), timeout=60)
    assert 0 == process.returncode, said
    assert packed[0].phi == from_json(piped).phi
    assert Verdict.CORRECT is packed[0].judge.verdict


def test_score_prints_a_table_for_people(stef):
    """Without --json there is a table with the question, and no escape codes in a pipe."""
    done = stef("score", text=lines(GOOD))
    assert "How many boats are moored in Split?" in done.stdout
    assert "\x1b" not in done.stdout


def test_an_empty_log_is_no_error(stef):
    """No record, no result, exit code 0."""
    done = stef("score", "--json", text="")
    assert (0, "") == (done.exit_code, done.stdout)


def test_a_missing_log_is_named(stef):
    """An input that is not there ends with 3 and its name."""
    done = stef("score", "absent.jsonl")
    assert 3 == done.exit_code
    assert "absent.jsonl" in done.stderr


def test_bad_lines_cost_no_good_record(stef):
    """Whatever stands between them, the good records are scored; bad lines are named with their place, exit code 5."""
    deep = "SELECT " + "(" * 10_000 + "1" + ")" * 10_000
    log = lines(
        GOOD,
        "this is no JSON",
        '["a list"]',
        {"question": 5, "sql": {}},
        {**GOOD, "event_id": "large", "sql": "SELECT '" + "x" * 5_000_000 + "'"},
        {**GOOD, "event_id": "deep", "sql": deep},
        {**GOOD, "event_id": "null byte", "question": "How many\x00 boats are moored in Split?"},
        "",
        {**GOOD, "event_id": "last"},
    )
    done = stef("score", "--json", text=log)
    found = {item.event_id: item for item in results(done)}
    assert 5 == done.exit_code
    assert {Verdict.CORRECT} == {found[name].judge.verdict for name in ("good", "null byte", "last")}
    assert ["too_large", "too_deep"] == [found[name].reason for name in ("large", "deep")]
    assert Outcome.FAILED not in {item.outcome for item in found.values()}
    assert 3 == done.stderr.count(", byte ")
    assert "not_json" in done.stderr


def test_a_repeated_record_is_a_duplicate(stef):
    """The same record twice in one file is scored once; another record with its id is scored too."""
    done = stef("score", "--json", text=lines(GOOD, GOOD, {**GOOD, "question": "How many boats are there?"}))
    assert ["scored", "skipped", "scored"] == [item.outcome for item in results(done)]
    assert "duplicate" == results(done)[1].reason


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("score", "--judge", "nobody"), 2, "offline"),
        (("score", "--concurrency", "0"), 2, "1 to 10000"),
        (("score", "--judge", "llm"), 2, "model"),
        (("score", "--app", "absent"), 2, "absent"),
        (("consume", "absent.yaml"), 3, "absent.yaml"),
        (("compare",), 4, "stef.db"),
        (("explain",), 2, "EVENT"),
        (("rules", "check", "absent.json"), 3, "absent.json"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_errors_name_what_is_wrong_and_end_with_their_code(stef, arguments, code, said):
    """Exit codes mean something, and the message names the value or the file."""
    done = stef(*arguments)
    assert code == done.exit_code
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_broken_rules_file_stops_before_the_first_record(stef, tmp_path):
    """The message has file, place, what was found and what is allowed."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "port.json").write_text('{"benign_filter": ["a = 1"]}')
    done = stef("score", text=lines(GOOD))
    assert (3, "") == (done.exit_code, done.stdout)
    assert "rules/port.json: $.benign_filter: found unknown key 'benign_filter'; allowed: benign_filters" in done.stderr


def test_a_broken_prompt_stops_before_the_first_record(stef, tmp_path):
    """A prompt without a variable that the judge fills in is refused with its name."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "judge.md").write_text("---\nname: judge\n---\nJudge {{ nothing }}.\n")
    done = stef("score", "--judge", "llm", "--model", "openai/any", text=lines(GOOD))
    assert (3, "") == (done.exit_code, done.stdout)
    assert "prompts/judge.md" in done.stderr


# ── explain ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_explain_takes_a_record_from_the_command_line(stef):
    """Question and SQL in, both specs, the evidence and the arithmetic out."""
    done = stef("explain", "--question", GOOD["question"], "--sql", GOOD["sql"])
    assert 0 == done.exit_code
    for part in ("Split", "harbour", "matched", "FULL", "What weighed most", "log-odds", "CORRECT", "Φ = B × 10 × Γ"):
        assert part in done.stdout


def test_explain_finds_a_record_in_a_log(stef, tmp_path):
    """With --file the record is looked up by its id; an id that is not there is an error."""
    (tmp_path / "log.jsonl").write_text(lines(GOOD, {**GOOD, "event_id": "other"}))
    done = stef("explain", "other", "--file", "log.jsonl", "--json")
    assert ["other"] == [item.event_id for item in results(done)]
    assert results(done)[0].spec is not None
    assert 3 == stef("explain", "absent", "--file", "log.jsonl").exit_code


def test_what_a_person_sees_is_free_of_control_characters(stef):
    """Escape, bidi and control characters of a log do not reach the terminal."""
    done = stef(
        "explain", "--question", "How many \x1b[31mboats\u202e are there?\x07", "--sql", "SELECT COUNT(*) FROM boats"
    )
    assert 0 == done.exit_code
    assert not {"\x1b", "\u202e", "\x07"} & set(done.stdout)


# ── consume, compare, db ─────────────────────────────────────────────────────────────────────────────────────────────

CONSUMER = """
name: port
source: {kind: file, path: log.jsonl}
sinks:
  - {kind: store, path: port.db}
  - {kind: jsonl, path: out.jsonl}
"""


@pytest.fixture
def consumed(stef, tmp_path):
    """A log of two versions, consumed into a store."""
    bad = "SELECT COUNT(*) FROM boats WHERE harbour = 'Zadar'"
    log = [{**GOOD, "event_id": f"a{i}"} for i in range(3)]
    log += [{**GOOD, "event_id": f"b{i}", "agent_version": "2", "sql": bad} for i in range(3)]
    log += [{**GOOD, "event_id": "refused", "agent_version": "2", "sql": "Which harbour do you mean?"}]
    (tmp_path / "log.jsonl").write_text(lines(*log, "no json"))
    (tmp_path / "port.yaml").write_text(CONSUMER)
    done = stef("consume", "port.yaml")
    assert 0 == done.exit_code, done.output
    return done


def test_consume_stores_results_and_puts_the_rest_aside(consumed, tmp_path):
    """Store, file sink and dead letters hold what belongs to them; the summary counts it."""
    with sqlite3.connect(tmp_path / "port.db") as connection:
        outcomes = dict(connection.execute("SELECT outcome, COUNT(*) FROM evaluations GROUP BY outcome"))
    connection.close()
    assert {"scored": 6, "skipped": 1} == outcomes
    assert 7 == len((tmp_path / "out.jsonl").read_text().splitlines())
    assert 1 == len((tmp_path / "log.dlq.jsonl").read_text().splitlines())
    assert "1 dead letter" in consumed.stderr


def test_consuming_twice_stores_nothing_twice(consumed, stef, tmp_path):
    """The same file again gives duplicates only."""
    again = stef("consume", "port.yaml")
    assert "0 new" in again.stderr
    with sqlite3.connect(tmp_path / "port.db") as connection:
        assert (7,) == connection.execute("SELECT COUNT(*) FROM evaluations").fetchone()
    connection.close()


def test_results_are_never_written_into_the_log(stef, tmp_path):
    """A sink on the source's own file is refused, and the file stays as it is."""
    (tmp_path / "log.jsonl").write_text(lines(GOOD))
    (tmp_path / "port.yaml").write_text(CONSUMER.replace("out.jsonl", "log.jsonl"))
    done = stef("consume", "port.yaml")
    assert (3, lines(GOOD)) == (done.exit_code, (tmp_path / "log.jsonl").read_text())
    assert "which is the source" in done.stderr


def test_check_shows_the_fields_and_stores_nothing(stef, tmp_path):
    """A check reads a few messages, shows what they became, and leaves no trace."""
    (tmp_path / "log.jsonl").write_text(lines(GOOD, "no json"))
    (tmp_path / "port.yaml").write_text(CONSUMER)
    done = stef("consume", "--check", "port.yaml")
    assert 0 == done.exit_code
    for part in ("question", GOOD["question"], "scored", "not_json"):
        assert part in done.stdout
    assert ["log.jsonl", "port.yaml"] == sorted(path.name for path in tmp_path.iterdir())


def test_compare_tells_the_versions_apart(consumed, stef):
    """Figures by version as text and as JSON, from the store."""
    shown = stef("compare", "--store", "port.db")
    assert 0 == shown.exit_code
    assert "Which harbour do you mean?" not in shown.stdout
    found = json.loads(stef("compare", "--store", "port.db", "--json").stdout)
    means = {group["label"]: group["mean"] for group in found["groups"]}
    assert means["1"] > means["2"]
    refusals = {group["label"]: group["refusal_rate"] for group in found["groups"]}
    assert {"1": 0.0, "2": 0.25} == refusals


def test_compare_reads_result_files_and_groups_by_any_field(stef, tmp_path):
    """What `score --json` wrote can be compared without a store; an unknown field names the nearest one."""
    (tmp_path / "results.jsonl").write_text(stef("score", "--json", text=lines(GOOD, {**GOOD, "agent": "x"})).stdout)
    done = stef("compare", "results.jsonl", "--by", "agent", "--json")
    assert {"x", "(none)"} == {group["label"] for group in json.loads(done.stdout)["groups"]}
    wrong = stef("compare", "results.jsonl", "--by", "agnet")
    assert 2 == wrong.exit_code
    assert "agent" in wrong.stderr


def test_explain_finds_a_stored_record(consumed, stef):
    """A record of the store is explained by its id, with its specs."""
    done = stef("explain", "b1", "--store", "port.db")
    assert 0 == done.exit_code
    assert "Zadar" in done.stdout
    assert 4 == stef("explain", "absent", "--store", "port.db").exit_code


def test_db_shows_prunes_and_erases(consumed, stef):
    """Size and counts are shown; one event can be erased, and is then gone; old payloads can be pruned."""
    facts = json.loads(stef("db", "info", "--store", "port.db", "--json").stdout)
    assert (7, 8) == (facts["results"], facts["raw_payloads"] + facts["dead_letters"]["not_json"])
    assert 0 == stef("db", "erase", "a1", "--store", "port.db").exit_code
    assert 6 == json.loads(stef("db", "info", "--store", "port.db", "--json").stdout)["results"]
    assert 1 == stef("db", "erase", "a1", "--store", "port.db").exit_code
    assert 0 == stef("db", "prune", "--before", "0", "--store", "port.db").exit_code
    assert 0 == json.loads(stef("db", "info", "--store", "port.db", "--json").stdout)["raw_payloads"]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rules_check_names_every_wrong_file(stef, tmp_path):
    """Good files are named ok, wrong ones with their place; the exit code is 3 when any is wrong."""
    (tmp_path / "good.json").write_text('{"version": "2", "benign_filters": ["is_test = 0"]}')
    (tmp_path / "wrong.json").write_text('{"week_start": "someday"}')
    done = stef("rules", "check", "good.json", "wrong.json")
    assert 3 == done.exit_code
    assert "good.json: ok (version 2" in done.stdout
    assert "wrong.json: $.week_start" in done.stdout
    found = [
        json.loads(line) for line in stef("rules", "check", "good.json", "wrong.json", "--json").stdout.splitlines()
    ]
    assert [True, False] == [row["ok"] for row in found]


def test_init_writes_starter_files_that_work_and_keeps_what_is_there(stef, tmp_path):
    """The starter consumer runs as it is; a second init leaves edited files alone."""
    assert 0 == stef("init").exit_code
    (tmp_path / "agent-log.jsonl").write_text(lines(GOOD))
    assert 0 == stef("consume", "consumers/jsonl.yaml").exit_code
    edited = tmp_path / "consumers" / "jsonl.yaml"
    edited.write_text("name: mine\n")
    again = stef("init")
    assert "name: mine\n" == edited.read_text()
    assert "left as it is" in again.stdout


def test_demo_log_is_the_same_for_a_seed(stef, tmp_path):
    """The demo can be repeated byte by byte."""
    for name in ("one.jsonl", "two.jsonl"):
        assert 0 == stef("demo-log", name, "--per-version", "30").exit_code
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


# ── as a process ─────────────────────────────────────────────────────────────────────────────────────────────────────


def start(folder, *arguments, stdin=None):
    """Start stef as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "stef", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdin=stdin, stdout=pipe, stderr=pipe, text=True)


def test_a_closed_pipe_is_no_error(stef, tmp_path):
    """`stef score … | head -1` ends quietly."""
    (tmp_path / "log.jsonl").write_text(lines(*({**GOOD, "event_id": str(i)} for i in range(2000))))
    process = start(tmp_path, "score", "log.jsonl", "--json")
    assert "0" == from_json(process.stdout.readline()).event_id
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert 0 == process.wait(60)
    assert "Traceback" not in said


RECORDS = 900


def interrupted(folder, stop):
    """Start a consumer over a log, stop it when some of it is stored, and say what it wrote to standard error."""
    (folder / "log.jsonl").write_text(lines(*({**GOOD, "event_id": f"r{i}"} for i in range(RECORDS))))
    resuming = CONSUMER.replace("path: log.jsonl}", "path: log.jsonl, resume: true}")
    (folder / "port.yaml").write_text(resuming)
    process = start(folder, "consume", "port.yaml")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and stored(folder) < 50:
        time.sleep(0.02)
    stop(process)
    _, said = process.communicate(timeout=60)
    assert 0 < stored(folder) <= RECORDS
    return process.returncode, said


def finished(folder):
    """Start the consumer again and let it come to the end."""
    process = start(folder, "consume", "port.yaml")
    _, said = process.communicate(timeout=120)
    assert 0 == process.returncode, said


def test_killed_in_the_middle_and_started_again_stores_each_record_once(stef, tmp_path):
    """A kill -9 at any time loses nothing and stores nothing twice."""
    interrupted(tmp_path, subprocess.Popen.kill)
    assert stored(tmp_path) < RECORDS
    finished(tmp_path)
    assert RECORDS == stored(tmp_path) == stored(tmp_path, "DISTINCT event_key")


def test_sigterm_drains_and_leaves_the_store_whole(stef, tmp_path):
    """SIGTERM ends with 0 after what is in flight is stored; the next run adds the rest."""
    code, said = interrupted(tmp_path, subprocess.Popen.terminate)
    assert 0 == code, said
    finished(tmp_path)
    assert RECORDS == stored(tmp_path) == stored(tmp_path, "DISTINCT event_key")


def stored(folder, what="*"):
    """Rows in the store, 0 while there is none."""
    try:
        connection = sqlite3.connect(f"file:{folder / 'port.db'}?mode=ro", uri=True)
        try:
            return connection.execute(f"SELECT COUNT({what}) FROM evaluations").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return 0
