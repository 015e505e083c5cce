"""A tile of sums of products that goes from the registers straight into the output, with its bias."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from windowgrad.kernels.vector.masked import HUGE, INDEX, lanes_of, read_masked, write_masked
from windowgrad.kernels.vector.tiles import ROWS, wide
from windowgrad.kernels.vector.types import Vec, call, constant, llvm, pointer, read, spread, suffix


def _put_tile(vectors: int, by_rows: bool) -> Any:
    """An intrinsic: y[yo + r·ldy + c] = extra[eo + r] + the sum over k of a · b[bo + k·ldb + c], for a tile of r and c.

    Of a it reads a[ao + r·lda + k], or a[ao + k·lda + r]. Rows before `skip` and columns whose bit is off belong to another
    tile, and maybe to another thread: they are neither read nor written in y. Where `adds` is 1 and not 0, the sum begins
    with what stands in y. Gives the strange lanes (see HUGE) of the sums that are written. k is at least 1.
    """

    def typed(
        typing: Any, a: Any, ao: Any, lda: Any, b: Any, bo: Any, ldb: Any, k: Any, y: Any, yo: Any, ldy: Any, extra: Any,
        eo: Any, skip: Any, bits: Any, adds: Any,
    ) -> Any:  # fmt: skip
        place = types.intp
        arrays = a, place, place, b, place, place, place, y, place, place, extra, place
        signature = types.int64(*arrays, place, types.int64, types.int64)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit_put_tile(context, builder, signature, args, wide(y.dtype), vectors, by_rows)

        return signature, emit

    typed.__name__ = f"put_{vectors}_{'rows' if by_rows else 'columns'}"
    return intrinsic(typed)


def stay_one(builder: Any) -> None:
    """No instruction, but the loop it stands in is not unrolled: two steps of a tile need more registers than there are."""
    nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
    builder.call(nothing, [], attrs=("convergent",))


def emit_put_tile(context: Any, builder: Any, signature: Any, args: Any, v: Vec, vectors: int, by_rows: bool) -> Any:
    a, ao, lda, b, bo, ldb, steps, y, yo, ldy, extra, eo, skip, bits, adds = args
    number, one = llvm(v).element, Vec(v.dtype, 1)

    def cell(argument: int, array: Any, where: Any) -> Any:
        address = pointer(context, builder, signature.args[argument], array, where, one)
        return spread(builder, builder.load(builder.bitcast(address, number.as_pointer()), typ=number), v.lanes)

    def place(m: int, n: int) -> Any:
        """Where row m has its n-th vector."""
        return builder.add(builder.add(yo, builder.mul(ldy, INDEX(m))), INDEX(n * v.lanes))

    def own_row(m: int) -> Any:
        return builder.if_then(builder.icmp_signed(">=", INDEX(m), skip))

    masks = [lanes_of(builder, v, builder.lshr(bits, INDEX(n * v.lanes))) for n in range(vectors)]
    there = [[cgutils.alloca_once_value(builder, constant(v, 0.0)) for _ in range(vectors)] for _ in range(ROWS)]
    with builder.if_then(builder.icmp_signed("!=", adds, INDEX(0))):
        for m in range(ROWS):
            with own_row(m):
                for n in range(vectors):
                    old = read_masked(context, builder, signature.args[7], y, place(m, n), masks[n], v)
                    builder.store(old, there[m][n])
    begin = [[builder.load(old) for old in row] for row in there]
    before, loop, after = builder.block, builder.append_basic_block("products"), builder.append_basic_block("sums")
    starts = [builder.add(ao, builder.mul(lda, INDEX(row)) if by_rows else INDEX(row)) for row in range(ROWS)]
    builder.branch(loop)
    builder.position_at_end(loop)
    k, a_place, b_place = builder.phi(INDEX), builder.phi(INDEX), builder.phi(INDEX)
    sums = [[builder.phi(llvm(v)) for _ in range(vectors)] for _ in range(ROWS)]
    row = [read(context, builder, signature.args[3], b, builder.add(b_place, INDEX(n * v.lanes)), v) for n in range(vectors)]
    added = []
    for m in range(ROWS):
        factor = cell(0, a, builder.add(starts[m], a_place))
        added.append([call(builder, f"llvm.fma.{suffix(v)}", llvm(v), [factor, row[n], sums[m][n]]) for n in range(vectors)])
    step, a_next = builder.add(k, INDEX(1)), builder.add(a_place, INDEX(1) if by_rows else lda)
    for phi, first, later in ((k, INDEX(0), step), (a_place, INDEX(0), a_next), (b_place, bo, builder.add(b_place, ldb))):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    for m in range(ROWS):
        for n in range(vectors):
            sums[m][n].add_incoming(begin[m][n], before)
            sums[m][n].add_incoming(added[m][n], loop)
    stay_one(builder)
    builder.cbranch(builder.icmp_signed("<", step, steps), loop, after)
    builder.position_at_end(after)
    seen = Extremes(builder, v, vectors)
    for m in range(ROWS):
        with own_row(m):
            bias = cell(10, extra, builder.add(eo, INDEX(m)))
            for n in range(vectors):
                total = builder.fadd(added[m][n], bias)
                seen.add(n, total)
                write_masked(context, builder, signature.args[7], y, place(m, n), total, masks[n], v)
    return seen.strange(masks)


class Extremes:
    """The least and the greatest size of the vectors of each column, lane by lane: they tell whether some was strange."""

    def __init__(self, builder: Any, v: Vec, columns: int) -> None:
        self.builder, self.v = builder, v
        self.digits, self.width = (23, 32) if v.dtype.bitwidth == 32 else (52, 64)
        starts = self.whole((1 << self.width - 1) - 1), self.whole(0)
        self.least, self.most = ([cgutils.alloca_once_value(builder, start) for _ in range(columns)] for start in starts)

    def whole(self, value: int) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(self.width), self.v.lanes), [value] * self.v.lanes)

    def add(self, column: int, value: Any) -> None:
        builder, positive = self.builder, self.whole((1 << self.width - 1) - 1)
        size = builder.and_(builder.bitcast(value, positive.type), positive)
        for extreme, order in ((self.least[column], "<"), (self.most[column], ">")):
            old = builder.load(extreme)
            builder.store(builder.select(builder.icmp_unsigned(order, size, old), size, old), extreme)

    def strange(self, masks: list[Any]) -> Any:
        """The strange lanes (see HUGE) of all columns, of the lanes that are set in the mask of the column."""
        builder, top = self.builder, ((1 << self.width - 1) - 1) >> self.digits << self.digits
        found = INDEX(0)
        for mask, least, most in zip(masks, self.least, self.most, strict=True):
            small = builder.icmp_unsigned("<", builder.load(least), self.whole(1 << self.digits))
            huge = builder.icmp_unsigned(">=", builder.load(most), self.whole(top))
            for odd, shift in ((small, 0), (huge, HUGE)):
                lanes = builder.bitcast(builder.and_(odd, mask), ir.IntType(self.v.lanes))
                found = builder.or_(found, builder.shl(builder.zext(lanes, INDEX), INDEX(shift)))
        return found


rows_1, rows_2, rows_3 = (_put_tile(vectors, True) for vectors in (1, 2, 3))
columns_1, columns_2, columns_3 = (_put_tile(vectors, False) for vectors in (1, 2, 3))
