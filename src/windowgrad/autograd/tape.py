"""The tape: a list of nodes that only grows. Each operator on its variables appends exactly one.

tape = Tape()
x = tape.leaf(x0, name="x")
loss = sum(max_pool2d(x, 2))
grads = tape.backward(loss)        # grads[x], grads["x"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from windowgrad.arguments import flag, is_int
from windowgrad.autograd import drawing, trees
from windowgrad.autograd.gradients import Gradients
from windowgrad.autograd.names import Names
from windowgrad.autograd.steps import Step, as_derivative, ones_like, plus, pulled_at, pulled_from, step_name, zeros_like
from windowgrad.autograd.tracer import Tracer, as_value, check_constant, next_level
from windowgrad.dispatch import run, run_saving
from windowgrad.errors import KindError, MissingError, WindowError, WindowgradError, show
from windowgrad.errors import place as position
from windowgrad.params import Params
from windowgrad.spec.op import Op


class Node(NamedTuple):
    """One entry: what was computed, from which nodes, and how a gradient goes back to them.

    `backward(g, needs)` gives a gradient for each of `parents`, None where it is zero or not in `needs`; a leaf has none.
    """

    name: str
    value: Any
    parents: tuple[int, ...] = ()
    requires_grad: bool = True
    backward: Callable[[Any, Sequence[bool]], Sequence[Any]] | None = None
    params: Params | None = None
    seconds: float | None = None
    saved: Any = None
    """What the forward rule saved for the backward pass, besides the values of the parents."""
    needs: tuple[bool, ...] = ()
    """Which of the parents require a gradient."""


new: Callable[..., Any] = tuple.__new__
"""`new(Node, (…))` with all fields takes a third of the time of `Node(…)`."""
bare: Callable[..., Any] = object.__new__
"""`bare(Var)` and two assignments take two thirds of the time of `Var(…)`."""
FIRST = (0,)
ONE = {need: (need,) for need in (False, True)}
"""Shared by all nodes with one parent: what a tape holds, the garbage collector goes through again and again. It does not go
through tuples of arrays or numbers alone."""


LEAF = Node("leaf", None)[2:]


class Var(Tracer):
    """A variable: a node of a tape, which can be used wherever an array can."""

    __slots__ = ("id", "tape")

    def __init__(self, tape: Tape, node: int) -> None:
        self.tape, self.id = tape, node

    @property
    def node(self) -> Node:
        """Its entry in the tape."""
        return self.tape.nodes[self.id]

    @property
    def value(self) -> Any:
        """The array that was computed."""
        return self.tape.nodes[self.id].value

    @property
    def level(self) -> int:  # type: ignore[override]
        return self.tape.level

    @property
    def requires_grad(self) -> bool:
        """Whether `Tape.backward` gives it a gradient, if it is a leaf, or passes one on."""
        return self.node.requires_grad

    @property
    def described(self) -> str:
        """How errors describe it: `3 conv2d: float32(1, 3, 8, 8)`."""
        return drawing.described(self.tape, self.id)

    def __repr__(self) -> str:
        return f"Var({self.described})"

    def __windowgrad__(
        self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None
    ) -> Any:
        tape = self.tape
        if rule == "forward":
            for array in arrays:
                if array is not self and isinstance(array, Tracer) and array.level > tape.level:
                    return NotImplemented
            return tape._record(op, rule, params, arrays)[0]
        return Tracer.__windowgrad__(self, op, rule, params, arrays, needs)

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        return self.tape.follow(op, rule, params, arrays, needs)


class Tape:
    """Records every operator applied to its variables, for `backward`. `timed` also records how long each operator took."""

    def __init__(self, *, timed: bool = False) -> None:
        self.nodes: list[Node] = []
        self.level = next_level()
        self._timed = timed if timed is False else flag("timed", timed)
        self._names = Names()
        self._mixes = False

    @classmethod
    def within(cls) -> Tape:
        """The tape of a transform: variables of the differentiations around it are constants to it, not an error."""
        tape = cls()
        tape._mixes = True
        return tape

    def leaf(self, value: Any, name: str | None = None, requires_grad: bool = True) -> Var:
        """A new variable of the tape. The array is not copied: do not write to it while the tape is in use."""
        full = None if name is None else self._names.free(name)
        needed = flag("requires_grad", requires_grad)
        var = self._append(Node(full or "leaf", as_value("value", value), requires_grad=needed))
        if full is not None:
            self._names.set(full, var.id)
        return var

    def leaves(self, tree: Any, name: str | None = None, requires_grad: bool = True) -> Any:
        """Variables for all arrays of nested tuples, lists, dicts and dataclasses, in the same structure.

        With a `name`, each has it and its position: `params[0]['weight']`. `Gradients.tree` gives the gradients as a tree.

        >>> tape = wg.Tape()
        >>> params = tape.leaves({"w": np.ones(2), "b": np.zeros(2)}, name="params")
        >>> tape.backward(wg.sum(3 * params["w"] + params["b"])).tree(params)
        {'w': array([3., 3.]), 'b': array([1., 1.])}
        """
        values, structure = trees.values("tree", tree)
        needed, prefix = flag("requires_grad", requires_grad), None if name is None else self._names.free(name)
        names = [None if prefix is None else f"{name}{position(path)}" for path in structure.paths()]
        for each in filter(None, names):
            self._names.free(each)
        return trees.unflatten(structure, [self.leaf(v, n, needed) for v, n in zip(values, names, strict=True)])

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Name what is recorded in a `with` block: its last node `name`, the others `name/…`. Blocks nest: `body/stem`.

        >>> tape = wg.Tape()
        >>> x = tape.leaf(np.array([1.0, -2.0]), name="x")
        >>> with tape.named("stem"):
        ...     y = wg.relu(x * 3)
        >>> [node.name for node in tape.nodes]
        ['x', 'stem/multiply', 'stem']
        >>> tape.backward(wg.sum(y * y))["stem"]
        array([6., 0.])
        """
        began = len(self.nodes)
        with self._names.within(name) as full:
            yield
        self._names.name_block(self.nodes, full, began)

    def name(self, var: Var | int, name: str) -> None:
        """Name the node of a variable; `backward` then gives its gradient too, as `grads[name]`."""
        node = self.find(var, range(len(self.nodes)))
        self._names.rename(self.nodes, node, self._names.free(name))

    def __copy__(self) -> Tape:
        """An independent tape with the same nodes; its variables are those of `var`."""
        tape = Tape(timed=self._timed)
        tape.nodes, tape._names, tape._mixes = self.nodes.copy(), self._names.copy(), self._mixes
        return tape

    def checked_leaves(self, values: Iterable[Any]) -> list[Var]:
        """Variables without a name, of arrays that have been checked before."""
        return [self._append(new(Node, ("leaf", value, *LEAF))) for value in values]

    def var(self, node: int) -> Var:
        """The variable of an existing node, given by its id or name."""
        return Var(self, self.find(node, range(len(self.nodes))))

    def _append(self, node: Node) -> Var:
        nodes = self.nodes
        var: Var = bare(Var)
        var.tape, var.id = self, len(nodes)
        nodes.append(node)
        return var

    def record(self, op: Op, params: Params, arrays: Sequence[Any]) -> Var:
        """Compute the forward rule on the values of the variables and append a node for it."""
        return self._record(op, "forward", params, arrays)[0]

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        """The same for another rule; for a vjp, one node per gradient."""
        if rule == "vjp":
            needed = [True] * (len(arrays) - 1) if needs is None else needs
            return tuple(self._record(op, rule, params, arrays, i)[0] if need else None for i, need in enumerate(needed))
        if rule == "with_indices":
            return self._record(op, "forward", params, arrays, asked=rule)
        return self._record(op, rule, params, arrays)[0]

    def _record(
        self, op: Op, rule: str, params: Params, arrays: Sequence[Any], place: int = 0, asked: str | None = None
    ) -> tuple[Var, Any]:
        """The variable of a new node, and the indices if they are asked for; of a vjp, the gradient of the input at `place`."""
        values, places, parents, needs = self._inputs(op, rule, arrays)
        needed = True in needs
        began = perf_counter() if self._timed else 0.0
        saved = index = None
        try:
            if asked is not None:
                value, index = run(op, asked, params, *values)
            elif rule != "forward":
                value = Step(op, rule, params, place).run(values)
            elif needed and op.facts is not None:
                value, saved = run_saving(op, params, *values)
            else:
                value = run(op, rule, params, *values)
        except WindowgradError as error:
            error.where = f"{step_name(op, rule)} of nodes {', '.join(drawing.described(self, node) for node in parents)}"
            raise
        seconds = perf_counter() - began if self._timed else None
        pull: Any = None
        if needed and rule != "forward":
            pull = partial(Step(op, rule, params, place).pull_at, places, values)
        elif needed and len(places) < len(values):
            pull = partial(pulled_at, places, op, params, values, saved)
        elif needed:
            pull = partial(pulled_from, op, params, values, saved)
        name = op.label or op.name if rule == "forward" else step_name(op, rule)
        return self._append(new(Node, (name, value, parents, needed, pull, params, seconds, saved, needs))), index

    def _inputs(
        self, op: Op, rule: str, arrays: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
        """The values of all inputs; which of them are variables of this tape, their nodes, and which require a gradient."""
        nodes, values = self.nodes, list(arrays)
        places: list[int] = []
        parents: list[int] = []
        needs: list[bool] = []
        for number, array in enumerate(arrays):
            if isinstance(array, Var):
                if array.tape is self:
                    node = nodes[array.id]
                    values[number] = node.value
                    places.append(number)
                    parents.append(array.id)
                    needs.append(node.requires_grad)
                elif not self._mixes:
                    raise KindError(
                        f"{step_name(op, rule)}: {array!r} belongs to another tape; use its .value, or a leaf of this tape"
                    )
            elif type(array) is not np.ndarray:
                check_constant(op, rule, arrays, number)
        if len(places) == 1:
            return tuple(values), FIRST if places[0] == 0 else (places[0],), (parents[0],), ONE[needs[0]]
        return tuple(values), tuple(places), tuple(parents), tuple(needs)

    def backward(self, out: Var, grad: Any = None, of: Iterable[Var | int | str] | None = None) -> Gradients:
        """The gradients of ⟨grad, out⟩ with respect to the variables `of`: by default leaves that require one, and named nodes.

        `grad` is 1 by default, and then `out` must be a scalar. `backward` may be called several times.
        """
        start = self.find(out, range(len(self.nodes)))
        value = self.nodes[start].value
        if grad is None:
            if value.size != 1:
                raise WindowError(f"grad: must be given, with shape {value.shape}, because the output is not a scalar")
            grad = ones_like(value)
        elif (grad := as_value("grad", grad)).shape != value.shape:
            raise WindowError(f"grad of shape {grad.shape}: must be {value.shape}, the shape of the output")
        elif isinstance(grad, Var) and grad.tape is self:
            said = "belongs to this tape, which does not record its own backward pass; nest wg.grad or wg.jvp instead"
            raise KindError(f"grad: {grad!r} {said}")
        named = set(self._names.ids.values())
        wanted = [i for i, node in enumerate(self.nodes) if node.requires_grad and (not node.parents or i in named)]
        if of is not None and (isinstance(of, (str, Var)) or not isinstance(of, Iterable) or getattr(of, "ndim", 1) == 0):
            raise KindError(f"of={show(of)}: must be a list of variables, ids or names, not {type(of).__name__}")
        asked = wanted if of is None else [self.find(key, range(len(self.nodes))) for key in of]
        return Gradients(self, self.walk({start: as_derivative(grad)}, asked))

    def walk(self, gradients: dict[int, Any], asked: Sequence[int]) -> dict[int, Any]:
        """From gradients of some nodes to those of the nodes asked for. The others are freed as soon as they are used."""
        found, kept, nodes = gradients.copy(), dict.fromkeys(asked), self.nodes
        i = max(found) if found else -1
        try:
            while found:
                if (g := found.pop(i, None)) is not None:
                    if i in kept:
                        kept[i] = g
                    _, _, parents, _, backward, _, _, _, needs = nodes[i]
                    if backward is not None:
                        for parent, part in zip(parents, backward(g, needs), strict=False):
                            if part is not None:
                                found[parent] = plus(found[parent], part) if parent in found else part
                i -= 1
        except WindowgradError as error:
            error.where = f"backward of {drawing.described(self, i)} to nodes {', '.join(map(str, nodes[i].parents))}"
            raise
        for i, g in kept.items():
            if g is None:
                kept[i] = zeros_like(nodes[i].value)
        return kept

    def find(self, key: Any, among: Any) -> int:
        """The id of a node given by its variable, its name or its id."""
        if isinstance(key, Var) and key.tape is not self:
            raise KindError(f"{key!r} belongs to another tape")
        node = key.id if isinstance(key, Var) else self._names.ids.get(key, -1) if isinstance(key, str) else key
        if not is_int(node) or int(node) not in among:
            raise MissingError(f"{show(key)}: no such node; must be a variable, an id or a name")
        return int(node)

    def __repr__(self) -> str:
        return f"<Tape of {len(self.nodes)} nodes>"

    def __str__(self) -> str:
        return drawing.table(self)

    def to_dot(self) -> str:
        """The graph in the DOT language of Graphviz."""
        return drawing.dot(self)

    def to_svg(self) -> str:
        """The graph as a picture: the text of an SVG file."""
        return drawing.svg(self)

    _repr_svg_ = to_svg  # what a notebook shows
