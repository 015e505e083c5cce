"""Products of panels: a tile of ROWS × (1 to VECTORS) vectors of sums, held in registers while k runs.

What a tile multiplies lies in memory so that every step of k reads one number per row, spread over all lanes, and a few
vectors. The size of the tile is chosen here, once, from the registers of the CPU that Numba compiles for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.types import Vec, call, constant, llvm, pointer, spread, suffix


def registers(features: str) -> tuple[int, int, int]:
    """(bytes of a vector, rows of a tile, vectors in a row): all sums, one row of vectors and one number fit in registers."""
    known = features.split(",")
    if "+avx512f" in known:
        return 64, 8, 3
    return (32 if "+avx" in known else 16), 4, 3


BYTES, ROWS, VECTORS = registers(cpu_target.target_context.codegen().magic_tuple()[2])


def wide(dtype: Any) -> Vec:
    """The vector of a tile."""
    return Vec(dtype, BYTES * 8 // dtype.bitwidth)


def _tile(vectors: int, packed: bool) -> Any:
    """An intrinsic: tile = the sum over k of the outer products of ROWS numbers and a row of vectors.

    Row r of step k is a[ao + k·ROWS + r] where the panel is packed, else a[ao + r·lda + k]; the vectors stand at
    b[bo + k·ldb]. The tile is stored row by row, each `VECTORS` vectors long. k is at least 1.
    """

    def typed(typing: Any, a: Any, ao: Any, lda: Any, b: Any, bo: Any, ldb: Any, k: Any, tile: Any) -> Any:
        v = wide(tile.dtype)
        signature = types.void(a, types.intp, types.intp, b, types.intp, types.intp, types.intp, tile)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit_tile(context, builder, signature, args, v, vectors, packed)

        return signature, emit

    typed.__name__ = f"tile_{vectors}_{'packed' if packed else 'rows'}"
    return intrinsic(typed)


def emit_tile(context: Any, builder: Any, signature: Any, args: Any, v: Vec, vectors: int, packed: bool) -> Any:
    a, ao, lda, b, bo, ldb, steps, tile = args
    index, size = ir.IntType(64), v.dtype.bitwidth // 8
    before, loop, after = builder.block, builder.append_basic_block("products"), builder.append_basic_block("sums")
    one = Vec(v.dtype, 1)
    starts = [ao if packed else builder.add(ao, builder.mul(lda, index(row))) for row in range(ROWS)]
    builder.branch(loop)
    builder.position_at_end(loop)
    k, place = builder.phi(index), builder.phi(index)
    sums = [[builder.phi(llvm(v)) for _ in range(vectors)] for _ in range(ROWS)]
    row = []
    for n in range(vectors):
        where = builder.add(place, index(n * v.lanes))
        loaded = builder.load(pointer(context, builder, signature.args[3], b, where, v), typ=llvm(v))
        loaded.align = size
        row.append(loaded)
    added = []
    for m in range(ROWS):
        where = builder.add(starts[m], builder.add(builder.mul(k, index(ROWS)), index(m)) if packed else k)
        address = builder.bitcast(pointer(context, builder, signature.args[0], a, where, one), llvm(v).element.as_pointer())
        number = spread(builder, builder.load(address, typ=llvm(v).element), v.lanes)
        added.append([call(builder, f"llvm.fma.{suffix(v)}", llvm(v), [number, row[n], sums[m][n]]) for n in range(vectors)])
    step, further = builder.add(k, index(1)), builder.add(place, ldb)
    for phi, first, next_ in ((k, index(0), step), (place, bo, further)):
        phi.add_incoming(first, before)
        phi.add_incoming(next_, loop)
    for m in range(ROWS):
        for n in range(vectors):
            sums[m][n].add_incoming(constant(v, 0.0), before)
            sums[m][n].add_incoming(added[m][n], loop)
    builder.cbranch(builder.icmp_signed("<", step, steps), loop, after)
    builder.position_at_end(after)
    for m in range(ROWS):
        for n in range(vectors):
            where = index((m * VECTORS + n) * v.lanes)
            builder.store(added[m][n], pointer(context, builder, signature.args[7], tile, where, v)).align = size
    return context.get_dummy_value()


_packed = [_tile(vectors, True) for vectors in (1, 2, 3)]
_rows = [_tile(vectors, False) for vectors in (1, 2, 3)]
packed_1, packed_2, packed_3 = _packed
rows_1, rows_2, rows_3 = _rows


@helper
def multiply_packed(a: Any, ao: int, b: Any, bo: int, ldb: int, k: int, vectors: int, tile: Any) -> None:
    """tile = the packed panel at a[ao] times the panel of so many vectors at b[bo]."""
    if vectors == 3:
        packed_3(a, ao, 0, b, bo, ldb, k, tile)
    elif vectors == 2:
        packed_2(a, ao, 0, b, bo, ldb, k, tile)
    else:
        packed_1(a, ao, 0, b, bo, ldb, k, tile)


@helper
def multiply_rows(a: Any, ao: int, lda: int, b: Any, bo: int, ldb: int, k: int, vectors: int, tile: Any) -> None:
    """tile = ROWS rows from a[ao] on, `lda` apart, times the panel of so many vectors at b[bo]."""
    if vectors == 3:
        rows_3(a, ao, lda, b, bo, ldb, k, tile)
    elif vectors == 2:
        rows_2(a, ao, lda, b, bo, ldb, k, tile)
    else:
        rows_1(a, ao, lda, b, bo, ldb, k, tile)
