"""Files as sources, sinks and dead letters: real files, real processes, killed ones among them."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stef.errors import InputError, RecordError, StreamError
from stef.record import Message
from stef.result import from_json
from stef.store import Store
from stef.stream.deadletters import FileDeadLetters
from stef.stream.files import FileSource
from stef.stream.limits import Limits
from stef.stream.loop import Loop
from stef.stream.memory import MemoryDeadLetters, MemoryPositions
from stef.stream.protocols import DeadLetter, Delivery, Extent, Partition
from stef.stream.sinks import JsonlSink
from tests.consumer_process import started
from tests.streaming import WHEN, evaluate, evaluation, record


@pytest.fixture
def opened():
    """Opens sources and closes them at the end."""
    sources = []

    def open_one(path, **more):
        sources.append(FileSource(str(path), **more))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def drain(source, seconds=0.3):
    """All that comes within a while, or until the end."""
    messages, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        polled = source.poll(0.02, 100)
        messages.extend(polled.messages)
        if polled.ended:
            break
    return messages


def texts(messages):
    """Their values as text."""
    return [message.value.decode() for message in messages]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\n  \n", []),
        (b"a\nb\n", [(0, "a"), (2, "b")]),
        (b"a\nb", [(0, "a"), (2, "b")]),
        (b"a\r\n\r\nb\r\n", [(0, "a"), (5, "b")]),
        (b"\n\na", [(2, "a")]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_with_their_offsets(tmp_path, opened, content, expected, packed):
    """Each line is a message at the byte where it starts, in a plain file and in a packed one; empty lines are none."""
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(content) if packed else content)
    messages = drain(opened(path))
    assert expected == [(message.offset, message.value.decode()) for message in messages]
    assert {("log.jsonl.gz", 0)} >= {(message.topic, message.partition) for message in messages}


def test_lines_across_chunks(tmp_path, opened):
    """Lines longer than what is read at once come whole."""
    lines = ["x" * 700_000, "y" * 300_000, "z"]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))
    assert lines == texts(drain(opened(path), 2))


@pytest.mark.parametrize("end", ["\nnext\n", "\nnext", ""])
def test_line_that_is_too_long(tmp_path, opened, end):
    """Of a line that is too long the beginning comes, marked, and the next line is read as usual."""
    path = tmp_path / "log.jsonl"
    path.write_text("a\n" + "x" * 2_000_000 + end)
    first, long, *rest = drain(opened(path, longest=1000), 2)
    assert ((), b"a") == (first.headers, first.value)
    assert (2, b"x" * 1000, (("stef.truncated", b"true"),)) == (long.offset, long.value, long.headers)
    assert end.split() == texts(rest)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [(Path.exists, "No such file"), (Path.mkdir, "a folder")],
)
def test_file_that_cannot_be_read(tmp_path, prepare, message):
    """A file that is not there, or a folder, is an error that names it."""
    prepare(tmp_path / "x")
    with pytest.raises(InputError, match=message) as caught:
        FileSource(str(tmp_path / "x"))
    assert str(tmp_path / "x") in str(caught.value)


def test_packed_file_cannot_be_followed(tmp_path):
    """A gzip file does not grow line by line."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(InputError, match="gzip file to follow"):
        FileSource(str(path), follow=True)


def test_damaged_gzip_gives_what_comes_before(tmp_path):
    """The lines before a damaged place are scored; then the source fails."""
    lines = [record(f"e{n}", noise=os.urandom(200).hex()) for n in range(2000)]
    path = tmp_path / "log.gz"
    whole = gzip.compress(b"\n".join(lines))
    path.write_bytes(whole[: len(whole) // 2])
    with Store.open(str(tmp_path / "s.db")) as store:
        loop = Loop(FileSource(str(path)), evaluate, store=store, dead_letters=MemoryDeadLetters())
        with pytest.raises(StreamError, match=r"log\.gz: cannot be read beyond byte"):
            asyncio.run(loop.run())
        assert 900 < store.count() < 1100


def test_extent_counts_bytes_on_disk(tmp_path, opened):
    """Progress is what was read of the file's size, for a packed file of its packed size."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    source = opened(path)
    size = path.stat().st_size
    assert Extent(done=0, total=size) == source.extent()
    drain(source)
    assert Extent(done=size, total=size) == source.extent()


def test_paused_source_gives_nothing(tmp_path, opened):
    """While paused nothing comes; after that it goes on where it was."""
    path = tmp_path / "log.jsonl"
    path.write_text("a\nb\n")
    source = opened(path)
    source.pause()
    assert ((), False) == (source.poll(0.01, 10).messages, source.poll(0.01, 10).ended)
    source.resume()
    assert ["a", "b"] == texts(drain(source))


def test_followed_file_grows(tmp_path, opened):
    """A followed file gives new lines as they are finished; a half line waits."""
    path = tmp_path / "log.jsonl"
    source = opened(path, follow=True)
    assert (False, []) == (source.ready, drain(source, 0.1))
    path.write_text("a\nhal")
    assert ["a"] == texts(drain(source))
    with path.open("a") as file:
        file.write("f\nb\n")
    assert ["half", "b"] == texts(drain(source))


def test_rotated_file_is_read_to_its_end_first(tmp_path, opened):
    """After a rename, what was still written to the old file comes before the new one, which is the next partition."""
    path = tmp_path / "log.jsonl"
    path.write_text("a\n")
    source = opened(path, follow=True)
    first = drain(source, 0.1)
    path.rename(tmp_path / "log.jsonl.1")
    with (tmp_path / "log.jsonl.1").open("a") as old:
        old.write("b\nc")
    path.write_text("d\n")
    messages = first + drain(source)
    found = [(message.value.decode(), message.partition, message.offset) for message in messages]
    assert [("a", 0, 0), ("b", 0, 2), ("c", 0, 4), ("d", 1, 0)] == found


def test_truncated_file_is_a_gap(tmp_path, opened):
    """A file that was cut is read from its start again, and the gap is reported."""
    path = tmp_path / "log.jsonl"
    path.write_text("aaaa\nbbbb\n")
    source = opened(path, follow=True)
    drain(source, 0.1)
    path.write_text("c\n")
    polled = source.poll(0.3, 10)
    assert ["c"] == texts(polled.messages)
    assert ["log.jsonl"] == [gap.partition.topic for gap in polled.gaps]
    assert [1] == [message.partition for message in polled.messages]


def commit_all(source, messages):
    """Commit the last message of each partition."""
    source.commit({Partition(message.topic, message.partition): message.offset for message in messages})


@pytest.mark.parametrize("packed", [False, True])
def test_second_run_goes_on_after_the_committed_line(tmp_path, opened, packed):
    """With positions, a later run begins after the last committed line."""
    path, positions = tmp_path / "log.jsonl", MemoryPositions()
    content = b"a\nb\nc\nd\n"
    path.write_bytes(gzip.compress(content) if packed else content)
    source = opened(path, positions=positions)
    commit_all(source, drain(source)[:2])
    assert ["c", "d"] == texts(drain(opened(path, positions=positions)))


def test_run_without_positions_begins_again(tmp_path, opened):
    """Without positions, a later run reads the whole file again."""
    path = tmp_path / "log.jsonl"
    path.write_text("a\nb\n")
    source = opened(path)
    commit_all(source, drain(source))
    assert ["a", "b"] == texts(drain(opened(path)))


def test_restart_finds_the_renamed_file(tmp_path, opened):
    """When the file was renamed while nobody read it, its rest comes first, then the new file."""
    path, positions = tmp_path / "log.jsonl", MemoryPositions()
    path.write_text("a\nb\n")
    source = opened(path, follow=True, positions=positions)
    commit_all(source, drain(source, 0.1)[:1])
    path.rename(tmp_path / "log.jsonl.1")
    path.write_text("c\n")
    again = opened(path, follow=True, positions=positions)
    found = [(message.value.decode(), message.partition) for message in drain(again)]
    assert [("b", 0), ("c", 1)] == found


def test_restart_with_another_file_is_a_gap(tmp_path, opened):
    """When the file that was read is gone, the one that is there is read from its start, and the gap is reported."""
    path, positions = tmp_path / "log.jsonl", MemoryPositions()
    path.write_text("a\nb\n")
    source = opened(path, follow=True, positions=positions)
    commit_all(source, drain(source, 0.1))
    path.write_text("c\nd\ne\n")
    again = opened(path, follow=True, positions=positions)
    polled = again.poll(0.1, 10)
    assert (["c", "d", "e"], 1) == (texts(polled.messages), len(polled.gaps))
    assert {1} == {message.partition for message in polled.messages}


def test_new_file_is_not_remembered_before_the_old_one_is_finished(tmp_path, opened):
    """While a line of the old file is open, a restart takes up the old file, however far the new one is."""
    path, positions = tmp_path / "log.jsonl", MemoryPositions()
    path.write_text("a\nb\n")
    source = opened(path, follow=True, positions=positions)
    first = drain(source, 0.1)
    path.rename(tmp_path / "log.jsonl.1")
    path.write_text("c\n")
    commit_all(source, [first[0], *drain(source)])
    again = opened(path, follow=True, positions=positions)
    assert ["b", "c"] == texts(drain(again))
    commit_all(source, [first[1]])
    assert [] == drain(opened(path, follow=True, positions=positions), 0.1)


STDIN = """
import sys
from stef.stream.files import FileSource
source = FileSource("-")
while True:
    polled = source.poll(0.1, 10)
    for message in polled.messages:
        print(message.topic, message.offset, message.value.decode(), flush=True)
    if polled.ended:
        break
"""


def test_standard_input():
    """Lines of standard input come as they are written, and it ends when the writer closes it."""
    with subprocess.Popen(
        [sys.executable, "-c", STDIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0
    ) as process:
        process.stdin.write("a\n")
        assert "stdin 0 a\n" == process.stdout.readline()
        process.stdin.write("b\nrest")
        process.stdin.close()
        assert "stdin 2 b\nstdin 4 rest\n" == process.stdout.read()
    assert 0 == process.returncode


def test_killed_consumer_stores_each_record_once(tmp_path):
    """Killed with -9 at several moments and started again, the consumer has stored every record exactly once."""
    log, path = tmp_path / "log.jsonl", str(tmp_path / "s.db")
    log.write_bytes(b"".join(record(f"e{n}") + b"\n" for n in range(3000)))
    starts = []
    for kill_at in (200, 900, None):
        with started(str(log), path) as process:
            for line in process.stdout:
                new = int(line.split()[1])
                if kill_at is not None and new >= kill_at:
                    os.kill(process.pid, signal.SIGKILL)
                    break
            process.stdout.read()
        starts.append(process.returncode)
    assert [-signal.SIGKILL, -signal.SIGKILL, 0] == starts
    with Store.open(path) as store:
        keys = [row.event_key for row in store.figures()]
    assert {f"e{n}" for n in range(3000)} == set(keys)
    assert 3000 == len(keys)


def test_terminated_consumer_ends_in_order(tmp_path):
    """SIGTERM ends the process with status 0, and nothing that it stored comes again."""
    log, path = tmp_path / "log.jsonl", str(tmp_path / "s.db")
    log.write_bytes(b"".join(record(f"e{n}") + b"\n" for n in range(3000)))
    with started(str(log), path) as process:
        process.stdout.readline()
        process.terminate()
        process.stdout.read()
    assert 0 == process.returncode
    with started(str(log), path) as process:
        last = process.stdout.read().splitlines()[-1]
    with Store.open(path) as store:
        assert 3000 == store.count()
    assert "0" == last.split()[2]


def delivery(key="e1"):
    """One result on its way."""
    return Delivery(evaluation=evaluation(key), message=Message(value=b"x"), namespace="n")


def test_results_are_appended(tmp_path):
    """A result file grows; each line reads back as the result."""
    path = tmp_path / "out.jsonl"
    for key in ("a", "b"):
        sink = JsonlSink(str(path))
        sink.write([delivery(key)])
        sink.close()
    assert [evaluation("a"), evaluation("b")] == [from_json(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        (b'{"a": 1}\n{"b": ', b'{"a": 1}\n'),
        (b'{"a": 1}', b'{"a": 1}\n'),
        (b"half", b""),
        (b'{"a": 1}\n', b'{"a": 1}\n'),
    ],
)
def test_half_a_line_is_cut_off(tmp_path, before, kept):
    """Half a line that a crash left is cut off; a whole one without its end gets it."""
    path = tmp_path / "out.jsonl"
    path.write_bytes(before)
    sink = JsonlSink(str(path))
    sink.write([delivery()])
    sink.close()
    assert kept == path.read_bytes()[: len(kept)]
    assert "e1" == json.loads(path.read_bytes()[len(kept) :])["event_key"]


def test_result_file_that_cannot_be_written(tmp_path):
    """A result file in a folder that is not there is an error that names it."""
    with pytest.raises(StreamError, match=r"nowhere/out\.jsonl: cannot write results"):
        JsonlSink(str(tmp_path / "nowhere" / "out.jsonl"))


def test_full_disk_is_an_error():
    """When the disk is full, the write fails, and says so."""
    sink = JsonlSink("/dev/full")
    with pytest.raises(StreamError, match="No space left"):
        sink.write([delivery()])
    with pytest.raises(OSError, match="No space left"):
        sink.close()


def test_dead_letter_keeps_the_bytes(tmp_path):
    """A dead letter in a file holds the original bytes, key and headers, where it stood, and why it is there."""
    path = tmp_path / "log.dlq.jsonl"
    message = Message(
        value=b"\xff\x00", key=b"\xfe", headers=(("h", b"\x01"),), topic="log", partition=2, offset=7, timestamp=WHEN
    )
    letters = FileDeadLetters(str(path))
    letters.write([DeadLetter(message=message, error=RecordError("not_utf8", "byte 0xff"))])
    letters.write([DeadLetter(message=Message(value=None), error=RecordError("internal", "x"))])
    letters.close()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert (b"\xff\x00", b"\xfe") == (base64.b64decode(first["value_base64"]), base64.b64decode(first["key_base64"]))
    assert ("not_utf8", "byte 0xff", "log", 2, 7) == tuple(
        first[name] for name in ("reason", "detail", "topic", "partition", "offset")
    )
    assert ([["h", "AQ=="]], WHEN.isoformat()) == (first["headers_base64"], first["timestamp"])
    assert (None, None) == (second["value_base64"], second["key_base64"])


def test_dead_letters_that_cannot_be_written(tmp_path):
    """Dead letters in a folder that is not there are an error that names the file."""
    letters = FileDeadLetters(str(tmp_path / "nowhere" / "x.jsonl"))
    with pytest.raises(StreamError, match=r"nowhere/x\.jsonl: cannot write dead letters"):
        letters.write([DeadLetter(message=Message(value=b""), error=RecordError("internal", "x"))])


def test_followed_file_through_the_loop(tmp_path):
    """A followed file is scored while it grows, until the consumer is stopped."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(record("a") + b"\n")

    async def main(store):
        seen = asyncio.Event()
        limits = Limits(batch_seconds=0.01, poll_seconds=0.05)
        loop = Loop(
            FileSource(str(path), follow=True, positions=store),
            evaluate,
            store=store,
            dead_letters=MemoryDeadLetters(),
            limits=limits,
            on_flush=lambda _: seen.set(),
        )
        task = asyncio.create_task(loop.run())
        await seen.wait()
        seen.clear()
        with path.open("ab") as file:
            file.write(record("b") + b"\n")
        await seen.wait()
        loop.stop()
        return await task

    with Store.open(str(tmp_path / "s.db")) as store:
        assert 2 == asyncio.run(main(store)).new
        source = FileSource(str(path), follow=True, positions=store)
        assert [] == drain(source, 0.1)
        source.close()
