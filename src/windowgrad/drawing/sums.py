"""What an output of a convolution is made of: cells times weights, in each channel of its group."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from windowgrad.drawing import words
from windowgrad.drawing.calls import Call, taken
from windowgrad.drawing.places import Place, senders
from windowgrad.drawing.planes import Sight, Tap, drawn, named, places, plane, window
from windowgrad.geometry import Sliding
from windowgrad.params import ConvParams, TransposeParams


def convolved(call: Call, params: ConvParams, output: Place) -> Sight:
    rank = params.window.rank
    x, weight = call.arrays[:2]
    spatial = tuple(x.shape)[-rank:]
    *batch, channel = output[:-rank]
    o, width = output[-rank:], weight.shape[1]
    first = channel // (weight.shape[0] // params.groups) * width
    covered = window(params.window, o, spatial)
    channels = [(first + c, (channel, c)) for c in range(width)]
    return summed(call, output, (*batch,), channels, covered, params.window, params.window.reach(o, spatial))


def spread(call: Call, params: TransposeParams, output: Place) -> Sight:
    """Of a transposed convolution: the inputs that add to the output."""
    rank = params.window.rank
    x, weight = call.arrays[:2]
    spatial = tuple(x.shape)[-rank:]
    *batch, channel = output[:-rank]
    group, within = divmod(channel, weight.shape[1])
    width = weight.shape[0] // params.groups
    sides = senders(params.window, output[-rank:], spatial)
    pairs = [(tuple(tap for _, tap in each), tuple(cell for cell, _ in each)) for each in itertools.product(*sides)]
    covered = [[cell for cell, _ in side] for side in sides]
    channels = [(group * width + c, (group * width + c, within)) for c in range(width)]
    return summed(call, output, (*batch,), channels, covered, Sliding(params.window.kernel), pairs)


def summed(
    call: Call,
    output: Place,
    batch: Place,
    channels: Sequence[tuple[int, Place]],
    covered: list[list[int]],
    windows: Sliding,
    pairs: list[tuple[Place, Place]],
) -> Sight:
    """Cells times weights: `channels` of x, each with the place of its weights; `pairs` of a tap and a cell in each of them."""
    rank, x, weight = windows.rank, *call.arrays[:2]
    spatial, padding = tuple(x.shape)[-rank:], windows.padding
    filled = [side or [0] for side in covered]  # no input at all may add to an output
    axes = places(filled, spatial, padding)
    planes, taps = {}, []
    for channel, entry in channels:
        name = named(call, (*batch, channel)) or ""
        planes[name] = plane(call, (*batch, channel), axes)
        kernel = taken("weight", weight, entry)
        taps += [Tap(name, cell, planes[name][cell], kernel[tap], kernel[tap]) for tap, cell in pairs]
    bias = taken("bias", call.arrays[2], (output[-rank - 1],)) if len(call.arrays) > 2 else None
    value = taken("the result", call.result, output)
    places_covered = set(itertools.product(*covered))
    lines = words.convolved(taps, bias, value, call, (len(places_covered) - len(pairs)) * len(channels))
    return Sight(output, planes, drawn(axes, filled, []), padding, places_covered, taps, lines, value)
