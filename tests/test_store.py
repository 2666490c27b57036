"""The store: keys, upgrades, transactions, migrations, pruning, erasing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stef.errors import RecordError, StoreError
from stef.record import Message
from stef.result import Outcome, Reason
from stef.store import EVERYTHING, MIGRATIONS, Entry, Fate, Selection, Store
from tests.streaming import WHEN, evaluation, failed

SPACE = "list:log"


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    with Store.open(str(tmp_path / "stef.db")) as opened:
        yield opened


def entry(*evaluations, message=None, namespace=SPACE, error=None):
    """What one message came to."""
    return Entry(namespace=namespace, message=message, evaluations=evaluations, error=error)


def test_result_comes_back_whole(store):
    """What is written is read back equal, with all its parts."""
    written = evaluation(asked_at=WHEN, expansion=None)
    store.write([entry(written)])
    assert [written] == list(store.rows())


@pytest.mark.parametrize(
    ("first", "second", "fate", "outcome"),
    [
        (evaluation(phi=80), evaluation(phi=20), Fate.DUPLICATE, Outcome.SCORED),
        (failed(), evaluation(), Fate.UPGRADED, Outcome.SCORED),
        (evaluation(), failed(), Fate.DUPLICATE, Outcome.SCORED),
        (failed(), failed(), Fate.DUPLICATE, Outcome.FAILED),
        (failed(), evaluation(outcome=Outcome.SKIPPED, reason=Reason.NO_SQL), Fate.UPGRADED, Outcome.SKIPPED),
        (evaluation(outcome=Outcome.SKIPPED, reason=Reason.NO_SQL), evaluation(), Fate.DUPLICATE, Outcome.SKIPPED),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_first_answer_wins(store, first, second, fate, outcome, together):
    """A second result of one record is a duplicate, unless the first had failed; in one batch as in two."""
    if together:
        kept = store.write([entry(first), entry(second)]).kept
    else:
        kept = store.write([entry(first)]).kept + store.write([entry(second)]).kept
    assert [Fate.NEW, fate] == [item.fate for item in kept]
    assert [outcome] == [row.outcome for row in store.rows()]
    assert [outcome] == [row.outcome for row in store.figures()]


def test_first_score_stays(store):
    """The first score of a record stays when it is scored again."""
    store.write([entry(evaluation(phi=80)), entry(evaluation(phi=20))])
    store.write([entry(evaluation(phi=0))])
    assert [80] == [row.phi for row in store.rows()]


def test_same_key_other_content_keeps_both(store):
    """Another content under a known key is kept too, and counted as a conflict."""
    first = store.write([entry(evaluation(content_digest="a"))])
    second = store.write([entry(evaluation(content_digest="b")), entry(evaluation(content_digest="b"))])
    assert (0, 1) == (first.conflicts, second.conflicts)
    assert 2 == store.count()


def test_keys_are_apart_by_namespace_and_config(store):
    """The same event in another namespace or under another scoring configuration is another result, and no conflict."""
    written = store.write(
        [
            entry(evaluation()),
            entry(evaluation(), namespace="list:other"),
            entry(evaluation(scoring_config="other")),
        ]
    )
    assert (3, 0) == (written.count(Fate.NEW), written.conflicts)


def test_duplicate_found_before_evaluation_is_not_stored(store):
    """A result that says it is a duplicate makes no row, and the earlier one is given back."""
    store.write([entry(evaluation(phi=80))])
    skipped = evaluation(outcome=Outcome.SKIPPED, reason=Reason.DUPLICATE, phi=None, score=None, band=None)
    written = store.write([entry(skipped)], echo=True)
    assert [(Fate.DUPLICATE, 80)] == [(item.fate, item.evaluation.phi) for item in written.kept]
    assert 1 == store.count()


def test_known_finds_answers_only(store):
    """A failed record is not known: it may be tried again."""
    store.write([entry(evaluation("a")), entry(failed("b"))])
    pairs = [("a", "digest"), ("b", "digest"), ("c", "digest"), ("a", "other")]
    assert {("a", "digest")} == store.known(SPACE, pairs, "config")
    assert set() == store.known(SPACE, pairs, "other")
    assert set() == store.known("elsewhere", pairs, "config")


def test_batch_larger_than_a_query(store):
    """A batch may hold more records than one query can name."""
    written = store.write([entry(evaluation(f"e{n}")) for n in range(1300)])
    assert 1300 == written.count(Fate.NEW)
    assert 1300 == len(store.known(SPACE, [(f"e{n}", "digest") for n in range(1300)], "config"))


def test_raw_message_comes_back_as_it_was(store):
    """The raw message is kept whole, once, however many results came from it."""
    message = Message(
        value=b"\x00\xffraw",
        key=b"k",
        headers=(("h", b"\x01"), ("h", b"")),
        topic="log",
        partition=3,
        offset=9,
        timestamp=WHEN,
    )
    store.write([entry(evaluation("a"), evaluation("b"), message=message)])
    assert [(SPACE, message)] == list(store.messages())
    assert [(SPACE, message)] == list(store.messages(Selection(event="b")))
    assert [] == list(store.messages(Selection(event="nobody")))


def test_no_raw_message_when_none_is_wanted(tmp_path):
    """With 0 days no raw message is kept."""
    with Store.open(str(tmp_path / "s.db"), raw_days=0) as store:
        store.write([entry(evaluation(), message=Message(value=b"x"))])
        assert (1, 0) == (store.count(), store.raw_count())


def test_prune_takes_old_raw_messages(store):
    """Pruning takes raw messages stored before the moment, and leaves results unless told otherwise."""
    store.write([entry(evaluation(), message=Message(value=b"x"))])
    now = datetime.now(UTC)
    assert 0 == store.prune(now - timedelta(days=1)).payloads
    assert 1 == store.prune(now + timedelta(minutes=1), vacuum=True).payloads
    assert (1, 0) == (store.count(), store.raw_count())
    assert 1 == store.prune(now, results=True).evaluations
    assert 0 == store.count()


def test_erased_event_leaves_no_trace_in_the_file(store):
    """After erasing, neither the result nor the raw message of an event is anywhere in the files."""
    secret = "Zwetschgendatschi"
    message = Message(value=secret.encode())
    store.write([entry(evaluation("gone", question=secret, event_id="x"), message=message), entry(evaluation("stays"))])
    assert any(secret.encode() in file.read_bytes() for file in Path(store.path).parent.iterdir())
    assert 1 == store.erase("x")
    assert not any(secret.encode() in file.read_bytes() for file in Path(store.path).parent.iterdir())
    assert (["stays"], 0) == ([row.event_key for row in store.rows()], store.raw_count())


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (EVERYTHING, ["a", "b", "c"]),
        (Selection(agent_version="2.0"), ["b"]),
        (Selection(outcome=Outcome.FAILED), ["c"]),
        (Selection(reason=Reason.JUDGE_UNAVAILABLE), ["c"]),
        (Selection(since=WHEN + timedelta(hours=1)), ["b"]),
        (Selection(until=WHEN + timedelta(hours=1)), ["a", "c"]),
        (Selection(event="a"), ["a"]),
        (Selection(namespace="none"), []),
        (Selection(app="sales", agent="shop"), ["a"]),
    ],
)
def test_selection(store, selection, expected):
    """Every field of a selection must hold, for results, figures and the count alike."""
    store.write(
        [
            entry(
                evaluation("a", app="sales"),
                evaluation("b", agent_version="2.0", received_at=WHEN + timedelta(hours=2)),
                failed("c"),
            )
        ]
    )
    assert expected == [row.event_key for row in store.rows(selection)]
    assert expected == [row.event_key for row in store.figures(selection)]
    assert len(expected) == store.count(selection)


def test_figure_has_what_compare_needs(store):
    """A figure carries the columns as they are in the result."""
    store.write([entry(evaluation())])
    (row,) = store.figures()
    found = (
        row.agent,
        row.agent_version,
        row.phi,
        row.p_correct,
        row.category,
        row.verdict,
        row.confidence,
        row.received_at,
    )
    assert ("shop", "1.0", 80, 0.75, "FULL_WITH_EXTRAS", "LIKELY_CORRECT", 0.9, WHEN) == found


def test_dead_letter_is_counted_once(store):
    """A dead letter that is delivered twice counts once."""
    message = Message(value=b"x", topic="log", offset=4)
    for _ in range(2):
        store.write([entry(message=message, error=RecordError("not_json", "no JSON"))])
    assert {"not_json": 1} == store.dead_letters()


def test_batch_is_written_whole_or_not_at_all(store):
    """When one row cannot be written, none of its batch is, and the error says where."""
    with sqlite3.connect(store.path) as raw:
        raw.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON evaluations WHEN NEW.event_key = 'bad' "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    raw.close()
    with pytest.raises(StoreError, match=r"stef\.db: cannot write results: refused"):
        store.write([entry(evaluation("good"), message=Message(value=b"x")), entry(evaluation("bad"))])
    assert (0, 0) == (store.count(), store.raw_count())


def test_position_is_replaced(store):
    """The last position of a file source stands."""
    assert store.position("file:a") is None
    store.save_position("file:a", {"offset": 1})
    store.save_position("file:a", {"offset": 2})
    assert {"offset": 2} == store.position("file:a")


def test_opening_again_keeps_everything(tmp_path):
    """A second opening applies no migration twice and finds what was there."""
    path = str(tmp_path / "s.db")
    with Store.open(path) as store:
        store.write([entry(evaluation())])
    with Store.open(path, create=False) as store:
        assert 1 == store.count()
    with sqlite3.connect(path) as raw:
        names = [row[0] for row in raw.execute("SELECT name FROM stef_migrations")]
    raw.close()
    assert [name for name, _ in MIGRATIONS] == names


def test_store_of_a_newer_release_is_left_alone(tmp_path):
    """A store with a migration that this release does not know is refused."""
    path = str(tmp_path / "s.db")
    Store.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO stef_migrations VALUES ('9999_future', '2030-01-01 00:00:00')")
    raw.close()
    with pytest.raises(StoreError, match=r"made by a newer stef .*9999_future"):
        Store.open(path)


@pytest.mark.parametrize(
    ("prepare", "create", "message"),
    [
        (lambda path: path.write_bytes(b"no database at all, but long enough to be looked at" * 40), True, "no store"),
        (Path.exists, False, "there is no store here"),
        (Path.mkdir, True, "folder exists"),
    ],
)
def test_what_is_no_store_is_refused(tmp_path, prepare, create, message):
    """A file that is no store gives an error that names it and says what to do."""
    path = tmp_path / "x.db"
    prepare(path)
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(str(path), create=create)
    assert str(path) in str(caught.value)


def test_full_disk_commits_nothing(store):
    """When the disk is full, the write fails with advice, and nothing of the batch is there."""
    raw = store._engine.raw_connection()
    pages = raw.cursor().execute("PRAGMA page_count").fetchone()[0]
    raw.cursor().execute(f"PRAGMA max_page_count={pages + 2}")
    raw.close()
    with pytest.raises(StoreError, match="free space on the disk"):
        store.write([entry(evaluation(f"e{n}", question="x" * 5000)) for n in range(50)])
    assert 0 == store.count()


def test_readers_and_writers_do_not_wait_for_each_other(store):
    """A reader in the middle of a long read neither blocks the writer nor sees what comes meanwhile."""
    store.write([entry(evaluation(f"e{n}")) for n in range(1200)])
    reading = store.figures()
    next(reading)
    store.write([entry(evaluation("later"))])
    assert 1199 == len(list(reading))
    assert 1201 == store.count()


def open_and_write(path, name):
    """What one of several processes does."""
    with Store.open(path) as store:
        for n in range(20):
            store.write([entry(evaluation(f"{name}-{n}")), entry(evaluation(f"shared-{n}"))])


def test_processes_that_start_at_once(tmp_path):
    """Several processes may make, open and write one store at the same time."""
    path = str(tmp_path / "s.db")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=open_and_write, args=(path, name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [0, 0, 0] == [worker.exitcode for worker in workers]
    with Store.open(path) as store:
        assert 80 == store.count()


WRITER = """
import sys
from stef.store import Store, Entry
from tests.streaming import evaluation
store = Store.open(sys.argv[1])
for batch in range(100000):
    store.write([Entry(namespace="n", evaluations=(evaluation(f"{batch}-{n}"),)) for n in range(10)])
    print(batch, flush=True)
"""


def test_killed_writer_loses_nothing_that_was_acknowledged(tmp_path):
    """After kill -9, every batch whose write had returned is there whole, and no part of another."""
    path = str(tmp_path / "s.db")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    done = -1
    for line in writer.stdout:
        done = int(line)
        if done >= 20:
            break
    os.kill(writer.pid, signal.SIGKILL)
    done = max([done, *(int(line) for line in writer.stdout.read().split())])
    writer.stdout.close()
    writer.wait()
    with Store.open(path) as store:
        batches = [row.event_key.split("-")[0] for row in store.figures()]
    assert set(range(done + 1)) <= set(map(int, batches))
    assert {10} == {batches.count(batch) for batch in set(batches)}
