"""The docstrings of the package for Sphinx: plain text with `code` in single backticks becomes reStructuredText.

The rank 1, 2 and 3 forms of a function repeat the arguments of its rank-free form; the reference shows what differs.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

import windowgrad

CODE = re.compile(r"`([^`]+)`")
MARKUP = re.compile(r"([*|_\\])")
RANKED = re.compile(r"windowgrad\.(\w+)[123]d")
ENTRY = re.compile(r"    \w+: ")
LINKED = {name: f"windowgrad.{name}" for name in windowgrad.functional.__all__}
LINKED |= {name: f"windowgrad.nn.{name}" for name in windowgrad.nn.__all__ if name[0].isupper()}
LINKED |= {name: f"windowgrad.autograd.{name}" for name in ("Tape", "Var")}
LINKED |= {name: f"windowgrad.geometry.{name}" for name in ("Sliding", "Adaptive", "Global")}
SECTION = re.compile(r"Arg(ument)?s:")
NAPOLEON = Config()
WORDS = (
    (re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)"), r"\1"),
    (re.compile(r"= <factory>"), "= ..."),
    (re.compile(r"~?windowgrad\.autograd\.arrays\.\w+\.A\b"), "~windowgrad.functional.signatures.A"),
)
"""In signatures, what is replaced by what."""


def marked_up(line: str) -> str:
    """A line in which only code is markup: stars, bars and underscores are what they are."""
    parts = CODE.split(line)
    return "".join(code(part) if place % 2 else MARKUP.sub(r"\\\1", part) for place, part in enumerate(parts))


def code(text: str) -> str:
    """Code, which is a link if it is the name of a public function or class that nothing else is called by."""
    return f":py:obj:`~{LINKED[text]}`" if text in LINKED else f"``{text}``"


def rendered(lines: list[str]) -> list[str]:
    """Lines of a docstring as reStructuredText. Examples (`>>>`, up to the next empty line) stay as they are."""
    result, example = [], False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        result.append(line if example else marked_up(line))
    return result


def entries(lines: list[str]) -> list[list[str]]:
    """Lines in pieces: an argument with the lines that go on with it is one, each other line is one."""
    pieces: list[list[str]] = []
    for line in lines:
        if line.startswith("     ") and pieces:
            pieces[-1].append(line)
        else:
            pieces.append([line])
    return pieces


def what_differs(lines: list[str], whole: list[str], name: str) -> list[str]:
    """The docstring of a ranked form without the arguments that the rank-free form describes in the same words."""
    known = [piece for piece in entries(whole) if ENTRY.match(piece[0])]
    kept = [piece for piece in entries(lines) if piece not in known]
    place = next((at for at, piece in enumerate(kept) if piece[0].startswith("Returns")), len(kept))
    kept.insert(place, [f"All other arguments are those of `{name}`.", ""])
    return [line for piece in kept for line in piece]


def docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    ranked = RANKED.fullmatch(name)
    if ranked and hasattr(windowgrad, ranked[1]):
        whole = (inspect.getdoc(getattr(windowgrad, ranked[1])) or "").splitlines()
        lines[:] = what_differs(lines, whole, ranked[1])
    lines[:] = rendered(lines)
    if any(SECTION.fullmatch(line) for line in lines):
        lines[:] = GoogleDocstring(lines, NAPOLEON, app, what, name, obj, options).lines()


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """What Sphinx cannot read by itself: short names of types in classes, defaults that are made anew, the type of arrays."""

    def readable(text: str) -> str:
        for pattern, word in WORDS:
            text = pattern.sub(word, text)
        return text

    return given and readable(given), returned and readable(returned)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", docstring)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
