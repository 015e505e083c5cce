"""What the kernels of a module are made from: its file and those of the modules it imports, within `kernels`.

Imports are read from the text, not from what was imported: a helper that a module uses is part of its kernels also when it
came by way of other modules. Imports within functions count too, and so does what only looks like one in a text. A file
whose imports cannot be read that way depends on every file there is, and so does a module outside of `kernels`.

All files are read at once, when the first kernel is asked for: a file that is changed while a process runs is not what the
kernels of that process are made from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1]
PACKAGE = "windowgrad.kernels"
EVERYWHERE = ("vector/half.py", "vector/ops.py")
"""Files that tell Numba how to compile code that does not name them: `a[i]` of floats of 16 bits, `a + b` of vectors."""

IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE)
COMMENT = re.compile(rb"#.*")
WORD = re.compile(r"[\w.]+")
BY_NAME = (b"import" + b"_module", b"__" + b"import__")  # in two, for this file is read too


@cache
def digest_of(module: str) -> str | None:
    """Of everything that the kernels of a module are made from; None where there are no sources, as in an archive."""
    names, texts = files_of(module), sources()
    if not names:
        return None
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name} {len(texts[name])} ".encode() + texts[name])
    return digest.hexdigest()


@cache
def sources() -> dict[str, bytes]:
    """The text of each file, by its path within the package."""
    return {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in SOURCES.rglob("*.py")}


def files_of(module: str) -> set[str]:
    """The file of a module, and of all those it imports, directly or not; no file if it has none."""
    first = file_of(module)
    if first is None:
        return set() if within_package(module) else set(sources())
    found: set[str] = set()
    todo = [first, *EVERYWHERE]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(imported_by(name))
    return found


@cache
def imported_by(name: str) -> frozenset[str]:
    """The files that a file imports within the package."""
    modules = list(modules_in(sources()[name]))
    if None in modules:
        return frozenset(sources())
    return frozenset(found for module in modules if module and (found := file_of(module)) is not None)


def modules_in(text: bytes) -> Iterator[str | None]:
    """The modules that a text imports from, and all names in them that could be modules; None for what cannot be read."""
    if any(word in text for word in BY_NAME):
        yield None
    for found in IMPORT.findall(COMMENT.sub(b"", text)):
        source, names, modules = (part.decode() for part in found)
        if source.startswith(".") or any(mark in names + modules for mark in ";\\"):
            yield None
        yield source
        yield from (f"{source}.{word}" if source else word for word in WORD.findall(names or modules))


def file_of(module: str) -> str | None:
    """The file of a module of the package."""
    if not within_package(module):
        return None
    place = "/".join(module.split(".")[PACKAGE.count(".") + 1 :])
    candidates = (f"{place}.py", f"{place}/__init__.py".removeprefix("/"))
    return next((each for each in candidates if each in sources()), None)


def within_package(module: str) -> bool:
    return module == PACKAGE or module.startswith(PACKAGE + ".")
