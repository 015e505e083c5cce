"""How Numba compiles kernels and helpers: every kernel is optimised once, with all helpers in it.

By default Numba optimises each function that a kernel calls as if Python called it, makes machine code of it and loads that,
and then optimises its code again as part of the kernel. But a helper is only ever part of kernels. So here what a kernel calls
is simplified by itself (`simplify`), and stays so until the kernel links it in; then all of it is optimised at once. That also
holds for kernels that it calls, and for what Numba itself compiles for it (`min`, `np.empty`). Passes of the front end that
kernels have no use for are left out (`passes`, `lowering`), and the loops of most kernels are not unrolled.

Measured (`python benchmarks/cold_start.py`), in seconds of CPU, of which LLVM takes 30 to 45 %: a maximum 1.3, a smooth
maximum and its tangent 1.9, a p-norm and its gradient 2.2, a convolution 2.0, with its gradients 3.0; a tenth less on the
clock. Rejected, as kernels ran longer or compiled no faster: helpers that are not simplified, or by `-O1` (a smooth backward
pass took 1.5 times as long); all helpers inlined before the passes of the whole kernel; `-O2`, no vectorisers, and code
generation at a lower level; no reference counts in kernels that allocate nothing (4 %, and a helper that returns an array would
leak it).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
from llvmlite.binding import Linkage, parse_bitcode
from numba import _dynfunc
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables, WithLifting

from windowgrad.kernels.runtime.lowering import EndLives, Lowering
from windowgrad.kernels.runtime.notice import wait
from windowgrad.kernels.runtime.passes import Passes
from windowgrad.kernels.runtime.shortcuts import few_collections, load_without_scipy, own_ways
from windowgrad.kernels.runtime.simplify import Code, helper, pass_builder

LEFT_OUT = (WithLifting, InlineClosureLikes, InlineInlinables, NopythonRewrites)
"""Passes for `with`, closures and comprehensions, functions that Numba is to inline, and arithmetic on whole arrays."""


# --- linking -----------------------------------------------------------------------------------------------------


class Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of one function. Of those it calls it keeps the libraries; they are linked when it is finalised."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.parts: list[Code] = []  # of what is not a kernel: not in its module yet
        self.unrolls = False

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def add_ir_module(self, module: Any) -> None:
        if self._object_caching_enabled:  # a kernel, which will be optimised as a whole
            super().add_ir_module(module)
            return
        code = Code(normalize_ir_text(str(module)), self._codegen)
        self.parts.append(code)
        helper.take(code)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        wait.look()
        whole(self)
        for library in called(self):
            self._reload_init.update(library._reload_init)
            if library._finalized:
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            else:
                self._final_module.link_in(shared(whole(library)))
        if any(function.is_declaration and function.name.startswith("NRT_") for function in self._final_module.functions):
            self._final_module.link_in(rtsys.library._get_module_for_linking(), preserve=True)
        builder = pass_builder(self._codegen._tm, self.unrolls)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass(_parse_refprune_flags())
        passes.run(self._final_module, builder)
        self._final_module.verify()
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN"):  # Numba's name of a function: LLVM would call 0
                raise RuntimeError(f"{self.name}: calls {function.name}, which is in no library that it is made of")
        self._finalize_final_module()


def whole(library: Any) -> Any:
    """The module of a library, with what the second thread has made. For some functions Numba has libraries of its own."""
    if isinstance(library, Library):
        while library.parts:
            code = library.parts.pop(0).simplified(library._codegen._tm)
            library._final_module.link_in(parse_bitcode(code))
    return library._final_module


def called(library: Any) -> list[Any]:
    """The libraries that one is made of beside itself, each once; not Numba's runtime, which few kernels need.

    Each comes after all that call it. LLVM leaves out what nobody mentions so far, and a call that is never made is not
    mentioned: the same function would not be there for a library that comes later.
    """
    seen, found = {rtsys.library}, []

    def visit(one: Any) -> None:
        for other in one._linking_libraries:
            if other not in seen:
                seen.add(other)
                if not other._finalized:  # else they are part of it
                    visit(other)
                found.append(other)

    visit(library)
    return found[::-1]


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


class OwnLowering(NativeLowering):  # type: ignore[misc]  # numba has no types
    lowering_class = Lowering


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(OwnLowering):
    """To LLVM's code, optimised and loaded, with an entry for Python."""

    unrolls = False

    def run_pass(self, state: Any) -> bool:
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.library.unrolls = self.unrolls
        state.flags.no_cpython_wrapper = False
        done: bool = super().run_pass(state)
        for name in environments(state.library._final_module):
            state.library.codegen.set_env(name, lookup_environment(name))
        return done


@register_pass(mutates_CFG=True, analysis_only=False)
class UnrollingLowering(KernelLowering):
    """The same, and LLVM may unroll loops."""

    unrolls = True


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(OwnLowering):
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
    ours, theirs = {NativeLowering: lowering, IRLegalization: EndLives}, DefaultPassBuilder.define_nopython_pipeline(state)
    return Passes(theirs, [(ours.get(each, each), about) for each, about in theirs.passes if each not in left_out])


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


part_jit = partial(numba.jit, pipeline_class=PartCompiler)


class KernelCompiler(CalledCompiler):
    """Compiles kernels. Numba holds the compiler's lock from before `__init__` until after `_compile_core`."""

    lowering = KernelLowering

    def __init__(self, *state: Any) -> None:
        with few_collections(), own_ways(part_jit):
            load_without_scipy()
            cpu_target.target_context.refresh()  # before types are, which need what it installs
            super().__init__(*state)

    def _compile_core(self) -> Any:
        with wait.compiling(), own_ways(part_jit), few_collections(), helper.working():
            return super()._compile_core()


class UnrollingCompiler(KernelCompiler):
    """Compiles kernels whose loops LLVM may unroll."""

    lowering = UnrollingLowering
