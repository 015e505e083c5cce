"""What identifies the source of a pyramid, so that cells of two sources, or of two states of one, are never mixed.

path       where the array is
metadata   a digest of what its metadata say of its cells, and of where they lie in space
chunks     a digest of the name, size and time of change of every file, and of the first bytes of some
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from windowgrad.errors import OptionError
from windowgrad.pyramid.source import Source

SAMPLES, HEAD = 16, 1 << 20
"""How many files are looked into, and how far."""


def identity(found: Source) -> dict[str, str]:
    try:
        told = json.dumps([metadata(found.path), found.axes, found.scale, found.origin], sort_keys=True)
        chunks = digest(found.path)
    except OSError as error:
        raise OptionError(f"{found.path}: cannot be read: {error.strerror or error}") from error
    return {"path": str(found.path.resolve()), "metadata": sha256(told.encode()).hexdigest(), "chunks": chunks}


def metadata(folder: Path) -> dict[str, Any]:
    """What an array says of itself, without its attributes; of one in a file, nothing: the file is known as a whole."""
    for name in ("zarr.json", ".zarray"):
        if (folder / name).is_file():
            told: dict[str, Any] = json.loads((folder / name).read_bytes())
            return {key: value for key, value in told.items() if key != "attributes"}
    return {}


def digest(path: Path) -> str:
    """Of all files of an array; metadata, which have attributes too, are not among them."""
    hashed = sha256()

    def told() -> Iterator[str]:
        for name, found in files(str(path), ""):
            hashed.update(os.fsencode(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n"))
            yield name

    for name in heapq.nsmallest(SAMPLES, told(), key=lambda name: sha256(os.fsencode(name)).digest()):
        with open(path / name if name else path, "rb") as file:
            hashed.update(file.read(HEAD))
    return hashed.hexdigest()


def files(folder: str, before: str) -> Iterator[tuple[str, Any]]:
    """(path in the array, what the system knows of it) of every file, in order; one file is itself."""
    if not os.path.isdir(folder):
        yield before, os.stat(folder)
        return
    with os.scandir(folder) as entries:
        here = sorted(entries, key=lambda entry: entry.name)
    for entry in here:
        if entry.is_dir():
            yield from files(entry.path, f"{before}{entry.name}/")
        elif entry.is_file() and entry.name != "zarr.json" and not entry.name.startswith("."):
            yield before + entry.name, entry.stat()
