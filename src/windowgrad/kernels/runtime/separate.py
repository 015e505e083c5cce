"""Machine code of its own for what a kernel calls seldom: LLVM makes it on the second thread, while Numba goes on.

A helper is part of the kernels that call it, so LLVM can begin with a kernel only when Numba is at its end. What is large and
called once for a block of work need not be. Its code is linked from the same parts, optimised in the same way, and called by
name. With the three largest helpers of a product of matrices so, the clock shows 1.4 s in place of 1.7 for the first one, and
with those of weight gradients 2.1 s in place of 2.6 for a convolution with its gradients, and the same CPU time. Each call
costs a small convolution some 0.1 µs, as what it is told goes through memory.

The name is a digest of the code that LLVM is given: what has the same name is the same, wherever it was compiled. What needs
more than its own code, as who allocates memory needs Numba's runtime, is part of the kernel as other helpers are.

Measured and rejected, as first calls took as long: what a smooth maximum does for a plane, the powers of cells in a p-norm
(they hold arrays, and so need Numba's runtime), sums of a mean that are made again, and zeros of a maximum that are looked at.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import Linkage, ffi
from numba.core.codegen import RuntimeLinker, _parse_refprune_flags

from windowgrad.kernels.runtime.simplify import Code, pass_builder

NEEDS = ("_ZN", "NRT_", "Py", "numba_")
"""How names begin of what code must not need: other functions of Numba, its runtime, its records, Python."""


class Separate:
    """A function and all that it calls, as code and then as machine code; none, if it cannot be separate."""

    __slots__ = ("codegen", "codes", "lock", "made", "symbol")

    def __init__(self, symbol: str, codes: list[Code], codegen: Any) -> None:
        self.symbol, self.codes, self.codegen, self.lock = symbol, codes, codegen, threading.Lock()
        self.made: tuple[str, bytes | None] | None = None

    def work(self, machine: Any) -> None:
        self.found(machine)

    def found(self, machine: Any) -> tuple[str, bytes | None]:
        """Its name and its machine code."""
        with self.lock:  # the other thread may be at it
            if self.made is None:
                self.made = compiled(self.symbol, [code.simplified(machine) for code in self.codes], machine)
            return self.made


def compiled(symbol: str, parts: list[bytes], machine: Any) -> tuple[str, bytes | None]:
    """A name for the function, and the machine code; in a context of LLVM of its own, and what takes long without a lock."""
    name = f"separate_{hashlib.sha256(b''.join(parts)).hexdigest()[:32]}"
    context = llvm.create_context()
    module, *others = (droppable(llvm.parse_bitcode(part, context)) for part in parts)
    for other in others:
        module.link_in(other)
    own, module.name = module.get_function(symbol), name
    own.name, own.linkage = name, Linkage.external
    optimise(module, machine, False, ffi.lib.LLVMPY_RunNewModulePassManager._cfn)
    hide(module)
    module.verify()
    for each in (*module.functions, *module.global_variables):
        if each.name.startswith(NEEDS) and (each.is_declaration or each.linkage != Linkage.internal):
            return name, None
    return name, emitted(module, machine)


def droppable(module: Any) -> Any:
    """Its functions may be inlined and dropped, and may be in another module too."""
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.linkage in (Linkage.external, Linkage.common):
            each.linkage = Linkage.linkonce_odr
    return module


def hide(module: Any) -> None:
    """What may be in another module too has no name outside of this one.

    There may be other code of that name: Numba counts functions in each process, and kernels come from several. Only functions
    that call each other in a circle are left alone, which Numba looks up by their names.
    """
    if any(each.name.startswith(RuntimeLinker.PREFIX) for each in module.global_variables):
        return
    for each in module.functions:
        if not each.is_declaration and each.linkage == Linkage.linkonce_odr:
            each.linkage = Linkage.internal


def optimise(module: Any, machine: Any, unrolls: bool, run: Any = ffi.lib.LLVMPY_RunNewModulePassManager) -> None:
    """Numba's passes for a whole module."""
    builder = pass_builder(machine, unrolls)
    passes = builder.getModulePassManager()
    passes.add_refprune_pass(_parse_refprune_flags())
    run(passes, module, builder)


def emitted(module: Any, machine: Any) -> bytes:
    """The module as object code: as `TargetMachine.emit_object`, but without llvmlite's lock."""
    with ffi.OutputString() as error:
        found = ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn(machine, module, 1, error)
        if not found:
            raise RuntimeError(str(error))
    start, size = ffi.lib.LLVMPY_GetBufferStart(found), ffi.lib.LLVMPY_GetBufferSize(found)
    try:
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(found)
