"""PyTorch's compiler takes each public function as one step of its graph and does not look inside.

That has to be said before it first sees such a function, and importing it takes long; so it is said when somebody else has
imported it. Nothing of PyTorch is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


class Watch(MetaPathFinder):
    """Finds nothing itself; when the compiler is imported, it sees to it that `functions` are marked right after."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != COMPILER or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # it is found by all others, once
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_mark(module: ModuleType) -> None:
                load(module)
                mark(self.functions)

            spec.loader.exec_module = load_and_mark  # type: ignore[method-assign]
        return spec


def watch(functions: Sequence[Callable[..., Any]]) -> None:
    """Mark the functions as steps of a graph, now or when the compiler is imported."""
    if COMPILER in sys.modules:
        mark(functions)
    else:
        sys.meta_path.insert(0, Watch(functions))


def mark(functions: Sequence[Callable[..., Any]]) -> None:
    for function in functions:
        sys.modules[COMPILER].allow_in_graph(function)
