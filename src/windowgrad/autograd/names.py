"""The names on a tape: of leaves, of nodes, and of blocks of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windowgrad.errors import OptionError, show


class Names:
    """Which node a name belongs to, and the blocks that are open."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.operators: dict[int, str] = {}
        """What nodes that were named are called by default: the operator."""
        self._open: list[str] = []

    def copy(self) -> Names:
        names = Names()
        names.ids, names.operators = self.ids.copy(), self.operators.copy()
        return names

    def free(self, name: Any) -> str:
        """The name with those of the open blocks; it must not be taken."""
        if not isinstance(name, str) or (full := "/".join((*self._open, name))) in self.ids:
            raise OptionError(f"name={show(name)}: must be a string, different from the other names on the tape")
        return full

    def set(self, full: str, node: int) -> None:
        self.ids[full] = node

    @contextmanager
    def within(self, name: Any) -> Iterator[str]:
        full = self.free(name)
        self._open.append(name)
        try:
            yield full
        finally:
            self._open.pop()

    def rename(self, nodes: list[Any], node: int, full: str) -> None:
        self.set(full, node)
        self._call(nodes, node, full)

    def name_block(self, nodes: list[Any], full: str, began: int) -> None:
        """Name the nodes from `began` on: the last that is no leaf `full`, the others after it, but for those with a name."""
        made = [i for i in range(began, len(nodes)) if nodes[i].parents]
        if not made:
            raise OptionError(f"name={show(full)}: no operator was recorded in this block")
        taken = set(self.ids.values()) | set(self.operators)
        for i in range(began, len(nodes)):
            if i not in taken and i != made[-1]:
                self._call(nodes, i, f"{full}/{nodes[i].name}")
        self.set(full, made[-1])
        if made[-1] not in taken:
            self._call(nodes, made[-1], full)

    def _call(self, nodes: list[Any], i: int, name: str) -> None:
        if nodes[i].parents:
            self.operators.setdefault(i, nodes[i].name)
        nodes[i] = nodes[i]._replace(name=name)
