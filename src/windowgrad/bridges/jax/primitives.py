"""One primitive per operator and rule: what it gives by shape and dtype, computed now, or called by a compiled program.

Every primitive has a list of results. Its parameters are the operator's record; the derivatives also say which gradients are
wanted (`needs`) and what all inputs are like (`like`), for they are given only the inputs they depend on, and whether after
them comes what the forward rule saved (`has_saved`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import mlir

from windowgrad.bridges.jax import host
from windowgrad.dispatch import result_dtype, saved_kind
from windowgrad.dtypes import derivative_of
from windowgrad.errors import KindError
from windowgrad.output import INDICES
from windowgrad.params import Params
from windowgrad.spec.op import Op


def primitive(op: Op, rule: str) -> Primitive:
    """A new primitive that computes, and knows nothing of derivatives and batches yet."""
    name = op.label or op.name
    made = Primitive(name if rule == "forward" else f"{name}_{rule}")
    made.multiple_results = True

    def evaluated(*avals: Any, **static: Any) -> list[Any]:
        return [ShapedArray(kind.shape, kind.dtype) for kind in kinds(op, rule, avals, **static)]

    def implemented(*arrays: Any, **static: Any) -> list[jax.Array]:
        return host.eager(op, rule, kinds(op, rule, arrays, **static), arrays, static)

    def lowered(context: Any, *operands: Any, **static: Any) -> Any:
        check_platforms(made.name, context.module_context.platforms)
        results = kinds(op, rule, context.avals_in, **static)
        called = buffer_callback(host.callback(op, rule, results, static), results)
        return mlir.lower_fun(called, multiple_results=True)(context, *operands)

    made.def_abstract_eval(evaluated)
    made.def_impl(implemented)
    mlir.register_lowering(made, lowered)
    return made


def check_platforms(name: str, platforms: Sequence[str]) -> None:
    if tuple(platforms) != ("cpu",):
        raise KindError(
            f"{name} is supported on the CPU only, not on {', '.join(platforms)}; jax.jit it for jax.devices('cpu')"
        )


def kinds(
    op: Op,
    rule: str,
    arrays: Sequence[Any],
    params: Params,
    needs: host.Needs = (),
    like: host.Like = (),
    has_saved: bool = False,
) -> list[jax.ShapeDtypeStruct]:
    """The shapes and dtypes of the results."""
    inputs: Sequence[Any] = like or arrays
    dtypes = [a.dtype for a in inputs]
    if rule == "vjp":
        g = arrays[-1].dtype
        return [struct(a.shape, derivative_of(a.dtype, g)) for a, need in zip(inputs, needs, strict=True) if need]
    out, dtype = params.out_shape(*(a.shape for a in inputs)), result_dtype(op, dtypes)
    if rule == "jvp":
        dtype = derivative_of(dtype, np.result_type(*(a.dtype for a in arrays[-len(inputs) :])))
    if rule == "saving":
        kept = saved_like(op, params, inputs)
        assert kept is not None
        return [struct(out, dtype), kept]
    return [struct(out, dtype)] + ([struct(out, INDICES)] if rule == "with_indices" else [])


def saved_like(op: Op, params: Params, inputs: Sequence[Any]) -> jax.ShapeDtypeStruct | None:
    """What the forward rule saves of such inputs for its vjp; None if nothing, or if JAX would narrow it."""
    kind = saved_kind(op, params, *((tuple(a.shape), np.dtype(a.dtype)) for a in inputs)) if params.lasting else None
    return None if kind is None or struct(*kind).dtype != kind[1] else struct(*kind)


def struct(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """As JAX has it: without jax_enable_x64, 32 bits for 64."""
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
