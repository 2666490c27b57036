"""A consumer as a process of its own, for tests that kill it: SOURCE STORE [kafka topic]; a slow `evaluate`."""

from __future__ import annotations

import asyncio
import sys

from stef.store import Store
from stef.stream.files import FileSource
from stef.stream.kafka import KafkaSettings, KafkaSource
from stef.stream.limits import Limits
from stef.stream.loop import Loop
from stef.stream.memory import MemoryDeadLetters
from tests.streaming import evaluate


async def slowly(message):
    """So slow that the process is killed in the middle."""
    await asyncio.sleep(0.001 * (message.offset % 5))
    return await evaluate(message)


def tell(report):
    """One line for the test after each flush."""
    sys.stdout.write(f"{report.received} {report.new} {report.duplicates}\n")
    sys.stdout.flush()


def main() -> None:
    """Run until the end, or until killed; say how far it came."""
    place, path = sys.argv[1:3]
    with Store.open(path) as store:
        if len(sys.argv) > 3:
            settings = KafkaSettings(
                bootstrap=(place,),
                topics=(sys.argv[3],),
                group="killed",
                session_seconds=6,
            )
            source = KafkaSource(settings)
        else:
            source = FileSource(place, positions=store)
        loop = Loop(
            source,
            slowly,
            store=store,
            dead_letters=MemoryDeadLetters(),
            limits=Limits(concurrency=16, batch=50, batch_seconds=0.05, commit_seconds=0.05),
            on_flush=tell,
        )
        asyncio.run(loop.run(signals=True))


if __name__ == "__main__":
    main()
