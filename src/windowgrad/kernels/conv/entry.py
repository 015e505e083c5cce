"""Convolution: three kernels (forward, input gradient, weight gradient), transposed by swapping roles.

Sums are taken in float32 where it holds every operand, else in float64, and in an order that shapes alone decide. Where a
result is zero, denormal or not finite, it is reviewed: a padded cell must have no product with an infinite weight, and
sums that float32 cannot hold are taken in float64. A review is of one sample, so the bits of a sample are those that it has
alone; only gradients of the weight, which sum over the samples, are reviewed as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from windowgrad.arguments import counted
from windowgrad.dtypes import conv_dtype, derivative_of, is_float, promoted
from windowgrad.errors import WindowError
from windowgrad.kernels.arrays import room, writeable
from windowgrad.kernels.conv.bias_gradient import channel_sums, summing
from windowgrad.kernels.conv.choose import Grouped, grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT
from windowgrad.kernels.conv.plan import Array, Shape
from windowgrad.kernels.conv.range_check import judging, magnitudes, stay_normal
from windowgrad.kernels.runtime.buffers import empty, maker
from windowgrad.kernels.vector.masked import HUGE
from windowgrad.params import ConvParams, TransposeParams

# --- sums --------------------------------------------------------------------------------------------------------


def flat(a: Array, dtype: Any) -> Array:
    """The cells in a row, in the dtype of the sums."""
    if a.dtype == dtype and a.flags.carray:
        return a.reshape(-1)
    return writeable(np.ascontiguousarray(a, dtype=dtype).reshape(-1))


@cache
def summed(*dtypes: Any) -> Any:
    """The dtype in which products of numbers of these are summed: float32 if it holds their values."""
    return np.dtype(np.float32 if all(d == np.float32 or d.itemsize <= 2 for d in dtypes) else np.float64)


result_dtype = cache(conv_dtype)

Kind = tuple[tuple[int, ...], np.dtype[Any]]


Pairs = Sequence[tuple[Array, Array]]


def total(conv: Grouped, role: int, pairs: Pairs, bias: Array, size: int, out: Array | None = None) -> Array:
    """The sum of the products of all pairs, and the bias of each channel; in `out`, if its cells are summed as they are."""
    kind = summed(bias.dtype, *(a.dtype for pair in pairs for a in pair))
    if not conv.regular:
        return exact_total(conv, role, pairs, bias, size, np.float64)
    y, pairs = room(out, size, kind), [(flat(a, kind), flat(b, kind)) for a, b in pairs]
    return settled(conv, role, pairs, bias, y, multiplied(conv, role, pairs, bias, y))


def settled(conv: Grouped, role: int, pairs: Pairs, bias: Array, y: Array, strange: int) -> Array:
    """The sums y, of which some lanes are strange, or new ones where they have to be."""
    if strange and role != WEIGHT and (met := without_hidden(conv, pairs)) is not pairs:
        pairs, strange = met, multiplied(conv, role, met, bias, y)
    if not strange:
        return y
    review = reviewed if role == WEIGHT or conv.images == 1 else reviewed_by_sample
    found = review(conv, role, pairs, bias, y, strange)
    if found.dtype == np.float64 and has_negative_zero(bias):
        found += 0.0
    return found


def has_negative_zero(bias: Array) -> bool:
    """Whether a sum may be −0.0: of products that float64 cannot hold, since some kernels add those of padded cells as well."""
    return bool((np.signbit(bias) & (bias == 0)).any())


def without_hidden(conv: Grouped, pairs: Pairs) -> Pairs:
    """The pairs with zeros for weights that meet no cell, if some of these are not finite.

    Some kernels leave such taps out and others multiply them with zeros; whether a sum is strange must not depend on that,
    since the kernel depends on the batch. Nor may the others of these weights, which are left out as well, so that they never
    count as factors of a product that may underflow.
    """
    hidden = conv.hidden
    if hidden is None or all(np.isfinite(b.reshape(-1, hidden.size)[:, hidden]).all() for _, b in pairs):
        return pairs
    return [(a, np.where(hidden, b.dtype.type(0), b.reshape(-1, hidden.size)).reshape(-1)) for a, b in pairs]


def reviewed(conv: Grouped, role: int, pairs: Pairs, bias: Array, y: Array, strange: int) -> Array:
    """The strange result y, or a new one in float64."""
    beside = conv.beside_padding(role)
    if not strange >> HUGE:  # no weight that is not finite met a padded cell, and no sum was too large
        stays = not may_underflow(pairs)
    elif all(is_finite(pair[beside]) for pair in pairs):
        stays = y.dtype == np.float64
    else:
        return exact_total(conv, role, pairs, bias, y.size, np.float64)
    if stays:
        return y
    wider = empty((y.size,), np.float64)
    multiplied(conv, role, [(flat(a, np.float64), flat(b, np.float64)) for a, b in pairs], bias, wider)
    return wider


def reviewed_by_sample(conv: Grouped, role: int, pairs: Pairs, bias: Array, y: Array, strange: int) -> Array:
    """The same, where each sample has the bits that it has alone, whatever the others hold."""
    if not strange >> HUGE and not may_underflow(pairs):
        return y
    found, samples, count = y, y.reshape(conv.images, -1), y.size // conv.images
    for i, sample in enumerate(samples):
        own = [(a.reshape(conv.images, -1)[i], b) for a, b in pairs]
        if not is_finite(sample) or may_underflow(own):  # else, strange or not, it stays alone as well
            if found.dtype != np.float64:
                found = y.astype(np.float64)
            found.reshape(samples.shape)[i] = total(conv.alone, role, own, bias, count)
    return found


def multiplied(conv: Grouped, role: int, pairs: Pairs, bias: Array, y: Array) -> int:
    """Puts the sum into y; gives its strange lanes."""
    strange, extra = 0, flat(bias, y.dtype)
    for i, (a, b) in enumerate(pairs):
        strange = conv.compute(role, a, b, extra if i == 0 else np.zeros(extra.shape, y.dtype), y, i > 0)
    return strange


def exact_total(conv: Grouped, role: int, pairs: Pairs, bias: Array, size: int, dtype: Any) -> Array:
    y = np.zeros(size, dtype)
    if len(bias) and size:
        plane = y.reshape(-1, len(bias), size // conv.images // len(bias))
        plane += bias.astype(dtype)[:, None]
    for a, b in pairs:
        one, other = flat(a, dtype), flat(b, dtype)
        x, w, out = ((one, other, y), (y, other, one), (one, y, other))[role]
        conv.exactly(role, x, w, out)
    return y


LEAST_NORMAL = float(np.finfo(np.float32).tiny)


def may_underflow(pairs: Pairs) -> bool:
    """Whether a product of float32 may be so small that float32 loses digits of it."""
    return pairs[0][0].dtype == np.float32 and any(
        not stay_normal(*pair) and math.prod(magnitudes(one)[0] for one in pair) < LEAST_NORMAL for pair in pairs
    )


def is_finite(a: Array) -> bool:
    return magnitudes(a)[1]


# --- the rules ---------------------------------------------------------------------------------------------------


def no_bias(params: ConvParams, w: Array) -> Array:
    return np.zeros(w.shape[1] * params.groups if isinstance(params, TransposeParams) else w.shape[0], np.float32)


def conv_forward(params: ConvParams, x: Array, w: Array, *bias: Array, out: Array | None = None) -> Array:
    dtype = result_dtype(x.dtype, w.dtype, *(b.dtype for b in bias))
    conv, shape = grouped(params, x.shape, w.shape)
    extra = bias[0] if bias else no_bias(params, w)
    if is_float(dtype):
        y = total(conv, FORWARD, [(x, w)], extra, math.prod(shape), out)
    else:
        refuse_overflow(params, dtype, x, w, *bias)
        y = exact_total(conv, FORWARD, [(x, w)], extra, math.prod(shape), dtype)
    return y.astype(dtype, copy=False).reshape(shape)


def prepare(rule: str, params: ConvParams, *kinds: Kind) -> Callable[..., Any] | None:
    """The forward rule or the vjp of floats that are summed as they are, with all done that follows from the kinds; or None."""
    dtype, dtypes = kinds[0][1], {dtype for _, dtype in kinds}
    if rule not in ("forward", "vjp") or len(dtypes) > 1 or summed(dtype) != dtype or not is_float(dtype):
        return None
    conv, shape = grouped(params, kinds[0][0], kinds[1][0])
    if not conv.regular:
        return None
    if rule == "vjp":
        return prepared_vjp(conv, dtype, *(shape for shape, _ in kinds))
    forward = prepared(conv, FORWARD, dtype, kinds[0][0], kinds[1][0], shape, len(kinds) == 3)
    if len(kinds) == 3:
        return forward
    none = np.zeros(kinds[1][0][1] * params.groups if isinstance(params, TransposeParams) else kinds[1][0][0], dtype)
    return lambda x, w, y=None: forward(x, w, none, y)


def prepared(
    conv: Grouped, role: int, dtype: Any, one: Shape, other: Shape, shape: Shape, biased: bool = False
) -> Callable[..., Array]:
    """A role, from operands of two shapes to a result of the last one, as a function of them, a bias and maybe the result.

    `biased`: the bias may have other numbers than 0.0.
    """
    compute, new, wide = conv.ready(role, dtype), maker(shape, dtype), biased and dtype == np.float64
    stay = judging(math.prod(one), math.prod(other)) if dtype == np.float32 else lambda a, b: True

    def call(a: Array, b: Array, bias: Array, y: Array | None = None) -> Array:
        if y is None:
            y = new(shape, dtype)
        cells, numbers, sums = a.ravel(), b.ravel(), y.ravel()
        strange = compute(cells, numbers, bias, sums)
        if strange and (strange >> HUGE or not stay(cells, numbers) or (wide and has_negative_zero(bias))):  # else it stays
            with np.errstate(all="ignore"):
                found = settled(conv, role, [(cells, numbers)], bias, sums, strange)
                if found is not sums:
                    sums[:] = found
        return y

    return call


def prepared_vjp(conv: Grouped, dtype: Any, *shapes: Shape) -> Callable[..., tuple[Array | None, ...]]:
    """As `conv_vjp`, for arrays of these shapes."""
    x_shape, w_shape, *_, g_shape = shapes
    channel = len(g_shape) - conv.window.rank - 1
    back = prepared(conv, INPUT, dtype, g_shape, w_shape, x_shape)
    weigh = prepared(conv, WEIGHT, dtype, x_shape, g_shape, w_shape)
    add, none = summing(g_shape, channel, dtype), np.zeros(x_shape[channel], dtype)
    nothing = none[:0]

    def pull(x: Array, w: Array, *rest: Array, needs: Sequence[bool] = (True, True, True)) -> tuple[Array | None, ...]:
        g = rest[-1]
        gx, gw = back(g, w, none) if needs[0] else None, weigh(x, g, nothing) if needs[1] else None
        if len(rest) == 1:
            return gx, gw
        return gx, gw, add(g.ravel()) if needs[2] else None

    return pull


def refuse_overflow(params: ConvParams, dtype: Any, x: Array, w: Array, *bias: Array) -> None:
    """Integers are summed exactly: if a sum might not fit, it is refused."""
    terms = w.size // max(1, w.shape[0] if not isinstance(params, TransposeParams) else w.shape[1])
    most = [max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0 for a in (x, w, *bias)]
    bound = terms * most[0] * most[1] + sum(most[2:])
    if bound > np.iinfo(dtype).max:
        raise WindowError(
            f"x: {x.dtype} and weight: {w.dtype}: a sum of {counted('product', terms)} may reach {bound}, "
            f"more than {dtype} holds; use floats, or x.astype(object) for exact integers of any size"
        )


def conv_jvp(params: ConvParams, *args: Array) -> Array:
    """Both products are summed into one output."""
    half = len(args) // 2
    (x, w), (dx, dw), dbias = args[:2], args[half : half + 2], args[half + 2 :]
    (conv, out), extra = grouped(params, x.shape, w.shape), dbias[0] if dbias else no_bias(params, w)
    dy = total(conv, FORWARD, [(dx, w), (x, dw)], extra, math.prod(out))
    primal = result_dtype(*(a.dtype for a in args[:half]))
    return dy.astype(derivative_of(primal, promoted(*(a.dtype for a in args[half:]))), copy=False).reshape(out)


def conv_vjp(params: ConvParams, *args: Array, needs: tuple[bool, ...] | None = None) -> tuple[Array | None, ...]:
    """The gradients of x, weight and bias; None where `needs` says that one is not needed."""
    *primals, g = args
    x, w = primals[:2]
    (conv, _), channel = grouped(params, x.shape, w.shape), g.ndim - params.window.rank - 1
    none = np.zeros(x.shape[channel], np.float32)
    rules: tuple[Callable[[], Array], ...] = (
        lambda: total(conv, INPUT, [(g, w)], none, x.size),
        lambda: total(conv, WEIGHT, [(x, g)], none[:0], w.size),
        lambda: channel_sums(g, channel),
    )
    return tuple(
        rule().reshape(p.shape).astype(derivative_of(p.dtype, g.dtype), copy=False) if need else None
        for rule, p, need in zip(rules, primals, needs or (True,) * len(primals), strict=False)
    )
