"""An import hook: when somebody imports PyTorch's compiler, it is told not to trace into the public functions.

`torch.compile` would otherwise trace our Python code, which works on NumPy arrays and compiled kernels. Marked by
`torch._dynamo.allow_in_graph`, a function is one node of the compiled graph. The mark must be set before the compiler first
meets the function, but importing `torch._dynamo` takes seconds and most programs never compile. So `import windowgrad` puts a
finder in front of `sys.meta_path`, which imports nothing of PyTorch. The first import of `torch._dynamo` meets it: the finder
removes itself, lets the other finders find the module, and sets the marks as soon as the module is loaded. If loading fails
or is interrupted, the finder waits for the next import.
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


class MarkOnImport(MetaPathFinder):
    """Finds no module itself. It wraps the loader of the compiler, once, so that `functions` are marked after it has run."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != COMPILER or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # so that the others are asked below
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_mark(module: ModuleType) -> None:
                try:
                    load(module)
                except BaseException:  # Ctrl-C too: it may be imported again
                    sys.meta_path.insert(0, self)
                    raise
                mark(self.functions)

            spec.loader.exec_module = load_and_mark  # type: ignore[method-assign]
        return spec


def mark_when_imported(functions: Sequence[Callable[..., Any]]) -> None:
    """Mark the functions as single nodes of a graph: now, or when the compiler is imported."""
    if COMPILER in sys.modules:
        mark(functions)
    else:
        sys.meta_path.insert(0, MarkOnImport(functions))


def mark(functions: Sequence[Callable[..., Any]]) -> None:
    for function in functions:
        sys.modules[COMPILER].allow_in_graph(function)
