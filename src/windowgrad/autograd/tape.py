"""The tape: a list of nodes that only grows. Each operator on its variables appends exactly one.

tape = Tape()
x = tape.leaf(x0, name="x")
loss = sum(max_pool2d(x, 2))
grads = tape.backward(loss)        # grads[x], grads["x"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from windowgrad.arguments import flag, is_int
from windowgrad.autograd import drawing
from windowgrad.autograd.gradients import Gradients
from windowgrad.autograd.steps import Step, as_derivative, ones_like, plus, pulled, pulled_at, step_name, zeros_like
from windowgrad.autograd.tracer import Tracer, as_value, next_level
from windowgrad.dispatch import run, run_saving
from windowgrad.errors import KindError, MissingError, OptionError, WindowError, WindowgradError, show
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


LEAF = Node("leaf", None)[2:]


class Var(Tracer):
    """A variable: a node of a tape, which can be used wherever an array can."""

    __slots__ = ("id", "tape")

    def __init__(self, tape: Tape, node: int) -> None:
        self.tape, self.id = tape, node

    @property
    def node(self) -> Node:
        return self.tape.nodes[self.id]

    @property
    def value(self) -> Any:
        return self.tape.nodes[self.id].value

    @property
    def level(self) -> int:  # type: ignore[override]
        return self.tape.level

    @property
    def requires_grad(self) -> bool:
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
        self._timed = flag("timed", timed)
        self._names: dict[str, int] = {}
        self._mixes = False

    @classmethod
    def within(cls) -> Tape:
        """The tape of a transform: variables of the differentiations around it are constants to it, not an error."""
        tape = cls()
        tape._mixes = True
        return tape

    def leaf(self, value: Any, name: str | None = None, requires_grad: bool = True) -> Var:
        """A new variable of the tape. The array is not copied: do not write to it while the tape is in use."""
        if name is not None and (not isinstance(name, str) or name in self._names):
            raise OptionError(f"name={show(name)}: must be a string, different from the names of the other leaves")
        needed = flag("requires_grad", requires_grad)
        var = self._append(Node(name or "leaf", as_value("value", value), requires_grad=needed))
        if name is not None:
            self._names[name] = var.id
        return var

    def leaves(self, values: Iterable[Any]) -> list[Var]:
        """Variables without a name, of arrays that have been checked before."""
        return [self._append(new(Node, ("leaf", value, *LEAF))) for value in values]

    def var(self, node: int) -> Var:
        """The variable of an existing node, given by its id or name."""
        return Var(self, self.find(node, range(len(self.nodes))))

    def _append(self, node: Node) -> Var:
        nodes = self.nodes
        nodes.append(node)
        return Var(self, len(nodes) - 1)

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
        pull = _puller(op, rule, params, place, values, places, saved) if needed else None
        name = op.label or op.name if rule == "forward" else step_name(op, rule)
        fields = name, value, tuple(parents), needed, pull, params, seconds, saved, tuple(needs)
        return self._append(new(Node, fields)), index

    def backward(self, out: Var, grad: Any = None, of: Iterable[Var | int | str] | None = None) -> Gradients:
        """The gradients of ⟨grad, out⟩ with respect to every leaf that requires one, or to the variables `of`.

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
        wanted = [i for i, node in enumerate(self.nodes) if node.requires_grad and not node.parents]
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
        node = key.id if isinstance(key, Var) else self._names.get(key, -1) if isinstance(key, str) else key
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


def _puller(
    op: Op, rule: str, params: Params, place: int, values: Sequence[Any], places: Sequence[int], saved: Any
) -> Callable[[Any, Sequence[bool]], Sequence[Any]]:
    """How a gradient goes back to the arguments at `places`, of which the values are given."""
    if rule != "forward":
        return partial(Step(op, rule, params, place).pull_at, tuple(places), values)
    if len(places) < len(values):
        return partial(pulled_at, tuple(places), op, params, values, saved)
    return partial(pulled, op, params, values, saved=saved)
