"""Exchanges with a model on file: recorded from real ones, and played back without a model.

A file has one JSON object a line, in the order in which the replies came: a digest of the request, the request, and
what was said. The digest leaves out the mark of each judgement (the nonce), which no two of them share.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

from stef.errors import InputError
from stef.judge.completion import Client, Completion, Request, Spent
from stef.judge.retry import CallError, Trouble

_MARK = "{nonce}"
_COMPLETION = TypeAdapter(Completion)


def digest(request: Request) -> str:
    """What a request is found again by."""
    plain = json.dumps([_messages(request), dict(request.schema)], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _messages(request: Request) -> list[dict[str, str]]:
    return [
        {name: text.replace(request.nonce, _MARK) if request.nonce else text for name, text in message.items()}
        for message in request.messages
    ]


class RecordingClient:
    """Passes requests on, and appends each exchange to a file; a `Client`.

    Args:
        client: Who answers.
        path: Made when it is not there; what it holds stays.

    Raises:
        InputError: It cannot be written.
    """

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        try:
            self._file: IO[str] = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by aclose
        except OSError as error:
            raise InputError(path, "", error.strerror or str(error), "a file that can be written") from None

    async def complete(self, request: Request, spent: Spent) -> Completion:
        """Make one attempt, and write down what came of it.

        Raises:
            CallError: No reply; nothing is written.
        """
        before = spent.seconds
        done = await self.client.complete(request, spent)
        said = {name: value for name, value in asdict(done).items() if value not in (None, "", (), False)}
        line = {
            "request": digest(request),
            "messages": _messages(request),
            "reply": {"text": done.text, **said},
            "seconds": round(spent.seconds - before, 3),
        }
        self._file.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._file.flush()
        return done

    async def aclose(self) -> None:
        """Close the file and the client."""
        self._file.close()
        await self.client.aclose()


@dataclass(slots=True)
class _Take:
    """The replies to one request, in order."""

    replies: list[tuple[Completion, float]] = field(default_factory=list)
    played: int = 0


class ReplayingClient:
    """Plays recorded replies back; a `Client` that needs no model.

    Of several replies to one request each is played once, in the order of recording, then from the first one again.

    Args:
        path: A file that `RecordingClient` wrote.

    Raises:
        InputError: It cannot be read, or is no such file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._takes: dict[str, _Take] = defaultdict(_Take)
        try:
            with Path(path).open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        key, reply, seconds = _read(path, number, line)
                        self._takes[key].replies.append((reply, seconds))
        except OSError as error:
            raise InputError(path, "", error.strerror or str(error), "a file of recorded exchanges") from None
        except UnicodeDecodeError:
            raise InputError(path, "", "no UTF-8", "a file of recorded exchanges") from None

    async def complete(self, request: Request, spent: Spent) -> Completion:
        """Play the next reply to a request.

        Raises:
            CallError: None was recorded.
        """
        spent.attempts += 1
        take = self._takes.get(digest(request))
        if take is None:
            raise CallError(Trouble.REFUSED, f"{self.path} holds no reply to this request: record it with a model")
        done, seconds = take.replies[take.played % len(take.replies)]
        take.played += 1
        spent.seconds += seconds
        spent.add(done)
        return done

    async def aclose(self) -> None:
        """Nothing is open."""


def _read(path: str, number: int, line: str) -> tuple[str, Completion, float]:
    try:
        found: Any = json.loads(line)
        return str(found["request"]), _COMPLETION.validate_python(found["reply"]), float(found.get("seconds", 0.0))
    except (ValueError, TypeError, LookupError, AttributeError, ValidationError, RecursionError):
        allowed = "an exchange as judge_record writes it"
        raise InputError(path, f"line {number}", "no recorded exchange", allowed) from None
