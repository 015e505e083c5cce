"""Sums of four output rows of large windows at once: the loops of `many_rows.mean_fours`, all in float32.

Windows of k rows that begin in rows 0 to 3 all see rows 3 to k − 1; each of them sees three rows besides:

    rows        0 1 2 | 3 | 4 … k − 1 | k k+1 k+2 k+3        old rows, those between, fours, new rows
    window 1      x x   x   x x x x x   x                    the end of the old rows, the fours, the beginning of the new ones

The four new rows are added to one, a four of the next windows. Fours are doubled again and again, and their sum is made of
those powers of two that are the binary digits of their number, the smallest first. Along a row it is the same: neighbours are
doubled in registers, up to a whole vector, and a window is its powers of two, the smallest first, as in `long_spans`.

So a cell goes through few additions (`roundings`), and their order depends on the window and on its row modulo 4 alone. A
vector has LANES lanes on every CPU, so that no sum depends on it. What is absent is a row of zeros: adding them rounds nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.four_rows import rows_in
from windowgrad.kernels.pool.near_rows import Watch
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.types import Vec, constant, first_lanes, lane_order

LANES, LEVELS = 16, 4
"""Cells of a vector, and how often neighbours are doubled to make one."""

MOST, POWERS = 128, 5
"""Rows and columns of a window, at most, and of how many powers of two its fours may be made."""

INT = types.intp


def roundings(rows: int, columns: int) -> int:
    """How many additions, one after the other, lie between a cell and the sum of a window, at most.

    A four has two, a power of two of fours one for each doubling and one for itself and each larger power; then come the rows
    besides, among which a cell has gone through fewer than six. Columns have as many as `window_spans.depth_of` says of many.
    """
    fours = (rows - 3) // 4
    return max(3 + (fours - 1).bit_length(), 6) + (columns - 1).bit_length()


def emitter(context: Any, builder: Any, dtype: Any) -> Emitter:
    e = Emitter(context, builder, dtype)
    e.v, e.n = Vec(dtype, LANES), LANES
    return e


def in_turn(e: Emitter, vectors: list[Any]) -> Any:
    """The sum, one after the other."""
    return reduce(e.builder.fadd, vectors)


def tree(e: Emitter, vectors: list[Any]) -> Any:
    """The sum of a power of two of vectors, neighbours first."""
    half = len(vectors) // 2
    return e.builder.fadd(tree(e, vectors[:half]), tree(e, vectors[half:])) if half else vectors[0]


@intrinsic
def four_sums(typing: Any, old: Any, core: Any, new: Any, cells: Any, to: Any, pitch: Any, four: Any) -> Any:
    """to = the columns of four windows, `pitch` apart: those that begin in the first three `old` rows and the one after them.

    The other three `old` rows are those between; `core` is the sum of the fours. `four` becomes the sum of the `new` rows.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = emitter(context, builder, four.dtype)
        olds, news = rows_in(builder, old, args[0]), rows_in(builder, new, args[2])
        with e.whole_steps(args[3], e.n) as j:
            begins, ends = ([e.load(row, j) for row in rows] for rows in (olds, news))
            inner = e.load((core, args[1]), j)
            outer, two = in_turn(e, begins[3:]), builder.fadd(ends[0], ends[1])
            news_of = None, ends[0], two, builder.fadd(two, ends[2])
            for f in (3, 2, 1, 0):  # the rows besides begin with an old one more each time
                outer = outer if f == 3 else builder.fadd(outer, begins[f])
                besides = builder.fadd(outer, news_of[f]) if f else outer
                e.store((to, args[4]), e.add(j, e.mul(args[5], f)), builder.fadd(inner, besides))
            e.store((four, args[6]), j, builder.fadd(two, builder.fadd(ends[2], ends[3])))
        return context.get_dummy_value()

    return types.void(old, core, new, INT, to, INT, four), emit


@intrinsic
def grow(typing: Any, four: Any, powers: Any, before: Any, to: Any, parts: Any, cells: Any, core: Any) -> Any:
    """to[b] = the last power of two of fours with the one `before` it, from b = 0 on; core = the sum of the `parts`.

    The last power of two is `four` at first, and there are `powers` of them, as of parts; a part may be one of `to`.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = emitter(context, builder, four.dtype)
        befores, tos, shares = (rows_in(builder, *rows) for rows in ((before, args[2]), (to, args[3]), (parts, args[4])))

        def loop(count: int) -> None:
            with e.whole_steps(args[5], e.n) as j:
                total = e.load((four, args[0]), j)
                for last, target in zip(befores[: count - 1], tos, strict=False):
                    total = builder.fadd(e.load(last, j), total)
                    e.store(target, j, total)
                e.store((core, args[6]), j, in_turn(e, [e.load(part, j) for part in shares[:count]]))

        e.by_number(args[1], range(1, POWERS), loop, lambda: loop(POWERS))
        return context.get_dummy_value()

    return types.void(four, INT, before, to, parts, INT, core), emit


@intrinsic
def double(typing: Any, a: Any, cells: Any, rest: Any, top: Any, low: Any) -> Any:
    """top[j] = the sum of a[j:j + LANES], and low[j] that of a[j:j + rest], if rest is not 0, for j < cells.

    A sum of `low` begins with 0, so it is no −0.0. There is room for LEVELS vectors before what is written, for a vector behind
    it, and for LEVELS more behind the cells.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = emitter(context, builder, a.dtype)
        source, whole, some = (a, args[0]), (top, args[3]), (low, args[4])

        def loop(rest: int) -> None:
            """Each level is a vector behind the one before it, and so is what is added up of `low`."""
            befores, sums = ([e.variable(constant(e.v, 0)) for _ in range(LEVELS)] for _ in range(2))

            def shifted(last: Any, now: Any, lanes: int) -> Any:
                return builder.shuffle_vector(last, now, lane_order(range(lanes, lanes + e.n)))

            with e.steps(e.int(-LEVELS * e.n), args[1], e.int(e.n)) as j:
                now, total = e.load(source, e.add(j, LEVELS * e.n)), constant(e.v, 0.0)
                for level, (before, added_up) in enumerate(zip(befores, sums, strict=True)):
                    power, last = 1 << level, builder.load(before)
                    builder.store(now, before)
                    if rest & (power - 1):
                        following, total = total, builder.load(added_up)
                        builder.store(following, added_up)
                    if rest & power:
                        total = builder.fadd(total, shifted(last, now, rest & (power - 1)))
                    now = builder.fadd(last, shifted(last, now, power))
                e.store(whole, j, now)
                if rest:
                    e.store(some, j, total)

        e.by_number(args[2], range(1, LANES), loop, lambda: loop(0))
        return context.get_dummy_value()

    return types.void(a, INT, INT, top, low), emit


@intrinsic
def join(typing: Any, low: Any, top: Any, count: Any, by: Any, out: Any, y: Any, at: Any) -> Any:
    """y[at + j] = the sum of `low` and of `count` vectors of `top`, ÷ by. Says whether one is not finite."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = emitter(context, builder, y.dtype)
        source, target, (out, at) = (top, args[1]), (y, args[5]), (args[4], args[6])
        watch, left = Watch(e, 1), builder.and_(args[4], e.int(LANES - 1))

        def loop(count: int) -> None:
            def mean(j: Any) -> Any:
                total, done = e.load((low, args[0]), j), 0
                for digit in range(count.bit_length()):
                    if count >> digit & 1:
                        places = range(done, done + (1 << digit))
                        total = builder.fadd(total, tree(e, [e.load(source, e.add(j, place * e.n)) for place in places]))
                        done += 1 << digit
                return builder.fdiv(total, e.load((by, args[3]), j))

            with e.steps(e.int(0), e.add(out, 1 - e.n), e.int(e.n)) as j:
                means = mean(j)
                watch.look(means, builder.fsub(means, means))
                e.store(target, e.add(at, j), means)
            with builder.if_then(e.less(e.int(0), left)):
                j = builder.sub(out, left)
                means = builder.select(first_lanes(builder, e.v, left), mean(j), constant(e.v, 0))
                watch.look(means, builder.fsub(means, means))
                e.store_first(target, e.add(at, j), means, left)

        parts = MOST // LANES
        e.by_number(args[2], range(parts), loop, lambda: loop(parts))
        return watch.bits()

    return INT(low, top, INT, by, INT, y, INT), emit
