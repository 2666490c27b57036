"""What consumers learn: counts in the store's transaction, the epoch that a run is pinned to, and who may read it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from stef import consume, demolog
from stef.catalogue import Learner, Learners, Where, day_of, from_plain, observe, to_plain
from stef.catalogue.learner import ENOUGH_FOR_TEXT
from stef.cli import main
from stef.config import resolve
from stef.errors import StoreError
from stef.pipeline import build
from stef.record import Message
from stef.result import Outcome, Reason, Specs
from stef.store import Entry, Learning, Store
from stef.store.file import writing
from stef.stream.files import FileSource
from stef.survey import Survey
from tests.records import CASES
from tests.sqlcases import spec_of
from tests.streaming import MADE_BY, WHEN, evaluation, failed

ROOT = Path(__file__).parent.parent
LOG = [json.loads(line) for line in (CASES / "log" / "harbour.jsonl").read_text(encoding="utf-8").splitlines()]
SPECS = [spec_of(row["sql"]) for row in LOG]
HERE = Where("", "harbour")


def scored(key, question, spec, **more):
    """A scored evaluation of a harbour record."""
    given = {"database": "harbour", "content_digest": key, "asked_at": WHEN, **more}
    return evaluation(key, question=question, spec=Specs(sql=spec), **given)


HARBOUR = [scored(f"e{n}", row["question"], spec) for n, (row, spec) in enumerate(zip(LOG, SPECS, strict=True))]
OWNER = "SELECT b.name FROM boats b WHERE b.owner = 'Zwetschge'"


def entry(*evaluations, **more):
    """What one message came to."""
    return Entry(namespace="n", evaluations=evaluations, **more)


@pytest.fixture
def store(tmp_path):
    """An empty store that learns."""
    with Store.open(str(tmp_path / "s.db"), learning=Learning()) as opened:
        yield opened


def counted(store, **more):
    """What a store has counted, as plain values."""
    return to_plain(store.catalogues(Learning(**more)).learners())


def surveyed(path):
    """What a first pass over a log counts."""
    survey, source = Survey(build(resolve({"rules": str(ROOT / "rules")}))), FileSource(str(path))
    try:
        ended = False
        while not ended:
            polled = source.poll(1.0, 500)
            survey.add(polled.messages)
            ended = polled.ended
    finally:
        source.close()
    return survey


# ── counting ──


@pytest.mark.parametrize("seed", range(3))
def test_a_store_counts_what_a_learner_counts(store, seed):
    """However results are cut into batches and ordered, the store holds what one learner would."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    again = [scored(f"{item.event_key}-b", item.question, item.spec.sql) for item in HARBOUR[:9]]
    mixed = [*HARBOUR, *again]
    chance.shuffle(mixed)
    learner = Learner()
    for item in mixed:
        learner.add(observe(item.spec.sql, item.question, day=day_of(WHEN)))
    while mixed:
        size = chance.randint(1, 7)
        store.write([entry(item) for item in mixed[:size]])
        del mixed[:size]
    found = store.catalogues(Learning()).learners().learners
    assert [HERE] == list(found)
    assert (learner.digest(), learner.users) == (found[HERE].digest(), found[HERE].users)


def test_a_record_counts_once(store):
    """Neither a second delivery, nor another scoring configuration, nor a failure before it counts a record again."""
    one, spec = HARBOUR[0], SPECS[0]
    store.write([entry(failed("e0", content_digest="e0", spec=one.spec)), entry(one), entry(one)])
    store.write([entry(one)])
    store.write([entry(scored("e0", one.question, spec, scoring_config="other"))])
    (question,) = counted(store)["databases"][0]["questions"]
    assert (1, day_of(WHEN)) == (question["answers"], question["day"])
    store.write([entry(scored("e0", one.question, spec, content_digest="another record"))])
    assert 2 == counted(store)["databases"][0]["questions"][0]["answers"]


def test_only_scored_records_count(store):
    """A record that was skipped or failed shows nothing, whatever could be read of it."""
    given = dict.fromkeys(("phi", "band", "score"))
    skipped = scored("a", "q", SPECS[0], outcome=Outcome.SKIPPED, reason=Reason.NO_SQL, **given)
    store.write([entry(skipped), entry(failed("b", spec=HARBOUR[0].spec))])
    assert [] == counted(store)["databases"]


def test_a_record_without_a_time_of_its_own_has_that_of_its_message(store):
    """The day is when it was asked, else when the message was sent; without both it has none."""
    sent = Message(value=b"x", timestamp=WHEN + timedelta(days=3))
    store.write([entry(scored("a", "One", SPECS[0], asked_at=None), message=sent)])
    store.write([entry(scored("b", "Two", SPECS[0], asked_at=None))])
    days = {question["day"] for question in counted(store)["databases"][0]["questions"]}
    assert {day_of(WHEN) + 3, None} == days


def test_a_store_that_does_not_learn_counts_nothing(tmp_path):
    """Learning is asked for."""
    with Store.open(str(tmp_path / "s.db")) as store:
        store.write([entry(item) for item in HARBOUR])
        assert [] == counted(store)["databases"]


def test_counts_and_results_stand_in_one_transaction(store):
    """When the counts cannot be written, no result of the batch is."""
    with closing(sqlite3.connect(store.path)) as raw:
        raw.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON catalogue_questions BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    with pytest.raises(StoreError, match="refused"):
        store.write([entry(item) for item in HARBOUR])
    assert (0, []) == (store.count(), counted(store)["databases"])


def test_another_key_is_another_catalogue(store):
    """What was counted under one key is neither seen nor added to under another."""
    store.write([entry(HARBOUR[0])])
    secret = Learning(key="secret")
    assert (False, True) == (
        store.catalogues(Learning()).is_of_another_key(),
        store.catalogues(secret).is_of_another_key(),
    )
    with Store.open(store.path, learning=secret) as other:
        other.write([entry(scored("later", "Another", SPECS[1]))])
    assert [1, 1] == [len(counted(store, key=key)["databases"][0]["questions"]) for key in ("", "secret")]
    assert (
        counted(store)["databases"][0]["questions"][0]["question"]
        != (counted(store, key="secret")["databases"][0]["questions"][0]["question"])
    )
    assert None is store.catalogues(Learning(key="third")).epoch(days=0, take=True)


# ── values ──


def in_the_file(store, text):
    """Whether a text stands anywhere in the file, beside results and messages."""
    with closing(sqlite3.connect(store.path)) as raw:
        raw.execute("DELETE FROM evaluations")
        raw.execute("DELETE FROM payloads")
        raw.commit()
        raw.execute("VACUUM")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return any(text.encode() in file.read_bytes() for file in Path(store.path).parent.iterdir())


@pytest.mark.parametrize(
    ("questions", "expected"), [(ENOUGH_FOR_TEXT - 1, False), (ENOUGH_FOR_TEXT, True)], ids=["few", "enough"]
)
def test_a_literal_is_text_in_the_file_only_after_enough_questions(store, questions, expected):
    """Before five distinct questions used a value the file holds a hash, however often they were asked."""
    spec = spec_of(OWNER)
    for turn in range(3):
        store.write([entry(scored(f"{turn}-{n}", f"Boats, take {n}", spec)) for n in range(questions)])
    store.catalogues(Learning()).epoch(days=0, take=True)
    assert expected is in_the_file(store, "Zwetschge")


# ── bounds ──


def rows(store, table):
    """How many rows a table has."""
    with closing(sqlite3.connect(store.path)) as raw:
        return raw.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


def test_a_question_that_is_repeated_endlessly_is_one_row(store):
    """100,000 answers to one question, each with another column, leave one row of bounded size."""
    catalogues, now = store.catalogues(Learning()), datetime.now(UTC)
    specs = [spec_of(f"SELECT b.c{n} FROM boats AS b") for n in range(500)]
    batch = [(scored("x", "Boats", spec), WHEN) for spec in specs]
    for _ in range(200):
        with writing(store._engine) as connection:
            catalogues.count(connection, batch, now)
    (question,) = counted(store)["databases"][0]["questions"]
    assert (1, 100_000, 400) == (rows(store, "catalogue_questions"), question["answers"], len(question["items"]))
    assert store.size() < 6_000_000


def test_the_questions_of_a_database_are_bounded(tmp_path):
    """Beyond the limit the least asked questions go, with the values that only they used; the usual one stays."""
    with Store.open(str(tmp_path / "s.db"), learning=Learning(most=20)) as store:
        usual = spec_of("SELECT b.name FROM boats AS b")
        for number in range(120):
            rare = spec_of(f"SELECT b.name FROM boats b WHERE b.owner = 'O{number}' AND b.port = 'Turku'")
            given = (scored(f"a{number}", f"Question {number}", rare), scored(f"b{number}", "The usual one", usual))
            store.write([entry(item) for item in given])
        learner = store.catalogues(Learning(most=20)).learners().learners[HERE]
        assert 20 <= len(learner.questions) <= 22
        assert 120 == max(tally.answers for tally in learner.questions.values())
        assert sum(count > 0 for count in learner.users.values()) == rows(store, "catalogue_values")
        assert ["Turku"] == list(learner.texts.values())


def test_pruning_results_prunes_what_they_have_shown(store):
    """Questions that were last counted before the moment go, and the epoch that rests on them; others stay."""
    store.write([entry(item) for item in HARBOUR])
    catalogues, now = store.catalogues(Learning()), datetime.now(UTC)
    catalogues.epoch(days=30, take=True)
    assert 0 == store.prune(now + timedelta(minutes=1)).questions
    assert 0 == store.prune(now - timedelta(minutes=1), results=True).questions
    assert len({item.question for item in HARBOUR}) == store.prune(now + timedelta(minutes=1), results=True).questions
    assert ([], 0, 0) == (
        counted(store)["databases"][0]["questions"],
        rows(store, "catalogue_values"),
        rows(store, "catalogue_epochs"),
    )


# ── epochs ──


def test_an_epoch_serves_until_it_is_old_or_the_questions_have_doubled(store):
    """Runs that start within its days share it, so that their results can be compared."""
    catalogues = store.catalogues(Learning())
    assert catalogues.epoch(days=30, take=True) is None
    store.write([entry(item) for item in HARBOUR[:8]])
    first = catalogues.epoch(days=30, take=True)
    store.write([entry(item) for item in HARBOUR[8:12]])
    assert (8, first.digest) == (first.questions, catalogues.epoch(days=30, take=True).digest)
    assert 12 == catalogues.epoch(days=0, take=False).questions
    assert first.digest == catalogues.epoch(days=30, take=True).digest
    store.write([entry(item) for item in HARBOUR[12:20]])
    assert 20 == catalogues.epoch(days=30, take=True).questions
    store.write([entry(HARBOUR[20])])
    assert 21 == catalogues.epoch(days=0, take=True).questions
    assert 21 == catalogues.epoch(days=30, take=True).questions


def test_an_epoch_is_what_was_counted(store):
    """Its digest is that of a catalogue with the same counts, also when it comes out of the file again."""
    store.write([entry(item) for item in HARBOUR])
    learners = Learners()
    for item in HARBOUR:
        learners.add(HERE, observe(item.spec.sql, item.question, day=day_of(WHEN)))
    catalogues = store.catalogues(Learning())
    found = [catalogues.epoch(days=30, take=True).digest for _ in range(2)]
    assert [learners.freeze().digest] * 2 == found


def test_what_is_imported_is_used_at_the_next_start(store):
    """A list of tables does not wait until the epoch is old."""
    store.write([entry(item) for item in HARBOUR])
    catalogues = store.catalogues(Learning())
    before = catalogues.epoch(days=30, take=True)
    given = Learners()
    given.of(HERE).declare({"boats": ["id", "name"]})
    catalogues.merge(given)
    after = catalogues.epoch(days=30, take=True)
    assert {"boats": frozenset({"id", "name"})} == dict(after.catalogues[HERE].declared)
    assert before.catalogues[HERE].used == after.catalogues[HERE].used


def test_a_merged_catalogue_goes_on_counting(store):
    """What was counted elsewhere and what is counted here make one."""
    elsewhere, whole = Learners(), Learners()
    for number, item in enumerate(HARBOUR):
        seen = observe(item.spec.sql, item.question, day=day_of(WHEN))
        whole.add(HERE, seen)
        if number < 10:
            elsewhere.add(HERE, seen)
    store.catalogues(Learning()).merge(from_plain(to_plain(elsewhere)))
    store.write([entry(item) for item in HARBOUR[10:]])
    assert to_plain(whole) == counted(store)
    with pytest.raises(ValueError, match="different keys"):
        store.catalogues(Learning()).merge(_of_another_key())


def _of_another_key():
    learners = Learners("other")
    learners.add(HERE, observe(SPECS[0], "q", key="other"))
    return learners


def test_an_answer_of_an_earlier_epoch_answers_a_second_delivery(store):
    """A record is not scored again because the catalogue moved on; sinks get the result that the store holds."""
    plain = replace(MADE_BY, basis="basis")
    store.write([entry(evaluation(provenance=plain, scoring_config="basis", phi=80))])
    assert {("e1", "digest")} == store.known("n", [("e1", "digest")], "basis")
    nothing = dict.fromkeys(("phi", "score", "band"))
    again = evaluation(
        provenance=plain, scoring_config="later", outcome=Outcome.SKIPPED, reason=Reason.DUPLICATE, **nothing
    )
    assert [80] == [item.evaluation.phi for item in store.write([entry(again)], echo=True).kept]


# ── migration ──


def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path):
    """The second migration adds what is missing, and results from before it still answer second deliveries."""
    path = str(tmp_path / "s.db")
    with Store.open(path) as store:
        store.write([entry(evaluation())])
    with closing(sqlite3.connect(path)) as raw:
        for table in ("catalogues", "catalogue_questions", "catalogue_values", "catalogue_epochs"):
            raw.execute(f"DROP TABLE {table}")
        raw.execute("ALTER TABLE evaluations DROP COLUMN basis")
        raw.execute("DELETE FROM stef_migrations WHERE name = '0002_catalogue'")
        raw.commit()
    with Store.open(path, learning=Learning()) as store:
        assert {("e1", "digest")} == store.known("n", [("e1", "digest")], "config")
        store.write([entry(HARBOUR[0])])
        assert (2, 1) == (store.count(), len(counted(store)["databases"]))


# ── consumers ──


@pytest.fixture
def consumer(tmp_path):
    """Writes the file of a consumer over a log, and reads it."""

    def one(log, **more):
        given = {
            "source": {"kind": "file", "path": str(tmp_path / log)},
            "rules": {"folder": str(ROOT / "rules")},
            "sinks": [{"kind": "store", "path": str(tmp_path / "s.db")}],
            "limits": {"batch": 10},
            **more,
        }
        path = tmp_path / "consumer.yaml"
        path.write_text(json.dumps(given))
        return consume.read(str(path), {})

    return one


def run(consumer, **flags):
    """Run it to its end."""
    return asyncio.run(consume.run(consumer, resolve(flags, file=consumer.settings()), signals=False))


def test_a_consumer_counts_what_a_survey_counts(consumer, tmp_path):
    """One run over a log learns exactly what the first pass of `stef score` does."""
    demolog.write(tmp_path / "log.jsonl", per_version=40)
    run(consumer("log.jsonl"))
    with Store.open(str(tmp_path / "s.db")) as store:
        assert to_plain(surveyed(tmp_path / "log.jsonl").learners) == counted(store)


def test_the_second_run_is_pinned_to_what_the_first_has_seen(consumer, tmp_path):
    """Its results carry the epoch's digest; the first run had none, and a second delivery changes nothing."""
    for seed, name in enumerate(("one.jsonl", "two.jsonl")):
        demolog.write(tmp_path / name, seed=seed, per_version=10)
    run(consumer("one.jsonl"))
    seen = surveyed(tmp_path / "one.jsonl").freeze()
    assert (30, 0) == (run(consumer("one.jsonl")).duplicates, run(consumer("one.jsonl")).new)
    assert 30 == run(consumer("two.jsonl")).new
    with Store.open(str(tmp_path / "s.db")) as store:
        pinned = [(row.provenance.catalogue, row.scoring_config == row.provenance.basis) for row in store.rows()]
    assert [("", True)] * 30 + [(seen.digest, False)] * 30 == pinned


def test_a_consumer_says_how_much_its_catalogue_rests_on(consumer, tmp_path):
    """The gauge is 0 in the first run, then the number of distinct questions."""
    demolog.write(tmp_path / "log.jsonl", per_version=10)
    given = consumer("log.jsonl")

    async def measured():
        async with consume.wired(given, resolve(file=given.settings())) as running:
            await running.loop.run()
            return running.metrics.value("stef_catalogue_questions")

    found = [asyncio.run(measured()) for _ in range(2)]
    assert [0, surveyed(tmp_path / "log.jsonl").freeze().questions] == found


@pytest.mark.parametrize("use", ["none", "store"])
def test_a_consumer_learns_only_when_it_is_to(consumer, tmp_path, use):
    """`none` neither uses nor adds; `store` uses what is there and adds nothing."""
    for seed, name in enumerate(("one.jsonl", "two.jsonl")):
        demolog.write(tmp_path / name, seed=seed, per_version=10)
    run(consumer("one.jsonl"))
    with Store.open(str(tmp_path / "s.db")) as store:
        before, seen = counted(store), store.catalogues(Learning()).epoch(days=0, take=False).digest
    run(consumer("two.jsonl", catalogue={"use": use}))
    with Store.open(str(tmp_path / "s.db")) as store:
        found = {row.provenance.catalogue for row in store.rows()}
        assert before == counted(store)
    assert {"none": {""}, "store": {"", seen}}[use] == found


def test_a_consumer_can_be_pinned_to_a_file(consumer, tmp_path):
    """A file keeps the scoring configuration the same for as long as it stays the same."""
    demolog.write(tmp_path / "log.jsonl", per_version=10)
    learners = surveyed(tmp_path / "log.jsonl").learners
    (tmp_path / "known.json").write_text(json.dumps(to_plain(learners)))
    run(consumer("log.jsonl", catalogue={"use": str(tmp_path / "known.json")}))
    with Store.open(str(tmp_path / "s.db")) as store:
        assert {learners.freeze().digest} == {row.provenance.catalogue for row in store.rows()}
        assert [] == counted(store)["databases"]


def test_another_catalogue_file_scores_records_again(consumer, tmp_path):
    """A file is the operator's choice, as rules are; an epoch that comes by itself is not."""
    demolog.write(tmp_path / "log.jsonl", per_version=10)
    known = to_plain(surveyed(tmp_path / "log.jsonl").learners)
    (tmp_path / "known.json").write_text(json.dumps(known))
    found = [run(consumer("log.jsonl", catalogue={"use": use})).new for use in ("auto", "auto", "none")]
    found += [run(consumer("log.jsonl", catalogue={"use": str(tmp_path / "known.json")})).new for _ in range(2)]
    assert [30, 0, 0, 30, 0] == found
    with Store.open(str(tmp_path / "s.db")) as store:
        assert known == counted(store)


def started(path):
    """`stef consume` as a process of its own."""
    command = [sys.executable, "-m", "stef", "consume", str(path), "--log-level", "error"]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)


def stored(path):
    """How many results another process has written; 0 while there is no store."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as raw:
            return raw.execute("SELECT COUNT(*) FROM evaluations").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_a_killed_consumer_counts_like_one_that_was_left_alone(consumer, tmp_path):
    """After kill -9 in the middle, twice, and a restart, the counts are those of an undisturbed run."""
    demolog.write(tmp_path / "log.jsonl", per_version=70)
    consumer("log.jsonl")
    for least in (30, 90):
        with started(tmp_path / "consumer.yaml") as process:
            end = time.monotonic() + 120
            while stored(tmp_path / "s.db") < least and time.monotonic() < end:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
    assert 90 <= stored(tmp_path / "s.db") < 210
    with started(tmp_path / "consumer.yaml") as process:
        assert (0, b"210 messages") == (process.wait(120), process.stderr.read()[:12])
    with Store.open(str(tmp_path / "s.db")) as store:
        assert 210 == store.count()
        assert to_plain(surveyed(tmp_path / "log.jsonl").learners) == counted(store)


# ── command line ──

ODD = {"question": "Boats in Spain", "sql": "SELECT b.name FROM boats AS b WHERE b.country = 'Spain'"}
MISPLACED = "boats is not known to have country; ports has it"


@pytest.fixture
def stef(tmp_path, monkeypatch):
    """Run a command in a folder whose store has learned the harbour log."""
    monkeypatch.chdir(tmp_path)
    with Store.open("stef.db", learning=Learning()) as store:
        store.write([entry(item) for item in HARBOUR])
    Path("odd.jsonl").write_text(json.dumps({"event_id": "odd", "database": "harbour", **ODD}) + "\n")

    def start(*arguments):
        done = CliRunner().invoke(main, [*arguments, "--log-level", "error"])
        return done.exit_code, done.output

    return start


def test_the_stores_catalogue_is_shown_and_exported(stef):
    """Without a file both commands are about the store."""
    code, shown = stef("catalogue", "show", "--json")
    assert (0, ["boats", "ports", "visits"]) == (code, sorted(json.loads(line)["table"] for line in shown.splitlines()))
    assert "country" in json.loads(stef("catalogue", "export")[1])["tables"]["ports"]


def test_a_list_of_tables_is_imported_into_the_store(stef):
    """Without a file import is about the store, also one that is not there yet."""
    Path("schema.csv").write_text("table,column\nboats,name\nboats,country\nports,country\n", encoding="utf-8")
    for path in ("stef.db", "new.db"):
        assert 0 == stef("catalogue", "import", "schema.csv", "--database", "harbour", "--store", path)[0]
        boats = next(json.loads(line) for line in stef("catalogue", "show", "--json", "--store", path)[1].splitlines())
        assert "country" in boats["columns"]


@pytest.mark.parametrize("given", [("score", "odd.jsonl"), ("explain", "odd", "--file", "odd.jsonl")])
def test_score_and_explain_can_use_the_stores_catalogue(stef, given):
    """`store` stands for what consumers have learned; `auto` is the file's own, which here shows nothing."""
    found = {use: stef(*given, "--json", "--catalogue", use) for use in ("auto", "none", "store")}
    assert {0} == {code for code, _ in found.values()}
    assert [False, False, True] == [MISPLACED in output for _, output in found.values()]


def test_explain_holds_what_is_typed_against_the_store(stef):
    """A record on the command line is explained with what the store knows of its database, if there is a store."""
    assert 0 == stef("explain", "--question", ODD["question"], "--sql", ODD["sql"], "--json")[0]
    found = json.loads(stef("explain", "--question", ODD["question"], "--sql", ODD["sql"], "--json")[1])
    assert found["provenance"]["catalogue"] != ""
    away = stef("explain", "--question", ODD["question"], "--sql", ODD["sql"], "--json", "--store", "none.db")
    assert (0, "") == (away[0], json.loads(away[1])["provenance"]["catalogue"])
    assert not Path("none.db").exists()


@pytest.mark.parametrize(
    "given", [("catalogue", "show"), ("catalogue", "export"), ("score", "odd.jsonl", "--catalogue", "store")]
)
def test_another_key_opens_no_catalogue_of_a_store(stef, given):
    """Marks of another key would match nothing, without a word."""
    code, output = stef(*given, "--catalogue-key", "other")
    assert (4, True) == (code, "stef.db: found a catalogue that was made with another key" in output)
