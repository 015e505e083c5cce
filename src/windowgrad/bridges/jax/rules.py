"""Derivatives of any order, both ways: the jvp of an operator is linear in its tangents, and its vjp is the transpose.

    forward(xs)      its derivative along dxs is  jvp(xs, dxs)
    jvp(xs, dxs)     linear in dxs, with transpose vjp;  its derivative in xs along exs is  curve(xs, dxs, exs)
    vjp(xs, g)       linear in g, with transpose jvp;    its derivative in xs along exs is  curve_back(xs, exs, g)

A linear operator needs no curves: with x and weight, y = B(x, w), so jvp(x, w; dx, dw) = B(dx, w) + B(x, dw) is symmetric in
(x, w) and (dx, dw), and of vjp(x, w; g) each gradient is linear in the other factor. Zero tangents are left out, never
multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching

from windowgrad.bridges.jax.batches import batched
from windowgrad.bridges.jax.host import Like, Needs, factors, given
from windowgrad.bridges.jax.primitives import kinds, primitive, saved_like
from windowgrad.dispatch import asked
from windowgrad.ops import routed
from windowgrad.params import Params
from windowgrad.spec.op import Op

Arrays = Sequence[Any]  # JAX arrays, tracers, or symbolic zeros


def bind(op: Op, rule: str, *arrays: Any, **static: Any) -> list[Any]:
    """The results of a primitive."""
    results: list[Any] = differentiable(op, rule).bind(*arrays, **static)
    return results


@cache
def differentiable(op: Op, rule: str) -> Any:
    """The primitive of a rule with everything JAX may ask of it; made when it is first used."""
    made = primitive(op, rule)
    derive, transpose = {
        "forward": (forward_jvp, forward_transpose),
        "with_indices": (forward_jvp, None),
        "saving": (forward_jvp, None),
        "jvp": (jvp_jvp, jvp_transpose),
        "vjp": (vjp_jvp, vjp_transpose),
    }[rule]
    ad.primitive_jvps[made] = partial(derive, op, rule)
    if transpose is not None:
        ad.primitive_transposes[made] = partial(transpose, op)
    batching.primitive_batchers[made] = partial(batched, partial(bind, op), op, rule)
    return made


# --- the two derivatives -----------------------------------------------------------------------------------------


def pushed(op: Op, params: Params, xs: Arrays, dxs: Arrays, like: Like = (), saved: Any = None) -> Any:
    """The jvp. It carries what the forward rule saved to its transpose, the vjp, which can use it."""
    like, needs = like or likes(xs), (True,) * len(xs)
    known = [*chosen(xs, given(op, "jvp", needs)), *([] if saved is None else [saved])]
    return bind(op, "jvp", *known, *dxs, params=params, needs=needs, like=like, has_saved=saved is not None)[0]


def pulled(op: Op, params: Params, xs: Arrays, g: Any, needs: Needs = (), like: Like = (), saved: Any = None) -> list[Any]:
    """The vjp; None in place of a gradient that is not needed."""
    like, needs = like or likes(xs), needs or (True,) * len(xs)
    if not any(needs):
        return [None] * len(needs)
    known = [*chosen(xs, given(op, "vjp", needs)), *([] if saved is None else [saved])]
    return spread(bind(op, "vjp", *known, g, params=params, needs=needs, like=like, has_saved=saved is not None), needs)


def pushed_some(op: Op, params: Params, xs: Arrays, dxs: Arrays, like: Like, saved: Any = None) -> Any:
    """The jvp where some tangents are zeros; a factor beside them need not be known. None if all are."""
    if all(map(is_zero, dxs)):
        return None
    if not op.linear:
        return pushed(op, params, xs, filled(dxs, xs), saved=saved)
    count = factors(op)
    moving = [not is_zero(dx) for dx in dxs[:count]]
    extra = [zeros(a) if is_zero(db) else db for db, a in zip(dxs[count:], like[count:], strict=True)]
    if not any(moving):
        return per_channel(op, params, extra[0], like)
    if sum(moving) == 1:
        mixed = [dx if moves else x for x, dx, moves in zip(xs, dxs, moving, strict=False)]
        return bind(op, "forward", *mixed, *extra, params=params)[0]
    return pushed(op, params, xs, [*dxs[:count], *extra], like)


def per_channel(op: Op, params: Any, bias: Any, like: Like) -> Any:
    """A bias over the output of a convolution."""
    (y,) = kinds(op, "forward", like, params)
    return lax.broadcast_in_dim(bias.astype(y.dtype), y.shape, (len(y.shape) - params.window.rank - 1,))


# --- rules -------------------------------------------------------------------------------------------------------


def forward_jvp(op: Op, rule: str, xs: Arrays, dxs: Arrays, *, params: Params) -> tuple[list[Any], list[Any]]:
    saves = rule == "saving" or (rule == "forward" and not op.linear and saved_like(op, params, xs) is not None)
    results = bind(op, "saving" if saves else rule, *xs, params=params)
    moved = pushed_some(op, params, xs, dxs, likes(xs), results[1] if saves else None)
    results = results[:1] if rule == "forward" else results
    return results, derived(results, [moved, *[None] * len(results[1:])])


def forward_transpose(op: Op, cts: Arrays, *xs: Any, params: Params) -> list[Any]:
    """Of a linear operator, in the inputs that are unknown."""
    needs = tuple(map(ad.is_undefined_primal, xs))
    return pulled(op, params, xs, cts[0], needs, likes(xs)) if not is_zero(cts[0]) else [None] * len(xs)


def jvp_jvp(op: Op, rule: str, primals: Arrays, tangents: Arrays, **static: Any) -> tuple[list[Any], list[Any]]:
    params, needs, like = static["params"], static["needs"], static["like"]
    results = bind(op, rule, *primals, **static)
    xs, dxs, saved = parted(op, rule, primals, needs, static["has_saved"])
    exs, ddxs, _ = parted(op, rule, tangents, needs, static["has_saved"])
    second = None
    if op.linear:
        second = pushed_some(op, params, dxs, exs, like)
    elif op.curve is not None and not all(map(is_zero, exs)):
        second = op.curve(routed(op), params, xs, dxs, [None if is_zero(ex) else ex for ex in exs])
    return results, derived(results, [added(pushed_some(op, params, xs, ddxs, like, saved), second)])


def jvp_transpose(op: Op, cts: Arrays, *arrays: Any, params: Params, needs: Needs, like: Like, has_saved: bool) -> list[Any]:
    xs, dxs, saved = parted(op, "jvp", arrays, needs, has_saved)
    unknown = tuple(map(ad.is_undefined_primal, dxs))
    gradients = pulled(op, params, xs, cts[0], unknown, like, saved) if not is_zero(cts[0]) else [None] * len(dxs)
    return [None] * (len(arrays) - len(dxs)) + gradients


def vjp_jvp(op: Op, rule: str, primals: Arrays, tangents: Arrays, **static: Any) -> tuple[list[Any], list[Any]]:
    params, needs, like = static["params"], static["needs"], static["like"]
    results = bind(op, rule, *primals, **static)
    xs, (g,), saved = parted(op, rule, primals, needs, static["has_saved"])
    exs, (dg,), _ = parted(op, rule, tangents, needs, static["has_saved"])
    first = [None] * len(needs) if is_zero(dg) else pulled(op, params, xs, dg, needs, like, saved)
    second: Sequence[Any] = [None] * len(needs)
    if op.linear:
        second = pulled(op, params, exs, g, beside(op, exs, needs), like)
    elif op.curve_back is not None and not all(map(is_zero, exs)):
        moved = [None if is_zero(ex) else ex for ex in exs]
        second = asked(op.curve_back, routed(op), params, xs, moved, g, needs=needs)
    return results, derived(results, chosen(list(map(added, first, second)), needs))


def vjp_transpose(op: Op, cts: Arrays, *arrays: Any, params: Params, needs: Needs, like: Like, has_saved: bool) -> list[Any]:
    """In the gradient; or, of a linear operator, in the factors."""
    (xs, (g,), saved), dxs = parted(op, "vjp", arrays, needs, has_saved), spread(cts, needs)
    if ad.is_undefined_primal(g):
        return [None] * (len(arrays) - 1) + [pushed_some(op, params, xs, dxs, like, saved)]
    unknown = beside(op, dxs, tuple(map(ad.is_undefined_primal, xs)))
    gradients = pulled(op, params, dxs, g, unknown, like)
    return [*chosen(gradients, given(op, "vjp", needs)), None]


# --- zeros, and the lists of inputs ------------------------------------------------------------------------------


def is_zero(tangent: Any) -> bool:
    """Whether it is known to be zero: JAX's symbolic zero, or none at all."""
    return tangent is None or type(tangent) is ad.Zero


def filled(tangents: Arrays, like: Sequence[Any]) -> list[Any]:
    """The tangents, with arrays for those that are zeros; an index, which is an integer, has one of the dtype of the others."""
    kind = next(t.dtype for t in tangents if not is_zero(t))
    return [
        lax.full(a.shape, 0, a.dtype if jnp.issubdtype(a.dtype, jnp.floating) else kind) if is_zero(t) else t
        for t, a in zip(tangents, like, strict=True)
    ]


def added(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else ad.add_tangents(one, other)


def derived(results: Arrays, tangents: Arrays) -> list[Any]:
    """The tangents of the results, with JAX's symbolic zeros; an integer has no other."""
    return [ad.Zero(jax.typeof(y).to_tangent_aval()) if is_zero(t) else t for y, t in zip(results, tangents, strict=True)]


def beside(op: Op, moving: Arrays, needs: Needs) -> Needs:
    """Of what is needed, that which has another factor that moves."""
    moves = [not is_zero(m) for m in moving[: factors(op)]]
    return tuple(need and i < len(moves) and any(moves[:i] + moves[i + 1 :]) for i, need in enumerate(needs))


def likes(xs: Arrays) -> Like:
    """The shapes and dtypes of arrays, also of unknown ones."""
    avals = (x.aval if ad.is_undefined_primal(x) else x for x in xs)
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals)


def zeros(like: jax.ShapeDtypeStruct) -> jax.Array:
    return lax.full(like.shape, 0, like.dtype)


def chosen(items: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    return [item for item, want in zip(items, wanted, strict=True) if want]


def spread(items: Sequence[Any], places: Sequence[bool]) -> list[Any]:
    """The items at the places that are marked, None at the others: what `chosen` undoes."""
    rest = iter(items)
    return [next(rest) if place else None for place in places]


def parted(op: Op, rule: str, arrays: Arrays, needs: Needs, has_saved: bool) -> tuple[list[Any], list[Any], Any]:
    """The arrays of a derivative: the inputs, None where one is not given, what is pushed or pulled, and what was saved."""
    places = given(op, rule, needs)
    known = sum(places)
    saved = arrays[known] if has_saved else None
    return spread(arrays[:known], places), list(arrays[known + has_saved :]), saved
