"""The errors of windowgrad. Each is also a ValueError or a TypeError, so ordinary handlers catch them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST = 480
"""The longest message in characters; the call that failed is cut first."""


class WindowgradError(Exception):
    """Base class of all errors of windowgrad. The message ends with the tape nodes involved and the public call that failed."""

    where: str | None = None
    call: str | None = None
    longest: int = LONGEST

    def __str__(self) -> str:
        text = cut(Exception.__str__(self), self.longest)
        for part, pattern in ((self.where, " (in {})"), (self.call, " [{}]")):
            room = self.longest - len(text) - len(pattern) + 2
            text += pattern.format(cut(part, room)) if part and room > 0 else ""
        return text


class WindowError(WindowgradError, ValueError):
    """A size, shape or window that is not valid."""


class IndexingError(WindowError, IndexError):
    """An index that an array does not have."""


class OptionError(WindowgradError, ValueError):
    """An option with a value that is not allowed."""


class MissingError(OptionError, KeyError):
    """A node or a name that does not exist."""


class DivisionError(OptionError, ZeroDivisionError):
    """A division by zero in the arithmetic of a user's own scalar type, which has no infinity."""


class KindError(WindowgradError, TypeError):
    """An argument, array or scalar of a type or dtype that is not supported."""


class GradientError(WindowgradError, ValueError):
    """A derivative that does not match the function."""


MOST = 12
"""How many entries of a list a message shows; the list may be an image."""
DEEPEST = 4
"""How many levels of nested lists a message shows; a list may contain itself."""


def show(value: object, width: int = 80, depth: int = 0) -> str:
    """`value` as text for a message: one line, cut to `width`, fast, and never failing (a list may contain itself)."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1}…"
    if type(value) is str or type(value) is bytes:
        return cut(repr(value[:width]), width) if len(value) <= width else cut(repr(value[:width])[:-1] + "…", width)
    if isinstance(value, (tuple, list)):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return cut(opening + _entries(value[:MOST], len(value), depth) + comma + closing, width)
    if isinstance(value, (set, frozenset)) and value:
        text = "{" + _entries(value, len(value), depth) + "}"
        return cut(text if isinstance(value, set) else f"frozenset({text})", width)
    if type(value) is dict:
        shown = () if depth >= DEEPEST else islice(value.items(), MOST)
        inner = [f"{show(key, width, depth + 1)}: {show(entry, width, depth + 1)}" for key, entry in shown]
        return cut("{" + ", ".join(inner + ["…"] * (len(value) > len(inner))) + "}", width)
    try:
        return cut(" ".join(repr(value)[: 8 * width].split()), width)
    except Exception:  # a repr that fails, or an integer of many digits inside
        return f"<{type(value).__name__}>"


def _entries(values: Iterable[object], count: int, depth: int) -> str:
    if depth >= DEEPEST:
        return "…" if count else ""
    inner = ", ".join(show(entry, depth=depth + 1) for entry in islice(values, MOST))
    return inner + (", …" if count > MOST else "")


def place(path: Iterable[object]) -> str:
    """A position in nested values as text: `[0]['weight']`."""
    return "".join(f"[{show(key)}]" for key in path)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
