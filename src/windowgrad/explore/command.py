"""`windowgrad explore`: the page written to a file, and opened in a browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

from rich.console import Console

from windowgrad.errors import OptionError
from windowgrad.explore.page import MARK, html
from windowgrad.kernels.runtime.cache import user_cache
from windowgrad.saving import check_place, replacing

NAME = "explorer.html"
HEAD = 4096
"""The mark of a page is in its first bytes."""


def explore(output: Path | None, overwrite: bool, show: bool, console: Console) -> None:
    """Write the page; open it if `show`, and say where it is if nothing else does."""
    path = usual_place() if output is None else output
    check_place("output", path)
    if not overwrite and path.exists() and not is_ours(path):
        hint = "choose another name, or replace it with --overwrite"
        raise OptionError(f"output={path}: exists and was not written by windowgrad explore; {hint}")
    try:
        with replacing(path) as file:
            file.write(html().encode())
    except OSError as error:
        raise OptionError(f"output={path}: cannot be written: {error.strerror or error}") from None
    opened = show and webbrowser.open(path.absolute().as_uri())
    if show and not opened:
        console.print("No browser could be opened; the page is here:", markup=False)
    console.print(str(path), markup=False, soft_wrap=True)


def usual_place() -> Path:
    """In the folder of this user's caches, or else in a new temporary one."""
    folder = user_cache()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_place("output", folder / NAME)
        except (OSError, OptionError):  # a home that cannot be written to
            folder = None
    return (folder or Path(tempfile.mkdtemp(prefix="windowgrad-"))) / NAME


def is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(HEAD)
    except OSError as error:
        raise OptionError(f"output={path}: cannot be read: {error.strerror or error}") from None
