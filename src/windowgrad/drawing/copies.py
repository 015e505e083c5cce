"""What an output is made of that is a copy of a cell: of max unpooling, and of padding."""

from __future__ import annotations

import itertools

import numpy as np

from windowgrad.drawing import words
from windowgrad.drawing.calls import Call, block, taken
from windowgrad.drawing.places import Place
from windowgrad.drawing.planes import Sight, Tap, drawn, named, places, plane, real
from windowgrad.geometry import place_of
from windowgrad.params import ExtendParams, PadParams, UnpadParams, UnpoolParams
from windowgrad.spec import extension


def unpooled(call: Call, params: UnpoolParams, output: Place) -> Sight:
    """Of max unpooling: the cells whose index is the place of the output."""
    x, indices = call.arrays
    shape, rank = tuple(x.shape), params.window.rank
    lead, spatial = output[:-rank], shape[-rank:]
    target, out = output[-rank:], call.out_shape[-rank:]
    sent = block("indices", indices, lead, [range(n) for n in spatial])
    came = [place for place in np.ndindex(*spatial) if int(sent[place]) >= 0 and place_of(int(sent[place]), out) == target]
    counted = came if params.duplicates == "add" else came[-1:]
    covered = [sorted({place[axis] for place in came}) or [0] for axis in range(rank)]
    axes = places(covered, spatial, ((0, 0),) * rank)
    seen, name = plane(call, lead, axes), named(call, lead)
    taps = [Tap(name, place, seen[place], None, 1 if place in counted else 0) for place in came]
    value = taken("the result", call.result, output)
    lines = words.unpooled(taps, params.duplicates, np.ravel_multi_index(target, out), value, call)
    kept = counted if params.duplicates == "last" else []
    axes, none = drawn(axes, covered, kept), ((0, 0),) * rank
    going = {place: int(sent[place]) for place in itertools.product(*real(axes, spatial))}
    return Sight(output, {name: seen}, axes, none, set(came), taps, lines, value, kept, going=going)


def bordered(call: Call, params: PadParams, output: Place) -> Sight:
    """Of padding: the one cell that is copied, or none."""
    rank, shape = len(params.padding), tuple(call.arrays[0].shape)
    lead, spatial = output[: len(shape) - rank], shape[len(shape) - rank :]
    sign = 1 if isinstance(params, UnpadParams) else -1
    place = tuple(i + sign * lo for i, (lo, _) in zip(output[len(lead) :], params.padding, strict=True))
    mode = params.mode if isinstance(params, ExtendParams) else "constant"
    found = [extension.source(mode, n, i) for n, i in zip(spatial, place, strict=True)]
    cell = None if None in found else tuple(i for i in found if i is not None)
    around = ((0, 0),) * rank if isinstance(params, UnpadParams) else params.padding
    covered = [[i] for i in cell or place]
    axes = places(covered, spatial, around)
    seen, name = plane(call, lead, axes), named(call, lead)
    taps = [] if cell is None else [Tap(name, cell, seen[cell], None, 1)]
    value = taken("the result", call.result, output)
    lines = words.bordered(taps, place, mode, value, call)
    return Sight(output, {name: seen}, drawn(axes, covered, []), around, {place, cell or place}, taps, lines, value)
