"""Whether all operators of a model are supported; one error lists all that are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from windowgrad.errors import OptionError, show
from windowgrad.onnx import own
from windowgrad.onnx.domain import DOMAIN
from windowgrad.onnx.operators import TABLE

MOST_NODES = 5
"""How many nodes with the same unsupported operator are named in a message."""


class UnsupportedError(OptionError):
    """Operators of a model that are not supported; `missing` has them all, each with the names of its nodes."""

    longest = 4000

    def __init__(self, message: str, missing: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.missing = missing or {}


def check_operators(model: Any) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    missing: dict[str, list[str]] = defaultdict(list)
    for number, node in nodes(model):
        if (node.domain, node.op_type) in functions:
            continue
        if node.op_type not in (own.TABLE if node.domain == DOMAIN else TABLE if node.domain in ("", "ai.onnx") else ()):
            kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            missing[kind].append(node.name or f"{node.op_type}_{number}")
    if missing:
        raise UnsupportedError(f"unsupported operators: {'; '.join(map(listed, missing.items()))}", dict(missing))


def nodes(model: Any) -> Iterator[tuple[int, Any]]:
    """Those of the graph with their numbers, and those of its functions."""
    yield from enumerate(model.graph.node)
    for function in model.functions:
        yield from enumerate(function.node)


def listed(entry: tuple[str, list[str]]) -> str:
    kind, names = entry
    shown = ", ".join(map(show, names[:MOST_NODES]))
    more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
    return f"{show(kind)[1:-1]} (node{'s' * (len(names) > 1)} {shown}{more})"
