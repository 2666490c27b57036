"""Where the rules, prompts and consumers that come with stef are: in the package, or in the checkout it runs from."""

from __future__ import annotations

from pathlib import Path

PARTS = ("rules", "prompts", "consumers")


def folder() -> Path:
    """The folder that holds `PARTS`."""
    package = Path(__file__).resolve().parent
    inside = package / "resources" / "starter"
    return inside if inside.is_dir() else package.parent


def files() -> dict[str, bytes]:
    """Relative path → content of every starter file."""
    top = folder()
    return {
        path.relative_to(top).as_posix(): path.read_bytes()
        for part in PARTS
        for path in sorted((top / part).rglob("*"))
        if path.is_file()
    }
