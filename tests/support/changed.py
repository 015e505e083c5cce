"""The tests to run for what changed since a commit: `python -m pytest $(python tests/support/changed.py)`, or `make changed`.

A file of the package asks for the folder of tests that mirrors it, and for the test files of the folders above that one. A
changed test file or page asks for itself, a page of the site for the tests of the site too, and a file of `tests/support` for
every test file that imports it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"

ROOMS = dict.fromkeys(("cli", "demo", "explore", "pyramid", "warmup"), ("apps",))
ROOMS |= dict.fromkeys(("geometry", "params"), ("spec", "semantics", "api"))
BELOW = ("api", "semantics", "errors")
"""Folders of tests for rooms that no folder mirrors: those of `ROOMS`, and all others."""


def changed(since: str) -> list[str]:
    """Files that differ from a commit, and new ones that Git does not know yet."""
    git = ["git", "-C", str(ROOT)]
    commands = (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"])
    return [line for command in commands for line in subprocess.check_output([*git, *command], text=True).splitlines() if line]


def tests_of(path: str) -> set[str]:
    """The tests of one file, as paths from the root of the project."""
    place = PurePosixPath(path)
    if path == "README.md":
        return {path}
    if place.parts[0] == "docs":
        has_examples = place.suffix == ".md" and place.parent.name in ("docs", "howto")
        return {"tests/docs", *([path] if has_examples else [])}
    if place.parts[:2] == ("src", "windowgrad"):
        return tests_of_source(place.relative_to("src/windowgrad").with_suffix(""))
    if place.parts[0] != "tests" or place.suffix != ".py":
        return {"tests/api"} if len(place.parts) == 1 else set()
    if place.name.startswith("test_"):
        return {path}
    if place.name == "conftest.py":
        return {place.parent.as_posix()}
    return {
        found.relative_to(ROOT).as_posix()
        for found in TESTS.rglob("test_*.py")
        if place.stem in found.read_text(encoding="utf-8")
    }


def tests_of_source(module: PurePosixPath) -> set[str]:
    parts = list(module.parts)
    while parts and not (TESTS.joinpath(*parts)).is_dir():
        parts.pop()
    if not parts:
        return {f"tests/{folder}" for folder in ROOMS.get(module.parts[0], BELOW)}
    above = [TESTS.joinpath(*parts[:depth]) for depth in range(1, len(parts))]
    files = {found for folder in above for found in folder.glob("test_*.py")}
    return {found.relative_to(ROOT).as_posix() for found in (TESTS.joinpath(*parts), *files)}


def selected(paths: list[str]) -> list[str]:
    """The tests of several files that are still there; a file in a folder that is selected too is not named again."""
    found = {test for path in paths for test in tests_of(path) if (ROOT / test).exists()}
    return sorted(test for test in found if not any(above.as_posix() in found for above in PurePosixPath(test).parents))


if __name__ == "__main__":
    print(*selected(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD")))
