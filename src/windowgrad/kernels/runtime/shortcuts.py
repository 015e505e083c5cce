"""What Numba does again and again while it compiles kernels, done once: typing calls, finding variables and sizes, looking for
additions to its tables; and the garbage collector, which looks seldom meanwhile; and room for Python's frames.

All of it is in force only while a kernel is being compiled, by the one thread that holds the compiler's lock.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from importlib.util import find_spec
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

from llvmlite.ir import IRBuilder
from numba.core import base, interpreter, ir, ssa, typeinfer
from numba.core.base import BaseContext
from numba.core.cpu import CPUContext
from numba.core.postproc import PostProcessor
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.core.typing import context as typing
from numba.core.typing.templates import _OverloadFunctionTemplate

from windowgrad.kernels.runtime.entries import write_entry
from windowgrad.kernels.runtime.passes import (
    Context,
    brief_post_process,
    brief_without_exits,
    propagate,
    rewrite_mentioning,
    run_brief_ssa,
)
from windowgrad.kernels.runtime.writing import called, extracted


@contextmanager
def own_ways(part_jit: Any) -> Iterator[None]:
    """Of what is typed within, overloads such as `min` are compiled by `part_jit`, no call is typed and no size found twice,
    and Numba's tables are looked through only when something was added to them. Python's entries of kernels start jobs too.

    Only one thread types anything at a time, the one that holds the compiler's lock.
    """
    changed = (
        (_OverloadFunctionTemplate, "_get_jit_decorator", lambda template: part_jit),
        (BaseFunction, "get_call_type", known_type),
        (ir.Inst, "_rec_list_vars", variables),
        (BaseContext, "get_abi_sizeof", known_size),
        (base, "_has_loc", has_place),
        (CPUContext, "create_cpython_wrapper", write_entry),
        (BaseContext, "refresh", refreshed),
        (BaseContext, "declare_function", declared),
        (typing.BaseContext, "refresh", refreshed_types),
        (typing.BaseContext, "resolve_getattr", known_attribute),
        (PostProcessor, "run", brief_post_process),
        (interpreter, "peep_hole_delete_with_exit", brief_without_exits),
        (ssa, "_run_ssa", run_brief_ssa),
        (ssa, "_run_block_rewrite", rewrite_mentioning),
        (IRBuilder, "extract_value", extracted),
        (base, "user_function", called),
        (typeinfer, "new_error_context", Context),
        (typeinfer.ConstraintNetwork, "propagate", propagate),
    )
    before = [getattr(owner, name) for owner, name, _ in changed]
    for owner, name, ours in changed:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for (owner, name, _), theirs in zip(changed, before, strict=True):
            setattr(owner, name, theirs)


call_type = BaseFunction.get_call_type
known: dict[Any, Any] = {}
attribute_type = typing.BaseContext.resolve_getattr
attributes: dict[Any, Any] = {}
flags_seen: dict[int, tuple[Any, int]] = {}
flags_numbers: dict[Any, int] = {}
list_variables = ir.Inst._rec_list_vars
size_of = BaseContext.get_abi_sizeof
sizes: dict[str, int] = {}
has_place = cache(base._has_loc)  # whether a function that writes code takes a line of source: by its signature, at each use
declare = BaseContext.declare_function
refresh, refresh_types = BaseContext.refresh, typing.BaseContext.refresh
refreshed_at: dict[Any, int] = {}
loading = threading.Lock()
NO_VARIABLES = frozenset((str, int, float, bool, NoneType, ir.Loc, FunctionType, BuiltinFunctionType))
OBJECTS = 100_000
ROOM = 140_000  # values on the stack of a frame; a piece has a power of two, so that 900 KB are left of it


def known_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call. Numba tries every template for it: of `i + 1`, those of NumPy's ufuncs, each time."""
    key = function, context, tuple(args), tuple(kws.items()), flags_number()
    found = known.get(key)
    if found is None:
        found = known[key] = call_type(function, context, args, kws)
    return found


def known_attribute(context: Any, kind: Any, name: str) -> Any:
    """The type of an attribute. Numba tries every template that has some attribute of such a type."""
    key = context, kind, name
    found = attributes.get(key)
    if found is None:
        found = attributes[key] = attribute_type(context, kind, name)
    return found


def flags_number() -> int:
    """The same for equal options of the function that is being compiled; to compare them takes long."""
    flags = ConfigStack.top_or_none()
    seen = flags_seen.get(id(flags))
    if seen is None:
        seen = flags_seen[id(flags)] = flags, flags_numbers.setdefault(flags, len(flags_numbers))
    return seen[1]


def variables(statement: Any, value: Any) -> list[Any]:
    """The variables in a part of a statement, in order. Numba asks for those of every statement some ten times."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not tuple and type(value) is not list:
        found: list[Any] = list_variables(statement, value)
        return found
    found = []
    for each in value:
        if type(each) is ir.Var:
            found.append(each)
        elif type(each) not in NO_VARIABLES:
            found.extend(statement._rec_list_vars(each))
    return found


def known_size(context: Any, kind: Any) -> int:
    """The bytes of a value. Numba has LLVM read a module for that, for each variable. A name may mean different types."""
    text = str(kind)
    found = sizes.get(text)
    if found is None:
        found = size_of(context, kind)
        if "%" not in text:
            sizes[text] = found
    return found


def declared(context: Any, module: Any, about: Any) -> Any:
    """A function in a module. What will be inlined is to stay a single call until then: LLVM takes a call for cheap, and would
    have one for each case of what comes before. The code of a weight gradient became 1.6 times as long by that.
    """
    function = declare(context, module, about)
    if about.inline:
        function.attributes.add("noduplicate")
    return function


def refreshed(target: Any) -> None:
    refresh_once(target, refresh, (target, target.typing_context))


def refreshed_types(types: Any) -> None:
    refresh_once(types, refresh_types, (types,))


def refresh_once(context: Any, load: Any, contexts: tuple[Any, ...]) -> None:
    """Load what was added to Numba's tables. Numba looks for that before each function, and 270 times before the first one,
    since each overload of a method asks for it while it is being loaded.
    """
    if not loading.acquire(blocking=False):
        return
    try:
        while (found := entries(contexts)) != refreshed_at.get(context):
            refreshed_at[context] = found
            load(context)
    finally:
        loading.release()


def entries(contexts: tuple[Any, ...]) -> int:
    """How many there are in the tables."""
    loaders = [pair for each in contexts for pair in each._registries.items()]
    return sum(len(getattr(registry, name)) for registry, loader in loaders for name in loader.registry_items)


@contextmanager
def few_collections() -> Iterator[None]:
    """The collector looks for garbage after so many new objects. Numba makes many, and those searches took 10 % of compiling.

    At the end, new objects count as old ones, which happens to those that live on, so that they are looked at when the whole
    heap is, and not at once. Only the thread with the compiler's lock is here.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        if gc.isenabled() and not gc.get_freeze_count():  # what a program has frozen stays so
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)


def with_room(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, with room on Python's stack for the frames of all that it calls.

    Python 3.11 and later have frames in pieces of 16 KB, and give a piece back to the system when its last frame ends. Numba is
    some hundred calls deep, and a loop at the end of a piece gets and gives back memory at each call in it: of the time of a
    first call that took 15 %, and more where another thread runs. A frame of 1.1 MB gets a piece of 2 MB, where what it calls
    is too. What is not used of that never becomes memory.
    """

    @wraps(call)
    def roomy(*args: Any, **kws: Any) -> Any:
        return call(*args, **kws)

    roomy.__code__ = roomy.__code__.replace(co_stacksize=ROOM)  # type: ignore[attr-defined]
    return roomy


def load_without_scipy() -> None:
    """Load what Numba loads before it compiles; it looks for a BLAS then, which takes SciPy a fifth of a second.

    Whether it is there is all that is asked; where a function needs it, Numba loads it then.
    """
    from numba.np import linalg

    if "numba.np.arraymath" in sys.modules or find_spec("scipy") is None:
        return
    load = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = load
    arraymath.ensure_blas = load
