"""What must be true of a case: nothing beyond its arrays is touched, and its results are the same bits however it is called.

A case is computed twice, in guarded memory with two poisons, at the two ends of pages, in two layouts, by one thread and by
several. Where the numbers allow it, the results are those of the reference bit for bit.
"""

from __future__ import annotations

import gc
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import _lru_cache_wrapper, cache
from typing import Any
from unittest.mock import patch

import numpy as np

from support import dense
from support.exact import FLOATS
from support.fuzz_cases import Case
from support.guarded import NAN, OTHER, exact_memory, guard_compiled_code, guarded, guarded_empty
from windowgrad import dispatch, peak, routes
from windowgrad.autograd.arrays import BATCH_NORM, RELU, arithmetic
from windowgrad.errors import WindowError, WindowgradError
from windowgrad.kernels.conv import plan as conv_plan
from windowgrad.kernels.pool import axis_passes as axes
from windowgrad.kernels.pool import blocks, long_rows
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.max import many_rows, winner_strips
from windowgrad.kernels.pool.smooth import chunks as smooth_chunks
from windowgrad.kernels.pool.smooth import long_rows as smooth_rows
from windowgrad.kernels.pool.smooth import strips
from windowgrad.kernels.runtime import jit, threads
from windowgrad.nn.steps import convolution_step
from windowgrad.ops import OPS, routed
from windowgrad.params import Mask, MaxParams, MeanParams, Params

Array = Any

# --- the numbers -------------------------------------------------------------------------------------------------


def whole(rng: np.random.Generator, shape: Sequence[int], dtype: Any, least: int = -4, most: int = 4) -> Array:
    """Small integers, whose sums are exact in any order; without sign where there is none, as bits for bool."""
    drawn = rng.integers(least, most + 1, shape)
    return (drawn % 2 if dtype.kind == "b" else abs(drawn) if dtype.kind == "u" else drawn).astype(dtype)


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-44, -1e-40, 3e38, -3e38)


def wild(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    """Any floats, some of them special; any integers, the least and the greatest among them."""
    if dtype not in FLOATS:
        if dtype.kind == "b":
            return whole(rng, shape, dtype)
        limits = np.iinfo(dtype)
        drawn = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.2, np.where(rng.random(shape) < 0.5, limits.min, limits.max), drawn).astype(dtype)
    drawn = rng.standard_normal(shape)
    rare = 0.15 if rng.random() < 0.5 else 0.0
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < rare, rng.choice(SPECIAL, shape), drawn).astype(dtype)


def numbers(case: Case, rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    if case.values == "wild":
        return wild(rng, shape, dtype)
    return whole(rng, shape, dtype, *((0, 1) if case.values == "tied" else ()))


def arrays_of(case: Case) -> list[Array]:
    """Inputs, then tangents or the gradient: a multiple of what it is divided by, so that its shares are whole."""
    rng = np.random.default_rng((*case.seed, 1))
    inputs = [numbers(case, rng, shape, case.dtype) for shape in case.shapes]
    if case.op == "max_unpool":
        plane = math.prod(case.params.out_shape(*case.shapes)[len(case.shapes[0]) - case.rank :])
        inputs[1] = rng.integers(-1, plane, case.shapes[1])
    if case.rule == "jvp":
        return [*inputs, *(numbers(case, rng, shape, case.given) for shape in case.shapes)]
    if case.rule != "vjp":
        return inputs
    g = numbers(case, rng, case.params.out_shape(*case.shapes), case.given)
    if case.values != "wild" and isinstance(case.params, (MaxParams, MeanParams)):
        shares = dense.POOLINGS[case.op](masked(case), inputs[0]).shares().reshape(g.shape)
        exact = shares * g.astype(np.int64)
        g = exact.astype(case.given) if (exact.astype(case.given).astype(np.int64) == exact).all() else exact.astype(np.float64)
    return [*inputs, g]


def masked(case: Case, side: str | None = None, layout: str = "C") -> Params:
    """The parameters with the case's mask, if it has one; in guarded memory if a side is given."""
    if case.mask is None:
        return case.params
    rng = np.random.default_rng((*case.seed, 2))
    where = rng.random(case.mask) < rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], p=[0.05, 0.2, 0.4, 0.3, 0.05])
    there = np.asarray(where) if side is None else guarded(np.asarray(where), side, layout)
    return replace(case.params, where=Mask(there))  # type: ignore[type-var]  # every record is a dataclass


# --- calls -------------------------------------------------------------------------------------------------------

BLOCKS = [
    (conv_plan, "STEPS", 7),
    (conv_plan, "PIXELS", 7),
    (conv_plan, "PANELS", 1 << 10),
    (conv_plan, "WEIGHTS", 1 << 10),
    (strips, "CELLS", 64),
    (strips, "LARGE", 64),
    (axes, "BLOCK", 128),
    (many_rows, "NARROW", 1),
    (many_rows, "WIDE", 1),
    (many_rows, "LARGE", 1),
    (winner_strips, "UNCUT", 512),
    (blocks, "SMALL", 1),
    (blocks, "TABLES", 40),
    (blocks, "OUTPUTS", 16),
    (blocks, "ROW", 64),
    (blocks, "COPIED", 100),
    (blocks, "CELLS", 60),
    (smooth_chunks, "LARGE", 64),
    (smooth_chunks, "CHUNK", 16),
    (long_rows, "MOST", 64),
    (smooth_rows, "PART", 64),
    (peak, "LEAST", 1),
]
"""Limits from which on work is cut into parts, as small as a case: large arrays reach the same code by their size."""

MANY = 1 << 12
"""Outputs from which on blocks are larger, for each of them takes guarded memory of its own."""

RULES = {**OPS, "relu": routed(RELU), "batch_norm": routed(BATCH_NORM)}


@contextmanager
def told(case: Case, count: int) -> Iterator[None]:
    """That many threads, however little there is to do. Calls are made as they were prepared, if they are not cut up here."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(dispatch, "READY", dispatch.READY and not case.small_blocks))
        stack.enter_context(patch.object(threads, "LEAST_WORK", 0))
        stack.enter_context(patch.object(threads, "chosen", count))
        stack.enter_context(patch.object(arithmetic, "LEAST", 0))
        if case.small_blocks:
            scale = 1 + math.prod(case.params.out_shape(*case.shapes)) // MANY
            for module, name, value in BLOCKS:
                stack.enter_context(patch.object(module, name, value * scale if module is blocks else value))
            for cached in (blocks.cut_up, max_entry.saved_kind):  # they were told other limits
                cached.cache_clear()
                stack.callback(cached.cache_clear)
        yield


def outputs(case: Case, arrays: Sequence[Array], side: str, poison: int) -> Any:
    """Guarded arrays for the results, as `out` is given."""
    shape = case.params.out_shape(*case.shapes)
    made = []
    for dtype in dense.result_dtypes(case.op, case.rule, arrays):
        made.append(guarded_empty(shape, dtype, side, case.out or "C", channel_of(case), poison))
    return tuple(made) if case.rule == "with_indices" else made[0]


def channel_of(case: Case) -> int:
    return len(case.shapes[0]) - case.rank - 1


def called(case: Case, params: Params, arrays: Sequence[Array], out: Any) -> list[Array] | WindowgradError:
    """The results of the rule, or the error by which it refuses."""
    rule = getattr(RULES[case.op], case.rule)
    try:
        found = rule(params, *arrays) if out is None else rule(params, *arrays, out=out)
    except WindowgradError as error:
        return error
    return list(found) if isinstance(found, tuple) else [found]


def compute(case: Case, arrays: Sequence[Array], again: bool) -> tuple[Any, list[str]]:
    """(results or an error, what was wrong) of the first call, or of the second."""
    side, poison = case.sides[again], OTHER if again else NAN
    layouts, count = (case.layouts, case.threads) if again else (["C"] * len(arrays), 1)
    given = [guarded(array, side, layout, channel_of(case)) for array, layout in zip(arrays, layouts, strict=True)]
    out = outputs(case, arrays, side, poison) if again and case.out else None
    params = masked(case, side, layouts[0])
    with exact_memory(side, poison), told(case, count):
        results = called(case, params, given, out)
    wrong = [f"input {i} was written" for i, (a, b) in enumerate(zip(arrays, given, strict=True)) if not same(a, b)]
    return results, wrong


def same(a: Array, b: Array) -> bool:
    """The same dtype, shape and bits; any NaN is as good as another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype not in FLOATS:
        return False
    nan = a != a
    return bool((nan == (b != b)).all()) and np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


# --- what must be true -------------------------------------------------------------------------------------------


def refused(case: Case) -> bool:
    """Whether it must be refused: a window has no cell, and may not."""
    params: Any = case.params
    if not isinstance(params, MaxParams) or params.empty == "zero":
        return False
    spatial = case.shapes[0][len(case.shapes[0]) - case.rank :]
    if any(not (dense.axis_cells(params.geometry, axis, n) >= 0).any(-1).all() for axis, n in enumerate(spatial)):
        return True
    made = dense.POOLINGS[case.op](masked(case), np.zeros(case.shapes[0]))
    return not np.broadcast_to(made.real, (made.planes, *made.cells.shape)).any(-1).all()


def may_be_refused(case: Case, error: WindowgradError) -> bool:
    """Integers whose sums may not fit."""
    return case.op.startswith("conv") and case.values == "wild" and isinstance(error, WindowError) and "more than" in str(error)


def known(case: Case, arrays: Sequence[Array]) -> list[Array] | None:
    """What the results are, if the reference can tell to the bit."""
    picks = case.op in ("pad", "unpad", "relu") or (
        case.op in ("max_pool", "min_pool", "extend") and case.rule in ("forward", "with_indices")
    )
    if case.op in ROUNDED or (case.values == "wild" and not picks):
        return None
    return dense.expected(case.op, case.rule, masked(case), arrays)


ROUNDED = ("smooth_max_pool", "lp_pool", "batch_norm")
"""Operators whose results are rounded whatever the cells are."""

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10}


def nearly_known(case: Case, arrays: Sequence[Array]) -> list[Array] | None:
    """The same within rounding errors."""
    if case.op not in ROUNDED or case.values == "wild":
        return None
    return dense.expected(case.op, case.rule, masked(case), arrays)


def near(found: Array, expected: Array) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    a, b = found.astype(np.float64), expected.astype(np.float64)
    return bool((abs(a - b) <= TOLERANCE[found.dtype.name] * np.maximum(abs(b), 4.0)).all())


def difference(found: Array, expected: Array) -> str:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape}, not {expected.dtype}{expected.shape}"
    bad = np.argwhere(~((found == expected) | ((found != found) & (expected != expected))))
    if not len(bad):
        return "the sign of a zero"
    at = tuple(bad[0].tolist())
    return f"{len(bad)} of {found.size} cells, at {at} {found[at]}, not {expected[at]}"


def compared(what: str, found: Sequence[Array], expected: Sequence[Array], equal: Any) -> list[str]:
    if len(found) != len(expected):
        return [f"{what}: {len(found)} results, not {len(expected)}"]
    return [f"{what} {i}: {difference(a, b)}" for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not equal(a, b)]


def alone(case: Case, arrays: Sequence[Array], results: Sequence[Array]) -> list[str]:
    """Whether the last sample of a batch has the same results without the others; sums over the batch are left out."""
    x, per_window = case.shapes[0], case.op.startswith("conv")
    if case.op == "batch_norm" or (case.mask is not None and len(case.mask) == len(x)):  # a mask of the batch
        return []
    if case.values != "wild" or len(x) - case.rank - per_window < 1 or x[0] < 2:
        return []
    inputs = len(case.shapes)
    batched = [
        not per_window or place % inputs == 0 or (case.rule == "vjp" and place == inputs) for place in range(len(arrays))
    ]
    some = [array[-1:].copy() if has else array for array, has in zip(arrays, batched, strict=True)]
    with exact_memory(), told(case, 1):
        found = called(case, masked(case), some, None)
    if isinstance(found, WindowgradError):  # integers whose sums fit in one sample, and not in another
        return []
    kept = 1 if per_window else len(results)
    return compared("of a sample by itself, result", found[:kept], [result[-1:] for result in results[:kept]], same)


def as_a_step(case: Case, arrays: Sequence[Array], results: Sequence[Array]) -> list[str]:
    """Whether a convolution of floats that keeps its weight, and ends with a sum and relu6, gives the bits of its parts."""
    if not case.op.startswith("conv") or case.rule != "forward" or case.dtype not in (np.float32, np.float64):
        return []
    (y,), (x, *weights) = results, arrays
    beside = numbers(case, np.random.default_rng((*case.seed, 2)), y.shape, y.dtype)
    given = [guarded(array, case.sides[1], "C", channel_of(case)) for array in (*weights, x, beside)]
    with exact_memory(case.sides[1], OTHER), told(case, case.threads), np.errstate(all="ignore"):
        found = convolution_step(case.params, *given[:-2], top=6.0)(*given[-2:])  # type: ignore[arg-type]
        total = y + beside
    expected = np.where(total > 6, 6, np.where((total > 0) | (total != total), total, 0)).astype(y.dtype)
    return compared("as a step", [found], [expected], same)


def check(case: Case) -> list[str]:
    """What is wrong, nothing if all is well."""
    arrays = arrays_of(case)
    (first, wrong), (second, wrong_again) = (compute(case, arrays, again) for again in (False, True))
    wrong += wrong_again
    if isinstance(first, WindowgradError) or isinstance(second, WindowgradError):
        if str(first) != str(second):
            wrong.append(f"once {first!r}, once {second!r}")
        elif not (refused(case) or may_be_refused(case, first)):
            wrong.append(f"refused: {first!r}")
        return wrong
    if refused(case):
        return [*wrong, 'empty="raise" was not refused']
    wrong += compared("by layout, threads or memory, result", second, first, same)
    wrong += alone(case, arrays, first)
    wrong += as_a_step(case, arrays, first)
    with np.errstate(all="ignore"):
        if (exactly := known(case, arrays)) is not None:
            wrong += compared("result", first, exactly, same)
        if (about := nearly_known(case, arrays)) is not None:
            wrong += compared("result", first, about, near)
    return wrong


# --- in a process of its own -------------------------------------------------------------------------------------

KEPT = 50
"""Cases after which the tables that the library keeps are dropped: a process may have only so many guarded blocks."""


checked = itertools.count()


@cache
def kept_tables() -> list[Any]:
    """The library's caches, but that of the folder for kernels."""
    gc.collect()
    found = [one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper)]
    return [one for one in found if str(one.__module__).startswith("windowgrad.") and one.__module__ != jit.__name__]


def prepare() -> None:
    """Load all kernels' modules, and guard what they allocate; a warning is an error."""
    guard_compiled_code()
    warnings.simplefilter("error")
    for op in OPS.values():
        routes.kernel_of(op, "forward")
    kept_tables()


def check_many(case: Case) -> list[str]:
    """`check` among many others."""
    if next(checked) % KEPT == 0:
        for table in kept_tables():
            table.cache_clear()
    return check(case)
