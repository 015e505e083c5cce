"""Compile the common kernels into the cache, by calling the public operators on small arrays."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from windowgrad.dispatch import facts_of
from windowgrad.dispatch import run as run_rule
from windowgrad.dtypes import is_supported
from windowgrad.errors import KindError, OptionError, show
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import MEANINGS
from windowgrad.params import Params
from windowgrad.spec.op import Op

Step = tuple[str, Callable[[], Any]]

DTYPES = ("float32", "float64")
FEW, ALL = Sliding((3, 3), 2, 1), Global(2)  # windows of few cells and of many: they are summed differently
MANY_ROWS = Sliding((16, 16), 1)  # these are reduced one axis after the other


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
    """What is called with arrays of `dtype`: every operator with windows, forward and backward, and the indices of winners."""
    for op in MEANINGS:
        windows = {family.windows for family in op.facts.families} if op.facts else ()
        if "sliding" in windows:
            yield from pooled(op, np.ones((1, 1, 20, 20), dtype))
        elif windows:
            yield from convolved(op, dtype)


def pooled(op: Op, x: Any) -> Iterator[Step]:
    record: Any = op.params
    for windows in (FEW, ALL):
        for options in facts_of(op).kernel_options:
            yield from both_ways(op, record(windows, *options), x)
    options = facts_of(op).kernel_options[0]
    yield f"{op.name}, many rows", partial(run_rule, op, "forward", record(MANY_ROWS, *options), x)
    if op.with_indices is not None:
        for geometry in (FEW, Adaptive((1, 1))):
            yield f"{op.name} with indices", partial(run_rule, op, "with_indices", record(geometry, *options), x)


def convolved(op: Op, dtype: np.dtype[Any]) -> Iterator[Step]:
    record: Any = op.params
    for (groups,) in facts_of(op).kernel_options:
        x, weight = np.ones((1, groups, 20, 20), dtype), np.ones((groups, 1, 3, 3), dtype)
        yield from both_ways(op, record(FEW, groups), x, weight)


def both_ways(op: Op, params: Params, *arrays: Any) -> Iterator[Step]:
    y = partial(run_rule, op, "forward", params, *arrays)
    yield op.name, y
    yield f"{op.name} backward", lambda: run_rule(op, "vjp", params, *arrays, y())


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
