"""The forward pass and the input gradient of any geometry: a product of matrices, block by block.

Computes y[image, row, pixel] = bias[row] + the sum over k = (channel, tap) of w[row, k] · x(k, image and pixel), where
x(k, pixel) is the cell that the pixel meets at the tap, or 0 in the padding. In the input gradient, rows are the channels of
the convolution, and the pixels of one phase of its stride are one call (see `conv/plan.py`).

Chosen for every pass that no other kernel takes (`gemm/ways.py: always`), the last row of `WAYS` in `conv/choose.py`.

How it is blocked, from the outside in. Nothing is as large as all pixels times all k: the cells that pixels meet are
copied, once or for each tap, or read where they stand (`gemm/layout.py` says when).

                                    pixels of all images, as one row
                         ┌── panel ──┬── panel ──┬─────  ─────┬── panel ──┐ ┬
                         │           │           │            │           │ │ k of a block: some channels × some taps,
                         │  copied: at most PANELS bytes      │           │ │ at most STEPS
             k           │           │           │            │           │ │
     ┌───────────────┐   ├───────────┼───────────┼─────  ─────┼───────────┤ ┴
     │ ROWS          │   │   tile    │   tile    │            │           │   a tile: ROWS rows × VECTORS vectors of sums
     ├───────────────┤   ├───────────┼───────────┼─────  ─────┼───────────┤   in registers
     │ ROWS          │   │           │           │            │           │
     ├───────────────┤   ├───────────┼───────────┼─────  ─────┼───────────┤
     │ w, packed or  │   │           │    y      │            │           │
     │ in its place  │   │           │           │            │           │
     └───────────────┘   └───────────┴───────────┴─────  ─────┴───────────┘

for each group, block of panels, block of k: copy the pixels, then all tiles. The first block of k puts its sums with the
bias, the others add theirs; the last adds what stands beside, if something does, and keeps sums within limits: that is a
residual and relu or relu6 of a network. The order of every sum depends on channels and taps only: neither on the images nor on
how pixels are copied, which tiles there are, how they are turned, or who computes them.

Where that fills them better, tiles are turned around: ROWS pixels by VECTORS vectors of rows of y, from a weight that is packed
for it. They are turned back into VECTORS vectors of pixels for each row, and put into y as others. Such a weight is used by few
pixels and comes from afar, so the first tiles of a panel fetch that of the next one: windows of one cell on 7×7 take 0.88 to
0.97 of the time inside a network, 3×3 of 512 channels 0.90 to 0.92.

Measured and rejected: to copy pixels that already lie in order (windows of one cell) where few rows use them. To pad each row
of pixels to whole vectors, as the first prototype did: with rows of 56 that is 14 % of the work; here pixels run on over rows
and images. Blocks of k outside of blocks of panels: y goes to memory and back for each. Winograd and FFT change the error
bound and spread NaN and infinity to neighbours: not used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.gemm.told import BOXED, HEAD, IN_PLACE, Told
from windowgrad.kernels.conv.pieces import copy_pieces, in_pieces, put_pieces, real_pieces
from windowgrad.kernels.conv.records import Finish, InAxes, OutAxes, Pieces, Range, Start
from windowgrad.kernels.conv.share import leave_slot, take_slot
from windowgrad.kernels.runtime.jit import helper, kernel, separate_helper
from windowgrad.kernels.vector.masked import interval, load_some, one_by_one, store_some
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, least_of, most_of, wide_lanes
from windowgrad.kernels.vector.tiles import End, Matrix, multiply_rows
from windowgrad.kernels.vector.transpose import turn


class Axes(NamedTuple):
    """What pixels meet, where they stand, which are real, and the places of each k: packed, and as the layout says."""

    met: InAxes
    out: OutAxes
    real: Any
    packed: Any
    places: Any


class Scratch(NamedTuple):
    """Memory of a thread: a tile, pixels that were copied, sums of a panel of turned tiles, and lists.

    For each panel the lists have the number of its pieces in y, below 0 where all its pixels are in a row there, then where
    its cells stand in x if they are not copied, or −1, then the pieces; after all panels, `pieces` is space for those in x.
    """

    tile: Any
    pixels: Any
    turned: Any
    lists: Any
    pieces: Any


# --- the pixels --------------------------------------------------------------------------------------------------


@helper
def pieces_or_row(pixels: Range, axes: Axes, lanes: int, to: Any) -> int:
    """How many pieces these pixels have in y; that less than 0 if they are VECTORS vectors in a row."""
    number, in_row = real_pieces(pixels, axes.out, axes.real, lanes, True, to).number, axes.out.move[axes.out.rank - 1] == 1
    for i in range(number):
        one_by_one()
        in_row = in_row and to[3 * i + 1] == to[1] + i * lanes and to[3 * i + 2] == lanes
    return -number if in_row and number == VECTORS else number  # type: ignore[no-any-return]


@helper
def pixels_of(told: Told, panel: int, length: int) -> Range:
    run = panel // told.run_panels
    start, first = run * told.run_pitch, (panel - run * told.run_panels) * length
    return Range(start + first, start + min(first + length, told.pixels))


@separate_helper
def list_outputs(told: Told, axes: Axes, panels: Range, to: Scratch) -> None:
    """Where the pixels of some panels stand in y, and in x if they are read there."""
    lanes = wide_lanes(to.tile)
    length = VECTORS * lanes
    for q in range(panels.first, panels.last):
        some = pixels_of(told, q, length)
        lists = later(to.lists, (q - panels.first) * (3 * length + 2))
        image, dense = some.first // axes.out.grid[0], axes.out.rank == 1 and told.place != BOXED and axes.out.move[0] == 1
        if dense and some.first + length <= (image + 1) * axes.out.grid[0]:
            lists[0] = -VECTORS
            for i in range(VECTORS):
                lists[3 * i + 2] = i * lanes
                lists[3 * i + 3] = image * (axes.out.image - axes.out.grid[0]) + some.first + i * lanes
                lists[3 * i + 4] = lanes
        else:
            lists[0] = pieces_or_row(some, axes, lanes, later(lists, 2))
        lists[1] = -1
        if told.place == IN_PLACE:
            image, end = some.first // told.plane, some.last if told.height > ROWS else some.first + length
            if end <= (image + 1) * told.plane:
                lists[1] = image * (told.image - told.plane) + some.first


@helper
def fill_zeros(cells: Any, first: int, last: int) -> None:
    lanes, zero = wide_lanes(cells), load_some(cells, 0, 0)
    for i in range(first, last, lanes):
        one_by_one()
        store_some(cells, i, zero, interval(0, min(lanes, last - i)))


@separate_helper
def copy_pixels(x: Matrix, told: Told, axes: Axes, channels: int, taps: Range, panels: Range, fresh: bool, to: Scratch) -> None:
    """The cells of so many channels that some panels meet; x begins with the first channel.

    A row of pixels for each k, of all panels that are not read where they stand; or one box for all panels. (One place for
    both: what is called here would be compiled twice.) The pieces of a box or of a single panel are listed if they are
    `fresh`: they are the same for all channels.
    """
    lanes, stride, boxed = wide_lanes(x.cells), axes.met.step[axes.met.rank - 1], told.place == BOXED
    length, panel = VECTORS * lanes, told.some_channels * told.some_taps * VECTORS * lanes
    start = pixels_of(told, panels.first, length).first - told.lead
    reach = told.box - (told.some_panels - (panels.last - panels.first)) * length  # a share may have fewer panels than a box
    first, last = max(0, start), min(told.all_cells, start + reach)
    listed_once = boxed or (panels.last - panels.first == 1 and told.some_taps == told.taps)
    for q in range(panels.first, panels.first + 1 if boxed else panels.last):
        some, pitch = pixels_of(told, q, length), length
        into = Matrix(later(to.pixels, (q - panels.first) * panel), (taps.last - taps.first) * length)
        if boxed:
            some, pitch = Range(first, last), told.box
            into = Matrix(later(to.pixels, first - start), told.boxes * told.box)
        if boxed or to.lists[(q - panels.first) * (3 * length + 2) + 1] < 0:
            if fresh or not listed_once:
                to.pieces[0] = in_pieces(some, axes.met, taps, lanes, pitch, later(to.pieces, 1)).number
            copy_pieces(into, x, channels, stride, Pieces(later(to.pieces, 1), to.pieces[0]))
    for number in range(channels * told.boxes if boxed and (start < 0 or last < start + reach) else 0):
        box = later(to.pixels, number * told.box)
        fill_zeros(box, 0, first - start)
        fill_zeros(box, last - start, reach)


# --- the products ------------------------------------------------------------------------------------------------


@separate_helper
def multiply_block(
    x: Any,
    w: Any,
    y: Matrix,
    told: Told,
    axes: Axes,
    k: int,
    rows: Range,
    panels: Range,
    start: Start,
    end: Finish,
    of: Scratch,
) -> int:
    """All tiles of a block, put into y, which has a row for each row of the group; gives the strange lanes.

    w begins with row 0 of the group.
    """
    lanes, strange, move = wide_lanes(of.tile), 0, axes.out.move[axes.out.rank - 1]
    length, panel, turns = VECTORS * lanes, told.some_channels * told.some_taps * VECTORS * lanes, told.height > ROWS
    m, q, pixel, half = rows.first, panels.first, 0, lanes // 2
    while m < rows.last and q < panels.last:
        tile, within = m // told.height, m % told.height
        count, some = min(told.height - within, rows.last - m), pixels_of(told, q, length)
        pixels = some.last - some.first
        weight = Matrix(later(w, tile * told.factor_tile + within), told.factor_row)
        to = Matrix(later(y.cells, m * y.step), y.step)
        first, last = (
            Start(later(start.bias, m), start.biased, start.fresh),
            Finish(later(end.beside, m * y.step), end.joined, end.least, end.most),
        )
        lists = later(of.lists, (q - panels.first) * (3 * length + 2))
        cells, places = later(of.pixels, (q - panels.first) * panel), axes.packed
        if told.place == BOXED:
            cells, places = later(of.pixels, (q - panels.first) * length), axes.places
        elif lists[1] >= 0:
            cells, places = later(x, lists[1]), axes.places
        filled = count + 1 if count % 4 == 3 and told.factor_packed else count  # one loop with a row of zeros, not two or three
        direct, halves = lists[0] < 0 and count == ROWS and not turns, (pixels + half - 1) // half
        ahead, fetches = weight.cells, turns and pixel < VECTORS * ROWS
        if turns:
            filled, halves = min(ROWS, pixels - pixel), (count + half - 1) // half
            weight, cells = Matrix(later(cells, pixel), 1), weight.cells
            if fetches:  # a part of the weight of the next tiles
                back = (tile - rows.first // told.height) * told.factor_tile
                following = told.factor_tile if m + count < rows.last else k * length - back
                ahead = later(cells, following + pixel // ROWS * k * lanes)
        into = Matrix(later(to.cells, lists[3]), to.step)
        ending = End(
            into,
            first.bias,
            first.biased,
            first.fresh,
            later(last.beside, lists[3]),
            last.joined,
            last.least,
            last.most,
            direct,
        )
        if lists[0] != 0:  # some pixel is real
            strange |= multiply_rows(weight, cells, k, places, filled, halves, of.tile, ending, ahead, fetches)
        sums = of.tile
        if turns:
            sums = of.turned
            for c in range(0, count, ROWS):
                turn(Matrix(later(sums, c * length + pixel), length), Matrix(later(of.tile, c), length))
            pixel += ROWS
        if not turns or pixel >= pixels:
            pixel = 0
            if not direct:
                strange |= put_pieces(to, count, move, sums, first, last, Pieces(later(lists, 2), abs(lists[0])))
            if told.by_panel:
                m += count
                if m >= rows.last:
                    m, q = rows.first, q + 1
            else:
                q += 1
                if q == panels.last:
                    m, q = m + count, panels.first
    return strange


@helper
def multiply_panels(
    x: Matrix, w: Any, y: Matrix, start: Start, end: Finish, told: Told, axes: Axes, rows: Range, panels: Range, of: Scratch
) -> int:
    """Some rows and panels of a group, block of k by block; gives the strange lanes of all sums."""
    strange = 0
    list_outputs(told, axes, panels, of)
    for c in range(0, told.channels, told.some_channels):
        channels = min(told.some_channels, told.channels - c)
        planes = Matrix(later(x.cells, c * x.step), x.step)
        for t in range(0, told.taps, told.some_taps):
            one_by_one()
            taps = Range(t, min(told.taps, t + told.some_taps))
            met = Range(0, told.boxes) if told.place == BOXED else taps
            copy_pixels(planes, told, axes, channels, met, panels, c == 0, of)
            last = c + channels == told.channels and taps.last == told.taps
            begin = Start(start.bias, c + t == 0, c + t == 0 and start.fresh)
            factor = later(w, c * told.factor_channel + t * told.factor_tap)
            k = channels * (taps.last - t)
            low, high = (end.least, end.most) if last else (least_of(of.tile), most_of(of.tile))
            then = Finish(end.beside, last and end.joined, low, high)
            strange = multiply_block(planes.cells, factor, y, told, axes, k, rows, panels, begin, then, of)
    return strange


@helper
def axes_of(p: Any, told: Told) -> Axes:
    grid, out = later(p, told.in_at), later(p, told.out_at)
    met = InAxes(
        told.in_rank, grid, later(grid, told.in_rank), later(grid, 2 * told.in_rank), later(grid, 3 * told.in_rank), told.image
    )
    real, places = later(out, told.out_rank), later(p, told.places_at)
    packed = later(places, 2 * told.places)
    return Axes(met, OutAxes(told.out_rank, out, later(out, 2 * told.out_rank), told.out_image), real, packed, places)


@kernel
def products(
    x: Any,
    w: Any,
    y: Any,
    bias: Any,
    beside: Any,
    limits: Any,
    cells: Any,
    lists: Any,
    taken: Any,
    plan: Any,
    start: int,
    tiles: int,
    panels: int,
    shares: int,
    adds: int,
    first: int,
    last: int,
) -> int:
    """A share of the forward pass or the input gradient; gives the strange lanes of all sums.

    `beside`: what is added to the sums, as y, or nothing; `limits`: the least and the greatest of what is stored. `cells`,
    `lists`: scratch memory, in slots, one for each thread, of which `taken` are used; `plan`: see `Told`. The call does so
    many tiles of all groups from `start` on, and so many panels, in so many shares (less than 0: shares of tiles); whether
    (1 or 0) it `adds` to what y has. With 0 shares the plan has several grids of pixels: `tiles` is the number of groups, and
    each grid is cut into so many parts of its tiles as there are `panels`.
    """
    head, lanes, strange = address(plan), wide_lanes(y), 0
    slot = take_slot(address(taken), len(taken))
    tile, listed = later(address(cells), slot * head[0]), later(address(lists), slot * head[1])
    length = VECTORS * lanes
    for unit in range(0 if shares else first, 1 if shares else last):
        p = later(head, head[HEAD + (0 if shares else unit // panels)])
        told = Told(
            p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15], p[16],
            p[17], p[18], p[19], p[20], p[21], p[22], p[23], p[24], p[25], p[26], p[27], p[28], p[29], p[30], p[31], p[32],
            p[33], p[34], p[35],
        )  # fmt: skip
        axes = axes_of(p, told)
        of = Scratch(
            tile,
            later(tile, ROWS * length),
            later(tile, head[0] - length * length - lanes),  # a vector is read from the last cell on
            listed,
            later(listed, told.some_panels * (3 * length + 2)),
        )
        own, some = Range(start, start + tiles), Range(0, panels)
        if shares > 0:
            some = Range(first * panels // shares, last * panels // shares)
        elif shares < 0:
            own = Range(start + first * tiles // -shares, start + last * tiles // -shares)
        else:
            part, every = unit % panels, tiles * told.tiles
            own, some = (
                Range(every * part // panels, every * (part + 1) // panels),
                Range(0, told.runs * told.run_panels),
            )
        for group in range(own.first // told.tiles, (own.last + told.tiles - 1) // told.tiles):
            low, high = max(0, own.first - group * told.tiles), min(told.tiles, own.last - group * told.tiles)
            rows = Range(low * told.unit, min(told.rows, high * told.unit))
            planes = Matrix(later(address(x), group * told.channels * told.plane), told.plane)
            sums = Matrix(later(address(y), told.origin + group * told.rows * told.out_plane), told.out_plane)
            factor = later(address(w), group * told.factor_group - start * told.factor_packed)
            begin = Start(later(address(bias), group * told.rows), True, adds == 0)
            others = later(address(beside), told.origin + group * told.rows * told.out_plane)
            end = Finish(others, len(beside) > 0, address(limits)[0], address(limits)[1])
            q = some.first
            while q < some.last:
                following = min(q + told.some_panels, (q // told.run_panels + 1) * told.run_panels)
                block = Range(q, min(some.last, following))
                strange |= multiply_panels(planes, factor, sums, begin, end, told, axes, rows, block, of)
                q = block.last
    leave_slot(address(taken), slot)
    return strange
