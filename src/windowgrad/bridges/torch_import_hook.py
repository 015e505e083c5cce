"""Import hooks: what parts of PyTorch are told about the public functions as soon as somebody imports them.

`torch.compile` would otherwise trace our Python code, which works on NumPy arrays and compiled kernels. Marked by
`torch._dynamo.allow_in_graph`, a function is one node of the compiled graph. The mark must be set before the compiler first
meets the function, but importing `torch._dynamo` takes seconds and most programs never compile. So `import windowgrad` puts a
finder in front of `sys.meta_path`, which imports nothing of PyTorch. The first import of `torch._dynamo` meets it: the finder
removes itself, lets the other finders find the module, and sets the marks as soon as the module is loaded. If loading fails
or is interrupted, the finder waits for the next import.

`torch.fx.symbolic_trace` calls functions with stand-ins for tensors, which have no shape. Names given to `torch.fx.wrap` are
one node of its graph where they are looked up: in our modules, so `wg.conv2d(x, w)` and `functional.conv2d(x, w)` are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

COMPILER, TRACER = "torch._dynamo", "torch.fx._symbolic_trace"


class OnImport(MetaPathFinder):
    """Finds no module itself. It wraps the loader of `module`, once, so that `act` is called after it has run."""

    def __init__(self, module: str, act: Callable[[], None]) -> None:
        self.module, self.act = module, act

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.module or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # so that the others are asked below
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_act(module: ModuleType) -> None:
                try:
                    load(module)
                except BaseException:  # Ctrl-C too: it may be imported again
                    sys.meta_path.insert(0, self)
                    raise
                self.act()

            spec.loader.exec_module = load_and_act  # type: ignore[method-assign]
        return spec


def when_imported(module: str, act: Callable[[], None]) -> None:
    """Call `act` now if the module is loaded, or when it is."""
    if module in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, OnImport(module, act))


def mark_when_imported(functions: Sequence[Callable[..., Any]]) -> None:
    """Mark the functions as single nodes of a graph: now, or when the compiler is imported."""
    when_imported(COMPILER, lambda: mark(functions))


def mark(functions: Sequence[Callable[..., Any]]) -> None:
    for function in functions:
        sys.modules[COMPILER].allow_in_graph(function)


def wrap_when_imported(names: Sequence[str], modules: Sequence[ModuleType]) -> None:
    """Let the names in the modules be single nodes of a symbolic trace: now, or when the tracer is imported."""
    when_imported(TRACER, lambda: wrap(names, modules))


def wrap(names: Sequence[str], modules: Sequence[ModuleType]) -> None:
    """`torch.fx.wrap` takes the names of the module at whose top it is called, so the call is evaluated there."""
    for module in modules:
        for name in names:
            eval(f"__import__('sys').modules[{TRACER!r}].wrap({name!r})", vars(module))
