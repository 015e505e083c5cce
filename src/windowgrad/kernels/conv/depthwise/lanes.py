"""Each channel by itself, as many planes at once as a vector has lanes, one in each: any window, stride and rank.

Computes y[image, channel] = bias[channel] + the sum over taps of w[channel, tap] · x, the forward pass or the input gradient.

Chosen where `depthwise/ways.py: may_lie_side_by_side` holds, there are planes for most lanes (`fills_lanes`), and
`three_rows` does not take it.

How it is blocked: the planes of a vector are turned around (`vector/plane_lanes.py`), a chunk of rows at a time
(`depthwise/lane_plan.py`). Then a cell of all of them is a vector, and so is a tap of their weights; up to RUN pixels of a row
are summed in registers while the taps run. Every load is a whole line of the cache, a stride costs nothing, and rows of taps
that lie in the padding are left out. The sums are turned around again on their way into y.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.depthwise.shifted import clear
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.plane_lanes import RUN, gather_planes, put_planes, sum_run
from windowgrad.kernels.vector.registers import wide_lanes


class Lists(NamedTuple):
    """As in `Side`: runs of six numbers, taps of two."""

    runs: Any
    taps: Any


class Weights(NamedTuple):
    """The weights of the planes of a block, a vector for each tap, and a vector of their biases."""

    taps: Any
    bias: Any


@helper
def take_weights(to: Weights, w: Any, bias: Any, job: int, planes: int, channels: int, taps: int, in_order: Any) -> None:
    """The weights and biases of the planes of a block, the first of which is the plane `job` of all images."""
    n, channel, lane = wide_lanes(to.taps), job % channels, 0
    if channel + planes <= channels:
        gather_planes(to.taps, in_order, later(w, channel * taps), taps, planes, taps)
    while lane < n:
        to.bias[lane] = bias[channel]
        if job % channels + planes > channels:
            t = 0
            while t < taps:
                one_by_one()
                to.taps[t * n + lane] = w[channel * taps + t]
                t += 1
        channel, lane = channel + 1 if channel + 1 < channels else 0, lane + 1


@helper
def sum_runs(sums: Any, box: Any, lists: Lists, first: int, last: int, weights: Weights) -> None:
    """The sums of the runs first to last; the box and the sums begin with the place 0 and the pixel 0 of a plane."""
    n, number = wide_lanes(sums), first
    while number < last:
        run = later(lists.runs, 6 * number)
        place, pixel, step, count = run[0], run[1], run[2], run[3]
        pieces, done = (count + RUN - 1) // RUN, 0
        while done < count:
            some = (count - done + pieces - 1) // pieces
            to, cells = later(sums, (pixel + done * step) * n), later(box, (place + done) * n)
            sum_run(to, step, cells, later(lists.taps, 2 * run[4]), run[5], weights.taps, weights.bias, some)
            done, pieces = done + some, pieces - 1
        number += 1


@kernel
def sum_side_by_side(
    x: Any, w: Any, y: Any, bias: Any, limits: Any, room: Any, tables: Any, sizes: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the chunks of all blocks of planes; gives the strange lanes of all sums.

    `limits` as in `Limits`; `tables`: places, runs, taps, chunks and numbers of `Side`; `sizes`: planes, channels, cells of a
    plane of x and of y, taps of the weight, and the vectors of the box; `share`: the chunks of all blocks, block by block, the
    parts that they are cut into, the cells of the room that each has, and whether to add to what y has. A part of the room has
    a vector for each tap, one for the bias, the box, and the sums, rounded up to whole squares.
    """
    (places, runs, taps, chunks, numbers), (units, parts, own, adds) = tables, share
    jobs, channels, plane, out_plane, every, in_box = sizes
    n, lists = wide_lanes(room), Lists(address(runs), address(taps))
    weights = Weights(later(address(room), first * own), later(address(room), first * own + every * n))
    box = later(weights.bias, n)
    sums, strange, known = later(box, in_box * n), 0, -1
    unit, end = part_begin(units, parts, first), part_begin(units, parts, last)
    clear(box, in_box * n)
    least, most = address(limits)[0], address(limits)[1]
    while unit < end:
        block = unit // len(chunks)
        job, chunk = block * n, later(address(chunks), (unit - block * len(chunks)) * 7)
        planes = min(n, jobs - job)
        if block != known:
            take_weights(weights, address(w), address(bias), job, planes, channels, every, address(numbers))
            known = block
        here, pixels = later(box, -chunk[2] * n), later(sums, -chunk[5] * n)
        cells, to = later(address(x), job * plane + chunk[0]), later(address(y), job * out_plane + chunk[5])
        gather_planes(here, later(address(places), chunk[0]), cells, plane, planes, chunk[1])
        sum_runs(pixels, here, lists, chunk[3], chunk[4], weights)
        strange |= put_planes(to, out_plane, planes, sums, chunk[6], 1 if adds else 0, least, most)
        unit += 1
    return strange
