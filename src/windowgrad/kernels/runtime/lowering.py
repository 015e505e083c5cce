"""From Numba's statements to LLVM's code, without what numbers do not need.

Numba counts references to memory: at the end of a variable's life, and before it gets another value, it drops one. It has code
for that for every variable, and finds out while writing it that a number has no memory. Nearly all variables of kernels are
numbers, addresses, vectors and records of those, so here their type is asked first. Nor is every statement made into a text
and then not printed, nor is there a place to note an error before each.

Numba gives each variable that two blocks mention a place in memory, and reads a record of 33 numbers from it to use one:
LLVM then splits each such load into 33. Here what is set once, before all that read it, is the value itself.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.typed_passes import IRLegalization

from windowgrad.kernels.runtime.ranges import RangeLowering
from windowgrad.kernels.runtime.writing import note_safe

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


def set_before_read(blocks: Any) -> dict[str, bool]:
    """The variables that one statement sets, by which every way to those that read them goes; whether other blocks read them.

    Blocks are written in the order of their labels.
    """
    setters: dict[str, int | None] = {}
    readers: dict[str, set[int]] = {}
    for label, block in blocks.items():
        for statement in block.body:
            for variable in variables_read(statement):
                if setters.get(variable.name) != label:
                    readers.setdefault(variable.name, set()).add(label)
            if type(statement) is ir.Assign:
                name = statement.target.name
                setters[name] = None if name in setters else label
    before = compute_cfg_from_blocks(blocks).dominators() if readers else {}
    found = {}
    for name, setter in setters.items():
        by = readers.get(name, ())
        if setter is not None and all(setter < label and setter in before.get(label, ()) for label in by):
            found[name] = bool(by)
    return found


def variables_read(statement: Any) -> Any:
    """Those that a statement reads; to end a variable's life is not to read it."""
    if type(statement) is ir.Del:
        return ()
    if type(statement) is not ir.Assign:
        return statement.list_vars()
    value = statement.value
    return [value] if type(value) is ir.Var else value.list_vars() if isinstance(value, ir.Inst) else ()


class Lowering(RangeLowering):
    def _find_singly_assigned_variable(self) -> None:
        """Those that need no place in memory. What owns memory and is read in several blocks has one, where its life ends."""
        self._blk_local_varmap: dict[str, Any] = {}
        self._singly_assigned_vars: set[str] = set()
        self.read_as_set: set[str] = set()
        self.owned: dict[str, Any] = {}
        if self.func_ir.func_id.is_generator or self._disable_sroa_like_opt:
            return
        for name, elsewhere in set_before_read(self.blocks).items():
            (self.read_as_set if elsewhere and owns_memory(self.typeof(name)) else self._singly_assigned_vars).add(name)

    def loadvar(self, name: str) -> Any:
        value = self.owned.get(name)
        return super().loadvar(name) if value is None else value

    def lower_normal_function(self, fndesc: Any) -> None:
        super().lower_normal_function(fndesc)
        note_safe(self.function)

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
        if name in self.read_as_set:
            self.owned[name] = value

    def incref(self, typ: Any, val: Any) -> None:
        if owns_memory(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        if owns_memory(typ):
            super().decref(typ, val)
