"""The window explorer as one page that needs nothing else: no network, no script or font from anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template

import windowgrad
from windowgrad.conform.report.html import digest
from windowgrad.explore.facts import facts

FOLDER = Path(__file__).parent
PROGRAMS = ("program", "code_torch", "code_jax", "code_onnx", "code")
SCRIPTS = ("windows", "state", "draw", "controls", "view", *PROGRAMS, "notes", "page")
"""In the order in which they need each other; each but the last defines one constant."""
MARK = '<meta name="generator" content="windowgrad explore">'
"""By which a file is known as one of these pages."""


def html() -> str:
    """The page, with the state of its address."""
    style, script = part("page.css"), "".join(part(f"{name}.js") for name in SCRIPTS)
    return Template(part("page.html")).substitute(
        style=style,
        script=script,
        style_hash=digest(style),
        script_hash=digest(script),
        facts=json.dumps(facts()).replace("<", "\\u003c"),
        version=windowgrad.__version__,
    )


def part(name: str) -> str:
    return FOLDER.joinpath(name).read_text("utf-8")
