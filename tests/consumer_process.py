"""A consumer as a process of its own, for tests that kill it: FILE STORE, with a slow `evaluate`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import contextmanager

import structlog

from stef.store import Store
from stef.stream.files import FileSource
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
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    place, path = sys.argv[1:3]
    with Store.open(path) as store:
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


@contextmanager
def started(*arguments):
    """The process, for a test; killed when the test fails."""
    command = [sys.executable, "-m", "tests.consumer_process", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


if __name__ == "__main__":
    main()
