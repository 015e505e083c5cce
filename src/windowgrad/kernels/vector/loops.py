"""Loops written straight as LLVM instructions, for the insides of kernels.

Numba takes about a tenth of a second for each function that it types, and longer where it must see that an array needs no
counting of references; so the few loops that every kernel is made of are intrinsics: each is typed once, as one call. An
`Emitter` holds the vector type a loop works in and writes its loads, stores and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec, constant, fetch, first_lanes, kind, llvm, read, read_first, vec, write_some

INT = ir.IntType(64)
Combine = Callable[[Any, Any, Any], Any]
"""From (emitter, a, b) to the instruction that combines two vectors, or two cells."""


class Emitter:
    """Writes instructions on vectors of `dtype`."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.builder = context, builder
        self.v: Vec = vec(dtype)
        self.n: int = self.v.lanes

    def int(self, value: int) -> Any:
        return ir.Constant(INT, value)

    def add(self, *terms: Any) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, self.int(term) if isinstance(term, int) else term)
        return total

    def mul(self, a: Any, b: Any) -> Any:
        return self.builder.mul(a, self.int(b) if isinstance(b, int) else b)

    def load(self, a: tuple[Any, Any], i: Any) -> Any:
        """The vector a[i], a[i + 1], …, converted; `a` is (type, value) of an address."""
        old = Vec(a[0].dtype, self.n)
        return converted(self.builder, read(self.context, self.builder, *a, i, old), old, self.v)

    def load_first(self, a: tuple[Any, Any], i: Any, count: Any) -> Any:
        old = Vec(a[0].dtype, self.n)
        part = read_first(self.context, self.builder, *a, i, count, constant(old, 0), old)
        return converted(self.builder, part, old, self.v)

    def store(self, a: tuple[Any, Any], i: Any, x: Any) -> None:
        """a[i], a[i + 1], … = x, as numbers of a's dtype."""
        new = Vec(a[0].dtype, self.n)
        self.builder.store(converted(self.builder, x, self.v, new), self.place(a, i, new)).align = new.dtype.bitwidth // 8

    def store_first(self, a: tuple[Any, Any], i: Any, x: Any, count: Any) -> None:
        new = Vec(a[0].dtype, self.n)
        x = converted(self.builder, x, self.v, new)
        write_some(self.builder, x, self.place(a, i, new), first_lanes(self.builder, new, count), new)

    def fetch(self, a: tuple[Any, Any], i: Any) -> None:
        """Asks for the line of a[i], which need not be memory."""
        fetch(self.builder, self.builder.gep(a[1], [i]))

    def place(self, a: tuple[Any, Any], i: Any, v: Vec) -> Any:
        return self.builder.bitcast(self.builder.gep(a[1], [i]), llvm(v).as_pointer())

    def cell(self, a: tuple[Any, Any], i: Any) -> Any:
        return self.builder.load(self.builder.gep(a[1], [i]))

    def put(self, a: tuple[Any, Any], i: Any, x: Any) -> None:
        value = self.context.cast(self.builder, x, self.v.dtype, a[0].dtype)
        self.builder.store(value, self.builder.gep(a[1], [i]))

    def variable(self, value: Any) -> Any:
        """A place for a value that changes; LLVM makes a register of it."""
        return cgutils.alloca_once_value(self.builder, value)

    @contextmanager
    def steps(self, start: Any, stop: Any, step: Any) -> Iterator[Any]:
        """i = start, start + step, … while i < stop; the step may be a function from i to what follows it."""
        builder = self.builder
        i = self.variable(start)
        test, body, after = (builder.append_basic_block(name) for name in ("test", "body", "after"))
        builder.branch(test)
        builder.position_at_end(test)
        builder.cbranch(builder.icmp_signed("<", builder.load(i), stop), body, after)
        builder.position_at_end(body)
        yield builder.load(i)
        builder.store(step(builder.load(i)) if callable(step) else self.add(builder.load(i), step), i)
        builder.branch(test)
        builder.position_at_end(after)

    def whole_steps(self, count: Any, n: Any) -> Any:
        """i = 0, n, 2·n, …: steps that cover `count` numbers, at least n; the last one ends with them, and may begin early."""
        builder, last = self.builder, self.builder.sub(count, self.int(n))

        def following(i: Any) -> Any:
            after = self.add(i, n)
            return builder.select(builder.and_(self.less(last, after), self.less(i, last)), last, after)

        return self.steps(self.int(0), self.add(last, 1), following)

    def by_number(self, number: Any, common: Sequence[Any], known: Callable[[Any], None], other: Callable[[], None]) -> None:
        """What `known` writes where the number is one of the common ones, else what `other` does."""
        builder = self.builder
        done, more = builder.append_basic_block("done"), builder.append_basic_block("more")
        choice = builder.switch(number, more)
        for each in common:
            block = builder.append_basic_block(f"number{each}")
            choice.add_case(self.int(each), block)
            builder.position_at_end(block)
            known(each)
            builder.branch(done)
        builder.position_at_end(more)
        other()
        builder.branch(done)
        builder.position_at_end(done)

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.icmp_signed("<", a, self.int(b) if isinstance(b, int) else b)

    def equal(self, a: Any, b: Any) -> Any:
        return self.builder.icmp_signed("==", a, self.int(b) if isinstance(b, int) else b)


def larger(e: Emitter, a: Any, b: Any) -> Any:
    """b where it is greater, else a; vectors or cells."""
    b_greater = (
        e.builder.fcmp_ordered(">", b, a)
        if kind(e.v) == "f"
        else (e.builder.icmp_signed if kind(e.v) == "i" else e.builder.icmp_unsigned)(">", b, a)
    )
    return e.builder.select(b_greater, b, a)


def plus(e: Emitter, a: Any, b: Any) -> Any:
    return e.builder.fadd(a, b)


def mask_of(v: Vec) -> Vec:
    return Vec(types.boolean, v.lanes)
