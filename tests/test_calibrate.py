"""Calibration: fitted to labels, measured on held-out questions, kept in a file, used by every scoring."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from stef import calibrationfile, consume, data, demolog
from stef.calibrate import gather, study
from stef.calibrate.platt import Sample, fit
from stef.calibrate.reliability import figures
from stef.calibrate.study import Samples, folds
from stef.calibration import IDENTITY, Calibration, log_odds, probability
from stef.cli import main
from stef.config import resolve
from stef.errors import CalibrationError
from stef.label import Given, Label
from stef.pipeline import build, named
from stef.record import Message
from stef.result import Verdict, from_json
from stef.store import Entry, Store
from tests.streaming import MADE_BY, evaluation

NOW = datetime(2026, 3, 4, tzinfo=UTC)
WEIGHTS = named(data.weights())
PROBABILITIES = st.floats(0.0001, 0.9999)


def drawn(slope, intercept, records, seed=1):
    """Labels as they come when the true log-odds are a line on those of p."""
    chance = random.Random(seed)  # noqa: S311 - a test repeats itself
    made = []
    for place in range(records):
        p = round(probability(chance.gauss(1.0, 1.8)), 4)
        truth = probability(slope * log_odds(p) + intercept)
        made.append(Sample(p, chance.random() < truth, f"q{place % (records // 2)}"))
    return made


@pytest.fixture
def stef(tmp_path, monkeypatch):
    """Runs a command in an empty folder, with nothing of stef's in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("STEF_")]:
        monkeypatch.delenv(name)

    def call(*arguments):
        return CliRunner().invoke(main, [str(part) for part in arguments], prog_name="stef")

    return call


# ── the map ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(0.001, 100), st.floats(-20, 20), PROBABILITIES, PROBABILITIES)
def test_the_order_never_changes(slope, intercept, one, other):
    """Of two probabilities the larger one is not the smaller one afterwards, and both stay probabilities."""
    low, high = (Calibration(slope=slope, intercept=intercept).apply(p) for p in sorted((one, other)))
    assert 0 < low <= high < 1


@given(st.floats(0.3, 3), st.floats(-2, 2), st.integers(10, 89))
def test_what_differs_stays_different(slope, intercept, percent):
    """A map as labels give it makes no two hundredths equal."""
    calibration = Calibration(slope=slope, intercept=intercept)
    assert calibration.apply(percent / 100) < calibration.apply((percent + 1) / 100)


@given(st.floats(0, 1))
def test_the_identity_changes_nothing(p):
    """Without a calibration every probability stays as it is, to the last bit."""
    assert p == IDENTITY.apply(p)


@pytest.mark.parametrize(("slope", "intercept"), [(0, 0), (-1, 0), (math.inf, 0), (math.nan, 0), (1, math.inf)])
def test_a_map_that_breaks_the_order_cannot_be_made(slope, intercept):
    """The slope is above 0, and both numbers are finite."""
    with pytest.raises(ValueError, match="no map that keeps the order"):
        Calibration(slope=slope, intercept=intercept)


# ── the fit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, 0.0), (0.5, -0.8), (1.6, 0.4), (0.3, -1.5), (1.0, 1.0)])
def test_a_known_map_is_found_again(slope, intercept):
    """From many labels that a map has made, slope and intercept come back."""
    found = fit(drawn(slope, intercept, 8000))
    assert (pytest.approx(slope, abs=0.1), pytest.approx(intercept, abs=0.1)) == (found.slope, found.intercept)


def test_few_labels_move_little():
    """The same labels move the map the further from the identity the more often they were given."""
    labels = [Sample(0.9, right=place < 6) for place in range(10)] + [
        Sample(0.4, right=place < 3) for place in range(10)
    ]
    moved = [math.hypot(math.log(found.slope), found.intercept) for found in (fit(labels * n) for n in (1, 5, 50))]
    assert moved[0] < moved[1] < moved[2]


def test_one_label_does_not_turn_a_probability_round():
    """A single wrong record at 0.9 lowers it, and the prior keeps it above the smoothed target, which is a third."""
    assert 1 / 3 < fit([Sample(0.9, right=False)]).apply(0.9) < 0.9


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [Sample(0.9, right=True)] * 100,
        [Sample(0.9, right=False)] * 100,
        [Sample(0.9, right=False), Sample(0.1, right=True)] * 500,
        [Sample(0.9999, right=True), Sample(0.0001, right=False)] * 500,
        [Sample(0.0, right=True), Sample(1.0, right=False)] * 500,
    ],
    ids=["none", "all-right", "all-wrong", "reversed", "parted", "impossible"],
)
def test_odd_labels_give_a_map_that_keeps_the_order(samples):
    """Whatever the labels say, the slope is above 0 and finite."""
    found = fit(samples)
    assert 0 < found.slope < 100
    assert abs(found.intercept) < 10


def test_no_label_gives_the_identity():
    """With nothing to learn from, nothing changes."""
    assert (1.0, 0.0) == (fit([]).slope, fit([]).intercept)


# ── what it is worth ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_are_those_of_their_definitions():
    """Calibration error, Brier score and log loss of four probabilities, worked out by hand."""
    found = figures([(0.9, True), (0.95, False), (0.2, False), (1.0, True)])
    top = (0.9 + 0.95 + 1.0) / 3
    assert pytest.approx((3 * abs(top - 2 / 3) + 0.2) / 4) == found.ece
    assert pytest.approx((0.01 + 0.9025 + 0.04 + 0.0) / 4) == found.brier
    assert pytest.approx(-(math.log(0.9) + math.log(0.05) + math.log(0.8)) / 4) == found.log_loss
    assert [(0.2, 0.3, 1, 0.0), (0.9, 1.0, 3, 2 / 3)] == [(b.low, b.high, b.records, b.right) for b in found.bins]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_figures_are_finite_and_count_every_record(said):
    """Whatever the probabilities, each record is in one tenth, and no figure is infinite."""
    found = figures(said)
    assert len(said) == sum(item.records for item in found.bins)
    assert 0 <= found.ece <= 1
    assert 0 <= found.brier <= 1
    assert math.isfinite(found.log_loss)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80))
def test_no_question_is_in_two_folds(questions):
    """All records of one question are held out together, each record once, and every fold has some."""
    samples = [Sample(place / 100, right=True, group=f"q{question}") for place, question in enumerate(questions)]
    parts = folds(samples)
    held = [{sample.group for sample in part} for part in parts]
    assert len(set(questions)) == sum(map(len, held))
    assert samples == sorted((sample for part in parts for sample in part), key=lambda sample: sample.p)
    assert set() not in held


def test_the_figures_after_are_of_held_out_questions():
    """A map that only knows its own questions is found out: each is labelled against the rest of its own kind."""
    samples = [Sample(0.5, right=question % 2 == 0, group=f"q{question}") for question in range(2) for _ in range(30)]
    found = study(Samples(samples=tuple(samples), newest=NOW), 10)
    assert found.after.log_loss > found.before.log_loss
    assert not found.helps


def test_a_study_tells_what_a_map_is_worth():
    """On labels of a crooked p the held-out calibration error falls, and shares and counts are those of the labels."""
    samples = drawn(0.4, -1.0, 2000)
    found = study(Samples(samples=tuple(samples), newest=NOW), 50)
    assert found.after.ece < found.before.ece / 3
    assert found.helps
    assert (2000, 1000) == (found.labels, found.questions)
    assert sum(sample.right for sample in samples) / 2000 == found.right


# ── labels and results ───────────────────────────────────────────────────────────────────────────────────────────────


def label(key, *, right=True, source="analyst", at=NOW):
    """A label of a record."""
    return Label(event_key=key, content_digest="digest", event_id=key, right=right, source=source, at=at)


def result(key, p, *, weights=WEIGHTS, **changes):
    """A scored result with its probability as the weights gave it."""
    made = replace(MADE_BY, weights=weights)
    return evaluation(key, p_offline=p, provenance=made, **{"question": f"Question {key}?", **changes})


def test_labels_meet_the_newest_result_of_these_weights():
    """Results of other weights do not count; of several the last one does, as it was before any calibration."""
    later = datetime(2026, 4, 1, tzinfo=UTC)
    labels = [label("a"), label("b", right=False, at=later), label("old"), label("unscored")]
    results = [
        result("a", 0.1),
        result("a", 0.3),
        result("b", 0.9, p_raw=0.7),
        result("old", 0.5, weights="offline-0@x"),
    ]
    found = gather(labels, results, WEIGHTS)
    assert [(0.3, True), (0.7, False)] == [(sample.p, sample.right) for sample in found.samples]
    assert (2, 0, later) == (found.unscored, found.ties, found.newest)


def test_the_majority_of_the_sources_is_what_is_fitted_to():
    """Two of three decide, and a tie is left out and counted."""
    labels = [label("a", source=name, right=name != "c") for name in "abc"]
    labels += [label("b", source=name, right=name == "a") for name in "ab"]
    found = gather(labels, [result("a", 0.4), result("b", 0.6)], WEIGHTS)
    assert ([(0.4, True)], 1) == ([(sample.p, sample.right) for sample in found.samples], found.ties)


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def content(**changes):
    """What stands in a calibration file."""
    slope, intercept = changes.get("slope", 0.5), changes.get("intercept", -0.25)
    measured = {"ece": 0.1, "brier": 0.2, "log_loss": 0.5}
    plain = {
        "name": "mine",
        "digest": calibrationfile.digest(slope, intercept, WEIGHTS),
        "slope": slope,
        "intercept": intercept,
        "weights": WEIGHTS,
        "labels": 60,
        "questions": 40,
        "right": 0.8,
        "newest_label": "2026-03-04T00:00:00Z",
        "before": measured,
        "after": measured,
        "stef": "0.1.0",
    }
    return {name: value for name, value in {**plain, **changes}.items() if value is not None}


@pytest.fixture
def file(tmp_path):
    """Writes a calibration file and says where it is."""

    def write(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(content(**changes)), encoding="utf-8")
        return str(path)

    return write


def test_a_file_gives_its_map(file):
    """Slope, intercept, name and digest come out of the file, and no file is the identity."""
    expected = calibrationfile.digest(0.5, -0.25, WEIGHTS)
    assert Calibration(slope=0.5, intercept=-0.25, name="mine", digest=expected) == calibrationfile.load(
        file(), WEIGHTS
    )
    assert IDENTITY == calibrationfile.load("", WEIGHTS)


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_what_is_written_is_read(tmp_path, ending):
    """YAML and JSON give the same file back, and nothing else lies beside it."""
    path = tmp_path / f"mine.{ending}"
    given_file = calibrationfile.CalibrationFile.model_validate(content())
    calibrationfile.write(str(path), given_file)
    assert calibrationfile.load(str(path), WEIGHTS).digest == given_file.digest
    assert [path] == list(tmp_path.iterdir())
    assert ("{" == path.read_text(encoding="utf-8")[0]) == (ending == "json")


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"weights": "offline-0@abc"}, "digest", "that of slope, intercept and weights"),
        ({"digest": "0000"}, "digest", "0000"),
        ({"slope": -1.0}, "slope", "greater than 0"),
        ({"slope": math.inf}, "slope", "finite"),
        ({"intercept": "much"}, "intercept", "much"),
        ({"slope": None}, "slope", "it is needed"),
        ({"intercpt": 1}, "intercpt", "intercept (did you mean this?)"),
        ({"after": {"ece": 0.1, "brier": 0.2, "log_loss": 0.5, "auc": 1}}, "after.auc", "brier"),
        ({"newest_label": "yesterday"}, "newest_label", "yesterday"),
    ],
)
def test_a_wrong_file_is_refused(file, changes, place, says):
    """An error names the file, the place, what was found and what is allowed."""
    path = file(**changes)
    with pytest.raises(CalibrationError) as caught:
        calibrationfile.load(path, WEIGHTS)
    assert (path, place) == (caught.value.path, caught.value.place)
    assert says in str(caught.value)


def test_a_file_of_other_weights_is_refused(file):
    """What was fitted to other weights says nothing of these, and the message says what to do."""
    with pytest.raises(CalibrationError, match="run stef calibrate") as caught:
        calibrationfile.load(file(), "offline-9@abc")
    assert "weights" == caught.value.place


@pytest.mark.parametrize("text", [b"a: [", b"- 1", b"", b"\xff\xfe", b"just text"])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    """What is no calibration file at all is named."""
    path = tmp_path / "x.yaml"
    path.write_bytes(text)
    with pytest.raises(CalibrationError, match="a file that stef calibrate wrote"):
        calibrationfile.load(str(path), WEIGHTS)


# ── scoring with it ──────────────────────────────────────────────────────────────────────────────────────────────────

RECORD = {
    "event_id": "a1",
    "question": "How many parcels were returned in Lisbon in 2024?",
    "sql": "SELECT COUNT(*) FROM parcels WHERE city = 'Lisbon' AND status = 'returned' AND shipped_year = 2024",
}


def scored(**settings):
    """The result of one record."""
    pipeline = build(resolve({"rules": "/nonexistent", **settings}))
    (found,) = asyncio.run(pipeline.evaluate(Message(value=json.dumps(RECORD).encode())))
    return found


def test_a_calibration_reaches_everything_that_p_offline_decides(file):
    """p_offline, p_correct, verdict and γ follow the map; provenance and configuration name it; p_raw stays."""
    plain, mapped = scored(), scored(calibration=file(slope=0.5, intercept=-0.9))
    expected = Calibration(slope=0.5, intercept=-0.9).apply(plain.p_offline)
    assert (expected, expected, plain.p_offline) == (mapped.p_offline, mapped.p_correct, mapped.p_raw)
    assert (Verdict.CORRECT, round(expected, 4)) != (mapped.judge.verdict, plain.judge.confidence)
    assert mapped.judge.verdict.rank > plain.judge.verdict.rank
    digest = calibrationfile.digest(0.5, -0.9, WEIGHTS)
    assert ("", f"mine@{digest}") == (plain.provenance.calibration, mapped.provenance.calibration)
    assert plain.scoring_config != mapped.scoring_config


def test_explain_shows_both_sides_of_a_calibration(stef, file):
    """A person sees what the calibration made of the probability."""
    command = ("explain", "--question", RECORD["question"], "--sql", RECORD["sql"])
    told = stef(*command, "--calibration", file(slope=0.5, intercept=-0.9)).stdout
    plain = scored().p_offline
    expected = f"p_offline {Calibration(slope=0.5, intercept=-0.9).apply(plain):.2f} ({plain:.2f} before calibration)"
    assert expected in told
    assert "before calibration" not in stef(*command).stdout


def test_a_name_decides_no_score(file):
    """The same map under another name is the same configuration, another map is another one."""
    one, same, other = (scored(calibration=file(**more)) for more in ({}, {"name": "x"}, {"slope": 0.6}))
    assert one.scoring_config == same.scoring_config
    assert one.scoring_config != other.scoring_config


def test_a_consumer_file_may_name_a_calibration(tmp_path):
    """The part `judge` of a consumer takes the setting."""
    path = tmp_path / "c.yaml"
    path.write_text("source: {kind: file, path: x}\njudge: {calibration: mine.yaml}\n", encoding="utf-8")
    assert "mine.yaml" == resolve(file=consume.read(str(path), {}).settings()).calibration


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def labelled(path, samples):
    """A store with a result and a label for each sample, two records to a question."""
    with Store.open(str(path)) as store:
        results = tuple(result(f"e{place}", sample.p, question=sample.group) for place, sample in enumerate(samples))
        store.write([Entry(namespace="n", evaluations=results)])
        labels = [Given(event=f"e{place}", right=one.right, source="a", at=NOW) for place, one in enumerate(samples)]
        store.labels.add(labels, NOW)


def test_calibrate_prints_and_writes_what_it_found(stef, tmp_path):
    """Figures before and after, the reliability and the map are shown; the file has them and can be loaded."""
    labelled(tmp_path / "stef.db", drawn(0.4, -1.0, 600))
    done = stef("calibrate", "--out", "mine.yaml")
    assert 0 == done.exit_code, done.output
    for part in ("600 labelled records of 300 questions", "Brier", "log loss", "0.9–1.0", "Slope 0."):
        assert part in done.stdout
    written = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8"))
    assert ("mine", 600, 300, WEIGHTS) == tuple(written[name] for name in ("name", "labels", "questions", "weights"))
    assert written["after"]["ece"] < written["before"]["ece"]
    loaded = calibrationfile.load(str(tmp_path / "mine.yaml"), WEIGHTS)
    assert (written["slope"], written["intercept"]) == (loaded.slope, loaded.intercept)


def test_calibrate_gives_the_same_as_json(stef, tmp_path):
    """With --json there is one object, with the reliability of each tenth; nothing is written without --out."""
    labelled(tmp_path / "stef.db", drawn(0.4, -1.0, 200))
    found = json.loads(stef("calibrate", "--json").stdout)
    assert 200 == sum(item["records"] for item in found["reliability"]["after"])
    assert {"slope", "intercept", "digest", "weights", "newest_label", "ties", "unscored"} <= set(found)
    assert ["stef.db"] == [path.name for path in tmp_path.iterdir()]


def test_a_map_that_does_not_help_is_told(stef, tmp_path):
    """Labels that the probabilities already fit leave nothing to gain, and the command says so."""
    # In each of two tenths exactly the share is right that p says, question by question.
    samples = [Sample(p, right=place < 10 * p, group=f"q{place}") for p in (0.9, 0.1) for place in range(10)] * 5
    labelled(tmp_path / "stef.db", samples)
    assert "no better than none" in stef("calibrate").stdout


@pytest.mark.parametrize(
    ("samples", "arguments", "code", "says"),
    [
        (drawn(1, 0, 40), (), 6, "found 40 labelled records with a score; allowed: 50 or more"),
        ([], ("--min", "0"), 6, "found 0 labelled records"),
        ([Sample(0.5, right=True, group=f"q{n}") for n in range(60)], (), 6, "all of them right"),
        ([Sample(0.5, right=n % 2 == 0, group="one") for n in range(60)], (), 6, "labels of one question"),
        (drawn(1, 0, 60), ("--store", "absent.db"), 4, "absent.db"),
        (drawn(1, 0, 60), ("--out", "absent/mine.yaml"), 3, "absent/mine.yaml"),
    ],
    ids=["few", "none", "one-class", "one-question", "no-store", "no-folder"],
)
def test_calibrate_refuses_what_nothing_can_be_learned_from(stef, tmp_path, samples, arguments, code, says):
    """Too few labels, labels of one kind and places that cannot be read or written have their messages and codes."""
    labelled(tmp_path / "stef.db", samples)
    done = stef("calibrate", *arguments)
    assert (code, True) == (done.exit_code, says in done.stderr), done.output


def test_a_wrong_calibration_stops_before_the_first_record(stef, tmp_path):
    """`--calibration` with a file that is not there ends with 3 and its name."""
    (tmp_path / "log.jsonl").write_text(json.dumps(RECORD) + "\n", encoding="utf-8")
    done = stef("score", "log.jsonl", "--calibration", "absent.yaml")
    assert (3, "") == (done.exit_code, done.stdout)
    assert "absent.yaml" in done.stderr


def test_labels_of_half_the_questions_lower_the_error_on_the_others(stef, tmp_path):
    """From a log to a store, labels, a calibration, and the same log scored with it: the held-out error falls."""
    log = list(demolog.records(seed=3, per_version=80))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in log), encoding="utf-8")
    (tmp_path / "c.yaml").write_text("source: {kind: file, path: log.jsonl}\n", encoding="utf-8")
    assert 0 == stef("init").exit_code
    assert 0 == stef("consume", "c.yaml").exit_code
    questions = sorted({one["question"] for one in log})
    taught = set(random.Random(1).sample(questions, len(questions) // 2))  # noqa: S311 - a test repeats itself
    rows = [
        {
            "event_key": one.get("event_id") or f"{one['trace_id']}:{one['span_id']}",
            "label": not one["metadata"]["planted"],
        }
        for one in log
        if one["question"] in taught
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert 0 == stef("labels", "import", "labels.jsonl", "--source", "planted").exit_code
    assert 0 == stef("calibrate", "--out", "mine.yaml").exit_code
    truth = [one for one in log if one["question"] not in taught]
    with Store.open("stef.db") as store:
        before = held_out(store.rows(), truth)
    again = stef("score", "log.jsonl", "--json", "--catalogue", "none", "--calibration", "mine.yaml")
    after = held_out(map(from_json, again.stdout.splitlines()), truth)
    assert len(before) == len(after) > 60
    assert figures(after).ece < figures(before).ece / 2
    assert figures(after).log_loss < figures(before).log_loss


def held_out(results, truth):
    """p_offline and the truth of the scored records whose questions had no label."""
    right = {(one.get("event_id") or one["trace_id"]): not one["metadata"]["planted"] for one in truth}
    named_results = [(one.event_id or one.trace_id, one.p_offline) for one in results]
    return [(p, right[name]) for name, p in named_results if p is not None and name in right]
