"""Raw message → records.

Formats are detected: native JSON, OpenTelemetry and OpenInference spans, Langfuse, LangSmith, LangChain tools, Cortex
Analyst, Genie, chat completions, CloudEvents; in envelopes, batches and JSON texts. A `FieldMapping` names what is
found nowhere else.

A record whose content was not logged (a span without its messages), or a tool's call without the question behind it,
has the question "".
"""

from __future__ import annotations

from stef.ingest.decode import MAX_BYTES
from stef.ingest.mapping import FieldMapping
from stef.ingest.reader import Read, read
from stef.ingest.rejection import Rejection

__all__ = ["MAX_BYTES", "FieldMapping", "Read", "Rejection", "read"]
