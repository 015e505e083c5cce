"""The one place that configures Numba: how kernels are compiled, and where compiled kernels are kept.

Numba's own cache looks at the file of the kernel only, so it would go on using a kernel whose helper in another file has
changed; and two processes that save two signatures at once can leave an index that names the wrong code. Here a compiled
kernel is one file (`object_code`). Its folder is named by everything that all kernels of its module depend on (`sources`), the
file by the kernel, what was given to the function that made it, and its signature; `cache` says where the folder is and which
files may be used.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
import numpy.ma  # Numba looks at it in the first call of a kernel, when a fork would not wait for its import
from llvmlite.binding import ffi
from numba.core import caching, config, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.types.misc import unliteral

from windowgrad.interrupts import put_off
from windowgrad.kernels.runtime.cache import VARIABLE, read, refusal, user_cache, warn_once, write
from windowgrad.kernels.runtime.compiler import (
    CalledCompiler,
    HelperCompiler,
    KernelCompiler,
    SeparateCompiler,
    UnrollingCompiler,
)
from windowgrad.kernels.runtime.object_code import NotKeptError, pack, unpack
from windowgrad.kernels.runtime.shortcuts import with_room
from windowgrad.kernels.runtime.sources import digest_of
from windowgrad.loading import hold_at_fork

Dispatcher = Any  # Numba has no types to name


OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "fastmath": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def kernel(function: Callable[..., Any]) -> Dispatcher:
    """Compile on first call with each signature, and keep the result on disk. The kernel runs without the GIL."""
    return kept(compiled(function))


def unrolled_kernel(function: Callable[..., Any]) -> Dispatcher:
    """A kernel whose loops LLVM may unroll, which takes a third longer to compile: maxima take 1.02 to 1.07 times as long
    without.
    """
    return kept(compiled(function, UnrollingCompiler))


def kept(made: Dispatcher) -> Dispatcher:
    if not config.DISABLE_JIT:
        made._cache = KernelCache(made.py_func)
    return made


def compiled(function: Callable[..., Any], compiler: type[KernelCompiler] = KernelCompiler) -> Dispatcher:
    """A kernel that is not kept.

    Ctrl-C waits until it is compiled or loaded: LLVM calls back into Python, and what is raised there is printed and
    forgotten; and Numba does not find again what it was about to note when it was stopped.

    For a kernel that calls it, it is compiled as a part of that one, which needs no machine code of its own.
    """
    made = numba.njit(**OPTIONS, pipeline_class=compiler)(function)
    if not config.DISABLE_JIT:
        made.compile = put_off()(with_room(made.compile))
        part = cache(lambda: part_of_kernels(function, CalledCompiler))
        made.get_call_template = lambda args, kws: part().get_call_template(args, kws)
        made.get_overload = lambda signature: part().get_overload(signature)
    return made


def helper(function: Callable[..., Any]) -> Dispatcher:
    """A function for kernels to call. It becomes part of their code, where a call would cost as much as its loop.

    Python cannot call it: no entry is compiled for it.
    """
    return part_of_kernels(function, HelperCompiler)


def separate_helper(function: Callable[..., Any]) -> Dispatcher:
    """A function for kernels to call seldom, once for a block of work: it has machine code of its own, which is made meanwhile
    (`separate`). What is called where it takes less than some microseconds is a `helper`.
    """
    return part_of_kernels(function, SeparateCompiler)


def part_of_kernels(function: Callable[..., Any], compiler: type[CalledCompiler]) -> Dispatcher:
    """Compiled once for numbers that are variables and for those that are written in the call, where Numba would compile it
    for each of those; LLVM sees them all the same, once it is inlined.
    """
    made = numba.njit(**OPTIONS, pipeline_class=compiler)(function)
    if not config.DISABLE_JIT:
        typed = made.get_call_template
        made.get_call_template = lambda args, kws: typed(
            [unliteral(each) for each in args], {name: unliteral(each) for name, each in kws.items()}
        )
    return made


class KernelCache(caching._Cache):  # type: ignore[misc]  # numba has no types
    """The compiled signatures of one kernel; what Numba's dispatcher asks before and tells after it compiles."""

    def __init__(self, function: Any) -> None:
        self.function = function

    @property
    def cache_path(self) -> str | None:
        folder = cache_folder(str(self.function.__module__))
        return None if folder is None else str(folder)

    def file(self, signature: Any) -> Path | None:
        folder, key = cache_folder(str(self.function.__module__)), key_of((self.function, signature))
        if folder is None:
            return None
        if " at 0x" in key:
            warn_once(self.function, f"it depends on something that only its address names: {key}")
            return None
        if self.function.__module__ not in sys.modules:  # Numba imports it when it loads the kernel
            warn_once(self.function, "it belongs to no module; give `exec` a `__name__`")
            return None
        return folder / f"{self.function.__name__}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.kernel"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled kernel, or None when there is none that can be used."""
        path = self.file(signature)
        if path is None or (payload := read(path)) is None:
            return None
        try:
            return unpack(payload, self.function, signature, target_context)
        except Exception:  # whole, but not for this Numba after all; compiling again replaces it
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        path = self.file(signature)
        if path is None:
            return
        try:
            write(path, pack(result, signature))
        except NotKeptError as reason:
            warn_once(self.function, str(reason))
        except OSError as error:
            warn_once(None, f"{error.strerror or error}: {path.parent}; {VARIABLE} can name another folder")

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...


@cache
def cache_folder(module: str) -> Path | None:
    """The folder for kernels of a module compiled by these versions, for this CPU; None if there can be none."""
    sources, root = digest_of(module), user_cache()
    if sources is None or root is None:
        return None
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag, sys.platform)
    options = [
        getattr(config, name, None) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")
    ]
    digest = hashlib.sha256(repr((module, sources, versions, machine(), options)).encode())
    folder = root / f"kernels-{digest.hexdigest()[:32]}"
    if refusal(folder) is None:
        with suppress(OSError):  # it is not there yet, or not ours to touch
            os.utime(folder)
    return folder


def machine() -> tuple[Any, ...]:
    """The CPU that code is made for, as Numba's code generator names it: triple, name and features."""
    return tuple(cpu_target.target_context.codegen().magic_tuple())


def key_of(value: Any, within: tuple[Any, ...] = ()) -> str:
    """A text that is the same in every process for the same value, and that tells two kernels from one factory apart."""
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # a dispatcher or an intrinsic is its function
    if isinstance(value, (FunctionType, type)):
        parts = () if value in within or isinstance(value, type) else parts_of(value)  # a function may call itself
        name = f"{value.__module__}.{value.__qualname__} {digest_of(str(value.__module__))}"
        return f"{name}{key_of(parts, (*within, value))}"
    if isinstance(value, CodeType):
        return key_of((value.co_code, value.co_names, value.co_consts), within)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(key_of(entry, within) for entry in value)})"
    if isinstance(value, np.ndarray):
        return key_of((value.dtype, value.shape, value.tobytes()), within)
    return f"{type(value).__name__} {value.name if isinstance(value, types.Type) else repr(value)}"


def parts_of(function: FunctionType) -> tuple[Any, ...]:
    """What a function is made of beside its name. Globals of a module stand in its source, those given to `exec` do not."""
    own = function.__globals__
    if vars(sys.modules.get(function.__module__, sys)) is own:
        own = {}
    used = [(name, own[name]) for name in function.__code__.co_names if name in own]
    return function.__code__, function.__defaults__, [cell.cell_contents for cell in function.__closure__ or ()], used


# A child forked while another thread compiles would wait for that thread for ever. Numba takes LLVM's lock under its own.
hold_at_fork(global_compiler_lock._lock)
hold_at_fork(ffi.lib._lock._lock)
