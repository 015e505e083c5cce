"""The one place that configures Numba: how kernels are compiled, and where compiled kernels are kept.

Numba's own cache looks at the file of the kernel only, so it would go on using a kernel whose helper in another file has
changed; and two processes that save two signatures at once can leave an index that names the wrong code. Here a compiled
kernel is one file. Its folder is named by everything that every kernel depends on, the file by the kernel and its
signature. It is written under another name and moved into place, and starts with a checksum: a file that was cut
short, or is damaged in any other way, is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from uuid import uuid4

import llvmlite
import numba
import numpy as np
from numba.core import caching, config, types
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

VARIABLE = "WINDOWGRAD_CACHE_DIR"
SOURCES = Path(__file__).parent
DAYS_KEPT = 30  # a folder of another version goes when it was not used for so long

Dispatcher = Any  # Numba has no types to name


OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "fastmath": False}


def kernel(function: Callable[..., Any]) -> Dispatcher:
    """Compile on first call with each signature, and keep the result on disk. The kernel runs without the GIL."""
    made = compiled(function)
    if not config.DISABLE_JIT:
        made._cache = KernelCache(function)
    return made


def compiled(function: Callable[..., Any]) -> Dispatcher:
    """A kernel that is not kept."""
    return numba.njit(**OPTIONS)(function)


def helper(function: Callable[..., Any]) -> Dispatcher:
    """A function for kernels to call. It becomes part of their code, where a call would cost as much as its loop.

    Python cannot call it: no entry is compiled for it.
    """
    return numba.njit(**OPTIONS, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


class KernelCache(caching._Cache):  # type: ignore[misc]  # numba has no types
    """The compiled signatures of one kernel; what Numba's dispatcher asks before and tells after it compiles."""

    def __init__(self, function: Any) -> None:
        self.function = function

    @property
    def cache_path(self) -> str | None:
        folder = cache_folder()
        return None if folder is None else str(folder)

    def file(self, signature: Any) -> Path | None:
        folder, key = cache_folder(), key_of((self.function, signature))
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
        rtsys.initialize(target_context)  # all that compiled code needs; Numba itself loads its compiler and SciPy here
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:  # whole, but not for this Numba after all; compiling again replaces it
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        path = self.file(signature)
        if path is None:
            return
        if result.library.has_dynamic_globals or result.lifted:
            warn_once(self.function, "it holds addresses of this process")
            return
        try:
            write(path, dumps(result._reduce()))
        except OSError as error:
            warn_once(None, f"{error.strerror or error}: {path.parent}; {VARIABLE} can name another folder")

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...


def read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, payload = content[:32], content[32:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def write(path: Path, payload: bytes) -> None:
    """All of it or nothing, also for a reader at the same time and when the process is killed."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_old(path.parent)
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_old(current: Path) -> None:
    """Folders beside the current one that no process looked into for a long time."""
    for folder in current.parent.glob("kernels-*"):
        with suppress(OSError):  # another process removed it
            if time.time() - folder.stat().st_mtime > DAYS_KEPT * 86400:
                shutil.rmtree(folder, ignore_errors=True)


@cache
def warn_once(function: Any, reason: str) -> None:
    what = "compiled kernels" if function is None else f"kernel {function.__qualname__}"
    warnings.warn(f"{what} cannot be kept for the next run: {reason}", RuntimeWarning, stacklevel=2)


@cache
def cache_folder() -> Path | None:
    """The folder for kernels compiled from these sources, by these versions, for this CPU; None if there can be none."""
    sources = sorted(SOURCES.rglob("*.py"))
    root = user_cache()
    if not sources or root is None:
        return None
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag, sys.platform)
    options = [
        getattr(config, name, None) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")
    ]
    digest = hashlib.sha256(repr((versions, machine(), options)).encode())
    for path in sources:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)} ".encode() + content)
    folder = root / f"kernels-{digest.hexdigest()[:32]}"
    with suppress(OSError):  # it is not there yet, or not ours to touch
        os.utime(folder)
    return folder


def machine() -> tuple[Any, ...]:
    """The CPU that code is made for, as Numba's code generator names it: triple, name and features."""
    return tuple(cpu_target.target_context.codegen().magic_tuple())


def user_cache() -> Path | None:
    """Where this user's programs keep what can be made again, by the custom of the platform."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "windowgrad" / "Cache"
    if (xdg := os.environ.get("XDG_CACHE_HOME")) and Path(xdg).is_absolute():
        return Path(xdg) / "windowgrad"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "windowgrad"


def key_of(value: Any, within: tuple[Any, ...] = ()) -> str:
    """A text that is the same in every process for the same value, and that tells two kernels from one factory apart."""
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # a dispatcher or an intrinsic is its function
    if isinstance(value, FunctionType):
        parts = () if value in within else parts_of(value)  # a function may call itself
        return f"{value.__module__}.{value.__qualname__}{key_of(parts, (*within, value))}"
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


if hasattr(os, "register_at_fork"):  # a child forked while another thread compiles would wait for that thread for ever
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
