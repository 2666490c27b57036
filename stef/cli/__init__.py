"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import click

from stef.cli.frame import Commands
from stef.version import __version__

# The backspace keeps click from wrapping the paragraph.
_HELP = """Score what a text-to-SQL agent did in production: no schema, no reference query, no execution.

\b
Try it:        stef demo-log demo.jsonl && stef score demo.jsonl
Attach it:     stef init && stef consume --check consumers/jsonl.yaml
Compare:       stef compare --by agent_version
Look inside:   stef explain EVENT
"""


@click.group(
    help=_HELP, cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="stef")
def main() -> None:
    """Score what a text-to-SQL agent did in production."""


def _assemble() -> None:
    """Hang the commands in, in the order in which a newcomer needs them."""
    from stef.cli import calibrating, cataloguing, comparing, consuming, explaining, files, labelling, scoring, storing

    for command in (
        scoring.score,
        explaining.explain,
        consuming.consume,
        comparing.compare_groups,
        files.rules,
        cataloguing.catalogue,
        labelling.labels,
        calibrating.calibrate,
        files.init,
        files.demo_log,
        storing.db,
    ):
        main.add_command(command)


_assemble()
