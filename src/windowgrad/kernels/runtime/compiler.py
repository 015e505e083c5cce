"""How Numba compiles kernels and helpers: every kernel is optimised once, with all helpers in it.

By default Numba optimises each function that a kernel calls as if Python called it, makes machine code of it and loads that,
and then optimises its code again as part of the kernel. But a helper is only ever part of kernels. So here what a kernel calls
is simplified by itself (`simplify`), and stays so until the kernel links it in; then all of it is optimised at once. That also
holds for kernels that it calls, and for what Numba itself compiles for it (`min`, `np.empty`). Only what is called seldom may
have machine code of its own, which LLVM makes while Numba goes on (`separate`). Passes of the front end that
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
from llvmlite.binding import parse_bitcode
from numba import _dynfunc
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables, WithLifting

from windowgrad.kernels.runtime.lowering import EndLives, Lowering
from windowgrad.kernels.runtime.notice import wait
from windowgrad.kernels.runtime.object_code import load
from windowgrad.kernels.runtime.passes import Passes
from windowgrad.kernels.runtime.separate import Separate, droppable, hide, optimise
from windowgrad.kernels.runtime.shortcuts import few_collections, load_without_scipy, own_ways
from windowgrad.kernels.runtime.simplify import Code, helper

LEFT_OUT = (WithLifting, InlineClosureLikes, InlineInlinables, NopythonRewrites)
"""Passes for `with`, closures and comprehensions, functions that Numba is to inline, and arithmetic on whole arrays."""

separately = True  # else all code is part of kernels, and is shown with theirs


# --- linking -----------------------------------------------------------------------------------------------------


class Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of one function. Of those it calls it keeps the libraries; they are linked when it is finalised."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.codes: list[Code] = []  # of what is not a kernel: each who needs it links it in
        self.separate: Separate | None = None
        self.separates: dict[str, bytes] = {}  # machine code that its own calls by these names
        self.unrolls = False

    def separated(self, machine: Any) -> tuple[str, str, bytes] | None:
        """If the function has machine code of its own: its name in LLVM's code, its name there, and that, when it is made."""
        name, code = self.separate.found(machine) if self.separate is not None else ("", None)
        return None if self.separate is None or code is None else (self.separate.symbol, name, code)

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def add_ir_module(self, module: Any) -> None:
        if self._object_caching_enabled:  # a kernel, which will be optimised as a whole
            super().add_ir_module(module)
            return
        code = Code(normalize_ir_text(str(module)), self._codegen)
        self.codes.append(code)
        helper.take(code)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        wait.look()
        machine, module = self._codegen._tm, self._final_module
        for code in self.codes:
            module.link_in(parse_bitcode(code.simplified(machine)))
        separates: dict[str, tuple[str, bytes]] = {}
        for library in called(self, machine):
            self._reload_init.update(library._reload_init)
            if not isinstance(library, Library):  # for some functions Numba has libraries of its own
                module.link_in(library._get_module_for_linking(), preserve=True)
            elif found := library.separated(machine):
                separates[found[0]] = found[1:]
            else:
                for code in library.codes:
                    module.link_in(droppable(parse_bitcode(code.simplified(machine))))
        if any(function.is_declaration and function.name.startswith("NRT_") for function in module.functions):
            module.link_in(rtsys.library._get_module_for_linking(), preserve=True)
        optimise(module, machine, self.unrolls)
        hide(module)
        module.verify()
        for function in module.functions:
            if function.is_declaration and function.name in separates:
                function.name, compiled = separates[function.name]
                self.separates[function.name] = compiled
                load(function.name, compiled, self._codegen)
            elif function.is_declaration and function.name.startswith("_ZN"):  # as Numba names functions: LLVM would call 0
                raise RuntimeError(f"{self.name}: calls {function.name}, which is in no library that it is made of")
        self._finalize_final_module()


def called(library: Any, machine: Any = None) -> list[Any]:
    """The libraries that one is made of beside itself, each once; not Numba's runtime, which few kernels need.

    With a machine, not those that are only part of what is separate. Each comes after all that call it. LLVM leaves out what
    nobody mentions so far, and a call that is never made is not mentioned: the same function would not be there for a library
    that comes later.
    """
    seen, found = {rtsys.library}, []

    def visit(one: Any) -> None:
        for other in one._linking_libraries:
            if other not in seen:
                seen.add(other)
                if isinstance(other, Library) and not (machine and other.separated(machine)):
                    visit(other)
                found.append(other)

    visit(library)
    return found[::-1]


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
class SeparateLowering(PartLowering):
    """The same; then the second thread makes machine code of it."""

    def run_pass(self, state: Any) -> bool:
        done, library = super().run_pass(state), state.library
        others = called(library)
        if separately and all(isinstance(each, Library) for each in others):
            codes = [code for each in (library, *others) for code in each.codes]
            library.separate = Separate(state["cr"].fndesc.llvm_func_name, codes, library.codegen)
            helper.take(library.separate)
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


class SeparateCompiler(CalledCompiler):
    """Compiles helpers that have machine code of their own."""

    lowering = SeparateLowering


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
