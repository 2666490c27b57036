"""`python -m stef`."""

from __future__ import annotations

from stef.cli import main

if __name__ == "__main__":
    main(prog_name="stef")
