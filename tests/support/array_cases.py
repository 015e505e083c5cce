"""What the laws of the array operators are tried on: parameters, shapes that fit them, and cells in the domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.strategies import Cells, arrays, mapped
from windowgrad.autograd.arrays import ARRAY_OPS
from windowgrad.autograd.arrays import records as r
from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.ops import routed
from windowgrad.spec import Op
from windowgrad.spec.scalar import zero_like

Shapes = tuple[tuple[int, ...], ...]
Drawn = st.SearchStrategy[tuple[Any, Shapes]]

OPS: dict[str, Op] = {op.name: routed(op) for op in ARRAY_OPS}
LABELLED = {"pick": "x", "place": "x", "cross_entropy": "logits"}


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


def alone(params: Any) -> Drawn:
    return shapes().map(lambda x: (params, (x,)))


def alike(params: Any) -> Drawn:
    return shapes().map(lambda x: (params, (x, x)))


SITUATIONS: dict[str, Drawn] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), pairs()),
    **dict.fromkeys(("negative", "relu", "relu6", "exp", "log", "tanh", "sigmoid", "inverse_root"), alone(r.EachParams())),
    **dict.fromkeys(("sum", "mean"), reductions()),
    "matmul": products(),
    "reshape": reshapings(),
    "flatten": on_axis(r.FlattenParams),
    "transpose": permutations(),
    "log_softmax": on_axis(r.SoftmaxParams),
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
"""By operator: parameters, and shapes of the inputs they fit; labels are not among them."""


@st.composite
def cases(draw: st.DrawFn, op: Op, scalars: Cells, tangents: Cells | None = None) -> tuple[Op, Any, Any, Any, Any]:
    """(the operator, params, inputs, tangents like the inputs, gradient like the output).

    Labels are drawn and held: the operator is a function of the rest. A gradient that is None is shown as zeros.
    """
    params, sizes = draw(SITUATIONS[op.name])
    xs = [draw(arrays(x, domain(op.name, place, scalars))) for place, x in enumerate(sizes)]
    dxs = [draw(arrays(x, tangents or scalars)) for x in sizes]
    if op.name in LABELLED:
        rows, classes = (sizes[0], 3) if op.name == "place" else (sizes[0][:-1], sizes[0][-1])
        labels = draw(arrays(rows, lambda count: st.lists(st.integers(0, classes - 1), min_size=count, max_size=count)))
        op = held(op, labels.astype(np.int64))
    shape = op.forward(params, *xs).shape
    return complete(op), params, xs, dxs, draw(arrays(shape, tangents or scalars))


def domain(name: str, place: int, scalars: Cells) -> Cells:
    """Logarithms of positive numbers only, and no division by zero."""
    if name in ("log", "inverse_root"):
        return mapped(scalars, lambda a: abs(a) + type(a)(1) / 3)
    return mapped(scalars, lambda a: a or type(a)(1) / 3) if (name, place) == ("divide", 1) else scalars


def held(op: Op, labels: Any) -> Op:
    """The operator as a function of its first input."""
    still = np.zeros_like(labels)
    return replace(
        op,
        inputs=op.inputs[:1],
        forward=lambda params, x: op.forward(params, x, labels),
        jvp=lambda params, x, dx: op.jvp(params, x, labels, dx, still),
        vjp=lambda params, x, g: op.vjp(params, x, labels, g)[:1],
    )


def complete(op: Op) -> Op:
    def vjp(params: Any, *arrays: Any) -> tuple[Any, ...]:
        *xs, g = arrays
        nought = zero_like(g.flat[0])
        pulled = op.vjp(params, *xs, g)
        return tuple(np.full_like(x, nought) if gx is None else gx for x, gx in zip(xs, pulled, strict=True))

    return replace(op, vjp=vjp)
