"""Loops over a range, as LLVM has them in the end.

Numba makes a record of a range, one of its iterator and one of each next number with whether there is one, stores and loads all
of them, and looks at each step whether that is 0. Written here are the count of numbers to come, the next one, and the branch;
LLVM makes the same code of both. A range whose step is not written in the call, or is not above 0, is Numba's.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant, Undefined
from llvmlite.ir.instructions import InsertValue
from numba.core import cgutils, ir
from numba.core.lowering import Lower
from numba.core.types.iterators import RangeIteratorType, RangeType


class RangeLowering(Lower):  # type: ignore[misc]  # numba has no types
    """Writes the statements of a loop over a range: the call, its iterator, the next number, and the branch to the body."""

    ahead: tuple[Any, ...] | None = None  # of the loop that this block is the head of: where it goes on

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        written = self.of_range(resty, expr)
        return super().lower_expr(resty, expr) if written is None else written

    def of_range(self, result: Any, expr: Any) -> Any:
        """What loops do with a range; None if it is something else, or Numba's."""
        op = expr.op
        if op == "call":
            function = self.typeof(expr.func.name)
            if isinstance(result, RangeType) and getattr(function, "typing_key", None) is range:
                given = self.fold_call_args(function, self.fndesc.calltypes[expr], expr.args, expr.vararg, expr.kws)
                return self.range_of(result, *given)
        elif op == "getiter" and isinstance(result, RangeIteratorType):
            value = self.loadvar(expr.value.name)
            return self.iterator_of(result, value) if has_known_step(value) else None
        elif op == "iternext" and isinstance(self.typeof(expr.value.name), RangeIteratorType):
            return self.next_of(result, expr)
        elif op in ("pair_first", "pair_second") and type(value := self.loadvar(expr.value.name)) is InsertValue:
            return self.builder.extract_value(value, int(op == "pair_second"))
        return None

    def record(self, kind: Any, *values: Any) -> Any:
        made = Constant(self.context.get_value_type(kind), Undefined)
        for place, value in enumerate(values):
            made = self.builder.insert_value(made, value, place)
        return made

    def range_of(self, kind: Any, *given: Any) -> Any:
        zero, one = (self.context.get_constant(kind.iterator_type.yield_type, number) for number in (0, 1))
        start, stop, step = (zero, *given, one) if len(given) == 1 else (*given, one)[:3]
        return self.record(kind, start, stop, step)

    def iterator_of(self, kind: Any, value: Any) -> Any:
        """Numba's: where the next number is, the stop, the step, and where the count of numbers to come is."""
        builder, (start, stop, step) = self.builder, (self.builder.extract_value(value, place) for place in range(3))
        at, left = (cgutils.alloca_once(builder, start.type) for _ in range(2))
        builder.store(start, at)
        way, zero = builder.sub(stop, start), start.type(0)
        some = builder.icmp_signed(">", way, zero)
        if step.constant == 1:
            builder.store(builder.select(some, way, zero), left)
        else:
            builder.store(zero, left)
            with builder.if_then(some):
                uneven = builder.icmp_signed(">", builder.srem(way, step), zero)
                builder.store(builder.add(builder.sdiv(way, step), builder.zext(uneven, start.type)), left)
        return self.record(kind, at, stop, step, left)

    def next_of(self, kind: Any, expr: Any) -> Any:
        """The next number and whether there is one. The iterator goes on where that is so: behind the branch."""
        if not decides(self._cur_ir_block, expr):
            return None
        builder, iterator = self.builder, self.loadvar(expr.value.name)
        at, _, step, left = (builder.extract_value(iterator, place) for place in range(4))
        number, count = builder.load(at), builder.load(left)
        self.ahead = number, step, at, count, left
        return self.record(kind, number, builder.icmp_signed(">", count, count.type(0)))

    def lower_inst(self, inst: Any) -> None:
        if self.ahead is None or type(inst) is not ir.Branch:
            super().lower_inst(inst)
            return
        builder, (number, step, at, count, left) = self.builder, self.ahead
        self.ahead = None
        on = builder.append_basic_block("on")
        builder.cbranch(self.loadvar(inst.cond.name), on, self.blkmap[inst.falsebr])
        builder.position_at_end(on)
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
        builder.store(builder.add(number, step), at)
        builder.branch(self.blkmap[inst.truebr])


def has_known_step(value: Any) -> bool:
    """Whether a range goes up by a number that is known as it is written."""
    while type(value) is InsertValue:
        if value.indices == [2]:
            return isinstance(value.value, Constant) and isinstance(value.value.constant, int) and value.value.constant > 0
        value = value.aggregate
    return False


def decides(block: Any, following: Any) -> bool:
    """Whether a block ends with a branch by whether there is that next number."""
    end = block.terminator
    name = end.cond.name if type(end) is ir.Branch else ""
    for statement in reversed(block.body):
        if type(statement) is ir.Assign and statement.target.name == name:
            if statement.value is following:
                return True
            if getattr(statement.value, "op", "") != "pair_second":
                return False
            name = statement.value.value.name
    return False
