"""Odd records through the real pipeline: what fails inside, raises, or takes too long.

    python benchmarks/fuzz.py [--minutes M] [--seed N] [--only NUMBER]

Messages are made from a seed (see `fuzz_records.py`) and evaluated, with or without a small catalogue; each result is
written as JSON, as a sink would. At the end stands a table of the outcomes and of the slowest records. A record that
ended `failed/internal`, that raised, or that took too much processor time twice is a finding: it
is printed with its seed, number and message, and the exit code is 1. Too much is 250 ms without
what sqlglot's parser takes, a second with it, and for messages over 16 KiB as much more as they are longer. `--only`
repeats one number of a seed. One core is used.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import sqlglot
import structlog
from fuzz_records import Bank, bank, message
from sqlglot import exp

from stef import data
from stef.apprules import NO_RULES
from stef.catalogue import Epoch, Learners, Where, observe
from stef.config import resolve
from stef.errors import RecordError
from stef.pipeline import Pipeline, build
from stef.record import Message, QueryRecord
from stef.result import Evaluation, Reason, to_json
from stef.timespan import Calendar
from stef.understand import question_reader, read_statement

_LIMIT = 0.25
_WITH_PARSER = 1.0
_PLAIN_BYTES = 16_384
_WARM = 100
_SHOWN = 10
_MAX_SQL = 262_144


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One message that was evaluated: seconds in all and in the parser; `error` is a traceback or ""."""

    seconds: float
    parsing: float
    number: int
    outcomes: tuple[str, ...] = ()
    error: str = ""


@dataclass(slots=True)
class Report:
    """What a run has seen."""

    seed: int
    records: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: list[Run] = field(default_factory=list)
    findings: list[tuple[str, Run]] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Count a message."""
        self.records += 1
        self.seconds += run.seconds
        self.outcomes.update(run.outcomes)
        self.slowest = sorted([*self.slowest, run], reverse=True)[:_SHOWN]


def small_catalogue(known: Bank) -> Epoch:
    """What the statements of the case files show, each asked by another question."""
    learners = Learners()
    for number, (sql, dialect) in enumerate(known.statements):
        record = QueryRecord(question="?", sql=sql, dialect=dialect or None)
        _, spec, _, _ = read_statement(record, NO_RULES, Calendar(), max_bytes=_MAX_SQL)
        if spec is not None:
            asked = known.questions[number % len(known.questions)]
            learners.add(Where("", "docks"), observe(spec, f"{asked} {number}"))
    return learners.freeze()


def pipelines(folder: str, epoch: Epoch) -> tuple[Pipeline, Pipeline]:
    """Without and with a catalogue; neither remembers anything, so that a text costs the same each time."""
    whole = build(resolve({"rules": folder, "judge": "offline"}))
    knowledge = replace(whole.knowledge, read_question=question_reader(data.lexicon("en"), data.phrasebooks()))
    plain = Pipeline(whole.rulebook, knowledge, whole.judge, remembered=0)
    return plain, plain.pinned(epoch)


def made(seed: int, number: int, known: Bank) -> tuple[bytes, int]:
    """The message of a number, and which of the two pipelines takes it."""
    dice = Random(f"{seed}/{number}")  # noqa: S311 - no secret
    return message(dice, known), dice.randint(0, 1)


def outcome(result: Evaluation | RecordError) -> str:
    """How a record ended."""
    if isinstance(result, RecordError):
        return "dead_letter"
    return f"{result.outcome}/{result.reason}" if result.reason else str(result.outcome)


class Watch:
    """Takes the log's place: keeps the traceback of the last failure, and prints nothing. Times the parser."""

    def __init__(self) -> None:
        self.failure, self.parsing = "", 0.0

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        """A processor of structlog.

        Raises:
            DropEvent: Always.
        """
        if event.get("exc_info"):
            self.failure = traceback.format_exc(limit=-4)
        raise structlog.DropEvent

    def parse_one(self, *given: Any, **named: Any) -> exp.Expr:  # noqa: ANN401 - as sqlglot's own
        """Sqlglot's own, timed."""
        began = time.thread_time()
        try:
            return _PARSE(*given, **named)
        finally:
            self.parsing += time.thread_time() - began


_PARSE = sqlglot.parse_one
WATCH = Watch()


def run(pipeline: Pipeline, value: bytes, number: int) -> Run:
    """Evaluate one message and write its results, as a sink would; nothing is raised."""
    WATCH.failure, WATCH.parsing = "", 0.0
    error, found = "", ()
    began = time.thread_time()
    try:
        results = asyncio.run(pipeline.evaluate(Message(value=value, topic="fuzz", offset=number)))
        for result in results:
            if isinstance(result, Evaluation):
                json.loads(to_json(result, specs=True).encode())
        found = tuple(outcome(result) for result in results)
    except RecordError:
        found = ("dead_letter",)
    except Exception:  # noqa: BLE001 - what raises is what is looked for
        error, found = traceback.format_exc(limit=-4), ("raised",)
    return Run(time.thread_time() - began, WATCH.parsing, number, found, error or WATCH.failure)


def is_slow(run: Run, value: bytes) -> bool:
    """Whether a message took more processor time than one of its length may."""
    longer = max(1.0, len(value) / _PLAIN_BYTES)
    return run.seconds - run.parsing > _LIMIT * longer or run.seconds > _WITH_PARSER * longer


def judged(first: Run, again: Run, value: bytes) -> str:
    """What is wrong with a message, or ""."""
    if "raised" in first.outcomes:
        return "raised"
    if f"failed/{Reason.INTERNAL}" in first.outcomes:
        return "failed inside"
    fast = min(first, again)
    return f"took {1000 * fast.seconds:.0f} ms, {1000 * fast.parsing:.0f} of it parsing" if is_slow(fast, value) else ""


def fuzz(seed: int, minutes: float, known: Bank, folder: str) -> Report:
    """Evaluate messages until the time is up."""
    epoch, report = small_catalogue(known), Report(seed)
    both = pipelines(folder, epoch)
    for book in data.phrasebooks():
        book.patterns  # noqa: B018 - compiled when first asked for
    for number in range(-_WARM, 0):
        value, place = made(seed, number, known)
        run(both[place], value, number)
    gc.collect()
    gc.freeze()
    ends, number = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < ends:
        value, place = made(seed, number, known)
        first = run(both[place], value, number)
        again = run(both[place], value, number) if is_slow(first, value) else first
        report.add(first if first.seconds < again.seconds else again)
        if problem := judged(first, again, value):
            report.findings.append((problem, first))
        number += 1
    return report


def repeat(seed: int, number: int, known: Bank, folder: str) -> Report:
    """Evaluate one message three times and print it."""
    report, epoch = Report(seed), small_catalogue(known)
    value, place = made(seed, number, known)
    both = pipelines(folder, epoch)
    runs = [run(both[place], value, number) for _ in range(3)]
    report.add(min(runs))
    if problem := judged(runs[0], min(runs[1:]), value):
        report.findings.append((problem, runs[0]))
    return report


def show(report: Report, known: Bank) -> None:
    """Print findings and the table."""
    for problem, found in report.findings:
        value, place = made(report.seed, found.number, known)
        print(f"{problem}: --seed {report.seed} --only {found.number}{' (with a catalogue)' if place else ''}")
        print(f"  {value.decode('utf-8', 'backslashreplace')}")
        print(found.error, end="\n" if found.error else "")
    print(f"{report.records} messages, seed {report.seed}, {report.seconds:.0f} s of processor time")
    for name, count in report.outcomes.most_common():
        print(f"{name:28} {count:8}")
    print("\nslowest        ms  parsing  outcome")
    for found in report.slowest:
        ended = ", ".join(found.outcomes)[:60]
        print(f"{found.number:8} {1000 * found.seconds:8.1f} {1000 * found.parsing:8.1f}  {ended}")
    print(f"{len(report.findings)} findings")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print, and say by the exit code whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one message")
    given = parser.parse_args(arguments)
    structlog.configure(processors=[WATCH])
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    sqlglot.parse_one = WATCH.parse_one
    known = bank()
    with tempfile.TemporaryDirectory() as folder:
        if given.only is not None:
            report = repeat(given.seed, given.only, known, folder)
        else:
            report = fuzz(given.seed, given.minutes, known, folder)
    show(report, known)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
