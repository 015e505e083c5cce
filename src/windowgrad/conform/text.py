"""Text from elsewhere (errors, names, scripts) as every report can hold it."""

from __future__ import annotations

import re
from typing import Any

FORBIDDEN = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to say; half a surrogate pair, which UTF-8 cannot; and control characters, which terminals obey."""


def printable(text: str) -> str:
    """The text with every character that a report cannot hold written as Python writes it, such as \\x1b."""
    return FORBIDDEN.sub(lambda found: escaped(found[0]), text)


def escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def all_printable(data: Any) -> Any:
    """The same data with printable strings, keys included."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {printable(str(key)): all_printable(value) for key, value in data.items()}
    return [all_printable(entry) for entry in data] if isinstance(data, (list, tuple)) else data
