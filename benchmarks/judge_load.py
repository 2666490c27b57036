"""How much of litellm's own throughput is left when a record is judged over it.

    python benchmarks/judge_load.py [--calls N] [--at-once N] [--logprobs] [--memory N]

A server of its own, in another process, answers every request after 300 ms. The same number of calls goes to it through
`LlmJudge.judge` (prompt, limits, litellm, reading the reply) and through bare `litellm.acompletion` with messages of
the same size, in blocks that take turns. Printed: calls a second of each block, CPU milliseconds a call of this
process, and at the end the judge's throughput as a share of bare litellm's.

`--logprobs` lets every reply hold the probabilities of its tokens. `--memory` makes that many calls through the judge
and prints what the process holds every 5,000.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evidence_signals import knowledge
from speed import resident

from stef.apprules import NO_RULES
from stef.judge.case import JudgeCase, case_of
from stef.judge.client import ModelClient, ModelOptions, load
from stef.judge.dossier import variables
from stef.judge.llm import LlmJudge, load_prompt
from stef.record import QueryRecord
from stef.timespan import Calendar
from stef.understand import understand

_DELAY = 0.3  # seconds
_MODEL = "openai/stand-in"
_BLOCK = 1000
_SHOWN_EVERY = 5000
_MOST_CASES = 5000  # different records
_REPLY = '{"verdict": "LIKELY_CORRECT", "confidence": 80, "reasons": ["wrong_column"], "explanation": "One is open."}'
_SQL = (
    "SELECT c.region, SUM(o.amount) AS revenue FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status "
    "= 'paid' AND o.ordered_at >= '2024-01-01' AND c.orders > NUMBER GROUP BY c.region ORDER BY revenue DESC"
)
Call = Callable[[int], Awaitable[object]]


def body(*, logprobs: bool) -> bytes:
    """What the server answers."""
    pieces = [_REPLY[place : place + 3] for place in range(0, len(_REPLY), 3)]
    likely = [{"token": name, "logprob": -1.5, "bytes": None} for name in ("CORRECT", "INC", "LIKELY", "POT", "The")]
    tokens = [{"token": piece, "logprob": -0.1, "bytes": None, "top_logprobs": likely} for piece in pieces]
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": _REPLY}, "finish_reason": "stop"}
    if logprobs:
        choice["logprobs"] = {"content": tokens, "refusal": None}
    return json.dumps({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stand-in",
        "choices": [choice],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 40, "total_tokens": 1240},
    }).encode()  # fmt: skip


async def serving(*, logprobs: bool) -> None:
    """Answer every request on every connection, and print the port first."""
    content = body(logprobs=logprobs)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(asked.partition(b"content-length:")[2].partition(b"\r\n")[0]))
                await asyncio.sleep(_DELAY)
                writer.write(head + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server_of_our_own(*, logprobs: bool) -> Iterator[str]:
    """The address of a server that ends with the block."""
    command = [sys.executable, __file__, "--serve", *(["--logprobs"] if logprobs else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("no output")
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


def cases(count: int) -> list[JudgeCase]:
    """Records as they would reach the judge."""
    known, found = knowledge(), []
    for number in range(count):
        record = QueryRecord(
            question=f"Total revenue of paid orders by region in 2024, for customers above {number} orders",
            sql=_SQL.replace("NUMBER", str(number)),
            dialect="postgres",
        )
        seen = understand(record, NO_RULES, Calendar(), known)
        if seen.compared is None:
            raise ValueError(f"a record of our own cannot be scored: {seen.detail}")
        found.append(case_of(record, seen, seen.compared))
    return found


def bare(judge: LlmJudge, made: list[JudgeCase], options: ModelOptions) -> Call:
    """Litellm alone, with messages that were rendered before."""
    messages = []
    for case in made:
        values = variables(case, "0123456789abcdef")
        shown = judge.prompt.render({name: values[name] for name in judge.prompt.variables})
        messages.append([{"role": "system", "content": shown.system}, {"role": "user", "content": shown.user}])
    completion = load().acompletion

    async def call(number: int) -> object:
        return await completion(
            model=options.model,
            api_base=options.api_base,
            api_key="none",
            messages=messages[number % len(messages)],
            temperature=0,
            timeout=options.timeout,
            num_retries=0,
        )

    return call


async def calls(call: Call, count: int, at_once: int) -> tuple[float, float]:
    """Make calls, so many at once; wall and CPU seconds."""
    numbers = iter(range(count))

    async def working() -> None:
        for number in numbers:
            await call(number)

    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(working() for _ in range(at_once)))
    return time.monotonic() - began, time.process_time() - cpu


async def compared(judged: Call, alone: Call, count: int, at_once: int) -> float:
    """Print calls a second of each; the share of the judge's."""
    for call in (judged, alone):
        await calls(call, 2 * at_once, at_once)
    taken = {"judge": 0.0, "litellm": 0.0}
    blocks = -(-count // _BLOCK)
    # The one that goes first changes, so that neither has the quieter half of each turn.
    turns = itertools.cycle([("judge", judged), ("litellm", alone), ("litellm", alone), ("judge", judged)])
    for name, call in itertools.islice(turns, 2 * blocks):
        seconds, cpu = await calls(call, count // blocks, at_once)
        taken[name] += seconds
        each = f"{count // blocks / seconds:7.1f} calls a second {1000 * cpu / (count // blocks):7.2f} ms CPU a call"
        print(f"{name:8} {each}", flush=True)
    return taken["litellm"] / taken["judge"]


async def remembered(judged: Call, count: int, at_once: int) -> None:
    """Print what the process holds."""
    for done in range(0, count, _SHOWN_EVERY):
        await calls(judged, min(_SHOWN_EVERY, count - done), at_once)
        print(f"{min(done + _SHOWN_EVERY, count):8} calls {resident():8.1f} MiB", flush=True)


async def run(given: argparse.Namespace, address: str) -> None:
    """Measure against a server."""
    options = ModelOptions(model=_MODEL, api_base=address, timeout=60.0)
    prompt = load_prompt(Path(__file__).parents[1] / "prompts", "judge")
    judge = LlmJudge(options, prompt, client=ModelClient(options=options))
    made = cases(min(_MOST_CASES, (given.memory or given.calls) + 2 * given.at_once))
    # What was searched for one record must not be known of the next.
    turn = itertools.cycle(made)
    # So many records at once are never held by a consumer: they are none of the garbage collector's business.
    gc.freeze()

    async def judged(_: int) -> object:
        return await judge.judge(next(turn))

    if given.memory:
        await remembered(judged, given.memory, given.at_once)
    else:
        share = await compared(judged, bare(judge, made, options), given.calls, given.at_once)
        print(f"share {share:.3f}")
    await judge.aclose()


def main() -> None:
    """Serve, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=256)
    parser.add_argument("--logprobs", action="store_true")
    parser.add_argument("--memory", type=int, metavar="CALLS")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serving(logprobs=given.logprobs))
        return
    with server_of_our_own(logprobs=given.logprobs) as address:
        asyncio.run(run(given, address))


if __name__ == "__main__":
    main()
