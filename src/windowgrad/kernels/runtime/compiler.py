"""How Numba compiles kernels and helpers: every kernel is optimised once, with all helpers in it.

By default Numba optimises each function that a kernel calls as if Python called it, makes machine code of it and loads that,
and then optimises its code again as part of the kernel. But a helper is only ever part of kernels. So here what a kernel calls
is simplified by itself, and stays so until the kernel links it in; then all of it is optimised at once. That also holds for
kernels that it calls, and for what Numba itself compiles for it (`min`, `np.empty`). Passes of the front end that kernels have
no use for are left out.

Measured (`python benchmarks/cold_start.py`): a maximum 2.4 → 1.4 s, a convolution 4.0 → 2.0, with its gradients 6.4 → 3.3, a
smooth maximum and its gradient 5.1 → 2.9. Rejected, as kernels ran longer or compiled no faster: helpers that are not
simplified, or by `-O1` (a smooth backward pass took 1.5 times as long); `-O2` and no vectorisers for
kernels; no reference counts in kernels that allocate nothing (4 %, and a helper that returns an array would leak it).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import numba
from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
from numba import _dynfunc
from numba.core import config, ir
from numba.core.base import BaseContext
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.types.functions import BaseFunction
from numba.core.typing import context as typing
from numba.core.typing.templates import _OverloadFunctionTemplate
from numba.core.untyped_passes import InlineClosureLikes, WithLifting

from windowgrad.kernels.runtime.entries import write_entry
from windowgrad.kernels.runtime.notice import wait

LEFT_OUT = (WithLifting, InlineClosureLikes, NopythonRewrites)
"""Passes for `with`, closures and comprehensions, and arithmetic on whole arrays."""


# --- linking -----------------------------------------------------------------------------------------------------


class Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of one function. Of those it calls it keeps the libraries; they are linked when it is finalised."""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        if self._object_caching_enabled:  # a kernel, which will be optimised as a whole
            return
        builder = self._codegen._pass_builder()
        passes = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        wait.look()
        for library in called(self):
            self._reload_init.update(library._reload_init)
            if library._finalized:
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            else:
                self._final_module.link_in(shared(library._final_module))
        if any(function.is_declaration and function.name.startswith("NRT_") for function in self._final_module.functions):
            self._final_module.link_in(rtsys.library._get_module_for_linking(), preserve=True)
        builder = pass_builder(self._codegen._tm)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass(_parse_refprune_flags())
        passes.run(self._final_module, builder)
        self._final_module.verify()
        self._finalize_final_module()


def pass_builder(machine: Any) -> Any:
    """Of Numba's passes for modules, but no loop is unrolled: hot loops are as long as they should be, and code that is
    several times as large takes LLVM longer.
    """
    options = create_pipeline_tuning_options(speed_level=int(config.OPT))
    options.loop_vectorization, options.slp_vectorization = bool(config.LOOP_VECTORIZE), bool(config.SLP_VECTORIZE)
    options.loop_unrolling = False
    return create_pass_builder(machine, options)


def called(library: Any, seen: set[Any] | None = None) -> Iterator[Any]:
    """The libraries that one is made of beside itself, each once; not Numba's runtime, which few kernels need."""
    seen = {rtsys.library} if seen is None else seen
    for other in library._linking_libraries:
        if other not in seen:
            seen.add(other)
            yield other
            if not other._finalized:  # else they are part of it
                yield from called(other, seen)


def shared(module: Any) -> Any:
    """A copy whose functions may be inlined and dropped, and may be in another module too."""
    copy = module.clone()
    for each in (*copy.functions, *copy.global_variables):
        if not each.is_declaration and each.linkage in (Linkage.external, Linkage.common):
            each.linkage = Linkage.linkonce_odr
    return copy


def environments(module: Any) -> list[str]:
    """The names of Numba's records of the functions in a module that need one when they run: those that raise or print."""
    return [each.name for each in module.global_variables if each.name.startswith("_ZN08NumbaEnv")]


# --- passes ------------------------------------------------------------------------------------------------------


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]  # numba has no types
    """To LLVM's code, optimised and loaded, with an entry for Python."""

    def run_pass(self, state: Any) -> bool:
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_cpython_wrapper = False
        done: bool = super().run_pass(state)
        for name in environments(state.library._final_module):
            state.library.codegen.set_env(name, lookup_environment(name))
        return done


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):  # type: ignore[misc]  # numba has no types
    """To LLVM's code as it is, for kernels to link in."""

    def run_pass(self, state: Any) -> bool:
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        done: bool = super().run_pass(state)
        about, environment = state["cr"].fndesc, state["cr"].env
        entry = _dynfunc.make_function(about.lookup_module(), about.qualname, "", 0, environment, (state.library,))
        state.targetctx.insert_user_function(entry, about, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return done


@register_pass(mutates_CFG=True, analysis_only=False)
class HelperLowering(PartLowering):
    """The same, and LLVM has to inline it."""

    def run_pass(self, state: Any) -> bool:
        state.flags.forceinline = True
        return super().run_pass(state)


def passes(state: Any, lowering: type[NativeLowering], left_out: tuple[Any, ...]) -> Any:
    """Numba's, less what is left out."""
    found = DefaultPassBuilder.define_nopython_pipeline(state)
    found.passes = [
        (lowering if each is NativeLowering else each, about) for each, about in found.passes if each not in left_out
    ]
    found.finalize()
    return found


class PartCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """Compiles what Numba has for a function that kernels call, such as `min`."""

    lowering: type[NativeLowering] = PartLowering
    left_out: tuple[Any, ...] = ()

    def define_pipelines(self) -> list[Any]:
        wait.look()
        return [passes(self.state, self.lowering, self.left_out)]


class CalledCompiler(PartCompiler):
    """Compiles kernels that others call, for these."""

    left_out = LEFT_OUT


class HelperCompiler(CalledCompiler):
    """Compiles helpers."""

    lowering = HelperLowering


class KernelCompiler(CalledCompiler):
    """Compiles kernels. Numba holds the compiler's lock from before `__init__` until after `_compile_core`."""

    lowering = KernelLowering

    def __init__(self, *state: Any) -> None:
        with few_collections(), own_ways():
            load_without_scipy()
            cpu_target.target_context.refresh()  # before types are, which need what it installs
            super().__init__(*state)

    def _compile_core(self) -> Any:
        with wait.compiling(), own_ways(), few_collections():
            return super()._compile_core()


# --- what Numba brings -------------------------------------------------------------------------------------------


@contextmanager
def own_ways() -> Iterator[None]:
    """Of what is typed within: overloads such as `min` are compiled as parts, no call is typed and no size found twice, and
    what Numba knows is looked through only when something was added to it.

    Only one thread types anything at a time, the one that holds the compiler's lock.
    """
    places = (
        (_OverloadFunctionTemplate, "_get_jit_decorator", lambda template: part_jit),
        (BaseFunction, "get_call_type", known_type),
        (ir.Inst, "_rec_list_vars", variables),
        (BaseContext, "get_abi_sizeof", known_size),
        (CPUContext, "create_cpython_wrapper", write_entry),
        (BaseContext, "refresh", refreshed),
        (typing.BaseContext, "refresh", refreshed_types),
    )
    before = [getattr(owner, name) for owner, name, _ in places]
    for owner, name, ours in places:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for (owner, name, _), theirs in zip(places, before, strict=True):
            setattr(owner, name, theirs)


part_jit = partial(numba.jit, pipeline_class=PartCompiler)
call_type = BaseFunction.get_call_type
known: dict[Any, Any] = {}
flags_seen: dict[int, tuple[Any, int]] = {}
flags_numbers: dict[Any, int] = {}
list_variables = ir.Inst._rec_list_vars
size_of = BaseContext.get_abi_sizeof
sizes: dict[str, int] = {}
refresh, refresh_types = BaseContext.refresh, typing.BaseContext.refresh
refreshed_at: dict[Any, int] = {}
NO_VARIABLES = frozenset((str, int, float, bool, NoneType, ir.Loc, FunctionType, BuiltinFunctionType))
OBJECTS = 100_000


def known_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call. Numba tries every template for it: of `i + 1`, those of NumPy's ufuncs, each time."""
    key = function, context, tuple(args), tuple(kws.items()), flags_number()
    found = known.get(key)
    if found is None:
        found = known[key] = call_type(function, context, args, kws)
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


def refreshed(target: Any) -> None:
    refresh_once(target, refresh, (target, target.typing_context))


def refreshed_types(types: Any) -> None:
    refresh_once(types, refresh_types, (types,))


def refresh_once(context: Any, load: Any, contexts: tuple[Any, ...]) -> None:
    """Load what was added to Numba's tables. Numba looks for it before each function, and 270 times before the first one,
    since each overload of a method asks for that while it is being loaded: 0.1 s.
    """
    if refreshed_at.get(None) is not None:
        return
    refreshed_at[None] = 0
    try:
        while (found := entries(contexts)) != refreshed_at.get(context):
            refreshed_at[context] = found
            load(context)
    finally:
        del refreshed_at[None]


def entries(contexts: tuple[Any, ...]) -> int:
    loaders = [pair for each in contexts for pair in each._registries.items()]
    return sum(len(getattr(registry, name)) for registry, loader in loaders for name in loader.registry_items)


@contextmanager
def few_collections() -> Iterator[None]:
    """The collector looks for garbage after so many new objects. Numba makes many, and those searches took 5 % of compiling.

    Only the thread with the compiler's lock is here.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
