"""What a log teaches: counting, leaving the own question out, and the lessons (cases in `tests/cases/learned`)."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.apprules import NO_RULES
from stef.catalogue import (
    Epoch,
    Learner,
    Learners,
    Where,
    declared,
    declared_rows,
    from_plain,
    observe,
    question_digest,
    to_plain,
)
from stef.catalogue.learner import ENOUGH_FOR_TEXT, HALF_LIFE
from stef.catalogue.observation import COLUMN, LINK, TABLE, VALUE
from stef.cli import main
from stef.config import resolve
from stef.evidence import Facts
from stef.evidence.learned import LESSONS, learned
from stef.evidence.shown import Shown
from stef.pipeline import build
from stef.record import Message, QueryRecord
from stef.result import Alignment, Category
from stef.spec import ColumnUse, QuerySpec, Role, Source
from stef.survey import Survey
from stef.timespan import Calendar
from stef.understand import understand
from tests.records import CASES, KNOWN, load
from tests.sqlcases import spec_of

ROOT = Path(__file__).parent.parent
LOG = [json.loads(line) for line in (CASES / "log" / "harbour.jsonl").read_text(encoding="utf-8").splitlines()]
SEEN = [observe(spec_of(row["sql"]), row["question"]) for row in LOG]
ODD = ("Boats in Spain", "SELECT b.name FROM boats AS b WHERE b.country = 'Spain'")


def learner(seen=SEEN, **more):
    """A learner that has counted these observations."""
    found = Learner(**more)
    for one in seen:
        found.add(one)
    return found


def facts(question, sql):
    """Facts of a statement that nothing else is known of."""
    spec = spec_of(sql)
    nothing = QuerySpec(source=Source.QUESTION)
    return Facts(
        asked=nothing,
        asked_text=question,
        question_text=question,
        expansion_text="",
        sql=spec,
        normalized=spec,
        alignment=Alignment(category=Category.FULL),
        rules=NO_RULES,
    )


def records(rows=LOG, **more):
    """A log as JSON lines."""
    return "".join(json.dumps({"event_id": f"e{i}", **row, **more}) + "\n" for i, row in enumerate(rows))


# ── lessons ──


@pytest.mark.parametrize("case", load("learned"))
def test_a_lesson_says_what_its_case_says(case):
    """Exactly the numbers of the case, to two places, and exactly its sentences."""
    extra = [observe(spec_of(row["sql"]), row["question"]) for row in case.get("log", ())]
    counted = learner([*SEEN, *extra])
    counted.declare(case.get("declared", {}))
    catalogue = counted.freeze()
    own = observe(spec_of(case["sql"]), case["question"])
    lesson = next(item for item in LESSONS if item.__name__ == case["rule"])
    found = list(lesson(Shown(catalogue.without(own.question), own, case["question"])))
    numbers = {}
    for signal in found:
        numbers[signal.feature] = round(numbers.get(signal.feature, 0.0) + signal.value, 2) + 0.0
    assert case["features"] == numbers
    assert case["told"] == [signal.detail for signal in found if signal.detail]


def test_each_lesson_has_a_case_file():
    """A lesson without cases is not tested."""
    assert {lesson.__name__ for lesson in LESSONS} == {path.stem for path in (CASES / "learned").glob("*.jsonl")}


def test_every_feature_is_marked_as_learned_and_is_a_small_number():
    """The model can tell what comes from the log, and no feature grows with it."""
    for row in [{"question": ODD[0], "sql": ODD[1]}, *LOG]:
        features = learned(facts(row["question"], row["sql"]), learner().freeze()).features
        assert features
        assert all(name.startswith("log_") and -12.0 <= value <= 12.0 for name, value in features.items())


def test_nothing_is_said_before_enough_was_seen():
    """A young log knows nothing, and what is unknown is absent."""
    assert {} == learned(facts(*ODD), learner(SEEN[:5]).freeze()).features
    assert {} == learned(facts(*ODD), None).features


def test_a_log_of_double_size_says_the_same():
    """Features are shares: asking everything again in other words moves none that counts columns and joins."""
    twice = [*SEEN, *(replace(one, question=f"{one.question}x") for one in SEEN)]
    one, two = (learned(facts(*ODD), learner(seen).freeze()).features for seen in (SEEN, twice))
    names = [name for name in one if name.startswith(("log_column", "log_table", "log_link", "log_route", "log_role"))]
    assert names
    assert {name: one[name] for name in names} == {name: two[name] for name in names}


# ── the own question ──


@settings(max_examples=30, deadline=None)
@given(times=st.integers(1, 4), place=st.integers(0, len(LOG) - 1), other=st.integers(0, len(LOG) - 1))
def test_the_own_question_never_counts(times, place, other):
    """However often a question was answered, by whatever statement, a record with that question sees nothing of it."""
    row, sql = LOG[place], LOG[other]["sql"]
    others = [one for one in SEEN if one.question != SEEN[place].question]
    own = [observe(spec_of(sql), f" {row['question'].upper()}?")] * times
    without = learned(facts(row["question"], row["sql"]), learner(others).freeze())
    assert without == learned(facts(row["question"], row["sql"]), learner([*others, *own]).freeze())


def test_questions_are_the_same_without_regard_to_case_space_and_marks():
    """A question that is typed again is the same question."""
    assert question_digest("How many  boats?") == question_digest(" how many boats ")
    assert question_digest("How many boats?") != question_digest("How many ports?")


def test_answers_of_one_question_share_its_weight():
    """Nine versions that answer one question count as one question between them."""
    counted = learner([observe(spec_of(f"SELECT b.{name} FROM boats AS b"), "Boats") for name in "aab"])
    view = counted.freeze().without("")
    assert 1.0 == view.used((TABLE, "boats"))
    assert (0.666666, 0.333333) == tuple(view.used((COLUMN, "boats", name)) for name in "ab")


# ── names, order, age ──

_RENAMED = {"boats": "zz_kutter", "ports": "hafen", "visits": "m_calls"}


def renamed(sql):
    """A statement with other names of tables."""
    for old, new in _RENAMED.items():
        sql = sql.replace(f"FROM {old} ", f"FROM {new} ").replace(f"JOIN {old} ", f"JOIN {new} ")
    return sql


@pytest.mark.parametrize("row", [{"question": ODD[0], "sql": ODD[1]}, *LOG])
def test_names_of_tables_change_no_feature(row):
    """Whatever tables are called, the features are the same; names of applications and databases are no input."""
    other = learner([observe(spec_of(renamed(one["sql"])), one["question"]) for one in LOG]).freeze()
    before = learned(facts(row["question"], row["sql"]), learner().freeze()).features
    assert before == learned(facts(row["question"], renamed(row["sql"])), other).features


def test_a_record_sees_the_catalogue_of_its_own_application_and_database():
    """The same database name in another application is another database, and a name decides nothing else."""
    learners = Learners()
    for app in ("north", "south"):
        for one in SEEN:
            learners.add(Where(app, "harbour"), one)
    epoch = learners.freeze()
    assert epoch.of("north", "harbour").digest == epoch.of("south", "harbour").digest
    assert epoch.of(None, "harbour") is None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_observations_does_not_matter(seed):
    """A log gives one catalogue, however its partitions are read."""
    mixed = [*SEEN, *SEEN[:7]]
    random.Random(seed).shuffle(mixed)  # noqa: S311 - an order, no secret
    assert learner([*SEEN, *SEEN[:7]]).freeze().digest == learner(mixed).freeze().digest


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, len(SEEN)))
def test_merging_two_halves_gives_the_whole(cut):
    """What two processes counted is what one would have counted."""
    left, right = learner(SEEN[:cut]), learner(SEEN[cut:])
    left.merge(right)
    assert learner().freeze().digest == left.freeze().digest


def test_old_questions_count_less():
    """After the half-life a question counts half, and never changes what age is counted from."""
    old, new = (replace(SEEN[i], day=day) for i, day in ((3, 1000), (4, 1000 + HALF_LIFE)))
    view = learner([old, new]).freeze(1000 + HALF_LIFE).without("")
    assert 1.5 == view.used((TABLE, "boats"))
    assert 2.0 == learner([old, new]).freeze().without("").used((TABLE, "boats"))


# ── bounds ──


def test_the_number_of_questions_is_bounded_and_the_least_used_go():
    """Memory does not grow with the log; questions that are asked again stay."""
    counted = Learner(most=20)
    for number in range(300):
        counted.add(observe(spec_of("SELECT b.name FROM boats AS b"), f"Question {number}"))
        counted.add(observe(spec_of("SELECT b.kind FROM boats AS b"), "The usual one"))
    assert 20 <= len(counted.questions) <= 22
    assert question_digest("The usual one") in counted.questions


def test_the_answers_of_one_question_are_bounded():
    """One question with endless different answers does not fill the memory."""
    counted = Learner()
    for number in range(600):
        counted.add(observe(spec_of(f"SELECT b.c{number} FROM boats AS b"), "Boats"))
    assert 400 == len(counted.questions[question_digest("Boats")].items)


# ── values ──


def value_log(count):
    """A log in which so many questions compare with one value."""
    return learner(
        [observe(spec_of("SELECT b.name FROM boats b WHERE b.owner = 'Ada'"), f"q {n}") for n in range(count)]
    )


def test_a_value_is_text_only_after_enough_questions_used_it():
    """A rare value may be a person; before five questions used it only its keyed mark is kept."""
    assert [] == list(value_log(ENOUGH_FOR_TEXT - 1).texts.values())
    assert ["Ada"] == list(value_log(ENOUGH_FOR_TEXT).texts.values())
    assert "Ada" not in json.dumps(to_plain_of(value_log(ENOUGH_FOR_TEXT - 1)))


def test_words_of_questions_are_never_kept_as_text():
    """Questions hold names as well."""
    text = json.dumps(to_plain_of(learner()))
    assert "halcyon" not in text.lower()


def test_one_question_that_is_asked_often_does_not_give_its_value_away():
    """Distinct questions count, and not records."""
    seen = observe(spec_of("SELECT b.name FROM boats b WHERE b.owner = 'Ada' OR b.captain = 'Ada'"), "Ada's boats")
    assert {} == learner([seen] * 20).texts


def test_marks_depend_on_the_key():
    """Whoever has no key cannot try values."""
    spec = spec_of("SELECT b.name FROM boats b WHERE b.owner = 'Ada'")
    one, two = (next(i for i in observe(spec, "q", key=key).items if i[0] == VALUE) for key in ("a", "b"))
    assert one[:3] == two[:3]
    assert one[3:] != two[3:]


# ── JSON ──


def to_plain_of(counted):
    """The JSON of a single database."""
    learners = Learners(counted.key)
    learners.learners[Where("harbour-app", "harbour")] = counted
    return to_plain(learners)


def test_a_catalogue_round_trips_through_json():
    """What was written is read back, down to the digest, and can be counted on."""
    counted = learner()
    counted.declare({"ports": ["id", "name"]})
    back = from_plain(json.loads(json.dumps(to_plain_of(counted))))
    again = back.learners[Where("harbour-app", "harbour")]
    assert counted.freeze().digest == again.freeze().digest
    for one in SEEN:
        counted.add(one)
        again.add(one)
    assert counted.freeze().digest == again.freeze().digest


@pytest.mark.parametrize("plain", [{}, {"stef_catalogue": 9}, {"stef_catalogue": 1, "key": "x", "databases": []}])
def test_what_is_no_catalogue_is_refused(plain):
    """Another format, version or key is named, and never half read."""
    with pytest.raises(ValueError, match="allowed"):
        from_plain(plain)


@pytest.mark.parametrize(
    "plain",
    [
        {"boats": ["id", "name"]},
        {"tables": {"boats": ["id", "name"]}},
        [{"table": "boats", "column": "id"}, {"table": "boats", "column": "name"}],
    ],
)
def test_a_list_of_tables_is_read_in_the_forms_that_people_have(plain):
    """An object, an object under `tables`, or rows."""
    assert {"boats": ["id", "name"]} == declared(plain)


def test_lines_of_table_and_column_are_read():
    """With a heading or without."""
    assert {"boats": ["id", "name"]} == declared_rows("table_name,column_name\nboats,id\nboats,name\n")
    with pytest.raises(ValueError, match="table,column"):
        declared_rows("boats")


# ── SQL ──


@pytest.mark.parametrize(
    ("sql", "uses", "links"),
    [
        (
            "SELECT a.x FROM t AS a JOIN s.u AS b ON a.id = b.t_id",
            {("t", "x", "projected"), ("t", "id", "joined"), ("s.u", "t_id", "joined")},
            {("s.u.t_id", "t.id")},
        ),
        (
            "SELECT a.x FROM t a, u b WHERE a.id = b.id",
            {("t", "x", "projected"), ("t", "id", "joined"), ("u", "id", "joined")},
            {("t.id", "u.id")},
        ),
        (
            "WITH c AS (SELECT id, SUM(v) AS total FROM t GROUP BY id) SELECT total FROM c ORDER BY id",
            {("t", "id", "passed"), ("t", "v", "aggregated"), ("t", "id", "grouped"), ("t", "id", "ordered")},
            set(),
        ),
        (
            "SELECT COUNT(*) AS n FROM t WHERE k IN (SELECT j FROM u) ORDER BY n",
            {("u", "j", "passed"), ("t", "k", "filtered"), ("t", "k", "joined"), ("u", "j", "joined")},
            {("t.k", "u.j")},
        ),
        (
            "SELECT x FROM t JOIN u ON t.a = u.a WHERE zz.y = 1",
            {("", "x", "projected"), ("t", "a", "joined"), ("u", "a", "joined")},
            {("t.a", "u.a")},
        ),
    ],
)
def test_columns_are_traced_to_their_tables(sql, uses, links):
    """Through aliases, common table expressions and derived tables; what is computed or out of sight is none."""
    spec = spec_of(sql)
    assert {ColumnUse(table, column, Role(role)) for table, column, role in uses} == set(spec.uses)
    assert links == set(spec.links)


def test_tables_are_the_same_with_and_without_their_schema():
    """Logs qualify one table in different ways, and write it in different capitals."""
    one, two = (observe(spec_of(sql), "q") for sql in ("SELECT x FROM dbo.Boats", "SELECT X FROM boats"))
    assert one.items == two.items


def test_links_have_one_direction():
    """`a = b` and `b = a` are one join."""
    found = [observe(spec_of(f"SELECT 1 FROM t JOIN u ON {on}"), "q").items for on in ("t.a = u.b", "u.b = t.a")]
    assert [(LINK, "t.a", "u.b")] == [item for item in found[0] if item[0] == LINK]
    assert found[0] == found[1]


# ── pipeline and command line ──


def evaluated(catalogues):
    """The result of one odd record under a pinned epoch."""
    record = QueryRecord(question=ODD[0], sql=ODD[1], dialect="postgres", database="harbour")
    return understand(record, NO_RULES, Calendar(now=None), replace(KNOWN, catalogues=catalogues)).compared.evidence


def test_without_a_catalogue_the_result_is_as_before():
    """No catalogue, an empty epoch, and one that knows only other databases: same evidence, to the last digit."""
    other = Learners()
    for one in SEEN:
        other.add(Where("", "elsewhere"), one)
    plain = evaluated(None)
    assert [plain] * 2 == [evaluated(epoch) for epoch in (Epoch(digest="x"), other.freeze())]
    assert not any(name.startswith("log_") for name in plain.features)


def test_with_a_catalogue_what_it_shows_is_told():
    """The features carry it, and the reasons name it."""
    learners = Learners()
    for one in SEEN:
        learners.add(Where("", "harbour"), one)
    found = evaluated(learners.freeze())
    assert 1.0 == found.features["log_column_misplaced"]
    assert "boats is not known to have country; ports has it" in [reason.detail for reason in found.reasons]


def test_the_pinned_epoch_stands_on_every_result(tmp_path):
    """Provenance names it, and results of another epoch are not compared with these."""
    pipeline = build(resolve({"rules": str(tmp_path)}))
    plain = pipeline._identity(NO_RULES)
    first, second = (pipeline.pinned(Epoch(digest=digest))._identity(NO_RULES) for digest in ("one", "two"))
    assert ("", "one", "two") == tuple(provenance.catalogue for provenance, _ in (plain, first, second))
    assert 3 == len({config for _, config in (plain, first, second)})


def test_a_survey_counts_what_can_be_read(tmp_path):
    """Lines that hold no record and statements that cannot be read are left to the scoring to report."""
    survey = Survey(build(resolve({"rules": str(tmp_path)})))
    lines = [*records(database="harbour").splitlines(), "no json", json.dumps({"question": "q", "sql": "SELECT ("})]
    survey.add([Message(value=line.encode(), topic="log") for line in lines])
    assert len(LOG) == len(survey.learners.learners[Where("", "harbour")].questions)
    assert [Where("", "harbour")] == list(survey.learners.learners)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty folder; gives its exit code and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text(
        records([*LOG, {"question": ODD[0], "sql": ODD[1]}], database="harbour"), encoding="utf-8"
    )

    def start(*arguments):
        done = CliRunner().invoke(main, [*arguments, "--log-level", "error"])
        return done.exit_code, done.output

    return start


def last(output):
    """The last result of an output."""
    return json.loads(output.splitlines()[-1])


def told(output):
    """Sentences about the last record."""
    return [reason["detail"] for reason in last(output)["judge"]["reasons"]]


def test_score_learns_from_the_file_that_it_scores(run):
    """`auto` is the default for a file; `none` gives what there was before."""
    misplaced = "boats is not known to have country; ports has it"
    code, output = run("score", "log.jsonl", "--json")
    assert 0 == code
    assert misplaced in told(output)
    code, plain = run("score", "log.jsonl", "--json", "--catalogue", "none")
    assert misplaced not in told(plain)
    assert last(output)["scoring_config"] != last(plain)["scoring_config"]


def test_score_learns_from_standard_input_only_when_asked(run, tmp_path):
    """A stream is not held back for a first pass unless that is wanted."""
    text = Path(tmp_path, "log.jsonl").read_bytes()

    def piped(*arguments):
        command = [sys.executable, "-m", "stef", "score", "-", "--json", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, input=text, cwd=tmp_path, env=environment, capture_output=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])["provenance"]["catalogue"]

    assert "" == piped()
    assert last(run("score", "log.jsonl", "--json")[1])["provenance"]["catalogue"] == piped("--catalogue", "auto")


def test_a_packed_log_gives_the_same_catalogue(run, tmp_path):
    """The first pass reads what the second one reads."""
    Path(tmp_path, "log.jsonl.gz").write_bytes(gzip.compress(Path(tmp_path, "log.jsonl").read_bytes()))
    found = [last(run("score", name, "--json")[1])["scoring_config"] for name in ("log.jsonl", "log.jsonl.gz")]
    assert found[0] == found[1]


def test_a_catalogue_is_built_shown_exported_and_used(run):
    """What one log taught serves another one."""
    assert 0 == run("catalogue", "build", "log.jsonl", "known.json")[0]
    code, shown = run("catalogue", "show", "known.json", "--json")
    assert (0, ["boats", "ports", "visits"]) == (code, sorted(json.loads(line)["table"] for line in shown.splitlines()))
    assert "harbour" in run("catalogue", "show", "known.json")[1]
    code, exported = run("catalogue", "export", "known.json")
    assert "country" in json.loads(exported)["tables"]["ports"]
    code, output = run("score", "log.jsonl", "--json", "--catalogue", "known.json")
    assert "boats is not known to have country; ports has it" in told(output)


def test_a_list_of_tables_can_be_given(run, tmp_path):
    """Those who have a schema need no log: what is not on the list is unknown, what is on it is not."""
    Path(tmp_path, "schema.csv").write_text("table,column\nboats,name\nports,country\n", encoding="utf-8")
    assert 0 == run("catalogue", "import", "schema.csv", "known.json", "--database", "harbour")[0]
    _, output = run("score", "log.jsonl", "--json", "--catalogue", "known.json")
    assert "boats is not known to have country; ports has it" in told(output)


def test_catalogues_can_be_added_to_each_other(run):
    """Import takes what build wrote."""
    run("catalogue", "build", "log.jsonl", "one.json")
    assert 0 == run("catalogue", "import", "one.json", "two.json")[0]
    assert run("catalogue", "show", "one.json")[1] == run("catalogue", "show", "two.json")[1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("missing.json", None), ("text.json", "boats"), ("list.json", "[1]"), ("other.json", '{"stef_catalogue": 7}')],
)
def test_a_file_that_is_no_catalogue_is_named(run, tmp_path, name, content):
    """The message has the file, what was found and what is allowed; the exit code is that of a wrong file."""
    if content is not None:
        Path(tmp_path, name).write_text(content, encoding="utf-8")
    for command in (("catalogue", "show", name), ("score", "log.jsonl", "--catalogue", name)):
        code, output = run(*command)
        assert 3 == code
        assert f"stef: {name}: " in output


def test_another_key_opens_no_catalogue(run):
    """Marks of another key would match nothing, without a word."""
    run("catalogue", "build", "log.jsonl", "known.json", "--catalogue-key", "one")
    code, output = run("score", "log.jsonl", "--catalogue", "known.json", "--catalogue-key", "two")
    assert (3, True) == (code, "another key" in output)


def test_a_secret_observation_counts_and_keeps_no_text():
    """Where a store hides values they count by their marks, and a text that was kept before is forgotten."""
    spec = spec_of("SELECT * FROM vans WHERE city = 'Turku'")
    seen = [observe(spec, f"Which vans {number}?", key="k") for number in range(8)]
    open_, secret = Learner("k"), Learner("k")
    for one in seen:
        open_.add(one)
        secret.add(replace(one, secret=True))
    assert ["Turku"] == list(open_.texts.values())
    assert {} == secret.texts
    assert open_.users == secret.users
    open_.add(replace(seen[0], secret=True))
    assert {} == open_.texts
