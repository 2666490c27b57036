"""Check every field of every case of a case bank against the real pipeline.

    python benchmarks/cases.py PATH [--json]

PATH is a file with one case per line: `{"id", "kind", "record" | "input" | "inputs", "expect"}`. What a case expects is
compared with what the pipeline says, by `case_fields.py`; a field that is not known there fails its case. With `--json`
one object per case goes to standard output, and the closing line to standard error. Ends with 1 when a case failed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from case_conditions import Words
from case_fields import Json, Seen, failures

from stef.config import resolve
from stef.errors import JudgeError, RecordError
from stef.ingest import read
from stef.judge.reply import parse as parse_reply
from stef.pipeline import Pipeline, build
from stef.record import Message, QueryRecord
from stef.result import Evaluation, Outcome, Reason, to_json
from stef.sql.parse import parse
from stef.sql.statement import lift
from stef.store import Entry, Fate, Store

# A good record that is sent after one that must not block.
_NEXT = {
    "event_id": "next",
    "question": "How many lamps are broken?",
    "sql": "SELECT COUNT(*) FROM lamps WHERE state = 'broken'",
}


def outcome_word(evaluation: Evaluation) -> str:
    """The outcome with its reason, as a case bank writes it."""
    if evaluation.reason is Reason.DUPLICATE:
        return "duplicate"
    return f"{evaluation.outcome}_{evaluation.reason}" if evaluation.reason else str(evaluation.outcome)


def messages_of(case: Json) -> Iterator[Message]:
    """The messages of a case, as a source would deliver them."""
    key = (case.get("kafka") or {}).get("key")
    raw = [case["input"]] if "input" in case else case.get("inputs", [])
    values = [None if text is None else text.encode() for text in raw]
    if "input_base64" in case:
        values.append(base64.b64decode(case["input_base64"]))
    if "record" in case:
        values.append(json.dumps({"event_id": case["id"], **case["record"]}, ensure_ascii=False).encode())
    for offset, value in enumerate(values):
        yield Message(value=value, key=key.encode() if key else None, topic="cases", offset=offset)


async def evaluate(pipeline: Pipeline, message: Message) -> tuple[Evaluation, ...] | None:
    """What the pipeline says; None when the message goes to the dead letters."""
    try:
        found = await pipeline.evaluate(message)
    except RecordError:
        return None
    return None if any(item.outcome is Outcome.DEAD_LETTER for item in found) else found


async def run(pipeline: Pipeline, store: Store, case: Json) -> Seen:
    """Put a case through pipeline and store, or a judge's reply through its reader."""
    record = case.get("record") or {}
    rules = record.get("app_rules") or {}
    seen = Seen(words=Words.of(record, json.loads(rules) if isinstance(rules, str) else rules))
    try:
        if case["kind"] == "judge_output":
            seen.reply = _reply(case["input"])
        else:
            await _run_messages(pipeline, store, case, seen)
    except Exception:  # noqa: BLE001 - a crash is what the case is about: it is reported, and the next case runs
        seen.crash = traceback.format_exc(limit=-3)
    return seen


async def _run_messages(pipeline: Pipeline, store: Store, case: Json, seen: Seen) -> None:
    for message in messages_of(case):
        found = await evaluate(pipeline, message)
        if found is None:
            seen.outcomes.append("dead_letter")
            continue
        kept = store.write([Entry(namespace=case["id"], message=message, evaluations=found)]).kept
        seen.outcomes += [
            "duplicate" if item.fate is Fate.DUPLICATE else outcome_word(item.evaluation) for item in kept
        ]
        if seen.evaluation is None:
            scored = (place for place, item in enumerate(found) if item.outcome is Outcome.SCORED)
            place = next(scored, 0)
            seen.evaluation = found[place]
            seen.result = json.loads(to_json(seen.evaluation, specs=True))
            seen.record = _record(message, place)
            if seen.record is not None and seen.record.sql is not None:
                seen.parsed = parse(
                    lift(seen.record.sql), dialect=seen.record.dialect, parameters=seen.record.parameters
                )
    after = await evaluate(pipeline, Message(value=json.dumps(_NEXT).encode(), topic="cases", offset=1))
    seen.blocked = after is None or after[0].outcome is not Outcome.SCORED


def _record(message: Message, place: int) -> QueryRecord | None:
    return read(message, now=datetime.now(UTC)).arrivals[place].record


def _reply(text: str) -> tuple[str, float] | None:
    try:
        reply = parse_reply(text)
    except JudgeError:
        return None
    return str(reply.verdict), reply.confidence


async def run_bank(cases: Sequence[Json]) -> list[Json]:
    """Run all cases through one pipeline without rules of its own."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = build(resolve({"rules": folder, "judge": "offline"}))
        with Store.open(str(Path(folder, "cases.db"))) as store:
            return [
                {"id": case["id"], "kind": case["kind"], "failures": failures(case, await run(pipeline, store, case))}
                for case in cases
            ]


def show(row: Mapping[str, Any]) -> str:
    """A failed case for people."""
    lines = [f"{row['id']} ({row['kind']})"]
    for item in row["failures"]:
        lines += [f"  {item['field'] or 'crash'}", f"    expected  {json.dumps(item['expected'], ensure_ascii=False)}"]
        lines.append("    got       " + str(item["got"]).replace("\n", "\n              "))
    return "\n".join(lines)


def main() -> int:
    """Run the bank that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, help="case bank: one case per line")
    parser.add_argument("--json", action="store_true", help="one object per case")
    arguments = parser.parse_args()
    lines = arguments.path.read_text(encoding="utf-8").splitlines()
    rows = asyncio.run(run_bank([json.loads(line) for line in lines if line.strip()]))
    failed = [row for row in rows if row["failures"]]
    if arguments.json:
        print("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    elif failed:
        print("\n\n".join(show(row) for row in failed), end="\n\n")
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed", file=sys.stderr if arguments.json else sys.stdout)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
