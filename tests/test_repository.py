"""The repository as a whole: pins, the wheel, the cost of an import, the network, the README's tables, public names."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import stef
from stef.config import SETTINGS, Settings
from tests.generated import tables

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "stef").rglob("*.py"))
LOCKS = ("requirements.lock", "requirements-dev.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_OURS = {".git", ".venv", "demo", "build", "dist", "__pycache__", "htmlcov"}
LAYOUT = ("stef", "rules", "prompts", "consumers", "pyproject.toml", "README.md", "LICENSE")
STARTER = ("rules", "prompts", "consumers")

# The public names: adding one is a promise, removing one breaks users.
PUBLIC = [
    "Evaluation",
    "Message",
    "QueryRecord",
    "StefError",
    "__version__",
]


# ── dependencies ─────────────────────────────────────────────────────────────────────────────────────────────────────


def pins(name):
    """Name → versions of a lock; a package may be pinned more than once, by Python version."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(package, set()).add(version)
    assert found, name
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash(name):
    """A lock takes only what it knows byte by byte."""
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    naked = [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry]
    assert naked == []
    assert sum(len(versions) for versions in pins(name).values()) == len(entries)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_place(name):
    """A lock works behind any mirror and was made on no particular machine."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    placed = [line for line in lines if re.search(r"://|--(?:extra-)?index-url|--find-links|(?<![\w.-])/\w", line)]
    assert placed == []


def test_the_locks_agree():
    """What is tested is what runs: the lock for development pins what the other one pins."""
    runtime, development = pins(LOCKS[0]), pins(LOCKS[1])
    assert runtime == {name: development.get(name) for name in runtime}


def test_every_dependency_is_pinned():
    """The locks know all that `pyproject.toml` asks for, in a version that it allows."""
    extras = PROJECT["project"]["optional-dependencies"]
    runtime = [*PROJECT["project"]["dependencies"], *extras["codecs"], *extras["build"]]
    for name, wanted in ((LOCKS[0], runtime), (LOCKS[1], [*runtime, *extras["dev"]])):
        known = pins(name)
        missing = [
            text
            for text in wanted
            if not all(
                Requirement(text).specifier.contains(version) for version in known.get(Requirement(text).name, {""})
            )
        ]
        assert missing == [], name


@pytest.mark.parametrize("name", LOCKS)
def test_a_pin_names_the_extras_that_others_ask_for(name):
    """An older pip takes `httpx[http2]` for a package of its own: not pinned, the newest is taken, and fails."""
    text = (ROOT / name).read_text(encoding="utf-8")
    pinned = {
        package: set(filter(None, (extras or "").split(",")))
        for package, extras in re.findall(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==", text, re.MULTILINE)
    }
    asked = [Requirement(line) for package in pinned for line in _requirements(package)]
    lacking = [
        str(wanted)
        for wanted in asked
        if wanted.name in pinned and (not wanted.marker or wanted.marker.evaluate({"extra": ""}))
        if wanted.extras - pinned[wanted.name]
    ]
    assert lacking == []
    assert any(wanted.extras for wanted in asked)


def _requirements(package):
    """What an installed package asks for; nothing for one that is meant for other machines."""
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8"])
def test_malicious_releases_are_refused(version):
    """The two malicious uploads of litellm stay out, by name and not only by the lower bound."""
    (litellm,) = (Requirement(text) for text in PROJECT["project"]["dependencies"] if text.startswith("litellm"))
    assert f"!={version}" in str(litellm.specifier)
    assert version not in pins(LOCKS[0])["litellm"]


def own_files() -> Iterator[Path]:
    """Text files of the repository, this one and what the tools make left out."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith("_cache")]
        for name in files:
            path = Path(folder, name)
            if path != Path(__file__) and path.stat().st_size < 2_000_000 and path.suffix not in {".db", ".gz"}:
                yield path


def test_no_file_names_an_index_or_a_machine():
    """Registries are used by package name, with whatever address the machine has."""
    wrong = re.compile(
        r"pypi\.org/simple|pythonhosted\.org|repo1?\.maven|registry\.npmjs|(?<![\w.*])/(?:home/\w+|root|Users)/\w"
    )
    found = [
        f"{path.relative_to(ROOT)}: {hit.group()}"
        for path in own_files()
        if (hit := wrong.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert found == []


# ── the wheel ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the tree and unpacked."""
    copy = tmp_path_factory.mktemp("tree")
    for name in LAYOUT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "out").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(copy / "unpacked")
    return copy / "unpacked"


def contents(folder):
    """Relative path → bytes of every file below a folder."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found, folder
    return found


def test_the_wheel_holds_the_package(wheel):
    """Code, data and the mark of typing are all in the wheel, and nothing else is."""
    built = contents(wheel / "stef")
    starter = {name for name in built if name.startswith("resources/starter/")}
    assert contents(ROOT / "stef") == {name: built[name] for name in built.keys() - starter}
    assert "py.typed" in built
    assert {"stef", f"stef-{stef.__version__}.dist-info"} == {path.name for path in wheel.iterdir()}


@pytest.mark.parametrize("name", STARTER)
def test_the_wheel_holds_the_starter_files(wheel, name):
    """A bare install has the default rules, prompts and consumers."""
    assert contents(ROOT / name) == contents(wheel / "stef" / "resources" / "starter" / name)


def test_init_from_the_wheel(wheel, tmp_path):
    """`stef init` gives a user the starter files, also where no repository is."""
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run(
        [sys.executable, "-m", "stef", "init"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in STARTER:
        assert contents(ROOT / name) == contents(tmp_path / name)


def test_the_wheel_carries_the_licence(wheel):
    """The licence travels with the code."""
    (information,) = wheel.glob("*.dist-info")
    assert "License-Expression: Apache-2.0" in (information / "METADATA").read_text(encoding="utf-8")
    assert (ROOT / "LICENSE").read_text(encoding="utf-8") == (information / "licenses" / "LICENSE").read_text(
        encoding="utf-8"
    )


# ── what an import costs, and the network ────────────────────────────────────────────────────────────────────────────

IMPORT = "import stef"
HELP = """
import sys
sys.argv = ["stef", "--help"]
from stef.cli import main
try:
    main()
except SystemExit:
    pass
"""
HEAVY = ("kafka", "litellm", "numpy", "pandas", "sqlalchemy")


@pytest.mark.parametrize("code", [IMPORT, HELP], ids=["import", "help"])
def test_a_first_touch_loads_nothing_heavy(code):
    """Models, tables, brokers and databases load when they are used."""
    report = f"\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def cpu_seconds(code, tries=5):
    """CPU time of a fresh interpreter that runs a piece of code; the best of several tries."""
    best = float("inf")
    for _ in range(tries):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


@pytest.mark.parametrize("code", [IMPORT, HELP], ids=["import", "help"])
def test_a_first_touch_is_quick(code):
    """`import stef` and `stef --help` take less than 0.3 s more than Python itself."""
    assert cpu_seconds(code) - cpu_seconds("pass") < 0.3


GUARD = """
import os, sys
def guard(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"}:
        os.write(2, f"network: {event} {arguments}".encode())
        os._exit(99)
sys.addaudithook(guard)
"""


def test_no_network_by_default(tmp_path):
    """Scoring with the default settings asks nobody anything."""
    log = tmp_path / "log.jsonl"
    record = {
        "event_id": "1",
        "question": "How many boats are moored?",
        "sql": "SELECT COUNT(*) FROM boats WHERE state = 'moored'",
    }
    log.write_text(json.dumps(record) + "\n", encoding="utf-8")
    code = GUARD + "sys.argv = ['stef', 'score', sys.argv[1], '--json']\nfrom stef.cli import main\nmain()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(log)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [("1", "scored")] == [(row["event_id"], row["outcome"]) for row in map(json.loads, done.stdout.splitlines())]


def test_the_guard_guards():
    """The guard of the test above ends a process that connects."""
    code = GUARD + "import socket; socket.create_connection(('127.0.0.1', 9))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 99


# ── documentation ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["commands", "settings", "metrics", "exit-codes"])
def test_the_readme_says_what_the_code_says(name):
    """Each table of the README has every row that the code has, and no other."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(f"<!-- {name}:begin -->(.*?)<!-- {name}:end -->", text, re.DOTALL)
    assert found, name
    assert tables().TABLES[name]() == found[1].strip()


def test_the_readme_names_the_two_commands():
    """Set-up is two commands, and the README says them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [] == [command for command in ("make demo", "make test") if command not in text]


def test_every_setting_is_in_the_table():
    """The table of settings and the frozen value that comes of it have the same names."""
    assert [row.name for row in SETTINGS] == [field.name for field in fields(Settings)]


def test_the_changelog_has_a_place_for_the_next_change():
    """Changes are collected under Unreleased."""
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# ── names and shape ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_public_names_are_pinned():
    """What `stef` offers changes only on purpose."""
    assert sorted(PUBLIC) == sorted(stef.__all__)
    assert [] == [name for name in stef.__all__ if not hasattr(stef, name)]


def imports(path):
    """Module and name of every import of stef's own in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stef":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "stef")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_imports_a_private_name(path):
    """What starts with an underscore belongs to its module alone."""
    private = [
        f"{module}.{name}"
        for module, name in imports(path)
        if any(part.startswith("_") and not part.startswith("__") for part in (*module.split("."), name))
    ]
    assert private == []


def test_folders_are_one_deep_and_hold_more_than_one_file():
    """A folder that holds one module is a module."""
    folders = {path.parent for path in MODULES} - {ROOT / "stef", ROOT / "stef" / "resources"}
    assert [] == [folder for folder in folders if folder.parent != ROOT / "stef"]
    assert [] == [folder for folder in folders if len(list(folder.glob("*.py"))) < 3]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short_and_say_what_they_are(path):
    """A module has at most 400 lines and a name that says what is in it."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "base", "manager", "core"}
