"""The folder that compiled kernels are kept in: where it is, who may write there, and how a file comes and goes.

What is in a kernel file is executed, so none is read from a folder, or is itself a file, that another user could have
written; root excepted, who could do anything. The folder is made for its user alone. A file starts with a checksum: one that
was cut short, or is damaged in any other way, is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from windowgrad.saving import placed

VARIABLE = "WINDOWGRAD_CACHE_DIR"
DAYS_KEPT = 30  # a folder of another version goes when it was not used for so long
FOLDER = re.compile(r"kernels-[0-9a-f]{32}")
FILE = re.compile(r".+-[0-9a-f]{32}\.kernel|\.windowgrad-[0-9a-f]{16}\.tmp", re.DOTALL)
MOST_LINKS = 40  # on the way to a folder, as in Linux

told: set[tuple[Any, str]] = set()


def user_cache() -> Path | None:
    """Where this user's programs keep what can be made again, by the custom of the platform."""
    if chosen := os.environ.get(VARIABLE, "").strip():
        expanded = os.path.expanduser(chosen)
        if expanded.startswith("~"):
            warn_once(None, f"{VARIABLE}={chosen} names a user who does not exist")
            return None
        return Path(expanded).absolute()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "windowgrad" / "Cache"
    if (xdg := os.environ.get("XDG_CACHE_HOME")) and Path(xdg).is_absolute():
        return Path(xdg) / "windowgrad"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home.absolute() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "windowgrad"


def warn_once(function: Any, reason: str) -> None:
    """Once in a process; also where warnings are errors, so that the next call is computed."""
    if (function, reason) in told:
        return
    told.add((function, reason))
    what = "compiled kernels" if function is None else f"kernel {function.__qualname__}"
    warnings.warn(f"{what} cannot be kept for the next run: {reason}", RuntimeWarning, stacklevel=2)


# --- files -------------------------------------------------------------------------------------------------------


def read(path: Path) -> bytes | None:
    """What `write` wrote there; None if there is nothing that may be used."""
    if refusal(path.parent) is not None:
        return None
    try:
        content = content_of(path)
    except OSError:
        return None
    if content is None:
        return None
    digest, payload = content[:32], content[32:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def content_of(path: Path) -> bytes | None:
    """The content of a regular file that only its user can write. A pipe or a device is not opened, nor a link followed."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    with os.fdopen(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or (hasattr(os, "geteuid") and (foreign(found) or found.st_mode & 0o022)):
            return None
        return file.read()


def write(path: Path, payload: bytes) -> None:
    """All of it or nothing, also for a reader at the same time and when the process is killed."""
    is_new = not path.parent.exists()
    if is_new and refusal(path.parent) is None:
        for folder in (*reversed(path.parent.parents), path.parent):
            if not folder.exists():
                with suppress(FileExistsError):  # another process was faster
                    folder.mkdir(0o700)
    if (reason := refusal(path.parent)) is not None:  # looked at once it is there: nobody else can change it from now on
        warn_once(None, f"{reason}; {VARIABLE} can name another folder")
        return
    if is_new:
        remove_old(path.parent)
    with placed(str(path), 0o600) as file:
        file.write(hashlib.sha256(payload).digest())
        file.write(payload)


def remove_old(current: Path) -> None:
    """Our own folders beside the current one that no process looked into for a long time, and of them our own files."""
    for folder in current.parent.iterdir():
        if not FOLDER.fullmatch(folder.name) or folder == current:
            continue
        with suppress(OSError):  # another process removed it, or there are files of someone else in it
            if stat.S_ISDIR((found := folder.lstat()).st_mode) and time.time() - found.st_mtime > DAYS_KEPT * 86400:
                for file in folder.iterdir():
                    if FILE.fullmatch(file.name):
                        file.unlink()
                folder.rmdir()


# --- who may write -----------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str | None:
    """Why another user could write the files in `folder`, or None if none can. What does not exist yet is nobody's.

    The folder and the one it is in are the user's alone. Above them, folders that belong to root or to the user will do,
    if nobody else can put something in their place. On Windows the access list of the user's folder sees to it.
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        for place, found in steps(folder):
            if foreign(found):
                return f"{place} belongs to another user (number {found.st_uid})"
            if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022 and not is_safe_above(place, found):
                return open_to_others(place, found)
        for own in (folder, folder.parent):
            if own.exists() and (found := own.stat()).st_mode & 0o022:
                return open_to_others(str(own), found)
    except OSError as error:
        return f"{error.strerror or error}: {folder}"
    return None


def open_to_others(place: str, found: os.stat_result) -> str:
    return f"other users can write to {place} (mode {stat.S_IMODE(found.st_mode):04o}, to be mended by chmod go-w)"


def foreign(found: os.stat_result) -> bool:
    return found.st_uid not in (0, os.geteuid())


def steps(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The folders and links on the way to `folder`, as the system goes it, as far as they exist."""
    here, todo, links = os.sep, list(folder.parts[1:]), 0
    yield here, os.lstat(here)
    while todo:
        place = os.path.normpath(os.path.join(here, todo.pop(0)))  # `here` has no link in it, so `..` is what it seems
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            return
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            here = place
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError("too many links")
        target = Path(os.readlink(place))
        here = os.sep if target.is_absolute() else here
        todo = [*(part for part in target.parts if part != os.sep), *todo]


def is_safe_above(place: str, found: os.stat_result) -> bool:
    """Whether nobody else can rename what is in a folder that more than its owner can write.

    A sticky folder, such as /tmp, sees to that itself. A group of the user's own has no other member; root's does not
    count as such, daemons and containers run in it.
    """
    if found.st_mode & stat.S_ISVTX:
        return True
    return not found.st_mode & 0o002 and os.geteuid() != 0 and is_private(found.st_gid) and not has_access_list(place)


@cache
def is_private(group: int) -> bool:
    """Whether a group is the one that many systems make for each user, by the user's name."""
    import grp
    import pwd

    try:
        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


def has_access_list(place: str) -> bool:
    return hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(place)
