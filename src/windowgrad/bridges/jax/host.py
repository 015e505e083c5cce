"""The host's side of a primitive: NumPy arrays that share JAX's memory. Nothing here calls JAX while a program of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from windowgrad.dispatch import result_dtype, run
from windowgrad.errors import KindError, WindowError
from windowgrad.kernels.runtime import fenv
from windowgrad.output import INDICES
from windowgrad.params import Params
from windowgrad.spec.op import Op

Array = np.ndarray[Any, Any]
Like = tuple[jax.ShapeDtypeStruct, ...]  # the inputs of an operator by shape and dtype, of those too that a rule is not given
Needs = tuple[bool, ...]

FORWARD = ("forward", "with_indices", "saving")
"""The rules that take the inputs of an operator and nothing else; the last one's second result is for its vjp."""


def factors(op: Op) -> int:
    """How many inputs come before the optional ones: a linear operator is linear in each of them alone."""
    return len(op.inputs) - op.optional


def given(op: Op, rule: str, needs: Needs) -> list[bool]:
    """Which inputs a derivative depends on: of a linear operator, the factors beside those that are pushed or pulled back."""
    if not op.linear:
        return [True] * len(needs)
    sought = needs[: factors(op)] if rule == "vjp" else (True,) * factors(op)
    return [i < len(sought) and any(sought[:i] + sought[i + 1 :]) for i in range(len(needs))]


def computed(
    op: Op,
    rule: str,
    arrays: Sequence[Array],
    params: Params,
    needs: Needs = (),
    like: Like = (),
    has_saved: bool = False,
    out: Any = None,
) -> Sequence[Array]:
    """What a primitive gives, as NumPy arrays."""
    if rule in FORWARD:
        results = run(op, rule, params, *arrays, out=out)
        return (results,) if rule == "forward" else results
    rest = iter(arrays)
    inputs = [next(rest) if here else np.zeros(a.shape, a.dtype) for a, here in zip(like, given(op, rule, needs), strict=True)]
    saved = next(rest) if has_saved else None
    if rule == "jvp":
        return (run(op, rule, params, *inputs, *rest),)
    return [g for g in run(op, rule, params, *inputs, *rest, needs=needs, saved=saved) if g is not None]


def narrowed(result: Array, dtype: np.dtype[Any]) -> Array:
    """The result in JAX's dtype for it: without jax_enable_x64, 32 bits for 64. An integer that does not fit is refused."""
    if result.dtype == dtype:
        return result
    if result.dtype.kind in "iu" and result.size:
        bounds = np.iinfo(dtype)
        if result.min() < bounds.min or result.max() > bounds.max:
            raise WindowError(
                f"a result does not fit into {dtype}, which JAX uses for {result.dtype} unless jax_enable_x64 is set"
            )
    return result.astype(dtype)


def eager(op: Op, rule: str, kinds: Sequence[jax.ShapeDtypeStruct], arrays: Sequence[Any], static: Any) -> list[jax.Array]:
    """Computed now. JAX's memory is read in place, and takes over that of a result which begins at a cache line."""
    device = place(arrays)
    results = computed(op, rule, [np.asarray(a) for a in arrays], **static)
    return [jax.device_put(narrowed(y, kind.dtype), device) for y, kind in zip(results, kinds, strict=True)]


def place(arrays: Sequence[Any]) -> Any:
    """Where a result goes: to the device that an array is bound to. Arrays that are not on one CPU are refused."""
    found = None
    for a in arrays:
        if not isinstance(a, jax.Array):  # a constant, which JAX itself keeps as a NumPy array
            continue
        devices = a.devices()
        if len(devices) > 1 or next(iter(devices)).platform != "cpu":
            where = f"sharded over {len(devices)} devices" if len(devices) > 1 else f"on {next(iter(devices))}"
            raise KindError(
                f"an array {a.dtype}{a.shape} is {where}: outside jax.jit it must be on one CPU; "
                'call jax.device_put(x, jax.devices("cpu")[0])'
            )
        if a.committed:
            found = next(iter(devices))
    return found


def callback(op: Op, rule: str, kinds: Sequence[jax.ShapeDtypeStruct], static: Any) -> Callable[..., None]:
    """What a compiled program calls: it reads the program's memory in place, and where a kernel can, writes there too."""

    def called(context: Any, out: Sequence[Any], *buffers: Any) -> None:
        with ordinary_floats():
            room, arrays = [np.asarray(b) for b in out], [np.asarray(b) for b in buffers]
            results = computed(op, rule, arrays, **static, out=written(op, rule, arrays, room))
            for result, place, kind in zip(results, room, kinds, strict=True):
                if result is not place:
                    np.copyto(place, narrowed(result, kind.dtype))

    return called


def written(op: Op, rule: str, arrays: Sequence[Array], room: Sequence[Array]) -> Any:
    """The part of `room` that a forward rule can write to itself: the arrays that have the dtype of its results."""
    if rule not in ("forward", "with_indices"):
        return None
    fits = [room[0] if room[0].dtype == result_dtype(op, [a.dtype for a in arrays]) else None]
    fits += [r if r.dtype == INDICES else None for r in room[1:]]
    return tuple(fits) if rule == "with_indices" else fits[0]


# --- floats ------------------------------------------------------------------------------------------------------

ORDINARY = fenv.current()


@contextmanager
def ordinary_floats() -> Iterator[None]:
    """Arithmetic as outside: JAX lets its compiled programs take numbers below the normal range as zeros."""
    before = fenv.current()
    fenv.use(ORDINARY)
    try:
        yield
    finally:
        fenv.use(before)
