"""From Numba's statements to LLVM's code, without what numbers do not need.

Numba counts references to memory: at the end of a variable's life, and before it gets another value, it drops one. It has code
for that for every variable, and finds out while writing it that a number has no memory. Nearly all variables of kernels are
numbers, addresses, vectors and records of those, so here their type is asked first. Nor is every statement made into a text
and then not printed, nor is there a place to note an error before each.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.typed_passes import IRLegalization

owning: dict[Any, bool] = {}


def owns_memory(kind: Any) -> bool:
    """Whether references are counted of something in a value of this type."""
    found = owning.get(kind)
    if found is None:
        found = owning[kind] = bool(cpu_target.target_context.data_model_manager[kind].contains_nrt_meminfo())
    return found


@register_pass(mutates_CFG=False, analysis_only=True)
class EndLives(IRLegalization):  # type: ignore[misc]  # numba has no types
    """Writes down where variables end; where none of them owns memory, nothing is to be done there."""

    def run_pass(self, state: Any) -> bool:
        return bool(super().run_pass(state)) if any(map(owns_memory, set(state.typemap.values()))) else False


class Lowering(Lower):  # type: ignore[misc]  # numba has no types
    def lower_block(self, block: Any) -> None:
        self.pre_block(block)
        for statement in block.body:
            self.loc = statement.loc
            try:
                self.lower_inst(statement)
            except NumbaError as error:
                error.add_context(f'lowering "{statement}" at {self.loc}')
                raise
        self.post_block(block)

    def lower_inst(self, inst: Any) -> None:
        if type(inst) is ir.Assign and type(inst.value) is not ir.Arg:
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        elif type(inst) is ir.Del and not owns_memory(self.typeof(inst.value)):
            if inst.value not in self._blk_local_varmap:  # as theirs: it ends before it is set, in a loop
                self._singly_assigned_vars.discard(inst.value)
        else:
            super().lower_inst(inst)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars or argidx is not None or owns_memory(self.typeof(name)):
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def incref(self, typ: Any, val: Any) -> None:
        if owns_memory(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        if owns_memory(typ):
            super().decref(typ, val)
