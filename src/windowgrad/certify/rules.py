"""From the calls of a program to nodes: one rule per operator that has bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from windowgrad.autograd.program import Call, Program, Value
from windowgrad.certify.maps import Averaging, Chain, Convolution, Dense, Map, Product, Scaling, Selection, Totals
from windowgrad.certify.nodes import Affine, Curve, Extreme, Network, Node, Relaxed, Smooth, fused, only_needed
from windowgrad.dispatch import run
from windowgrad.errors import KindError, WindowError
from windowgrad.geometry import Geometry, Sliding
from windowgrad.params import ConvParams, Shape

Array = np.ndarray[Any, Any]


def network_of(program: Program) -> Network:
    """The nodes of a program with one input and one output; an error names every call that has no bounds."""
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        raise WindowError(
            f"{len(program.inputs)} inputs, {len(program.outputs)} outputs: bounds need a network with one of each"
        )
    if not isinstance(program.outputs[0], Value):
        raise WindowError("the output does not depend on the input")
    missing = sorted({call.name for call in program.calls if call.op.name not in RULES or call.rule != "forward"})
    if missing:
        raise KindError(f"no bounds for {', '.join(missing)}; supported are {', '.join(sorted(RULES))}")
    maker = Maker(program)
    for call in program.calls:
        RULES[call.op.name](maker, call)
    values = {value.number: value for call in program.calls for value in call.results} | {0: program.inputs[0]}
    output = program.outputs[0]
    nodes = only_needed(fused(maker.nodes), output.number)
    sizes = {number: math.prod(value.shape) for number, value in values.items()} | maker.extra
    return Network(tuple(nodes), sizes, output.number, output.shape, program.inputs[0].shape)


class Maker:
    """The nodes so far; some calls become two, with a value of their own between."""

    def __init__(self, program: Program) -> None:
        self.nodes: list[Node] = []
        self.extra: dict[int, int] = {}
        self.free = 1 + max([value.number for call in program.calls for value in call.results], default=0)

    @property
    def relaxed(self) -> int:
        """How many relaxed nodes there are so far."""
        return sum(isinstance(node, Relaxed) for node in self.nodes)

    def new(self, cells: int) -> int:
        self.extra[self.free] = cells
        self.free += 1
        return self.free - 1

    def affine(self, call: Call, parts: Sequence[tuple[int, Map]], constant: Any = 0.0, result: int | None = None) -> None:
        cells = parts[0][1].outputs
        full = np.broadcast_to(np.asarray(constant, np.float64).reshape(-1), (cells,))
        self.nodes.append(Affine(call.results[0].number if result is None else result, tuple(parts), full, call.name))

    def extreme(
        self, call: Call, sources: Sequence[Value | int], taps: Array, floor: Any, sign: int, result: int | None = None
    ) -> None:
        """`floor` is a constant of the cells themselves, whatever the sign."""
        numbers = [source if isinstance(source, int) else source.number for source in sources]
        sizes = [self.extra[source] if isinstance(source, int) else math.prod(source.shape) for source in sources]
        full = np.broadcast_to(sign * np.asarray(floor, np.float64).reshape(-1), (len(taps),))
        name, place = call.name, call.results[0].number if result is None else result
        self.nodes.append(Extreme(place, tuple(numbers), tuple(sizes), taps, sign, name, self.relaxed, full))


def number(array: Any, call: Call) -> Array:
    """A constant in float64, which must hold it exactly."""
    wide = np.asarray(array, np.float64)
    if not (wide == array).all() or not np.isfinite(wide).all():
        raise KindError(f"{call.name}: its constants must be finite numbers that float64 holds exactly")
    return wide


def cells_of(value: Value) -> Array:
    """The cells of a value, counted from 1, in its shape."""
    return np.arange(1.0, math.prod(value.shape) + 1).reshape(value.shape)


def repeated(value: Value, shape: Sequence[int]) -> Map:
    """A value repeated to a shape."""
    index = np.broadcast_to(cells_of(value), tuple(shape)).reshape(-1).astype(np.int64) - 1
    return Selection(index, math.prod(value.shape))


# --- affine ------------------------------------------------------------------------------------------------------


def moved(maker: Maker, call: Call) -> None:
    """Cells that are only moved, repeated, or joined with constants: told by where the number of each cell goes."""
    still = [np.zeros(a.shape) if isinstance(a, Value) else number(a, call) for a in call.arguments]
    constant = run(call.op, "forward", call.params, *still).reshape(-1)
    parts = []
    for place, value in enumerate(call.arguments):
        if isinstance(value, Value):
            counted = [*still[:place], cells_of(value), *still[place + 1 :]]
            index = run(call.op, "forward", call.params, *counted).reshape(-1) - constant
            parts.append((value.number, Selection(index.astype(np.int64) - 1, math.prod(value.shape))))
    maker.affine(call, parts, constant)


def unchanged(maker: Maker, call: Call) -> None:
    """Of another dtype that holds float32, or without a derivative."""
    (value,) = call.arguments
    if call.results[0].dtype not in (np.float32, np.float64):
        raise KindError(f"{call.name}: no bounds for {call.results[0].dtype}")
    maker.affine(call, [(value.number, repeated(value, value.shape))])


def added(sign: int) -> Callable[[Maker, Call], None]:
    def rule(maker: Maker, call: Call) -> None:
        shape, parts = call.results[0].shape, []
        constant: Any = 0.0
        for argument, factor in zip(call.arguments, (1, sign), strict=True):
            if isinstance(argument, Value):
                part = repeated(argument, shape)
                parts.append((argument.number, part if factor > 0 else Chain(part, negated(part.outputs))))
            else:
                constant = factor * np.broadcast_to(number(argument, call), shape)
        maker.affine(call, with_products(maker, parts), constant)

    return rule


def with_products(maker: Maker, parts: list[tuple[int, Map]]) -> list[tuple[int, Map]]:
    """A sum of products, a factor and a constant as one node: an evaluation may start from the constant and add the terms to
    it, or multiply each of them by the factor. Then these take part in as many roundings as there are terms.
    """
    ((value, part),) = parts if len(parts) == 1 else ((-1, None),)
    made = next((node for node in maker.nodes if node.result == value), None)
    if not isinstance(made, Affine) or made.constant.any() or not isinstance(part, Selection) or not part.whole:
        return parts
    return list(made.parts) if len(made.parts) == 1 and is_product(made.parts[0][1]) else parts


def is_product(part: Map) -> bool:
    """Whether it is a sum of products with constants, perhaps times a factor."""
    return isinstance(
        part.first if isinstance(part, Chain) and isinstance(part.last, Scaling) else part, (Product, Convolution)
    )


def negated(cells: int) -> Map:
    return Scaling(np.full(cells, -1.0), exact=True)


def opposite(maker: Maker, call: Call) -> None:
    (value,) = call.arguments
    maker.affine(call, [(value.number, negated(math.prod(value.shape)))])


def scaled(maker: Maker, call: Call, divides: bool = False) -> None:
    """A value times a constant, or divided by one."""
    a, b = call.arguments
    value, factor = (a, b) if isinstance(a, Value) else (b, a)
    if isinstance(factor, Value) or (divides and value is b):
        raise KindError(f"{call.name}: no bounds for a {'quotient by' if divides else 'product of'} values that vary")
    shape = call.results[0].shape
    factors = np.broadcast_to(number(factor, call), shape).reshape(-1)
    if divides and not factors.all():
        raise WindowError(f"{call.name}: a division by zero has no bounds")
    ((source, part),) = with_products(maker, [(value.number, repeated(value, shape))])
    maker.affine(call, [(source, Chain(part, Scaling(factors, divides)))])


def multiplied(maker: Maker, call: Call) -> None:
    """A matrix product with a constant matrix on one side."""
    a, b = call.arguments
    value = a if isinstance(a, Value) else b
    if isinstance(a, Value) and isinstance(b, Value):
        raise KindError(f"{call.name}: no bounds for a product of values that vary")
    matrix = number(b if value is a else a, call)
    if matrix.ndim > 2 or (value is b and len(value.shape) > 2):
        raise KindError(f"{call.name}: no bounds for constants of shape {matrix.shape} with values of shape {value.shape}")
    if value is a:
        product = Product(matrix.reshape(len(matrix), -1), before=math.prod(value.shape[:-1]))
    else:
        product = Product(np.atleast_2d(matrix).T, after=math.prod(value.shape[1:]))
    maker.affine(call, [(value.number, product)])


def convolved(maker: Maker, call: Call) -> None:
    x, *weights = call.arguments
    if any(isinstance(weight, Value) for weight in weights) or not isinstance(x, Value):
        raise KindError(f"{call.name}: no bounds for weights that vary")
    rank = weights[0].ndim - 2
    lead = math.prod(x.shape[: len(x.shape) - rank - 1])
    if lead != 1:
        raise WindowError(f"{call.name}: the network must be recorded for a batch of one, not {lead}")
    shape, out_shape = ((1, *value.shape[len(value.shape) - rank - 1 :]) for value in (x, call.results[0]))
    params: Any = call.params
    part: Map = Convolution(call.op, params, number(weights[0], call), shape, out_shape)
    if part.cells * part.outputs <= SMALL and type(params) is ConvParams:
        part = dense(params, number(weights[0], call), shape[1:], (part.terms, part.back_terms))
    bias = number(weights[1], call) if len(weights) > 1 else np.zeros(out_shape[1])
    maker.affine(call, [(x.number, part)], np.broadcast_to(bias.reshape(-1, *(1,) * rank), out_shape[1:]))


SMALL = 1 << 16
"""The most entries of a convolution that is taken as a matrix."""


def dense(params: ConvParams, weight: Array, shape: Shape, counts: tuple[int, int]) -> Map:
    """The matrix of a convolution of (channels, *spatial)."""
    places, taps = reached(params.window, shape[1:])
    outs, each, groups = len(weight), weight.shape[1], params.groups
    matrix = np.zeros((shape[0], math.prod(shape[1:]), outs, len(places)))
    for group in range(groups):
        rows, columns = slice(group * each, (group + 1) * each), slice(group * outs // groups, (group + 1) * outs // groups)
        own = weight[columns].reshape(outs // groups, each, -1)
        for place, tap in zip(places.T, taps.T, strict=True):  # one tap of all windows: no two see the same cell by it
            there = np.flatnonzero(place >= 0)
            matrix[rows, place[there], columns, there] = own[:, :, tap[there]].transpose(2, 1, 0)
    return Dense(matrix.reshape(math.prod(shape), -1), *counts)


def averaged(maker: Maker, call: Call) -> None:
    (x,) = call.arguments
    params: Any = call.params
    _, spatial = params.geometry.split(x.shape)
    tables = params.geometry.tables(spatial)
    window = math.prod(int(table.count.max()) for table in tables)
    covered = math.prod(int((table.count + table.padded).max()) for table in tables)
    seen = math.prod(covers(table, n) for table, n in zip(tables, spatial, strict=True))
    maker.affine(call, [(x.number, Averaging(call.op, params, x.shape, window, covered, seen))])


def covers(table: Any, n: int) -> int:
    """How many windows see a cell of one axis, at most."""
    counts = np.zeros(n, np.int64)
    for start, count in zip(table.start.tolist(), table.count.tolist(), strict=True):
        counts[start : start + count * table.step : table.step] += 1
    return max(int(counts.max()), 1)


def totalled(maker: Maker, call: Call, divides: bool = False) -> None:
    (x,) = call.arguments
    params: Any = call.params
    axes = params.axes(x.shape)
    divisor = params.count(x.shape) if divides else 1
    maker.affine(call, [(x.number, Totals(x.shape, axes, divisor))])


# --- extremes ----------------------------------------------------------------------------------------------------


def pooled(sign: int) -> Callable[[Maker, Call], None]:
    def rule(maker: Maker, call: Call) -> None:
        (x,) = call.arguments
        params: Any = call.params
        taps = there_only(windows(params.geometry, x.shape), params, x)
        empty = np.where((taps < 0).all(axis=1), 0.0, -np.inf * sign)
        maker.extreme(call, [x], taps, empty, sign)

    return rule


def windows(geometry: Geometry, shape: Sequence[int]) -> Array:
    """The cells that each output sees, in row-major order; −1 fills up windows with fewer cells."""
    lead, spatial = geometry.split(shape)
    plane, _ = reached(geometry, spatial)
    offsets = np.arange(math.prod(lead))[:, None, None] * math.prod(spatial)
    return np.where(plane >= 0, plane + offsets, -1).reshape(-1, plane.shape[1])


def reached(geometry: Geometry, spatial: Sequence[int]) -> tuple[Array, Array]:
    """The same of one plane, and which tap of the window sees each cell, counted in row-major order."""
    places, taps, real = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    kernel = geometry.kernel if isinstance(geometry, Sliding) else spatial
    for table, n, k in zip(geometry.tables(spatial), spatial, kernel, strict=True):
        steps = np.arange(max(int(table.count.max()), 1))
        at, there = table.start[:, None] + table.step * steps, steps < table.count[:, None]
        tap = table.skip[:, None] + steps
        places = (places[:, None, :, None] * n + at[None, :, None, :]).reshape(len(places) * len(at), -1)
        taps = (taps[:, None, :, None] * k + tap[None, :, None, :]).reshape(len(places), -1)
        real = (real[:, None, :, None] & there[None, :, None, :]).reshape(len(places), -1)
    return np.where(real, places, -1), taps


def there_only(taps: Array, params: Any, x: Value) -> Array:
    """Without the cells that a mask leaves out."""
    if params.where is None:
        return taps
    there = params.where.over(x.shape).reshape(-1)
    return np.where((taps >= 0) & there[taps], taps, -1)


def rectified(maker: Maker, call: Call) -> None:
    (x,) = call.arguments
    maker.extreme(call, [x], np.arange(math.prod(x.shape))[:, None], 0.0, 1)


def rectified_to_six(maker: Maker, call: Call) -> None:
    (x,) = call.arguments
    each = np.arange(math.prod(x.shape))[:, None]
    inner = maker.new(len(each))
    maker.extreme(call, [x], each, 0.0, 1, inner)
    maker.extreme(call, [inner], each, 6.0, -1)


def paired(sign: int) -> Callable[[Maker, Call], None]:
    def rule(maker: Maker, call: Call) -> None:
        shape, taps, offset = call.results[0].shape, [], 0
        floor: Any = -np.inf * sign
        given = [argument for argument in call.arguments if isinstance(argument, Value)]
        for argument in call.arguments:
            if isinstance(argument, Value):
                taps.append(repeated(argument, shape).index + offset)  # type: ignore[attr-defined]
                offset += math.prod(argument.shape)
            else:
                floor = np.broadcast_to(number(argument, call), shape)
        maker.extreme(call, given, np.stack(taps, axis=1), floor, sign)

    return rule


def reduced(sign: int) -> Callable[[Maker, Call], None]:
    def rule(maker: Maker, call: Call) -> None:
        (x,) = call.arguments
        params: Any = call.params
        axes = params.axes(x.shape)
        kept = [axis for axis in range(len(x.shape)) if axis not in axes]
        taps = (cells_of(x).astype(np.int64) - 1).transpose(*kept, *axes).reshape(-1, params.count(x.shape))
        maker.extreme(call, [x], taps, -np.inf * sign, sign)

    return rule


def absolute(maker: Maker, call: Call) -> None:
    """|x| = max(x, −x)."""
    (x,) = call.arguments
    cells = math.prod(x.shape)
    inner = maker.new(cells)
    maker.affine(call, [(x.number, negated(cells))], 0.0, inner)
    each = np.arange(cells)[:, None]
    maker.extreme(call, [x, inner], np.hstack([each, each + cells]), -np.inf, 1)


# --- smooth functions --------------------------------------------------------------------------------------------


def softened(maker: Maker, call: Call) -> None:
    """A smooth maximum; with β < 0 the negative of that of the negated cells."""
    (x,) = call.arguments
    params: Any = call.params
    taps = there_only(windows(params.geometry, x.shape), params, x)
    beta, zeros = float(params.beta), np.zeros(len(taps))
    if params.count_include_pad:
        zeros = np.maximum(padded(params.geometry, x.shape), 0)
    place = call.results[0].number
    sign = 1 if beta > 0 else -1
    cells = math.prod(x.shape)
    maker.nodes.append(Smooth(place, (x.number,), (cells,), taps, sign, call.name, maker.relaxed, abs(beta), zeros))


def padded(geometry: Geometry, shape: Sequence[int]) -> Array:
    """How many padded cells each output covers."""
    lead, spatial = geometry.split(shape)
    real, all_ = np.ones(1), np.ones(1)
    for table in geometry.tables(spatial):
        real = (real[:, None] * table.count).reshape(-1)
        all_ = (all_[:, None] * (table.count + table.padded)).reshape(-1)
    return np.tile(all_ - real, math.prod(lead))


def curved(logistic: bool) -> Callable[[Maker, Call], None]:
    def rule(maker: Maker, call: Call) -> None:
        (x,) = call.arguments
        cells = math.prod(x.shape)
        taps = np.arange(cells)[:, None]
        place = call.results[0].number
        maker.nodes.append(Curve(place, (x.number,), (cells,), taps, 1, call.name, maker.relaxed, logistic))

    return rule


MOVES = ("reshape", "flatten", "transpose", "index", "concatenate", "stack", "broadcast_to", "pad", "unpad", "extend")
RULES: dict[str, Callable[[Maker, Call], None]] = {
    **dict.fromkeys(MOVES, moved),
    "cast": unchanged,
    "stop_gradient": unchanged,
    "add": added(1),
    "subtract": added(-1),
    "negative": opposite,
    "multiply": scaled,
    "divide": partial(scaled, divides=True),
    "matmul": multiplied,
    "sum": totalled,
    "mean": partial(totalled, divides=True),
    "conv": convolved,
    "conv_transpose": convolved,
    "avg_pool": averaged,
    "max_pool": pooled(1),
    "min_pool": pooled(-1),
    "relu": rectified,
    "relu6": rectified_to_six,
    "maximum": paired(1),
    "minimum": paired(-1),
    "max": reduced(1),
    "min": reduced(-1),
    "abs": absolute,
    "smooth_max_pool": softened,
    "tanh": curved(False),
    "sigmoid": curved(True),
}
"""How each operator becomes nodes, by its name."""
