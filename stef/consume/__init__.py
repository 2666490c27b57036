"""A consumer: from `consumers/<name>.yaml` to source, pipeline, sinks and loop.

`read` the file, `stef.config.resolve(flags, environment, consumer.settings())`, then `run` or `check`.
"""

from __future__ import annotations

from stef.consume.file import Consumer, read
from stef.consume.wiring import Checked, Known, MakeEvaluate, Running, check, run, wired

__all__ = ["Checked", "Consumer", "Known", "MakeEvaluate", "Running", "check", "read", "run", "wired"]
