"""Compile the common kernels into the cache, by calling the public operators on small arrays."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from windowgrad import functional as wg
from windowgrad.dtypes import is_supported
from windowgrad.errors import KindError, OptionError, show
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, Params, SmoothParams, TransposeParams

Step = tuple[str, Callable[[], Any]]

DTYPES = ("float32", "float64")
FEW, ALL = Sliding((3, 3), 2, 1), Global(2)  # windows of few cells and of many: they are summed differently


def dtype_of(name: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if not is_supported(dtype):
        wanted = "bool, int8 to int64, uint8 to uint64, float16, float32 or float64"
        raise KindError(f"dtype={show(name)}: must be {wanted}")
    return dtype


def steps(dtype: np.dtype[Any]) -> Iterator[Step]:
    """What is called with arrays of `dtype`: each operator forward and backward, and the indices of a maximum."""
    x, w = np.ones((1, 1, 20, 20), dtype), np.ones((1, 1, 3, 3), dtype)
    pooling: list[tuple[str, Params]] = []
    for geometry in (FEW, ALL):
        pooling += [("max_pool", MaxParams(geometry, ties)) for ties in ("first", "all")]
        pooling += [("avg_pool", MeanParams(geometry)), ("smooth_max_pool", SmoothParams(geometry, 1.0))]
    for name, params in pooling:
        yield from both_ways(name, params, x)
    yield "max_pool with indices", lambda: wg.max_pool2d(x, 3, 2, 1, return_indices=True)
    yield "adaptive_max_pool with indices", lambda: wg.adaptive_max_pool2d(x, 1, return_indices=True)
    yield "max_pool, many rows", lambda: wg.max_pool2d(x, 16, 1)
    yield "avg_pool, many rows", lambda: wg.avg_pool2d(x, 16, 1)
    yield from both_ways("conv", ConvParams(FEW), x, w)
    yield from both_ways("conv", ConvParams(FEW, 2), np.ones((1, 2, 20, 20), dtype), np.ones((2, 1, 3, 3), dtype))
    yield from both_ways("conv_transpose", TransposeParams(FEW), x, w)


def both_ways(name: str, params: Params, *arrays: Any) -> Iterator[Step]:
    op = OPS[name]
    yield name, lambda: op.forward(params, *arrays)
    yield f"{name} backward", lambda: op.vjp(params, *arrays, op.forward(params, *arrays))


def run(names: Sequence[str], console: Console) -> None:
    """Compile what is not compiled yet; say where it is kept and how long it took."""
    todo = [(f"{name}, {dtype}", call) for dtype in map(dtype_of, names) for name, call in steps(dtype)]
    began, folder = time.perf_counter(), cache()
    before = kernels(folder)
    with Progress(console=console, transient=True) as progress, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # what says that a kernel cannot be kept
        bar = progress.add_task("", total=len(todo))
        for description, call in todo:
            progress.update(bar, description=description)
            try:
                call()
            except RuntimeWarning as reason:
                raise OptionError(f"warmup: {reason}") from None
            progress.advance(bar)
    made = len(kernels(folder) - before)
    what = f"compiled {made} kernels" if made else "nothing to compile"
    console.print(f"{what} in {time.perf_counter() - began:.1f} s; they are kept in", markup=False)
    console.print(str(folder), markup=False, soft_wrap=True)


def cache() -> Path:
    from windowgrad.kernels.runtime.cache import VARIABLE
    from windowgrad.kernels.runtime.jit import cache_folder  # this loads Numba

    folder = cache_folder()
    if folder is None:
        raise OptionError(f"warmup: there is no home folder for the kernel cache; set {VARIABLE} to a folder")
    return folder


def kernels(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.kernel")}
