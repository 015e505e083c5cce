"""Compile the kernels that users meet into the cache, in several processes, by calling the operators on small arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from windowgrad.errors import OptionError
from windowgrad.warmup.steps import dtype_of, parts
from windowgrad.warmup.workers import Part, done

DTYPES = ("float32", "float64", "float16", "uint8", "int64")
"""Of networks, of NumPy's own floats and integers, of images."""


def run(names: Sequence[str], console: Console, jobs: int | None = None) -> None:
    """Compile what is not compiled yet; say where it is kept and how long it took."""
    found = [(op, Part(dtype.name, op, len(steps))) for dtype in map(dtype_of, names) for op, steps in parts(dtype).items()]
    ops = list(dict.fromkeys(op for op, _ in found))
    todo = [part for _, part in sorted(found, key=lambda each: ops.index(each[0]))]  # at once: those that share no kernels
    began, folder = time.perf_counter(), cache()
    before = kernels(folder)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("", total=sum(part.steps for part in todo))
        for part in done(todo, jobs or processors()):
            progress.update(bar, description=f"{part.op}, {part.dtype}", advance=1)
    made = len(kernels(folder) - before)
    what = f"compiled {made} kernels" if made else "nothing to compile"
    console.print(f"{what} in {time.perf_counter() - began:.1f} s; they are kept in", markup=False)
    console.print(str(folder), markup=False, soft_wrap=True)


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache() -> Path:
    from windowgrad.kernels.runtime.cache import VARIABLE, user_cache

    folder = user_cache()
    if folder is None:
        raise OptionError(f"warmup: there is no home folder for the kernel cache; set {VARIABLE} to a folder")
    return folder


def kernels(folder: Path) -> set[Path]:
    return set(folder.glob("kernels-*/*.kernel"))
