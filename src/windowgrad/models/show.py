"""`windowgrad model`: the table of a network's layers, and a page with its graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from windowgrad.errors import OptionError
from windowgrad.models.files import loaded
from windowgrad.models.layers import Shape, layers
from windowgrad.models.page import as_html
from windowgrad.saving import check_place, replacing


def show(model: Path, in_shapes: Sequence[Shape], html: Path | None, console: Console) -> None:
    """Print the table; write the page if it has a file."""
    if html is not None:
        check_place("html", html)
    net = loaded(model)
    console.print(net.summary(*in_shapes), markup=False, soft_wrap=True)
    if html is None:
        return
    page = as_html(net, list(layers(net, in_shapes)), net.in_shapes(*in_shapes))
    try:
        with replacing(html) as file:
            file.write(page.encode())
    except OSError as error:
        raise OptionError(f"html={html}: cannot be written: {error.strerror or error}") from None
