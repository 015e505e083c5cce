"""Products of matrices by tiles: ROWS × (1 to VECTORS) vectors of sums, held in registers while k runs.

                          b: for each k a row of 1 to VECTORS vectors
                       k ┌────────────┬────────────┬────────────┐
                       ↓ │            │            │            │
                         └────────────┴────────────┴────────────┘
        a        k →     the tile: sums over k
       ┌───────────┐     ┌────────────┬────────────┬────────────┐
  ROWS │ one number│     │            │            │            │   each k takes VECTORS loads of b, ROWS numbers of a
       │ per row   │     │            │            │            │   that are spread over all lanes, and ROWS · VECTORS
       │ and k     │     │            │            │            │   multiplications with addition (FMA)
       └───────────┘     └────────────┴────────────┴────────────┘

There is one loop over k (`emit_products`) and two ends: `multiply_tile` stores the sums in scratch memory, from where they go
to cells that are not in a row; `put_tile` takes them from the registers straight into the output, with their bias.
Convolution uses the first in conv/gemm and the second in conv/pointwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.masked import (
    INDEX,
    Limits,
    clip,
    lanes_of,
    read_masked,
    stay_one,
    strange_bits,
    write,
    write_masked,
)
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide
from windowgrad.kernels.vector.types import Vec, call, constant, llvm, read, spread, suffix


class Matrix(NamedTuple):
    """A matrix in memory: cell (r, c) is cells[r · step + c]; `cells` is an address."""

    cells: Any
    step: int


class Factor(NamedTuple):
    """The left factor of a product: number (r, k) is cells[r · row + k · step]; `cells` is an address."""

    cells: Any
    row: int
    step: int


class Own(NamedTuple):
    """The sums of a tile that it puts into the output: those of the rows from `skip` on, and the columns whose bit is set.

    The others belong to a tile that it overlaps, and maybe to another thread: they are neither read nor written.
    """

    skip: int
    bits: int


# --- what intrinsics emit ----------------------------------------------------------------------------------------


def fields(builder: Any, record: Any, count: int) -> list[Any]:
    return [builder.extract_value(record, i) for i in range(count)]


def emit_products(
    context: Any,
    builder: Any,
    signature: Any,
    args: Any,
    begin: Any,
    v: Vec,
    unrolled: bool,
    places: Any = None,
    ahead: Any = None,
) -> Any:
    """`begin` + the sum over k of a · b, as a list of vectors for each row; of args and signature, a, b and k are first.

    a is a `Factor` and b a `Matrix`. With a list of `places`, a is a `Matrix` and b an address: number (r, k) is at
    r · step + places[2k] of the one, the vectors of k are at places[2k + 1] of the other. For each k, a vector from the address
    `ahead` on is fetched into the second cache.
    """
    a_cells, a_row = fields(builder, args[0], 2)
    a_step = builder.extract_value(args[0], 2) if places is None else None
    b_cells, b_step = fields(builder, args[1], 2) if places is None else (args[1], None)
    b_type = signature.args[1][0] if places is None else signature.args[1]
    rows, vectors = len(begin), len(begin[0])
    starts = [builder.mul(a_row, INDEX(m)) for m in range(rows)]
    before, loop, after = builder.block, builder.append_basic_block("products"), builder.append_basic_block("sums")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(INDEX)
    both = [builder.phi(INDEX) for _ in range(2)] if places is None else []
    sums = [[builder.phi(llvm(v)) for _ in range(vectors)] for _ in range(rows)]
    if places is not None:
        pair = builder.mul(k, INDEX(2))
        both = [builder.load(builder.gep(places, [builder.add(pair, INDEX(i))])) for i in range(2)]
    a_place, b_place = both
    row = [read(context, builder, b_type, b_cells, builder.add(b_place, INDEX(n * v.lanes)), v) for n in range(vectors)]
    if ahead is not None:
        fetch(builder, builder.gep(ahead, [builder.mul(k, INDEX(v.lanes))]))
    added = []
    for m in range(rows):
        factor = number(builder, a_cells, builder.add(starts[m], a_place), v)
        added.append([call(builder, f"llvm.fma.{suffix(v)}", llvm(v), [factor, row[n], sums[m][n]]) for n in range(vectors)])
    step = builder.add(k, INDEX(1))
    moved = [(k, step)]
    if places is None:
        moved += [(a_place, builder.add(a_place, a_step)), (b_place, builder.add(b_place, b_step))]
    for phi, following in moved:
        phi.add_incoming(INDEX(0), before)
        phi.add_incoming(following, loop)
    for m in range(rows):
        for n in range(vectors):
            sums[m][n].add_incoming(begin[m][n], before)
            sums[m][n].add_incoming(added[m][n], loop)
    if not unrolled:  # two steps of a tile need more registers than there are
        stay_one(builder)
    builder.cbranch(builder.icmp_signed("<", step, args[2]), loop, after)
    builder.position_at_end(after)
    return added


def fetch(builder: Any, address: Any) -> None:
    """Brings a line into the second cache. What is no memory is left alone."""
    to_read, second, data = (ir.IntType(32)(n) for n in (0, 2, 1))
    place = builder.bitcast(address, ir.IntType(8).as_pointer())
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [place, to_read, second, data])


def number(builder: Any, cells: Any, i: Any, v: Vec) -> Any:
    """cells[i] in every lane."""
    return spread(builder, builder.load(builder.gep(cells, [i])), v.lanes)


def emit_stored(context: Any, builder: Any, signature: Any, args: Any, v: Vec, vectors: int) -> Any:
    """Stores the sums row by row, each VECTORS vectors long."""
    begin = [[constant(v, 0.0)] * vectors] * ROWS
    sums = emit_products(context, builder, signature, args, begin, v, True)
    for m in range(ROWS):
        for n in range(vectors):
            write(context, builder, signature.args[3], args[3], INDEX((m * VECTORS + n) * v.lanes), sums[m][n], v)
    return context.get_dummy_value()


def emit_put(context: Any, builder: Any, signature: Any, args: Any, v: Vec, vectors: int) -> Any:
    """Puts the sums that are its own into y; gives their strange lanes."""
    (y, y_step), extra, (skip, bits), adds = fields(builder, args[3], 2), args[4], fields(builder, args[5], 2), args[6]
    y_type = signature.args[3][0]

    def place(m: int, n: int) -> Any:
        """Where row m has its n-th vector."""
        return builder.add(builder.mul(y_step, INDEX(m)), INDEX(n * v.lanes))

    def own_row(m: int) -> Any:
        return builder.if_then(builder.icmp_signed(">=", INDEX(m), skip))

    masks = [lanes_of(builder, v, builder.lshr(bits, INDEX(n * v.lanes))) for n in range(vectors)]
    there = [[cgutils.alloca_once_value(builder, constant(v, 0.0)) for _ in range(vectors)] for _ in range(ROWS)]
    with builder.if_then(builder.icmp_signed("!=", adds, INDEX(0))):
        for m in range(ROWS):
            with own_row(m):
                for n in range(vectors):
                    builder.store(read_masked(context, builder, y_type, y, place(m, n), masks[n], v), there[m][n])
    begin = [[builder.load(old) for old in row] for row in there]
    sums = emit_products(context, builder, signature, args, begin, v, False)
    seen = Extremes(builder, v, vectors)
    for m in range(ROWS):
        with own_row(m):
            bias = number(builder, extra, INDEX(m), v)
            for n in range(vectors):
                total = builder.fadd(sums[m][n], bias)
                seen.add(n, total)
                write_masked(context, builder, y_type, y, place(m, n), total, masks[n], v)
    return seen.strange(masks)


class Extremes:
    """The least and the greatest size of the vectors of each column, lane by lane: they tell whether some was strange."""

    def __init__(self, builder: Any, v: Vec, columns: int) -> None:
        self.builder, self.v, self.limits = builder, v, Limits(v)
        starts = self.limits.every, self.limits.zero
        self.least, self.most = ([cgutils.alloca_once_value(builder, start) for _ in range(columns)] for start in starts)

    def add(self, column: int, value: Any) -> None:
        builder, size = self.builder, self.limits.size(self.builder, value)
        for extreme, order in ((self.least[column], "<"), (self.most[column], ">")):
            old = builder.load(extreme)
            builder.store(builder.select(builder.icmp_unsigned(order, size, old), size, old), extreme)

    def strange(self, masks: list[Any]) -> Any:
        """The strange lanes (see HUGE) of all columns, of the lanes that are set in the mask of the column."""
        builder, found = self.builder, INDEX(0)
        for mask, least, most in zip(masks, self.least, self.most, strict=True):
            seen = strange_bits(builder, builder.load(least), builder.load(most), mask, self.v)
            found = builder.or_(found, seen)
        return found


# --- tiles -------------------------------------------------------------------------------------------------------


def _stored(vectors: int) -> Any:
    def typed(typing: Any, a: Any, b: Any, k: Any, tile: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit_stored(context, builder, signature, args, wide(tile.dtype), vectors)

        return types.void(a, b, types.intp, tile), emit

    typed.__name__ = f"stored_{vectors}"
    return intrinsic(typed)


def _put(vectors: int) -> Any:
    def typed(typing: Any, a: Any, b: Any, k: Any, y: Any, bias: Any, own: Any, adds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit_put(context, builder, signature, args, wide(bias.dtype), vectors)

        return types.int64(a, b, types.intp, y, bias, own, types.int64), emit

    typed.__name__ = f"put_{vectors}"
    return intrinsic(typed)


stored_1, stored_2, stored_3 = (_stored(vectors) for vectors in (1, 2, 3))
put_1, put_2, put_3 = (_put(vectors) for vectors in (1, 2, 3))


@helper
def multiply_tile(a: Factor, b: Matrix, k: int, vectors: int, tile: Any) -> None:
    """tile = the sum over k of a · b, for ROWS rows and so many vectors, stored row by row, each VECTORS vectors long.

    k is at least 1.
    """
    if vectors == 3:
        stored_3(a, b, k, tile)
    elif vectors == 2:
        stored_2(a, b, k, tile)
    else:
        stored_1(a, b, k, tile)


@helper
def put_tile(a: Factor, b: Matrix, k: int, vectors: int, y: Matrix, bias: Any, own: Own, adds: int) -> Any:
    """y = bias[row] + the sum over k of a · b, for its `own` of ROWS rows and so many vectors; gives their strange lanes.

    Where `adds` is 1 and not 0, the sum begins with what y has. k is at least 1.
    """
    if vectors == 3:
        return put_3(a, b, k, y, bias, own, adds)
    if vectors == 2:
        return put_2(a, b, k, y, bias, own, adds)
    return put_1(a, b, k, y, bias, own, adds)


class End(NamedTuple):
    """How the sums of a tile end: if `biased`, row r has bias[r] added; the result is added to what y has unless it is `fresh`;
    if `joined`, what `beside` has where y is stored is added; what is below `least` or above `most` becomes that. Not
    `direct`: all this is left to who reads the tile, for y is not in a row, or the tile not whole."""

    y: Matrix
    bias: Any
    biased: bool
    fresh: bool
    beside: Any
    joined: bool
    least: Any
    most: Any
    direct: bool


@intrinsic
def multiply_rows(
    typing: Any, a: Any, b: Any, k: Any, places: Any, rows: Any, halves: Any, tile: Any, end: Any, ahead: Any, fetches: Any
) -> Any:
    """tile = the sum over k of a · b, as `multiply_tile`, but for so many of ROWS rows, and a list of the places of each k.

    Number (r, k) is at r · step + places[2k] of the `Matrix` a, the vectors of k are from b[places[2k + 1]] on.

    There is a loop for ROWS rows and one for each power of two below, so no row is computed that is not asked for; and each for
    VECTORS vectors and for one, for ROWS rows also for half of one: so many `halves` are asked for. A whole tile may `end` in y
    instead; gives the strange lanes of that. Fewer rows may not: they are few, and would be one more end to compile for each
    number of them. A whole tile that `fetches` has a loop of its own, in which each k fetches a vector from the address `ahead`
    on, and no end in y.
    """
    v = wide(tile.dtype)
    half = Vec(v.dtype, v.lanes // 2)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (cells, row), (b_cells, k, table, count, all_halves, to) = fields(builder, args[0], 2), args[1:7]
        ending, ends = Ending(context, builder, signature.args[7], args[7], v), fields(builder, args[7], 9)
        strange, packed = cgutils.alloca_once_value(builder, INDEX(0)), args[0].type

        def some(size: int, first: Any, n: int, column: Any, fetched: Any = None, v: Vec = v) -> Any:
            """The sums of `size` rows from `first` on, n vectors from `column` on."""
            factor = ir.Constant(packed, ir.Undefined)
            for i, part in enumerate((builder.gep(cells, [builder.mul(first, row)]), row)):
                factor = builder.insert_value(factor, part, i)
            given = factor, builder.gep(b_cells, [column]), k
            begin = [[constant(v, 0.0)] * n] * size
            return emit_products(context, builder, signature, given, begin, v, False, table, fetched)

        def store(sums: Any, first: Any, column: Any, v: Vec = v) -> None:
            for m, values in enumerate(sums):
                at = builder.add(builder.mul(builder.add(first, INDEX(m)), INDEX(2 * VECTORS * half.lanes)), column)
                for j, value in enumerate(values):
                    write(context, builder, tile, to, builder.add(at, INDEX(j * v.lanes)), value, v)

        def whole_rows(size: int, first: Any) -> None:
            if size < ROWS:
                store(some(size, first, VECTORS, INDEX(0)), first, INDEX(0))
                return
            with builder.if_else(builder.trunc(args[9], ir.IntType(1))) as (ahead_too, alone):
                with ahead_too:
                    store(some(size, first, VECTORS, INDEX(0), args[8]), first, INDEX(0))
                with alone:
                    end_or_store(some(size, first, VECTORS, INDEX(0)), first)

        def end_or_store(sums: Any, first: Any) -> None:
            with builder.if_else(builder.trunc(ends[8], ir.IntType(1))) as (direct, apart):
                with direct:
                    builder.store(builder.or_(builder.load(strange), ending.put(sums, first)), strange)
                with apart:
                    store(sums, first, INDEX(0))

        def some_rows(size: int, first: Any) -> None:
            with builder.if_else(builder.icmp_signed(">=", all_halves, INDEX(2 * VECTORS - 1))) as (whole, part):
                with whole:
                    whole_rows(size, first)
                with part:
                    cut = size == ROWS
                    singles = all_halves if cut else builder.add(all_halves, INDEX(1))
                    with cgutils.for_range(builder, builder.lshr(singles, INDEX(1))) as loop:
                        column = builder.mul(loop.index, INDEX(v.lanes))
                        store(some(size, first, 1, column), first, column)
                    if cut:
                        with builder.if_then(builder.trunc(all_halves, ir.IntType(1))):
                            column = builder.mul(builder.sub(all_halves, INDEX(1)), INDEX(half.lanes))
                            store(some(size, first, 1, column, v=half), first, column, half)

        size = ROWS
        while size:
            with builder.if_then(builder.icmp_signed("!=", builder.and_(count, INDEX(size)), INDEX(0))):
                some_rows(size, builder.and_(count, INDEX(-2 * size)))
            size //= 2
        return builder.load(strange)

    return types.int64(a, b, types.intp, places, types.intp, types.intp, tile, end, ahead, types.boolean), emit


class Ending:
    """Emits the end of sums that go from registers into y, by a record `End`.

    What is not asked for is jumped over. A load under a mask of no lanes reads nothing, but waits for the cache all the same:
    with one for y, sums of 16 products took twice the time.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, end: Any, v: Vec) -> None:
        y, self.bias, biased, fresh, self.beside, joined, *limits, _ = fields(builder, end, 9)
        self.context, self.builder, self.v, self.type = context, builder, v, kind[0][0]
        self.y, self.step = fields(builder, y, 2)
        self.limits = [spread(builder, limit, v.lanes) for limit in limits]
        self.biased, fresh, self.joined = (builder.trunc(each, ir.IntType(1)) for each in (biased, fresh, joined))
        self.added = builder.not_(fresh)

    def put(self, sums: Any, first: Any) -> Any:
        """The sums of rows from `first` on; gives the strange lanes."""
        builder, v, limits = self.builder, self.v, Limits(self.v)
        smallest, largest = limits.every, limits.zero
        totals, places = [], []
        for m, values in enumerate(sums):
            row = builder.add(first, INDEX(m))
            extra = builder.select(self.biased, number(builder, self.bias, row, v), constant(v, 0.0))
            totals += [cgutils.alloca_once_value(builder, builder.fadd(value, extra)) for value in values]
            places += [builder.add(builder.mul(self.step, row), INDEX(j * v.lanes)) for j in range(len(values))]
        self.add(self.added, self.y, totals, places)
        for total in totals:
            size = limits.size(builder, builder.load(total))
            smallest = builder.select(builder.icmp_unsigned("<", size, smallest), size, smallest)
            largest = builder.select(builder.icmp_unsigned(">", size, largest), size, largest)
        self.add(self.joined, self.beside, totals, places)
        for total, place in zip(totals, places, strict=True):
            write(self.context, builder, self.type, self.y, place, clip(builder, builder.load(total), *self.limits), v)
        every = ir.Constant(ir.VectorType(ir.IntType(1), v.lanes), [1] * v.lanes)
        return strange_bits(builder, smallest, largest, every, v)

    def add(self, asked: Any, cells: Any, totals: list[Any], places: list[Any]) -> None:
        """What stands at the places is added to the totals, if that is asked for."""
        with self.builder.if_then(asked):
            for total, place in zip(totals, places, strict=True):
                there = read(self.context, self.builder, self.type, cells, place, self.v)
                self.builder.store(self.builder.fadd(there, self.builder.load(total)), total)


@intrinsic
def lane_sum(typing: Any, value: Any) -> Any:
    """The sum of the lanes, halves first."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, lanes = args[0], value.lanes
        while lanes > 1:
            lanes //= 2
            order = ir.Constant(
                ir.VectorType(ir.IntType(32), value.lanes), [(i + lanes) % value.lanes for i in range(value.lanes)]
            )
            total = builder.fadd(total, builder.shuffle_vector(total, total, order))
        return builder.extract_element(total, ir.IntType(32)(0))

    return value.dtype(value), emit
