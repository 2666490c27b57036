"""What the commands share: the group, flags from the table of settings, the console, the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stef.config import SETTINGS, Setting, Settings, resolve
from stef.errors import StefError

if TYPE_CHECKING:
    from rich.console import Console

    from stef.stream.report import Report

F = TypeVar("F", bound=Callable[..., Any])
# What decides how a record is scored, and how the run says so.
SCORING = tuple(row.name for row in SETTINGS if row.name not in {"store", "http", "raw_days", "catalogue_days"})


class Commands(click.Group):
    """Lists the commands in the order in which a newcomer needs them, and turns our errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands as written below."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Run a command; an error of ours ends in one line and its exit code."""
        try:
            return super().invoke(ctx)
        except StefError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                _silence()
                ctx.exit(0)
            click.echo(f"stef: {printable(str(error))}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            _silence()
            ctx.exit(0)


def _silence() -> None:
    """Whoever reads us has seen enough: let what is left go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Text without what a terminal would act on."""
    from stef.display import clean

    return clean(text)


def settings_options(*names: str) -> Callable[[F], F]:
    """Flags for settings, from the table."""
    rows = [row for row in SETTINGS if row.name in names]

    def decorate(function: F) -> F:
        for row in reversed(rows):
            function = _option(row)(function)
        return function

    return decorate


def _option(row: Setting) -> Callable[[F], F]:
    shown = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    text = f"{row.help}  [{row.env}; default: {shown or 'none'}]"
    kind = click.Choice(row.choices) if row.choices else None
    return click.option(
        row.flag, row.name, default=None, help=text, type=kind, metavar=None if row.choices else "VALUE"
    )


def resolved(flags: dict[str, Any], file: dict[str, Any] | None = None) -> Settings:
    """The settings from flags, environment and consumer file; the log starts with them."""
    settings = resolve(flags, os.environ, file)
    start_log(settings)
    return settings


def start_log(settings: Settings) -> None:
    """Send the log to standard error: text for people, JSON in a pipe."""
    import logging

    import structlog

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would log the SQL
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    steps: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*steps, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def console(*, error: bool = False) -> Console:
    """Where people read: colour on a terminal, plain and wide in a pipe."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 200, highlight=False)


def size_of(path: str) -> int | None:
    """Bytes of a file; None for standard input."""
    return Path(path).stat().st_size if path != "-" and Path(path).is_file() else None


def advancing(advance: Callable[[int], None]) -> Callable[[Report], None]:
    """Move a progress bar with a run's reports."""
    done = 0

    def moved(report: Report) -> None:
        nonlocal done
        if report.extent is not None:
            advance(report.extent.done - done)
            done = report.extent.done

    return moved
