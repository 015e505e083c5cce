"""The folder a pyramid is written to: chunks that appear whole or not at all, and one process at a time.

A file is written under a name of ours and then moved to its place. What a killed run leaves is known by that name, and nothing
else is ever deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from zarr.storage import LocalStore

from windowgrad.errors import OptionError

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two processes are not told of each other there
    fcntl = None  # type: ignore[assignment]

LOCK = ".windowgrad-lock"
PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.windowgrad-partial")
METADATA = frozenset({"zarr.json", ".zarray", ".zattrs"})
CHUNK = re.compile(r"(c/)?[0-9]+([/.][0-9]+)*|c")
"""The path of a chunk in its array, in every way Zarr spells it."""


class Folder(LocalStore):
    """Zarr's store of a folder, with our own names for files that are not whole yet."""

    async def set(self, key: str, value: Any) -> None:
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        if not (self.root / key).exists():
            await self.set(key, value)

    def set_sync(self, key: str, value: Any) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{uuid4().hex}.windowgrad-partial")
        try:
            partial.write_bytes(value.as_numpy_array())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Around everything that writes: what the disk refuses is one sentence."""
    try:
        yield
    except OSError as error:
        kept = "; finished chunks are kept, and the same command continues from them" if (target / "0").is_dir() else ""
        raise OptionError(f"{target}: cannot be written: {error.strerror or error}{kept}") from error


def is_ours(name: str) -> bool:
    """Whether a file is there only while a pyramid is made."""
    return name == LOCK or PARTIAL.fullmatch(name) is not None


def remove_partial(group: Path, arrays: Sequence[Path]) -> None:
    """Remove the files that a killed run left half written in a group and in its arrays, and nothing else."""
    pattern = "*.windowgrad-partial"
    for path in itertools.chain(group.glob(pattern), *(array.rglob(pattern) for array in arrays)):
        if PARTIAL.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def remove_array(folder: Path) -> None:
    """Remove the metadata and chunks of an array; a file that is neither stays, with the folders it is in."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            place = (Path(path) / name).relative_to(folder).as_posix()
            if place in METADATA or CHUNK.fullmatch(place) or PARTIAL.fullmatch(name):
                (Path(path) / name).unlink()
        for name in folders:
            with suppress(OSError):  # it is not empty
                (Path(path) / name).rmdir()
    with suppress(OSError):
        folder.rmdir()


# --- one process at a time ---------------------------------------------------------------------------------------


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Holds the folder, which is made if it is not there; another process that wants it is told so.

    The system gives up the lock of a process that dies. Folders that were made and are empty in the end are removed.
    """
    with writing(target):
        new = [folder for folder in (target, *target.parents) if not folder.exists()]
        target.mkdir(parents=True, exist_ok=True)
    try:
        with writing(target):
            held = hold(target)
        try:
            yield
        finally:
            (target / LOCK).unlink(missing_ok=True)
            os.close(held)
    finally:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()


def hold(target: Path) -> int:
    """The open lock file."""
    path = target / LOCK
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock(file)
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):  # not removed by who held it before
                with suppress(OSError):  # a full disk: it is held all the same
                    os.truncate(file, 0)
                    os.write(file, str(os.getpid()).encode())
                return file
        except BlockingIOError:
            holder = os.read(file, 32).decode("ascii", "replace") or "unknown"
            os.close(file)
            raise OptionError(f"{target}: process {holder} is building this pyramid; wait until it ends") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def lock(file: int) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            return
