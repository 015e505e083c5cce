"""Atomic file writes: a reader finds the old content or the new, never a part. All files are written here.

`replacing` is for the user's files: an existing file is replaced only if it is a regular file, and its permissions are
kept. `placed` is the step below it, for files of our own.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from windowgrad.errors import OptionError

Path = str | os.PathLike[str]

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` once it is safely on disk; after an error `path` is unchanged.

    A link is followed. The permissions of the file that is replaced are kept, and its owner where that is allowed.
    """
    where, before = destination(path)
    with placed(where, 0o666 if before is None else 0o600) as file:
        yield file
        file.flush()
        if before is not None:
            keep_permissions(file.fileno(), where, before)
        os.fsync(file.fileno())
    if hasattr(os, "O_DIRECTORY"):  # where a folder can be opened: its new entry onto the disk too
        entry = os.open(os.path.dirname(where), os.O_DIRECTORY)
        try:
            with suppress(OSError):  # some file systems cannot, and the file is there
                os.fsync(entry)
        finally:
            os.close(entry)


def check_place(name: str, path: Path) -> None:
    """Raise an error before the work starts if no file can be written at `path`, the value of the option `name`."""
    shown = f"{name}={os.fsdecode(path)}"
    try:
        where, _ = destination(path, shown)
    except OSError as error:
        raise OptionError(f"{shown}: cannot be written: {error.strerror or error}") from None
    folder = os.path.dirname(where)
    if not os.path.isdir(folder):
        raise OptionError(f"{shown}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{shown}: the folder {folder} cannot be written to")


def destination(path: Path, name: str | None = None) -> tuple[str, os.stat_result | None]:
    """Where a file `path` is written, with links followed, and the status of the regular file there, or None if nothing is."""
    try:
        before = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(os.fsdecode(path)), None
    except ValueError as error:  # it contains a null byte
        raise OptionError(f"{name or repr(path)}: must be a file name: {error}") from None
    if not stat.S_ISREG(before.st_mode):
        what = KINDS.get(stat.S_IFMT(before.st_mode), "a special file")
        raise OptionError(f"{name or os.fsdecode(path)}: is {what}; only a regular file can be replaced")
    return os.path.realpath(os.fsdecode(path)), before


def keep_permissions(file: int, path: str, before: os.stat_result) -> None:
    """Give an open file the owner, the mode and the access list of the file `path` that it is going to replace."""
    if not hasattr(os, "fchmod"):
        return
    mode, now = stat.S_IMODE(before.st_mode), os.fstat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(file, before.st_uid, before.st_gid)
        except OSError:  # not ours to give away: then what its group was allowed is not for ours
            mode &= ~(stat.S_IRWXG | stat.S_ISUID | stat.S_ISGID)
    os.fchmod(file, mode)
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # most files have none
            os.setxattr(file, "system.posix_acl_access", os.getxattr(path, "system.posix_acl_access"))


@contextmanager
def placed(where: str, mode: int) -> Iterator[BinaryIO]:
    """A new file that takes the name `where` at the end, whatever has it; an error or an interrupt leaves nothing of it.

    Where the system can (Linux), the file has no name until it is complete, so that even a killed process leaves none.
    """
    folder = os.path.dirname(where)
    beside = os.path.join(folder, f".windowgrad-{os.urandom(8).hex()}.tmp")
    try:
        with opened(folder, beside, where, mode) as file:
            yield file
            file.flush()
            give_name(file, beside)
        os.replace(beside, where)
    except BaseException:  # Ctrl-C too
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def opened(folder: str, beside: str, where: str, mode: int) -> BinaryIO:
    """A file without a name, or where there are none, one named `beside`."""
    if hasattr(os, "O_TMPFILE"):
        with suppress(OSError):  # not every file system has them; what else is wrong is said below
            return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, mode), "w+b")
    try:
        return os.fdopen(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), "w+b")
    except OSError as error:
        raise OSError(error.errno, error.strerror, where) from None


def give_name(file: BinaryIO, beside: str) -> None:
    if os.path.lexists(beside):
        return
    folder = os.open(os.path.dirname(beside), os.O_DIRECTORY)
    try:
        os.link(f"/proc/self/fd/{file.fileno()}", beside, dst_dir_fd=folder)  # told of a folder, `link` follows the link
    except OSError:  # without /proc, say
        copy(file, beside)
    finally:
        os.close(folder)


def copy(file: BinaryIO, beside: str) -> None:
    file.seek(0)
    with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as named:
        shutil.copyfileobj(file, named)
        named.flush()
        os.fchmod(named.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        os.fsync(named.fileno())
