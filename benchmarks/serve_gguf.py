"""Serve a GGUF model file on loopback, as a provider with OpenAI's interface would.

    pip install xllamacpp
    python benchmarks/serve_gguf.py FILE [--port P] [--threads N] [--context TOKENS] [--reply TOKENS]

FILE: a model in the GGUF format, with a chat template. Prints what to give to stef, and serves until it is interrupted.

The server takes `response_format` with a JSON schema and `logprobs`, and keeps what it has read of the last request, so
that requests with the same beginning are read from where they differ. One request is worked on at a time: more would
only share the same threads. A reply ends after `--reply` tokens: small models may go on without an end.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

_MAGIC = b"GGUF"
_CACHE = 1024  # MiB of earlier requests kept


def checked(file: Path) -> Path:
    """A file that is GGUF by its first bytes.

    Raises:
        SystemExit: It cannot be read, or is something else.
    """
    try:
        with file.open("rb") as content:
            found = content.read(len(_MAGIC))
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}")
    if found != _MAGIC:
        sys.exit(f"{file}: begins with {found!r}; a GGUF file begins with {_MAGIC!r}")
    return file


def library() -> Any:  # noqa: ANN401 - it is not typed
    """The server's library.

    Raises:
        SystemExit: It is not installed.
    """
    try:
        return importlib.import_module("xllamacpp")
    except ImportError:
        sys.exit("xllamacpp is not installed in this environment: pip install xllamacpp")


def started(file: Path, given: argparse.Namespace) -> Any:  # noqa: ANN401 - the same
    """A server that answers.

    Raises:
        SystemExit: The model cannot be loaded, or the port is taken.
    """
    xllamacpp = library()
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(file)
    wanted.model_alias = {file.stem}
    wanted.hostnames, wanted.port = ["127.0.0.1"], given.port
    wanted.n_parallel, wanted.n_ctx, wanted.n_predict, wanted.cache_ram_mib = 1, given.context, given.reply, _CACHE
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = given.threads
    wanted.verbosity, wanted.ui = 1, False
    try:
        return xllamacpp.Server(wanted)
    except RuntimeError as error:
        sys.exit(f"{file}: not served on port {given.port}: {error}")


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=0, help="0: one that is free")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=8192, help="tokens of a request and its reply")
    parser.add_argument("--reply", type=int, default=400, help="tokens that a reply may have")
    given = parser.parse_args()
    signals = {signal.SIGINT, signal.SIGTERM}
    # Before the server makes its threads, which inherit this.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = started(checked(given.file), given)
    name, address = given.file.stem, f"{server.listening_address}/v1"
    print(f"STEF_JUDGE=llm STEF_MODEL=openai/{name} STEF_API_BASE={address} STEF_JUDGE_REPLY=schema")
    print(f"STEF_TEST_LLM={address} STEF_TEST_LLM_MODEL={name}", flush=True)
    signal.sigwait(signals)


if __name__ == "__main__":
    main()
