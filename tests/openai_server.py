"""An OpenAI-compatible chat server on loopback whose replies are scripted, faults included; standard library only."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "openai/stub-judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One answer of the server.

    Attributes:
        status: HTTP status.
        body: Sent as it is.
        headers: Beside the content type and length.
        delay: Seconds to wait before answering.
        cut: Bytes of the body after which the connection is closed; None sends all of it.
        drip: Seconds to wait after each of the body's bytes.
    """

    status: int = 200
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    cut: int | None = None
    drip: float = 0.0


def says(
    text: str | None, *, usage: tuple[int, int] | None = (120, 30), finish: str = "stop", delay: float = 0.0
) -> Scripted:
    """A completion with this text; `usage` is tokens in and out, None when the server does not say."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stub-judge",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Scripted(body=json.dumps(body), delay=delay)


def fault(status: int, message: str = "scripted fault", **headers: str) -> Scripted:
    """An error in the provider's shape; keywords are headers (`retry_after="1"`)."""
    body = json.dumps({"error": {"message": message, "type": "scripted", "param": None, "code": None}})
    return Scripted(
        status=status, body=body, headers=tuple((name.replace("_", "-"), value) for name, value in headers.items())
    )


Script = Callable[[int, dict[str, Any]], Scripted]


@dataclass(slots=True)
class Endpoint:
    """A running server: where it listens, and what it was sent.

    Attributes:
        script: Called with the number of the request (from 0) and its body.
        requests: Bodies in the order of arrival.
        headers: Of each request.
    """

    url: str
    script: Script
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def prompt(self, number: int = 0) -> str:
        """All text of one request's messages."""
        return "\n".join(message["content"] for message in self.requests[number]["messages"])


def in_turn(*replies: Scripted) -> Script:
    """The replies one after the other, the last one from then on."""
    return lambda number, _: replies[min(number, len(replies) - 1)]


@contextmanager
def serve(script: Script, port: int = 0) -> Iterator[Endpoint]:
    """Serve the script on a free port of 127.0.0.1 until the block ends; hanging replies end with it."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                number = len(endpoint.requests)
                endpoint.requests.append(body)
                endpoint.headers.append(dict(self.headers.items()))
            reply = endpoint.script(number, body)
            endpoint.released.wait(reply.delay)
            self._send(reply)

        def _send(self, reply: Scripted) -> None:
            data = reply.body.encode()
            try:
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.end_headers()
                for piece in (bytes([byte]) for byte in data[: reply.cut]) if reply.drip else (data[: reply.cut],):
                    self.wfile.write(piece)
                    endpoint.released.wait(reply.drip)
                self.close_connection |= reply.cut is not None
            except OSError:  # the client has given up on a slow reply
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing on standard error."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that hangs up is part of the tests."""

    server = Server(("127.0.0.1", port), Handler)
    endpoint = Endpoint(url=f"http://127.0.0.1:{server.server_address[1]}/v1", script=script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def unused_port() -> int:
    """A port of 127.0.0.1 where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Poll until the condition holds or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
