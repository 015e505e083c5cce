"""JAX arrays and tracers: jit, vmap, jvp, grad and all made of them see through every operator.

An operator on windows is a JAX primitive; the array operators (`arrays`) are JAX's own functions with our meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from windowgrad.bridges.jax.arrays import FORWARD
from windowgrad.bridges.jax.rules import bind, pulled, pushed
from windowgrad.checks import argument_names, check_array
from windowgrad.dispatch import routing
from windowgrad.dtypes import native
from windowgrad.errors import KindError
from windowgrad.foreign import computes_itself
from windowgrad.params import Params
from windowgrad.spec.op import Op


def compute(array: Any, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: tuple[bool, ...] | None = None) -> Any:
    """One rule on JAX arrays, beside which NumPy arrays are constants."""
    if op.facts is None and (rule != "forward" or op.name not in FORWARD):
        return NotImplemented  # a rule that JAX has itself, or somebody's operator
    names = argument_names(op, rule, len(arrays))
    classes: list[Any] = [type(a) for a in arrays]
    if not {compute, None}.issuperset(map(computes_itself, classes)):
        return NotImplemented  # it is for the other kind of array to say what they are together
    given = [as_jax(name, a) for name, a in zip(names, arrays, strict=True)]
    params = params.machine()  # plain values only, so that it can be part of the keys of JAX's caches
    routing(params)(
        op, rule, params, *((a.shape, a.dtype) for a in given)
    )  # refuses what NumPy arrays of these kinds are refused for
    if op.facts is None:
        return FORWARD[op.name](params, *given)
    if rule == "jvp":
        half = len(given) // 2
        return pushed(op, params, given[:half], given[half:])
    if rule == "vjp":
        return tuple(pulled(op, params, given[:-1], given[-1], needs or ()))
    results = bind(op, rule, *given, params=params)
    return results[0] if rule == "forward" else tuple(results)


def constant(name: str, array: Any) -> np.ndarray[Any, Any]:
    """What an array holds that is known while JAX traces, as an array of its own."""
    if isinstance(array, jax.core.Tracer):
        raise KindError(
            f"{name}: must be known when JAX traces a function, not be traced itself; "
            "make it outside of what jit or vmap is given, as a NumPy or JAX array"
        )
    if not isinstance(array.dtype, np.dtype):
        raise KindError(f"{name}: unsupported dtype {array.dtype}")
    return np.array(array)


def as_jax(name: str, array: Any) -> jax.Array:
    """A JAX array of machine numbers, or a NumPy array as JAX sees it."""
    kind: Any = type(array)
    if computes_itself(kind) is compute:
        if not isinstance(array.dtype, np.dtype):
            raise KindError(f"{name}: unsupported dtype {array.dtype}")
        return array if isinstance(array, jax.Array) else jnp.asarray(array)  # JAX's own constants are no jax.Array
    if not isinstance(array, np.ndarray):
        raise KindError(f"{name}: must be a JAX or NumPy array like the others, not {type(array).__qualname__}")
    check_array(name, array)
    if array.dtype.kind == "O":
        raise KindError(f"{name}: unsupported dtype object together with a JAX array")
    return jnp.asarray(native(array))
