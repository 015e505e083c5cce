"""The result of a backward pass over a tape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from windowgrad.autograd import drawing, trees
from windowgrad.autograd.tracer import Tracer
from windowgrad.errors import KindError

if TYPE_CHECKING:
    from windowgrad.autograd.tape import Tape, Var


class Gradients(Mapping[Any, Any]):
    """Gradients by variable, id or name. They are zeros for a variable that the output does not depend on."""

    def __init__(self, tape: Tape, found: Mapping[int, Any]) -> None:
        self._tape, self._found = tape, found

    def __getitem__(self, key: Var | int | str) -> Any:
        return self._found[self._tape.find(key, self._found)]

    def tree(self, tree: Any) -> Any:
        """The gradients of a tree of variables, such as `Tape.leaves` gives, in its structure."""
        leaves, structure = trees.flatten(tree)
        for leaf in leaves:
            if not isinstance(leaf, Tracer):
                raise KindError(f"tree: every leaf must be a variable of the tape, not {type(leaf).__name__}")
        return trees.unflatten(structure, [self[leaf] for leaf in leaves])

    def __iter__(self) -> Iterator[Var]:
        return (self._tape.var(node) for node in self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Gradients({', '.join(drawing.described(self._tape, node) for node in self._found)})"
