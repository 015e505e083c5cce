"""Rows into one: the rows that an output row sees are combined, cell by cell, into one buffer. The first step of every window.

    places[low]     c c c c | c c c c | …        vector after vector along the row: one load for each row, combined in
    places[low+1]   c c c c | c c c c | …        registers in the order of the rows, one store
    …
    buffer          v v v v | v v v v | …

The loops are written as LLVM instructions: Numba took the size of a vector for a runtime division and counted references to
arrays in every row, and a row took twice as long.

Rows that the output row before has seen are in the nearest cache; common numbers of them have a loop of their own. Rows that
nobody has seen come from memory, which is read fastest as one stream: one row from beginning to end, then the next; of arrays
that stay in a cache, two. Measured for the maximum over 32×64×112×112, windows side by side, where reading takes 1.5 to 2.5 ms:
bins of 16 rows took 6.8 ms with all rows in one loop, 3.2 to 4.5 with four rows at a time, 1.8 to 6.8 with two, as the pages
of memory lay, and 1.8 to 3.5 with one; 8×8 windows 6.5 with all rows, 1.8 with two. On 4×64×112×112, in the cache, one at a
time took 1.3 times as long as two. Windows that overlap took up to a tenth longer with two than in a loop of their own.
Of such arrays lines are also asked for before they are read, where windows see two new rows or more; then rows are read one by
one, but common numbers of rows that windows share, and rows of few vectors, as of channels last. Maxima of 32×16×224×224, two
threads: 2×2 windows with a stride of 2 take 1.3 ms, 3×3 windows 1.7; without, 6.2 and 6.5. 3×3×3 windows with a stride of 2 on
24×16×16×56×56 took 2.7 with rows one by one, 1.7 together; with channels last 8.5, and 2.4 with all rows of a vector in turn.
Where windows share more rows, the last of them is asked for if it is so wide that it is a stream of its own: 5×5 windows with a
stride of 1 take 0.55 of the time on rows of 1024 cells, and of 56 cells with 64 channels last. On rows of up to 256 cells they
took 1.4 times as long: a CPU that finds lines in its caches by then asks for no others by itself.

Rows that are converted as they are read are so by vectors of a tile: of channels last, bins of 16 rows take 0.88 of the time.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.long_spans import most
from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter, mask_of
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.types import constant, kind, vec

COUNTS = (1, 2, 3, 4, 5, 7, 8, 9)  # of rows that have a loop of their own
TOGETHER = 2  # rows of any other number, and new ones, that are read at a time
CACHE = 1 << 24  # bytes, half of a large last cache: of arrays and what is made of them
AHEAD = 8192  # cells: two pieces of a row
FRESH = 2  # rows that windows have not seen before, at least, for lines to be asked for
WIDE = 512  # cells of a row that is a stream of its own
SHARED = (3, 5, 9)  # rows of windows, of which they share some, that have a loop of their own with lines asked for
FEW = 4  # vectors of a row that is not read from end to end


@helper
def ahead_of(x: Any, line: Any, windows: Any) -> int:
    """How many cells before they are combined their lines are asked for: none at 0; −1 for an array that stays in a cache."""
    seen, made = windows.plane, windows.rows * line.out
    if len(x) // max(seen, 1) * (seen + made) * x.itemsize <= CACHE:
        return -1
    return AHEAD if has_fresh_rows(seen, windows.rows, line.width) else 0


def fresh_rows(plane: int, rows: int, width: int) -> bool:
    """Whether each of so many output rows sees FRESH rows that none before it has seen, but for one of them at an end."""
    return plane >= FRESH * max(rows - 1, 1) * width


has_fresh_rows = helper(fresh_rows)


def folding(combine: Combine, watch: bool) -> Any:
    """fold(x, base, rows, width, buffer, at, ahead): buffer[at:] = the `Rows` of x combined, `width` cells of each.

    `ahead` is what `ahead_of` gives. Places are counted from `base` on; there is at least one row. Gives the mask of
    lanes in which a NaN was seen, if `watch` says to look. All arrays are addresses.
    """

    @intrinsic
    def fold(typing: Any, x: Any, base: Any, rows: Any, width: Any, buffer: Any, at: Any, ahead: Any) -> Any:
        v = vec(buffer.dtype) if x.dtype == buffer.dtype else wide(buffer.dtype)
        looks = watch and kind(v) == "f"

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, buffer.dtype)
            e.v, e.n = v, v.lanes
            source, target = (x, args[0]), (buffer, args[4])
            base, width, at, ahead = args[1], args[3], args[5], args[6]
            places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
            seen, count = e.variable(constant(mask_of(v), 0)), builder.sub(high, low)
            far = e.less(e.int(-1), ahead)
            is_wide = builder.and_(far, e.less(e.int(WIDE - 1), width))

            def look(cells: list[Any]) -> None:
                """One comparison looks at two vectors."""
                for a, b in zip(cells[::2], cells[1::2] + cells[-1:], strict=False) if looks else ():
                    builder.store(builder.or_(builder.load(seen), builder.fcmp_unordered("uno", a, b)), seen)

            def row(q: Any) -> Any:
                return e.add(base, e.cell((rows.types[0], places), q))

            def sweep(first: Any, count: int, on: bool = False, fetch: bool = False) -> None:
                """`count` rows from the entry `first` on, together with what stands in the buffer if `on`."""
                starts = [row(e.add(first, q)) for q in range(count)]
                with e.steps(e.int(0), e.add(width, 1 - e.n), e.int(e.n)) as j:
                    cells = [e.load(source, e.add(start, j)) for start in starts]
                    for start in starts if fetch else ():
                        e.fetch(source, e.add(start, j, ahead))
                    if not fetch and not on:
                        with builder.if_then(is_wide, likely=False):
                            e.fetch(source, e.add(starts[-1], j, AHEAD))
                    look(cells)
                    total = combine(e, e.load(target, e.add(at, j)), cells[0]) if on else cells[0]
                    for cell in cells[1:]:
                        total = combine(e, total, cell)
                    e.store(target, e.add(at, j), total)

            def many() -> None:
                """Some rows after the other: each is read from its beginning to its end, as memory likes it."""
                with builder.if_else(far) as (alone, together):
                    with alone:
                        sweep(low, 1, fetch=True)
                    with together:
                        sweep(low, TOGETHER)
                        with e.steps(e.add(low, TOGETHER), e.add(high, 1 - TOGETHER), e.int(TOGETHER)) as q:
                            sweep(q, TOGETHER, True)
                left = builder.select(far, e.add(count, -1), builder.and_(count, e.int(TOGETHER - 1)))
                with e.steps(builder.sub(high, left), high, e.int(1)) as q:
                    sweep(q, 1, True, fetch=True)

            def down() -> None:
                """Few vectors of some rows, one below the other: there is little to read of each row."""
                with e.steps(e.int(0), e.add(width, 1 - e.n), e.int(e.n)) as j:
                    total = e.variable(e.load(source, e.add(row(low), j)))
                    look([builder.load(total)])
                    with e.steps(e.add(low, 1), high, e.int(1)) as q:
                        place = e.add(row(q), j)
                        cells = e.load(source, place)
                        e.fetch(source, e.add(place, ahead))
                        look([cells])
                        builder.store(combine(e, builder.load(total), cells), total)
                    e.store(target, e.add(at, j), builder.load(total))

            def several() -> None:
                short = builder.and_(e.less(e.int(0), ahead), e.less(width, FEW * e.n + 1))
                with builder.if_else(short) as (yes, no):
                    with yes:
                        down()
                    with no:
                        many()

            def rest(left: Any) -> None:
                """The last cells of a row, fewer than a vector."""
                j = builder.sub(width, left)
                total = e.variable(e.load_first(source, e.add(row(low), j), left))
                look([builder.load(total)])
                with e.steps(e.add(low, 1), high, e.int(1)) as q:
                    cells = e.load_first(source, e.add(row(q), j), left)
                    look([cells])
                    builder.store(combine(e, builder.load(total), cells), total)
                e.store_first(target, e.add(at, j), builder.load(total), left)

            before = e.cell((rows.types[0], places), most(e, e.add(low, -1), e.int(0)))
            new = builder.or_(e.less(low, 1), e.less(before, e.cell((rows.types[0], places), low)))
            one_by_one = builder.and_(new, e.less(e.int(TOGETHER), count))
            fetched = builder.select(builder.and_(new, e.less(e.int(SHARED[0]), count)), e.int(0), e.mul(count, -1))
            number = builder.select(e.less(e.int(0), ahead), fetched, builder.select(one_by_one, e.int(0), count))
            asking = [-count for count in SHARED]
            e.by_number(number, (*COUNTS, *asking), lambda rows: sweep(low, abs(rows), fetch=rows < 0), several)
            left = builder.and_(width, e.int(e.n - 1))
            with builder.if_then(builder.icmp_signed("!=", left, e.int(0))):
                rest(left)
            return builder.load(seen)

        whole = types.intp
        return mask_of(v)(x, whole, rows, whole, buffer, whole, whole), emit

    return fold
