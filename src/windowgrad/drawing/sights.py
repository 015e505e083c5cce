"""What one output sees, who wins, the arithmetic, and where its gradient goes: pooling here, other operators beside it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.drawing import words
from windowgrad.drawing.calls import Call, left, taken
from windowgrad.drawing.copies import bordered, unpooled
from windowgrad.drawing.places import Place, padding_of
from windowgrad.drawing.planes import Plane, Sight, Tap, drawn, named, places, plane, real, window
from windowgrad.drawing.sums import convolved, spread
from windowgrad.geometry import Geometry, Range, Table
from windowgrad.params import (
    ConvParams,
    Mask,
    MaxParams,
    PadParams,
    PoolParams,
    SharpParams,
    SmoothParams,
    TransposeParams,
    UnpoolParams,
)
from windowgrad.spec import logsumexp


def sight(call: Call, output: Place) -> Sight:
    """The sight of one output, given by its whole index."""
    params = call.params
    if isinstance(params, PoolParams):
        return pooled(call, params, output)
    if isinstance(params, TransposeParams):
        return spread(call, params, output)
    if isinstance(params, ConvParams):
        return convolved(call, params, output)
    if isinstance(params, UnpoolParams):
        return unpooled(call, params, output)
    assert isinstance(params, PadParams)
    return bordered(call, params, output)


@dataclass(frozen=True)
class Alone(Geometry):
    """The window of one output by itself: of each axis its count of cells, their distance, and the padding it covers."""

    sides: tuple[tuple[int, int, int], ...]
    rank: int

    def grid(self, spatial: Sequence[int]) -> Place:
        return (1,) * self.rank

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        count, step, padded = (np.array([number]) for number in self.sides[axis])
        return Table(np.zeros_like(count), count, int(step[0]), padded, np.zeros_like(count))


def pooled(call: Call, params: PoolParams, output: Place) -> Sight:
    x, geometry = call.arrays[0], params.geometry
    shape = tuple(x.shape)
    lead, spatial = output[: len(shape) - geometry.rank], shape[len(shape) - geometry.rank :]
    o = output[len(lead) :] or (0,) * geometry.rank  # a global pooling may have removed its axes
    covered, padding = window(geometry, o, spatial), padding_of(geometry)
    axes = places(covered, spatial, padding)
    seen, name = plane(call, lead, axes), named(call, lead)
    there = left(call.where, shape, lead, real(axes, spatial))
    rows = [geometry.table(axis, n, (i, i + 1)) for axis, (i, n) in enumerate(zip(o, spatial, strict=True))]
    sides = tuple((int(t.count[0]), int(t.step), int(t.padded[0])) for t in rows)
    starts = tuple(int(t.start[0]) for t in rows)
    found = list(itertools.product(*(range(s, s + n * d, d) for s, (n, d, _) in zip(starts, sides, strict=True))))
    gone = set() if there is None else {p for p in found if not Plane(spatial, seen.origin, there)[p]}
    kept = [place for place in found if place not in gone]
    value = taken("the result", call.result, output)
    if isinstance(params, SharpParams):
        beta = taken("beta", call.arrays[1], () if not call.arrays[1].shape else (lead[-1],))
        params = SmoothParams(geometry, beta, params.count_include_pad)
    shares = shared(call, params, Alone(sides, geometry.rank), seen, starts, found, gone) if call.op and kept else {}
    taps = [Tap(name, place, seen[place], None, shares.get(place)) for place in kept]
    won = [t.place for t in taps if t.share != 0] if isinstance(params, MaxParams) else []
    padded = Alone(sides, geometry.rank).padded((0,) * geometry.rank, (1,) * geometry.rank)
    counts = words.Counts(len(kept), padded, len(gone), len(list(itertools.product(*covered))) - len(found) - padded)
    if call.op is None:
        lines = words.folded(call, [tap.value for tap in taps], value)
    else:
        lines = words.pooled(params, taps, counts, value, call)
    lines = [words.counted_cells(counts), *lines, *words.back(taps, words.lost(params, taps, counts))]
    axes = drawn(axes, covered, won)
    return Sight(output, {name: seen}, axes, padding, set(itertools.product(*covered)), taps, lines, value, won, gone)


def shared(
    call: Call, params: PoolParams, alone: Alone, seen: Plane, starts: Place, found: list[Place], gone: set[Place]
) -> dict[Place, Any]:
    """What a gradient of 1 gives each cell: the rule of the specification, on this window by itself."""
    spans = [(n - 1) * step + 1 for n, step, _ in alone.sides]
    index = tuple(slice(s - f, s - f + n) for s, f, n in zip(starts, seen.origin, spans, strict=True))
    mask = np.ones(tuple(spans), bool)
    for place in gone:
        mask[tuple(i - s for i, s in zip(place, starts, strict=True))] = False
    assert call.op is not None
    op = logsumexp.OP if isinstance(call.params, SharpParams) else call.op
    one = np.full((1,) * alone.rank, Fraction(1) if op.exact else 1, dtype=object)
    record = replace(params, geometry=alone, where=Mask(mask) if gone else None)
    with np.errstate(all="ignore"):
        (shares,) = op.vjp(record, seen.cells[index], one)
    return {place: shares[tuple(i - s for i, s in zip(place, starts, strict=True))] for place in found}
