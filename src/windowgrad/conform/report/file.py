"""A report as a file."""

from __future__ import annotations

from pathlib import Path

from windowgrad.saving import replacing


def write(path: Path, text: str) -> None:
    """Nobody finds half a report under the name."""
    with replacing(path) as file:
        file.write(text.encode())
