"""A loaded model as a function of arrays of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from windowgrad.arguments import shape_of
from windowgrad.dtypes import is_float
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.nn.layer import Saying, shape_given
from windowgrad.nn.summary import Summary, summed
from windowgrad.onnx import own
from windowgrad.onnx.costs import row_of
from windowgrad.onnx.graph import Array, Graph, Input, Node, quoted
from windowgrad.onnx.kinds import Kind, as_tensor, is_kept, kind_of
from windowgrad.onnx.operators import TABLE
from windowgrad.onnx.plans import Plans


class Step(NamedTuple):
    """A node as it is computed: its inputs in order, None for one that is left out, and its results by name."""

    node: Node
    inputs: list[Any]
    results: dict[str, Any]


class Network:
    """An ONNX graph that can be called, as `load` returns it.

    `net(x)` takes the inputs in their order, `net(image=x)` by name, and `net(params, x)` other parameters first: a dict of
    arrays, in which every name of `net.params` may stand. The result is an array, or a tuple if there are several outputs.
    Constants take the kind of the inputs, so an array of fractions is computed exactly.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        folded, self._nodes = folding(graph)
        self.params: Mapping[str, Array] = {name: array for name, array in graph.constants.items() if is_float(array.dtype)}
        used = {name for node in self._nodes for name in node.inputs} | {*graph.outputs}
        self._constants = {name: array for name, array in {**graph.constants, **folded}.items() if name in used}
        self._last = last_uses(self._nodes)
        self._tensors: dict[str, Any] = {}
        self._plans = Plans(self._evaluated)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The arrays it is given, in their order."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it returns."""
        return self.graph.outputs

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name}: {value.dtype}{described(value)}" for value in self.inputs)
        return f"Network({self.graph.name}: ({given}) -> ({', '.join(self.outputs)}), {len(self.graph.nodes)} nodes)"

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """The output, or a tuple of the outputs: of the inputs in their order or by name, after a dict of parameters if any."""
        plan = None if named or len(arrays) != len(self.inputs) else self._plans.find(arrays)
        return self._evaluated(*arrays, **named) if plan is None else plan(*arrays)

    def _evaluated(self, /, *arrays: Any, **named: Any) -> Any:
        """Node by node."""
        values, kind = self._given(arrays, named)
        found = {name: values[name] for name in self.outputs if name in values}
        for step in self._steps(values, kind):
            found |= {name: array for name, array in step.results.items() if name in self.outputs}
        results = tuple(found[name] for name in self.outputs)
        return results if len(results) > 1 else results[0]

    def steps(self, /, *arrays: Any, **named: Any) -> Iterator[Step]:
        """Every node with what goes in and what comes out, one after the other, for a call with these arrays."""
        return self._steps(*self._given(arrays, named))

    def summary(self, *in_shapes: Sequence[int]) -> Summary:
        """A table of every node's output shape, parameters and multiply-adds, with totals, to be printed.

        The shapes are those for inputs of `in_shapes`, by default those of the model with 1 where it has a symbol; the network
        is computed once, on zeros.
        """
        zeros = [np.zeros(shape, value.dtype) for shape, value in zip(self.in_shapes(*in_shapes), self.inputs, strict=True)]
        rows = [row_of(*step, self.params) for step in self.steps(*zeros)]
        return summed(self.graph.name, zeros[0].shape if len(zeros) == 1 else tuple(x.shape for x in zeros), rows)

    def in_shapes(self, *given: Sequence[int]) -> list[tuple[int, ...]]:
        """The shape of each input: as given, or that of the model with 1 where it has a symbol."""
        shapes = list(given) or [tuple(n if isinstance(n, int) else 1 for n in value.shape or ()) for value in self.inputs]
        if len(shapes) != len(self.inputs):
            raise WindowError(f"{len(shapes)} shapes given: the network has {len(self.inputs)} inputs")
        return [shape_given(shape) for shape in shapes]

    def _given(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[dict[str, Any], Kind]:
        """All that is known before the first node, and what makes constants of the same kind."""
        params: Mapping[str, Any] = {}
        if arrays and isinstance(arrays[0], Mapping):
            params, arrays = arrays[0], arrays[1:]
        check_params(params, self.params)
        given = matched(self.inputs, arrays, named)
        kind = kind_of([*given.values(), *params.values()])
        return {**self._of_kind(kind), **params, **given}, kind

    def _of_kind(self, kind: Kind) -> Mapping[str, Any]:
        """The constants. Copies for PyTorch are kept, unless they are tensors without data, as of a compiler."""
        if kind is as_tensor and self._tensors:
            return self._tensors
        found = {name: kind(array) for name, array in self._constants.items()}
        if kind is as_tensor and all(is_kept(array) for array in found.values()):
            self._tensors = found
        return found

    def _steps(self, values: dict[str, Any], kind: Kind) -> Iterator[Step]:
        """The nodes, computed one by one; a value is let go when no later node needs it."""
        for node, last in zip(self._nodes, self._last, strict=True):
            inputs = [values[name] if name else None for name in node.inputs]
            results = {name: kind(array) for name, array in zip(node.outputs, computed(node, inputs), strict=False) if name}
            values |= results
            yield Step(node, inputs, results)
            for name in last:
                del values[name]


def computed(node: Node, inputs: list[Any]) -> Sequence[Any]:
    """The outputs of a node, at least as many as it names."""
    with Saying("node {}: ", node):
        try:
            found = (TABLE.get(node.op_type) or own.TABLE[node.op_type])(node, *inputs)
        except MemoryError:
            raise WindowError("needs more memory than there is") from None
        results = found if isinstance(found, tuple) else (found,)
        if len(results) < len(node.outputs):
            raise OptionError(f"outputs {show(node.outputs)}: only {len(results)} supported")
        return results


def folding(graph: Graph) -> tuple[dict[str, Array], tuple[Node, ...]]:
    """What integers and bools of the model alone decide, such as shapes and constants, and the nodes that remain.

    Nothing is computed from floats: parameters may be given anew, and over fractions nothing is to be rounded.
    """
    whole = {name: array for name, array in graph.constants.items() if not is_float(array.dtype)}
    folded: dict[str, Array] = {}
    rest = []
    for node in graph.nodes:
        if not all(not name or name in whole for name in node.inputs):
            rest.append(node)
            continue
        results = computed(node, [whole[name] if name else None for name in node.inputs])
        found = {name: np.asarray(array) for name, array in zip(node.outputs, results, strict=False) if name}
        folded |= found
        whole |= {name: array for name, array in found.items() if not is_float(array.dtype)}
    return folded, tuple(rest)


def last_uses(nodes: tuple[Node, ...]) -> list[list[str]]:
    """For each node the values that nobody needs after it."""
    seen = {""}
    found = []
    for node in reversed(nodes):
        over = [name for name in dict.fromkeys((*node.inputs, *node.outputs)) if name not in seen]
        seen.update(over)
        found.append(over)
    return found[::-1]


# --- what a call is given ------------------------------------------------------------------------------------------


def matched(inputs: tuple[Input, ...], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays by the names of the inputs, with the dtypes and shapes that these have."""
    names = [value.name for value in inputs]
    if len(arrays) > len(names):
        raise WindowError(f"{len(arrays)} arrays given: the network has {len(names)} inputs, {show(names)}")
    given = dict(zip(names, arrays, strict=False))
    for name, array in named.items():
        if name not in names or name in given:
            why = "is given twice" if name in given else f"is no input; the network has {show(names)}"
            raise OptionError(f"{quoted(name)}: {why}")
        given[name] = array
    if left := [name for name in names if name not in given]:
        raise WindowError(f"{len(given)} arrays given: {show(left)} of the inputs {show(names)} is missing")
    sizes: dict[str, int] = {}
    for value in inputs:
        check_input(value, given[value.name], sizes)
    return given


def check_input(value: Input, array: Any, sizes: dict[str, int]) -> None:
    """`sizes` are those that symbols have had so far."""
    where = f"input {quoted(value.name)}"
    shape, dtype = shape_of(where, array), getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O" and family(dtype) != family(value.dtype):
        other = ", or another float" if is_float(value.dtype) else ""
        raise KindError(f"{where} of dtype {dtype}: must be {value.dtype}{other}")
    if value.shape is None:
        return
    if len(shape) != len(value.shape):
        raise WindowError(f"{where} of shape {shape}: must be {described(value)}")
    for n, wanted in zip(shape, value.shape, strict=True):
        if wanted is not None and n != (sizes.setdefault(wanted, n) if isinstance(wanted, str) else wanted):
            known = "".join(f", {symbol} = {size}" for symbol, size in sizes.items() if symbol in value.shape)
            raise WindowError(f"{where} of shape {shape}: must be {described(value)}{known}")


def family(dtype: np.dtype[Any]) -> str:
    return "float" if is_float(dtype) else "bool" if dtype.kind == "b" else dtype.name


def described(value: Input) -> str:
    if value.shape is None:
        return "(…)"
    return f"({', '.join('?' if n is None else str(n) for n in value.shape)}{',' * (len(value.shape) == 1)})"


def check_params(params: Mapping[str, Any], own: Mapping[str, Array]) -> None:
    for name, array in params.items():
        if name not in own:
            raise OptionError(f"params[{show(name)}]: the network has no such parameter; it has {show(list(own))}")
        if (shape := shape_of(f"params[{show(name)}]", array)) != own[name].shape:
            raise WindowError(f"params[{show(name)}] of shape {shape}: must be {own[name].shape}")
