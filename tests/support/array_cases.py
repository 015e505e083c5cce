"""What the laws of the array operators are tried on: parameters, shapes that fit them, and cells in the domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.strategies import Cells, arrays, mapped
from windowgrad.autograd.arrays import ARRAY_OPS
from windowgrad.autograd.arrays import records as r
from windowgrad.autograd.arrays.choosing import MaskParams, ShareParams, WhereParams
from windowgrad.autograd.arrays.extremes import ExtremeParams, SplitParams
from windowgrad.autograd.arrays.indexing import ScatterParams, expanded, indexing
from windowgrad.autograd.arrays.joining import JoinParams, StackParams
from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.ops import routed
from windowgrad.spec import Op
from windowgrad.spec.scalar import zero_like

Shapes = tuple[tuple[int, ...], ...]
Drawn = st.SearchStrategy[tuple[Any, Shapes]]

OPS: dict[str, Op] = {op.name: routed(op) for op in ARRAY_OPS}
LABELLED = {"pick", "place", "cross_entropy"}
CONDITIONED = {"where", "mask"}
WITHOUT_DERIVATIVE = {"gate", "share", "split", "where", "mask", "stop_gradient"}
"""Operators that give no gradient of their first input."""


def shapes(least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, 3), min_size=least, max_size=most).map(tuple)


@st.composite
def broadcast_from(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is repeated to `shape`: axes in front are missing, others have length 1."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.booleans()) else n for n in kept)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Shapes]:
    whole = draw(shapes())
    return r.PairParams(), (draw(broadcast_from(whole)), draw(broadcast_from(whole)))


@st.composite
def products(draw: st.DrawFn) -> tuple[Any, Shapes]:
    n, k, m = (draw(st.integers(1, 3)) for _ in range(3))
    lead = draw(shapes(most=2))
    a = (k,) if draw(st.integers(0, 3)) == 0 else (*draw(broadcast_from(lead)), n, k)
    b = (k,) if draw(st.integers(0, 3)) == 0 else (*draw(broadcast_from(lead)), k, m)
    return r.MatmulParams(), (a, b)


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Any, Shapes]:
    x = draw(shapes())
    some = [axis - len(x) * draw(st.booleans()) for axis in range(len(x)) if draw(st.booleans())]
    return r.ReduceParams(draw(st.sampled_from([None, tuple(some)])), draw(st.booleans())), (x,)


def extremes() -> Drawn:
    return reductions().map(lambda drawn: (ExtremeParams(drawn[0].axis, drawn[0].keepdims), drawn[1]))


def splits() -> Drawn:
    whole = st.tuples(extremes(), st.sampled_from(["max", "min"]))
    return whole.map(lambda drawn: (SplitParams(drawn[0][0], drawn[1]), drawn[0][1] * 2))


@st.composite
def reshapings(draw: st.DrawFn) -> tuple[Any, Shapes]:
    x = draw(shapes())
    turned = tuple(draw(st.permutations(x)))
    return r.ReshapeParams(draw(st.sampled_from([turned, (-1,), (*turned[:-1], -1)]))), (x,)


@st.composite
def permutations(draw: st.DrawFn) -> tuple[Any, Shapes]:
    x = draw(shapes())
    order = tuple(axis - len(x) * draw(st.booleans()) for axis in draw(st.permutations(range(len(x)))))
    return r.PermuteParams(draw(st.sampled_from([None, order]))), (x,)


@st.composite
def on_axis(draw: st.DrawFn, record: Callable[[int], Any]) -> tuple[Any, Shapes]:
    x = draw(shapes(least=1))
    return record(draw(st.integers(-len(x), len(x) - 1))), (x,)


@st.composite
def channels(draw: st.DrawFn) -> tuple[Any, Shapes]:
    x = draw(shapes(least=1))
    axis = draw(st.integers(-len(x), len(x) - 1))
    return NormaliseParams(axis, Decimal("0.25")), (x, (x[axis],), (x[axis],))


@st.composite
def repeated(draw: st.DrawFn, back: bool) -> tuple[Any, Shapes]:
    whole = draw(shapes())
    part = draw(broadcast_from(whole))
    return (r.CollectParams(part), (whole,)) if back else (r.RepeatParams(whole), (part,))


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Any, Shapes]:
    return WhereParams(), draw(pairs())[1]


@st.composite
def shares(draw: st.DrawFn) -> tuple[Any, Shapes]:
    whole = draw(shapes())
    a, b, dx = (draw(broadcast_from(whole)) for _ in range(3))
    return ShareParams(draw(st.sampled_from(["max", "min"]))), (a, b, dx)


@st.composite
def joined(draw: st.DrawFn) -> tuple[Any, Shapes]:
    a = draw(shapes(least=1))
    axis = draw(st.integers(-len(a), len(a) - 1))
    b = list(a)
    b[axis] = draw(st.integers(0, 3))
    return JoinParams(axis), (a, tuple(b))


@st.composite
def stacked(draw: st.DrawFn) -> tuple[Any, Shapes]:
    a = draw(shapes())
    return StackParams(draw(st.integers(-len(a) - 1, len(a)))), (a, a)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key of integers, slices, new axes and … , with at most one array of integers, possibly with a cell twice."""
    key: list[Any] = []
    arrays = 0
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["whole", "cut", "one", "rows", "new"] if not arrays else ["whole", "cut", "one", "new"]))
        near = st.one_of(st.none(), st.integers(-4, 4))
        arrays += kind == "rows"
        if kind == "new":
            key.append(None)
        key.append(
            draw(st.integers(-n, n - 1))
            if kind == "one"
            else slice(draw(near), draw(near), draw(st.sampled_from([None, 1, 2, -1, -2])))
            if kind == "cut"
            else np.array(draw(st.lists(st.integers(-n, n - 1), min_size=0, max_size=4)), int)
            if kind == "rows"
            else slice(None)
        )
    key.insert(draw(st.integers(0, len(key))), ...) if draw(st.booleans()) and len(key) == len(shape) else None
    return tuple(key)


@st.composite
def indexed(draw: st.DrawFn, back: bool) -> tuple[Any, Shapes]:
    x = draw(shapes())
    params = draw(keys(x).map(lambda key: indexing(expanded(key, x))).filter(lambda params: 0 not in params.out_shape(x)))
    return (ScatterParams(params, x), (params.out_shape(x),)) if back else (params, (x,))


def alone(params: Any) -> Drawn:
    return shapes().map(lambda x: (params, (x,)))


def alike(params: Any) -> Drawn:
    return shapes().map(lambda x: (params, (x, x)))


SITUATIONS: dict[str, Drawn] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), pairs()),
    **dict.fromkeys(("negative", "relu", "relu6", "exp", "log", "tanh", "sigmoid", "inverse_root"), alone(r.EachParams())),
    **dict.fromkeys(("sum", "mean"), reductions()),
    **dict.fromkeys(("max", "min"), extremes()),
    "split": splits(),
    "abs": alone(r.EachParams()),
    "matmul": products(),
    "reshape": reshapings(),
    "flatten": on_axis(r.FlattenParams),
    "transpose": permutations(),
    **dict.fromkeys(("sqrt", "log_or_zero", "stop_gradient", "sign", "erf", "bell"), alone(r.EachParams())),
    **dict.fromkeys(("power", "maximum", "minimum"), pairs()),
    **dict.fromkeys(("softmax", "log_softmax"), on_axis(r.SoftmaxParams)),
    "where": conditions(),
    "mask": st.tuples(st.booleans().map(MaskParams), shapes().map(lambda x: (x,))),
    "share": shares(),
    "concatenate": joined(),
    "stack": stacked(),
    "index": indexed(back=False),
    "scatter": indexed(back=True),
    "batch_norm": channels(),
    "mse": alike(r.MseParams()),
    "gate": alike(r.AlikeParams()),
    "cast": alone(r.CastParams(np.dtype(object))),
    "broadcast_to": repeated(back=False),
    "sum_to": repeated(back=True),
    "pick": shapes(least=1).map(lambda x: (r.PickParams(), (x,))),
    "place": shapes().map(lambda x: (r.PlaceParams(3), (x,))),
    "cross_entropy": shapes(least=1).map(lambda x: (r.CrossEntropyParams(), (x,))),
}
"""By operator: parameters, and shapes of the inputs they fit; labels and conditions are not among them."""


@st.composite
def constants(draw: st.DrawFn, name: str, sizes: Shapes) -> tuple[int, Any] | None:
    """The input of an operator that is no variable, labels or a condition, and its place; None if there is none."""
    if name in LABELLED:
        rows, classes = (sizes[0], 3) if name == "place" else (sizes[0][:-1], sizes[0][-1])
        cells = st.lists(st.integers(0, classes - 1), min_size=math.prod(rows), max_size=math.prod(rows))
        return 1, np.array(draw(cells), np.int64).reshape(rows)
    if name in CONDITIONED:
        shape = draw(broadcast_from(np.broadcast_shapes(*sizes)))
        return 0, np.array(draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape)))).reshape(shape)
    return None


@st.composite
def cases(draw: st.DrawFn, op: Op, scalars: Cells, tangents: Cells | None = None) -> tuple[Op, Any, Any, Any, Any]:
    """(the operator, params, inputs, tangents like the inputs, gradient like the output).

    Labels are drawn and held: the operator is a function of the rest. A gradient that is None is shown as zeros.
    """
    params, sizes = draw(SITUATIONS[op.name])
    xs = [draw(arrays(x, domain(op.name, place, scalars))) for place, x in enumerate(sizes)]
    dxs = [draw(arrays(x, tangents or scalars)) for x in sizes]
    constant = draw(constants(op.name, sizes))
    if constant is not None:
        op = held(op, *constant)
    shape = op.forward(params, *xs).shape
    return complete(op), params, xs, dxs, draw(arrays(shape, tangents or scalars))


def domain(name: str, place: int, scalars: Cells) -> Cells:
    """Logarithms, roots and powers of positive numbers only, and no division by zero."""
    if name in ("log", "log_or_zero", "sqrt", "inverse_root") or (name, place) == ("power", 0):
        return mapped(scalars, lambda a: abs(a) + type(a)(1) / 3)
    return mapped(scalars, lambda a: a or type(a)(1) / 3) if (name, place) == ("divide", 1) else scalars


def held(op: Op, place: int, constant: Any) -> Op:
    """The operator as a function of its other inputs."""
    still = np.zeros_like(constant)

    def beside(value: Any, others: Any) -> list[Any]:
        return [*others[:place], value, *others[place:]]

    def jvp(params: Any, *given: Any) -> Any:
        half = len(given) // 2
        return op.jvp(params, *beside(constant, given[:half]), *beside(still, given[half:]))

    def vjp(params: Any, *given: Any) -> Any:
        found = op.vjp(params, *beside(constant, given[:-1]), given[-1])
        return tuple(g for i, g in enumerate(found) if i != place)

    return replace(
        op,
        inputs=tuple(name for i, name in enumerate(op.inputs) if i != place),
        forward=lambda params, *xs: op.forward(params, *beside(constant, xs)),
        jvp=jvp,
        vjp=vjp,
    )


def complete(op: Op) -> Op:
    def vjp(params: Any, *arrays: Any) -> tuple[Any, ...]:
        *xs, g = arrays
        nought = zero_like(g.flat[0]) if g.size else zero_like(next((x.flat[0] for x in xs if x.size), 0))
        pulled = op.vjp(params, *xs, g)
        return tuple(np.full_like(x, nought) if gx is None else gx for x, gx in zip(xs, pulled, strict=True))

    return replace(op, vjp=vjp)
