"""Directives of the reference, which read the package when the site is built.

`{reference} module`: everything in the module's `__all__`, documented from docstrings, or what `:names:` lists, or all but
`:without:`. `:under: windowgrad` shows the names as members of another module, from which users import them. `:shallow:` leaves
out the members of classes, `:hidden:` some of them.
`{generated} module:function arguments`: the Markdown that a function returns.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, ClassVar

import typer
import typer.cli
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from windowgrad.cli import app as command


def kind(value: Any) -> str:
    """The directive that documents a value."""
    if isinstance(value, ModuleType):
        return "automodule"
    if isinstance(value, type):
        return "autoexception" if issubclass(value, Exception) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


def order(name: str) -> tuple[str, str]:
    """max_pool, max_pool1d, max_pool2d, max_pool3d, then adaptive_…, then global_…: as they are explained."""
    return next((prefix for prefix in ("adaptive_", "global_") if name.startswith(prefix)), ""), name


class Reference(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {
        "under": directives.unchanged,
        "names": str.split,
        "without": str.split,
        "hidden": str.split,
        "shallow": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        under = self.options.get("under", module.__name__)
        names = self.options.get("names") or sorted(module.__all__, key=order)
        wanted = [name for name in names if name not in self.options.get("without", ())]
        lines = [line for name in wanted for line in self.entry(f"{under}.{name}", getattr(module, name))]
        return self.parse_text_to_nodes("\n".join(["````{eval-rst}", *lines, "````"]))

    def entry(self, name: str, value: Any) -> list[str]:
        lines = [f".. rubric:: ``{name}``", ""] if isinstance(value, ModuleType) else []
        lines.append(f".. {kind(value)}:: {name}")
        if kind(value) == "autoexception":
            lines.append("   :show-inheritance:")
        elif kind(value) == "autodata":
            lines.append("   :no-value:")
        elif kind(value) == "autoclass" and "shallow" not in self.options:
            lines += ["   :members:", f"   :exclude-members: {', '.join(self.options.get('hidden', ()))}"]
        return [*lines, ""]


class Generated(SphinxDirective):
    required_arguments = 1
    optional_arguments = 9

    def run(self) -> list[nodes.Node]:
        module, _, function = self.arguments[0].partition(":")
        text = getattr(importlib.import_module(module), function)(*self.arguments[1:])
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def commands() -> str:
    """The help of every command, as Markdown."""
    click = typer.main.get_command(command)
    text = typer.cli.get_docs_for_click(obj=click, ctx=typer.Context(click, info_name="windowgrad"), name="windowgrad")
    return "## " + text.partition("\n## ")[2]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("reference", Reference)
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
