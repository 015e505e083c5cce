"""A report as a file."""

from __future__ import annotations

import os
from pathlib import Path

from windowgrad.errors import OptionError


def write(path: Path, text: str) -> None:
    """Write beside the name first, so that nobody finds half a report under it."""
    draft = beside(path)
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def check(option: str, path: Path) -> None:
    """Refuse a path where no report can be written, before the work that it would report."""
    try:
        if path.exists() and not path.is_file():
            raise OptionError(f"{option}={str(path)!r}: must be a regular file")
        draft = beside(path)
        draft.touch(exist_ok=False)
        draft.unlink()
    except (OSError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{option}={str(path)!r}: cannot be written: {why}") from None


def beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")
