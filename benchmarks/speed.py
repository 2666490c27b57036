"""What reading, aligning and evidence cost, as multiples of the time that sqlglot takes to parse the same statement.

    python benchmarks/speed.py LABELLED [--every N] [--passes N]
    python benchmarks/speed.py LABELLED --memory RECORDS [--new SHARE]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect and db.

For every record the stages and the plain `sqlglot.parse_one` run one after the other, in several passes, on one core;
times are those of the thread, so that other processes do not count. A record's ratio is taken of its medians over the
passes, and the table shows the median record. Nothing is remembered between the passes. Where sqlglot is compiled, all
is measured with it and without it in one run, both times as multiples of the parser in plain Python. The last line is
the ratio of everything to that parser, without anything compiled.

With `--memory` so many messages go through the whole pipeline, most of them repeated; it prints what the process holds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

import sqlglot
from evidence_signals import Items, catalogues, read, record_of
from sqlglot.errors import SqlglotError

from stef import data
from stef.apprules import NO_RULES
from stef.ingest import read as decoded
from stef.judge.offline import OfflineJudge
from stef.pipeline import Pipeline, Rulebook
from stef.record import Message, QueryRecord
from stef.spec import Source
from stef.sql.dialects import canonical
from stef.timespan import Calendar
from stef.understand import Knowledge, question_reader, read_statement, understand

Stages = dict[str, Callable[[QueryRecord], object]]
_CLOCK = Calendar()
_NOW = datetime(2025, 1, 1, tzinfo=UTC)
_PARSE, _TEXTS, _ALL = "sqlglot.parse_one", "all from the texts", "all, with the catalogue"
_WARM = 50
_REPEATED = 200
_PAGE = os.sysconf("SC_PAGE_SIZE")


def knowledge(items: Items) -> tuple[Knowledge, Knowledge]:
    """What a reading needs, without a memory; without and with a catalogue of all statements."""
    reader = question_reader(data.lexicon("en"), data.phrasebooks())
    plain = Knowledge(read_question=reader, weights=data.weights(), denied=data.denied_functions())
    return plain, replace(plain, catalogues=catalogues(items, plain))


def parse(record: QueryRecord) -> None:
    """What everything is compared with."""
    with suppress(SqlglotError):
        sqlglot.parse_one(record.sql or "", read=canonical(record.dialect) or None)


def stages(plain: Knowledge, full: Knowledge) -> Stages:
    """What is timed, by name."""

    def expansion(record: QueryRecord) -> None:
        if record.expanded_question:
            plain.read_question(record.expanded_question, Source.EXPANSION, NO_RULES, _CLOCK)

    return {
        _PARSE: parse,
        "reading the question": lambda r: plain.read_question(r.question, Source.QUESTION, NO_RULES, _CLOCK),
        "reading the expansion": expansion,
        "reading the statement": lambda r: read_statement(r, NO_RULES, _CLOCK, max_bytes=plain.max_sql_bytes),
        _TEXTS: lambda r: understand(r, NO_RULES, _CLOCK, plain),
        _ALL: lambda r: understand(r, NO_RULES, _CLOCK, full),
    }


def timed(records: list[QueryRecord], runs: Stages, passes: int) -> dict[str, list[float]]:
    """For each stage the median seconds of every record."""
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in records] for name in runs}
    for record in records[:_WARM]:
        for run in runs.values():
            run(record)
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would fall on whatever happens to run; the trees hold cycles, so one is due between
    for _ in range(passes):
        for place, record in enumerate(records):
            for name, run in runs.items():
                began = time.thread_time()
                run(record)
                seconds[name][place].append(time.thread_time() - began)
            if place % 100 == 0:
                gc.collect()
    gc.enable()
    return {name: [median(found) for found in rows] for name, rows in seconds.items()}


def show(found: dict[str, list[float]], base: list[float]) -> float:
    """Print the table of seconds and of multiples of a base, record by record; the ratio of everything."""
    ratios = {name: median(a / b for a, b in zip(rows, base, strict=True)) for name, rows in found.items()}
    print(f"{'':26} {'median ms':>10} {'mean ms':>10} {'ratio':>8}")
    for name, rows in found.items():
        print(f"{name:26} {1000 * median(rows):10.3f} {1000 * fmean(rows):10.3f} {ratios[name]:8.2f}")
    return ratios[_ALL]


def pipeline(full: Knowledge) -> Pipeline:
    """The whole path with the offline judge."""
    return Pipeline(Rulebook(registry={}), full, OfflineJudge(full.weights))


def message(record: QueryRecord, number: int, *, new: bool = False) -> Message:
    """A record as a log would deliver it; a new one asks what nobody has asked before."""
    fields = record.model_dump(exclude_none=True, exclude={"metadata"})
    question = f"{record.question} ({number})" if new else record.question
    fields |= {"event_id": f"event-{number}", "question": question}
    return Message(value=json.dumps(fields).encode(), topic="speed", offset=number)


def repeated(records: list[QueryRecord], full: Knowledge) -> tuple[float, float]:
    """Records a second for records that were seen before: from the message to the result, and behind its decoding."""
    whole, some = pipeline(full), records[:_REPEATED]
    whole_seconds, decoding = [], []
    for k in range(6):
        batch = [message(record, 1000 * k + i) for i, record in enumerate(some)]
        began = time.thread_time()
        asyncio.run(_evaluated(whole, batch))
        middle = time.thread_time()
        for one in batch:
            decoded(one, now=_NOW)
        whole_seconds.append(middle - began)
        decoding.append(time.thread_time() - middle)
    taken = median(whole_seconds[1:])
    return len(some) / taken, len(some) / (taken - median(decoding[1:]))


async def _evaluated(whole: Pipeline, messages: Iterable[Message]) -> None:
    for one in messages:
        await whole.evaluate(one)


def resident() -> float:
    """What the process holds in memory, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20


def memory(records: list[QueryRecord], full: Knowledge, count: int, share: float) -> None:
    """Send many messages through the pipeline and print what the process holds at twenty points."""
    whole, dice = pipeline(full), random.Random(1)  # noqa: S311 - no secret

    def messages() -> Iterator[Message]:
        for number in range(count):
            yield message(records[number % len(records)], number, new=dice.random() < share)

            if number % max(1, count // 20) == 0:
                print(f"{number:10} records {resident():8.1f} MiB", flush=True)

    asyncio.run(_evaluated(whole, messages()))


def is_compiled() -> bool:
    """Whether sqlglot's parser runs as machine code."""
    return not str(sys.modules["sqlglot.parser"].__file__).endswith(".py")


def plainly() -> tuple[str, list[float]]:
    """What this script prints with nothing compiled, and the seconds that each record takes to parse then."""
    script = Path(__file__)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "parsing.json")
        command = [sys.executable, script.with_name("uncompiled.py"), script, *sys.argv[1:], "--parsing", file]
        shown = subprocess.run(command, check=True, capture_output=True, text=True)
        return shown.stdout.rstrip(), json.loads(file.read_text())


def main() -> None:
    """Print the table, or what the process holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--every", type=int, default=8, help="take every n-th statement")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--memory", type=int, metavar="RECORDS")
    parser.add_argument("--new", type=float, default=0.02, help="share of records that were not seen before")
    parser.add_argument("--parsing", metavar="FILE", help="write here how long each record took to parse")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    items = read(given.labelled)
    plain, full = knowledge(items)
    records = [record_of(item) for item in items[:: given.every]]
    if given.memory:
        memory(records, full, given.memory, given.new)
        return
    uncompiled, base = plainly() if is_compiled() else ("", [])
    print(f"{len(records)} records, sqlglot {'compiled' if is_compiled() else 'in plain Python'}")
    found = timed(records, stages(plain, full), given.passes)
    ratio = show(found, base or found[_PARSE])
    whole, known = repeated(records, full)
    print(f"repeated records: {known:.0f} a second, {whole:.0f} with the decoding of the message")
    if given.parsing:
        Path(given.parsing).write_text(json.dumps(found[_PARSE]))
    print(uncompiled or f"ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
