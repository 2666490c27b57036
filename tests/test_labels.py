"""Labels: read from files, kept in the store, counted; what is wrong is named and costs nothing else."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from stef.cli import main
from stef.errors import InputError
from stef.label import Agreement, Given, Label, agreements, majority, tallies
from stef.labelfile import read
from stef.result import Outcome, Reason
from stef.store import Entry, Imported, Store
from tests.records import load
from tests.streaming import evaluation, failed

NOW = datetime(2026, 3, 4, tzinfo=UTC)
CASES = load("labels")
READABLE = [one for one in CASES if one.values[0]["rule"] == "readable"]
REFUSED = [one for one in CASES if one.values[0]["rule"] == "refused"]


def reading(text):
    """What a file of that text holds."""
    content = text if isinstance(text, bytes) else text.encode()
    return read(content, "labels.csv", source="analyst", now=NOW)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", READABLE)
def test_a_file_is_read_as_its_case_says(case):
    """Spreadsheets and JSON lines give the same labels, however they are written."""
    found = reading(case["text"])
    assert case["labels"] == [[label.event, label.right] for label in found.labels]
    assert ((), case.get("blank", 0), tuple(case.get("unused", ()))) == (found.wrong, found.blank, found.unused)


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_line_is_named_and_costs_no_other_one(case):
    """Each line that holds no label is told with file, line, what was found and what is allowed."""
    found = reading(case["text"])
    assert case["good"] == [label.event for label in found.labels]
    assert len(case["wrong"]) == len(found.wrong)
    assert [] == [says for says, error in zip(case["wrong"], found.wrong, strict=True) if says not in str(error)]


def test_a_line_may_say_who_when_and_why():
    """Source, time, note and what tells several answers apart are kept; a source has one spelling."""
    head = "event_key,label,source,time,note,agent_version,content_digest"
    found = reading(f"{head}\na,1, Anna  B ,2026-03-01T10:00:00+02:00,tax is missing,2.0,d1\nb,0,,,,,\n")
    first = Given(
        event="a",
        right=True,
        source="anna b",
        at=datetime(2026, 3, 1, 8, tzinfo=UTC),
        note="tax is missing",
        agent_version="2.0",
        content_digest="d1",
    )
    assert (first, Given(event="b", right=False, source="analyst")) == found.labels


def test_bytes_that_are_no_utf8_cost_their_line_only():
    """A note in another encoding does not stop the file."""
    found = reading(b"event_key,label,note\na,1,caf\xe9\nb,1,plain\n")
    assert (["b"], 1) == ([label.event for label in found.labels], len(found.wrong))
    assert "UTF-8" in str(found.wrong[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event-kee,label\na,1\n", "event_kee (did you mean this?)"),
        ("event_key,verdict\na,1\n", "no column label"),
        ("event_key,label,Label\na,1,0\n", "two columns label"),
        ("[1, 2]", "no column event_key"),
    ],
)
def test_a_head_without_the_columns_is_refused(text, says):
    """Without an event and a label there is nothing to read, and the message names what is there."""
    with pytest.raises(InputError) as caught:
        reading(text)
    assert ("line 1", True) == (caught.value.place, says in str(caught.value))


@given(st.sampled_from([b"event_key,label\n", b'{"event_key": "a", "label": 1}\n']), st.binary(max_size=300))
def test_no_bytes_make_it_crash(start, content):
    """Whatever stands below a good beginning, there are labels, or lines that are named."""
    found = reading(start + content)
    assert [] == [error for error in found.wrong if not error.place.startswith("line ")]


def test_quotes_that_never_close_are_read_in_time():
    """A thousand open quotes are a thousand named lines, and the line between them is read."""
    rows = ['x,1,"open'] * 500 + ["good,1,"] + ['x,1,"open'] * 500
    found = reading("event_key,label,note\n" + "\n".join(rows))
    assert (1000, ["good"]) == (len(found.wrong), [label.event for label in found.labels])


# ── what several sources say ─────────────────────────────────────────────────────────────────────────────────────────


def label(key="e1", *, right=True, source="analyst", **changes):
    """A label of one record."""
    plain = Label(event_key=key, content_digest="digest", event_id=key, right=right, source=source, at=NOW)
    return replace(plain, **changes)


@pytest.mark.parametrize(("votes", "said"), [("1", True), ("10", None), ("110", True), ("100", False), ("", None)])
def test_the_majority_decides_and_a_tie_is_none(votes, said):
    """Each source counts once; where as many say right as wrong, nothing is said."""
    assert said is majority(label(right=vote == "1", source=str(place)) for place, vote in enumerate(votes))


def test_agreement_is_counted_on_shared_records():
    """Share and kappa of two sources come from the records that both have labelled."""
    table = [(True, True)] * 4 + [(True, False)] + [(False, True)] + [(False, False)] * 2
    both = [
        label(f"e{place}", right=right, source=source)
        for place, pair in enumerate(table)
        for source, right in zip(("anna", "execution"), pair, strict=True)
    ]
    alone = [label("alone", source="anna")]
    (found,) = agreements([*both, *alone])
    # Both say right of 5 in 8: chance gives (25 + 9) / 64.
    expected = Agreement(first="anna", second="execution", records=8, share=0.75, kappa=found.kappa)
    assert (expected, pytest.approx((0.75 - 34 / 64) / (1 - 34 / 64))) == (found, found.kappa)


def test_kappa_is_none_where_chance_gives_everything():
    """Two sources that only ever say right agree, and nothing follows from it."""
    (found,) = agreements([label(source="a"), label(source="b")])
    assert (1.0, None) == (found.share, found.kappa)


def test_labels_are_counted_by_agent_version_and_source():
    """Each group has its number of labels and of right ones."""
    rows = [("shop", "1", label()), ("shop", "1", label("e2", right=False)), (None, None, label(source="execution"))]
    found = [(one.agent, one.agent_version, one.source, one.labels, one.right) for one in tallies(rows)]
    assert [(None, None, "execution", 1, 1), ("shop", "1", "analyst", 2, 1)] == found


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path):
    """A store with two answers of different versions under one key, and others."""
    with Store.open(str(tmp_path / "stef.db")) as opened:
        both = [
            evaluation("both", agent_version=version, content_digest=f"both-{version}") for version in ("1.0", "2.0")
        ]
        keyed = evaluation("trace:span", event_id=None)
        found = (evaluation("a"), evaluation("b"), failed("c"), keyed, *both)
        opened.write([Entry(namespace="n", evaluations=found)])
        yield opened


def said(event, *, right=True, source="analyst", **more):
    """A label as a file gives it."""
    return Given(event=event, right=right, source=source, **more)


def held(store):
    """Key, source and what is said, of every label in the store."""
    return [(one.event_key, one.source, one.right) for one in store.labels.all()]


def test_labels_are_kept_by_record_and_source(store):
    """Each source has its own label of a record, and a second import of the same changes nothing."""
    given_labels = [said("a"), said("a", right=False, source="execution"), said("trace:span", note="why")]
    assert Imported(new=3) == store.labels.add(given_labels, NOW)
    before = list(store.labels.all())
    assert Imported(unchanged=3) == store.labels.add(given_labels, NOW + timedelta(days=1))
    assert before == list(store.labels.all())
    assert [("a", "analyst", True), ("a", "execution", False), ("trace:span", "analyst", True)] == held(store)


@pytest.mark.parametrize(
    ("first", "second", "fate", "right"),
    [
        (said("a"), said("a", right=False), "changed", False),
        (said("a", at=NOW), said("a", right=False, at=NOW - timedelta(days=1)), "older", True),
        (said("a", at=NOW), said("a", right=False, at=NOW + timedelta(hours=1)), "changed", False),
        (said("a", at=NOW), said("a", note="seen again"), "changed", True),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_the_latest_label_of_a_source_wins(store, first, second, fate, right, together):
    """By its time, else by when it was imported; within a file what stands further down."""
    if together:
        store.labels.add([first, second], NOW)
    else:
        store.labels.add([first], NOW)
        assert 1 == getattr(store.labels.add([second], NOW + timedelta(hours=2)), fate)
    assert [("a", "analyst", right)] == held(store)


def test_a_file_with_a_record_twice_can_be_imported_again(store):
    """The last line counts both times, and the second time nothing changes."""
    twice = [said("a"), said("a", right=False)]
    assert Imported(new=1, older=1) == store.labels.add(twice, NOW)
    assert Imported(unchanged=1, older=1) == store.labels.add(twice, NOW + timedelta(days=1))


def test_unknown_and_ambiguous_events_are_named(store):
    """A label must be of one record; others are left out by name."""
    found = store.labels.add([said("nobody"), said("both"), said("a"), said("both", agent_version="3.0")], NOW)
    assert Imported(new=1, unknown=("nobody", "both"), ambiguous=("both",)) == found


@pytest.mark.parametrize("which", [{"agent_version": "2.0"}, {"content_digest": "both-2.0"}])
def test_several_answers_under_one_key_can_be_told_apart(store, which):
    """The agent's version or the content's digest says which one is meant."""
    assert Imported(new=1) == store.labels.add([said("both", **which)], NOW)
    assert ["both-2.0"] == [one.content_digest for one in store.labels.all()]


def test_a_label_holds_for_every_namespace_and_configuration(store):
    """The same record scored again, or read from elsewhere, has the label too, and only scored results are given."""
    again = [evaluation("a", scoring_config="other"), failed("c", scoring_config="other")]
    store.write([Entry(namespace="elsewhere", evaluations=tuple(again))])
    assert Imported(new=2) == store.labels.add([said("a"), said("c")], NOW)
    assert [("a", "config"), ("a", "other")] == [(one.event_key, one.scoring_config) for one in store.labels.results()]


def test_more_labels_than_a_query_can_name(store):
    """A file may have more lines than one query takes."""
    many = tuple(evaluation(f"m{n}") for n in range(1300))
    store.write([Entry(namespace="n", evaluations=many)])
    assert 1300 == store.labels.add([said(f"m{n}") for n in range(1300)], NOW).new


def test_erasing_an_event_erases_its_labels(store):
    """Nothing that was said of an erased event stays in the files."""
    secret = "Topfenstrudel"
    store.labels.add([said("a", note=secret), said("b")], NOW)
    assert 1 == store.erase("a")
    assert [("b", "analyst", True)] == held(store)
    assert not any(secret.encode() in file.read_bytes() for file in Path(store.path).parent.iterdir())


def test_pruning_results_takes_the_labels_that_nothing_is_left_of(store):
    """A label goes with the last result of its record, and not before."""
    store.write([Entry(namespace="n", evaluations=(evaluation("new", received_at=NOW + timedelta(days=9)),))])
    store.labels.add([said("a"), said("new")], NOW)
    assert 0 == store.prune(NOW + timedelta(days=8)).labels
    assert 1 == store.prune(NOW + timedelta(days=8), results=True).labels
    assert [("new", "analyst", True)] == held(store)


def test_a_store_of_an_earlier_release_gets_its_table(store):
    """A store that was made before there were labels takes them after it is opened again."""
    store.close()
    with sqlite3.connect(store.path) as raw:
        raw.execute("DROP TABLE labels")
        raw.execute("DROP INDEX evaluations_event_key")
        raw.execute("DELETE FROM stef_migrations WHERE name = '0003_labels'")
    raw.close()
    with Store.open(store.path) as again:
        assert Imported(new=1) == again.labels.add([said("a")], NOW)
        assert 6 == again.count()


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stef(store, tmp_path, monkeypatch):
    """Runs a command beside the store, with nothing of stef's in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("STEF_")]:
        monkeypatch.delenv(name)

    def call(*arguments, text=None, **options):
        if text is not None:
            (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
        return CliRunner().invoke(main, [str(part) for part in arguments], prog_name="stef", **options)

    return call


def test_import_counts_and_names(stef):
    """Counts go to standard output, and what was left out to standard error; good lines are kept, exit code 5."""
    text = "event_key,label,remark\na,right,x\nnobody,1,x\nboth,1,x\nb,perhaps,x\nc,,x\n"
    done = stef("labels", "import", "labels.csv", text=text)
    assert (5, "1 new, 0 changed, 0 unchanged, 0 older\n") == (done.exit_code, done.stdout)
    for part in ("line 5: found label 'perhaps'", "nobody", "agent_version", "both", "label is empty: 1", "remark"):
        assert part in done.stderr


def test_import_gives_its_counts_as_json(stef):
    """With --json the same is one object, and a source can be given for all lines."""
    done = stef("labels", "import", "labels.csv", "--source", "Execution", "--json", text="event_id,label\na,1\nx,0\n")
    content = json.loads(done.stdout)
    assert (0, 1, ["x"]) == (done.exit_code, content["new"], content["unknown"])
    exported = [json.loads(line) for line in stef("labels", "export", "--json").stdout.splitlines()]
    assert [("a", "execution", "right")] == [(row["event_key"], row["source"], row["label"]) for row in exported]


def test_import_reads_standard_input(stef):
    """`-` takes labels from a pipe."""
    assert "1 new" in stef("labels", "import", "-", input="event_key,label\na,1\n").stdout


@pytest.mark.parametrize(
    ("arguments", "text", "code", "says"),
    [
        (("import", "labels.csv"), "event_key,label\nx,1\ny,0\n", 3, "labels.csv: found 2 labels, none of an event"),
        (("import", "absent.csv"), None, 3, "absent.csv"),
        (("import", "labels.csv"), "a,b\n1,2\n", 3, "line 1: found no column event_key"),
        (("import", "labels.csv", "--store", "absent.db"), "event_key,label\na,1\n", 4, "absent.db"),
        (("show", "--store", "absent.db"), None, 4, "absent.db"),
    ],
)
def test_errors_name_what_is_wrong_and_end_with_their_code(stef, arguments, text, code, says):
    """A file that fits nothing and a store that is not there are errors with their name."""
    done = stef("labels", *arguments, text=text)
    assert (code, True) == (done.exit_code, says in done.stderr), done.output


def test_what_is_exported_can_be_imported(stef, store):
    """CSV and JSON lines give the same labels back, with time, note and source."""
    awkward = [said("a", note='two\nlines, "quoted"', at=NOW), said("both", agent_version="1.0", source="x;y")]
    store.labels.add(awkward, NOW)
    before = list(store.labels.all())
    for arguments in (("export",), ("export", "--json")):
        exported = stef("labels", *arguments).stdout
        with sqlite3.connect(store.path) as raw:
            raw.execute("DELETE FROM labels")
        raw.close()
        done = stef("labels", "import", "labels.csv", text=exported)
        assert (0, before) == (done.exit_code, list(store.labels.all())), done.output


def test_show_counts_by_version_and_source(stef):
    """Right shares stand by agent version and source, agreement below; --json has the same."""
    text = "event_key,label,source,agent_version\na,1,anna,\nb,0,anna,\na,1,execution,\nboth,1,anna,2.0\n"
    stef("labels", "import", "labels.csv", text=text)
    shown = stef("labels", "show").stdout
    for part in ("2.0", "anna", "50.0 %", "100.0 %", "3 different records"):
        assert part in shown
    content = json.loads(stef("labels", "show", "--json").stdout)
    counts = {(row["agent_version"], row["source"]): (row["labels"], row["right"]) for row in content["labels"]}
    assert {("1.0", "anna"): (2, 1), ("1.0", "execution"): (1, 1), ("2.0", "anna"): (1, 1)} == counts
    assert [("anna", "execution", 1)] == [(row["first"], row["second"], row["records"]) for row in content["agreement"]]


def test_without_labels_show_says_so(stef):
    """No label is no error."""
    done = stef("labels", "show")
    assert (0, "No labels.\n") == (done.exit_code, done.stdout)


def test_hostile_texts_do_not_reach_the_terminal(stef):
    """A source or a key with escape codes is shown as text."""
    stef("labels", "import", "labels.csv", text="event_key,label,source\na,1,\x1b[31mred\nno\x1b[2Jbody,1,x\n")
    shown = stef("labels", "show")
    again = stef("labels", "import", "labels.csv")
    assert "red" in shown.stdout
    assert "\x1b" not in shown.output + again.output


def test_a_skipped_record_can_be_labelled(stef, store):
    """A label may be of any stored result, scored or not."""
    skipped = evaluation("no-sql", outcome=Outcome.SKIPPED, reason=Reason.NO_SQL, phi=None, score=None, band=None)
    store.write([Entry(namespace="n", evaluations=(skipped,))])
    assert "1 new" in stef("labels", "import", "labels.csv", text="event_key,label\nno-sql,wrong\n").stdout
