"""The laws, each as a function from an operator and a case to two sides that must be equal.

Plain functions, so that one file asks whether the operators obey them and another whether a wrong operator is caught.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from support import oracle
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.params import ConvParams, UnpadParams
from windowgrad.spec import Dual, Op, convolution, padding

Sides = tuple[Any, Any]


def dot(a: Any, b: Any) -> Any:
    """⟨a, b⟩ over any scalar."""
    assert a.shape == b.shape
    return sum(p * q for p, q in zip(a.flat, b.flat, strict=True))


def each(function: Any, *arrays: Any) -> Any:
    """`function` cell by cell."""
    out = np.empty(arrays[0].shape, dtype=object)
    out.reshape(-1)[:] = [function(*cells) for cells in zip(*(a.flat for a in arrays), strict=True)]
    return out


def dual(xs: Any, dxs: Any) -> list[Any]:
    """Each input with its tangent, as dual numbers; indices, which are machine integers, stay as they are."""
    return [each(Dual, x, dx) if x.dtype == object else x for x, dx in zip(xs, dxs, strict=True)]


def listed(*arrays: Any) -> list[Any]:
    """Arrays as (shape, cells), which compare with == as a whole."""
    return [(a.shape, a.tolist()) for a in arrays]


def rules(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> list[Any]:
    """What the three rules give, flat, with the shapes of the inputs' gradients."""
    y, dy = op.forward(params, *xs), op.jvp(params, *xs, *dxs)
    return [list(y.flat), list(dy.flat), *listed(*op.vjp(params, *xs, g))]


def close(left: Any, right: Any) -> bool:
    """Whether two sides over decimals of 60 digits agree to 50, where exp and log leave no exact answer."""
    left, right = flat(left), flat(right)
    tiny = Decimal("1e-50")
    return len(left) == len(right) and all(abs(a - b) <= tiny * max(1, abs(a)) for a, b in zip(left, right, strict=True))


def flat(side: Any) -> list[Any]:
    """All numbers of a side, whatever it is nested in."""
    return [number for part in side for number in flat(part)] if isinstance(side, (list, tuple)) else [side]


# --- every operator ----------------------------------------------------------------------------------------------


def vjp_is_adjoint_of_jvp(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """⟨g, J·dx⟩ = ⟨Jᵀ·g, dx⟩."""
    pulled = op.vjp(params, *xs, g)
    return dot(g, op.jvp(params, *xs, *dxs)), sum(dot(gx, dx) for gx, dx in zip(pulled, dxs, strict=True))


def jvp_is_forward_on_duals(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """Value and derivative are the two parts of the forward rule run on dual numbers."""
    pushed = op.forward(params, *dual(xs, dxs))
    return listed(op.forward(params, *xs), op.jvp(params, *xs, *dxs)), listed(
        each(lambda c: c.value, pushed), each(lambda c: c.tangent, pushed)
    )


def derivatives_are_linear(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """J·(2dx − 3x) = 2J·dx − 3J·x, and the same of Jᵀ with g and g²."""
    mixed = [each(lambda a, b: 2 * a - 3 * b, dx, x) for dx, x in zip(dxs, xs, strict=True)]
    push, pull = op.jvp(params, *xs, *mixed), op.vjp(params, *xs, each(lambda a: 2 * a - 3 * a * a, g))
    pushed = each(lambda a, b: 2 * a - 3 * b, op.jvp(params, *xs, *dxs), op.jvp(params, *xs, *xs))
    pulls = zip(op.vjp(params, *xs, g), op.vjp(params, *xs, each(lambda a: a * a, g)), strict=True)
    return listed(push, *pull), listed(pushed, *(each(lambda a, b: 2 * a - 3 * b, *both) for both in pulls))


def forward_is_the_definition(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """The forward rule against windows enumerated cell by cell."""
    return listed(op.forward(params, *xs)), listed(oracle.FORWARD[op.name](params, *xs))


def max_derivative_is_the_definition(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """The tangent at the first winner, the sum over all of them, or their mean."""
    return listed(op.jvp(params, *xs, *dxs)), listed(oracle.max_jvp(params, *xs, *dxs))


def nan_is_the_greatest(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """Forward, index and derivative of max over floats with NaN, by their text: NaN is not equal to itself."""
    y, index = op.with_indices(params, *xs)
    found = [op.forward(params, *xs), y, index, op.jvp(params, *xs, *dxs)]
    value = oracle.max_forward(params, *xs)
    return texts(found), texts([value, value, oracle.max_index(params, *xs), oracle.max_jvp(params, *xs, *dxs)])


def texts(arrays: Any) -> list[str]:
    return [str(float(cell)) for array in arrays for cell in array.flat]


# --- linear operators --------------------------------------------------------------------------------------------


def linear_in(place: int, op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """f(2a − 3b) = 2f(a) − 3f(b) in the input at `place`, without a bias."""

    def at(value: Any) -> Any:
        return op.forward(params, *(value if i == place else x for i, x in enumerate(xs[:2])))

    a, b = xs[place], dxs[place]
    mixed = at(each(lambda p, q: 2 * p - 3 * q, a, b))
    return listed(mixed), listed(each(lambda p, q: 2 * p - 3 * q, at(a), at(b)))


def linear_is_its_own_derivative(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """J·dx = f(dx) for what is linear in all it is given."""
    return listed(op.jvp(params, *xs, *dxs)), listed(op.forward(params, *dxs))


def bias_is_added_to_its_channel(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """f(x, w, b) = f(x, w) + b along the channel axis."""
    plain, rank = op.forward(params, *xs[:2]), params.window.rank
    channel = plain.ndim - rank - 1
    bias = each(lambda a: a * a, np.arange(2, 2 + plain.shape[channel]).astype(object))
    added = np.moveaxis(np.moveaxis(plain, channel, -1) + bias, -1, channel)
    return listed(op.forward(params, *xs[:2], bias)), listed(added)


def transpose_is_adjoint_of_conv(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    """⟨conv(g, w), x⟩ = ⟨g, conv_transpose(x, w)⟩: output_padding gives back the size of g."""
    x, w = xs[:2]
    there = convolution.CONV.forward(ConvParams(params.window, params.groups), g, w)
    return dot(there, x), dot(g, op.forward(params, x, w))


def pad_then_unpad_is_identity(op: Op, params: Any, xs: Any, dxs: Any, g: Any) -> Sides:
    inverse = UnpadParams(params.padding)
    return listed(padding.UNPAD.forward(inverse, op.forward(params, *xs))), listed(*xs)


# --- geometries --------------------------------------------------------------------------------------------------


def adaptive_to_a_divisor_is_sliding(op: Op, params: Any, x: Any, dx: Any, g: Any) -> Sides:
    """Bins of n ÷ m cells each are windows of that kernel and stride."""
    bins = params.geometry.output_size
    kernel = tuple(n // m for n, m in zip(x.shape[x.ndim - len(bins) :], bins, strict=True))
    windows = replace(params, geometry=Sliding(kernel))
    return rules(op, params, [x], [dx], g), rules(op, windows, [x], [dx], g)


def global_is_adaptive_to_one(op: Op, params: Any, x: Any, dx: Any, g: Any) -> Sides:
    """Everything is one bin; whether its axes stay is only a matter of shape."""
    bins = replace(params, geometry=Adaptive((1,) * params.geometry.rank))
    return rules(op, params, [x], [dx], g), rules(op, bins, [x], [dx], g.reshape(bins.out_shape(x.shape)))


def keepdims_is_only_shape(op: Op, params: Any, x: Any, dx: Any, g: Any) -> Sides:
    """The axes that stay have length 1; those that go leave the leading ones."""
    rank = params.geometry.rank
    kept, gone = (op.forward(replace(params, geometry=Global(rank, keepdims)), x) for keepdims in (True, False))
    lead = x.shape[: x.ndim - rank]
    return (kept.shape, gone.shape, list(kept.flat)), (lead + (1,) * rank, lead, list(gone.flat))


def max_is_separable(op: Op, params: Any, x: Any) -> Sides:
    """Over the last axis, then over the one before it."""
    w = params.geometry

    def along(axis: int, values: Any) -> Any:
        one = Sliding(w.kernel[axis : axis + 1], w.stride[axis], (w.padding[axis],), w.dilation[axis], w.ceil_mode[axis])
        return op.forward(replace(params, geometry=one), values)

    columns = along(0, np.swapaxes(along(1, x), -1, -2))
    return listed(op.forward(params, x)), listed(np.swapaxes(columns, -1, -2))
