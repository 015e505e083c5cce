"""The smallest case that still shows a difference: fewer axes, smaller sizes, defaults for arguments, smaller numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.conform.case import Case
from windowgrad.errors import WindowgradError


def shrunk(case: Case, shows: Callable[[Case], bool], tries: int = 150) -> Case:
    """Greedy: of the smaller cases the first that still shows it is taken, and so on. At most `tries` are asked about."""
    asked: set[str] = {key(case)}
    while True:
        for smaller in candidates(case):
            if not has_meaning(smaller) or key(smaller) in asked or smaller.size > case.size:
                continue
            if len(asked) > tries:
                return case
            asked.add(key(smaller))
            if shows(smaller):
                case = smaller
                break
        else:
            return case


def key(case: Case) -> str:
    return repr((case.as_json(), case.out_shape))


def has_meaning(case: Case) -> bool:
    try:
        return math.prod(case.out_shape) > 0
    except (WindowgradError, ValueError, IndexError):
        return False


def candidates(case: Case) -> Iterator[Case]:
    """Simpler cases, the boldest steps first."""
    yield from fewer_samples(case)
    yield from (without_axis(case, axis) for axis in range(case.rank) if case.rank > 1)
    yield from simpler_options(case)
    yield from fewer_cells(case)
    yield from smaller_windows(case)
    yield from simpler_cells(case)


def fewer_samples(case: Case) -> Iterator[Case]:
    if case.x.shape[0] > 1:
        yield from (cut(case, 0, range(n, n + 1)) for n in range(case.x.shape[0]))
    if not case.is_convolution:
        yield from (cut(case, 1, range(c, c + 1)) for c in range(case.x.shape[1]) if case.x.shape[1] > 1)
        return
    if "bias" in case.arrays:
        yield replace(case, arrays={name: array for name, array in case.arrays.items() if name != "bias"})
    yield from fewer_channels(case)


def fewer_channels(case: Case) -> Iterator[Case]:
    """The first group alone, then one channel in and one out."""
    x, weight, bias = case.x, case.arrays["weight"], {"bias": case.arrays["bias"]} if "bias" in case.arrays else {}
    ins, outs = (
        (weight.shape[0] // case.groups, weight.shape[1])
        if case.is_transposed
        else (weight.shape[1], weight.shape[0] // case.groups)
    )

    def cut(channels: int, features: int) -> Case:
        wide = (channels, features) if case.is_transposed else (features, channels)
        kept = {name: array[:features] for name, array in bias.items()}
        return replace(case, groups=1, arrays={"x": x[:, :channels], "weight": weight[: wide[0], : wide[1]], **kept})

    if case.groups > 1:
        yield cut(ins, outs)
    elif (ins, outs) != (1, 1):
        yield cut(1, 1)


def without_axis(case: Case, axis: int) -> Case:
    """One axis less: only its first cell is kept."""
    arrays = {name: array if name == "bias" else array.take(0, axis=axis + 2) for name, array in case.arrays.items()}
    names = ("kernel", "stride", "padding", "dilation", "output_size", "output_padding")
    fewer: dict[str, Any] = {name: without(getattr(case, name), axis) for name in names}
    fewer |= {} if case.where is None else {"where": case.there.take(0, axis=axis + 2)}
    return replace(case, arrays=arrays, **fewer)


def without(entries: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return entries[:axis] + entries[axis + 1 :]


def simpler_options(case: Case) -> Iterator[Case]:
    if case.dtype != "float32" and case.group != "large":
        yield replace(case, arrays={name: array.astype(np.float32) for name, array in case.arrays.items()})
    if case.ceil_mode:
        yield replace(case, ceil_mode=False)
    if not case.count_include_pad:
        yield replace(case, count_include_pad=True)
    if case.divisor is not None:
        yield replace(case, divisor=None)
    if case.norm_type != 2:
        yield replace(case, norm_type=2)
    if case.where is not None:
        yield replace(case, where=None)
    for name, least in (("dilation", 1), ("output_padding", 0), ("stride", 1)):
        entries = getattr(case, name)
        if any(entry > least for entry in entries):
            yield with_argument(case, name, (least,) * len(entries))
    if "padding" in case.features:
        yield replace(case, padding=((0, 0),) * case.rank)


def fewer_cells(case: Case) -> Iterator[Case]:
    """Half of an axis, or one cell less, from either end."""
    for axis, n in enumerate(case.spatial):
        for keep in sorted({-(-n // 2), n - 1} - {0, n}):
            yield cut(case, axis + 2, range(keep))
            yield cut(case, axis + 2, range(n - keep, n))


def smaller_windows(case: Case) -> Iterator[Case]:
    """One less in one entry of one argument; a shorter kernel with a cell less of the weight."""
    for axis, k in enumerate(case.kernel):
        if k > 1:
            arrays = dict(case.arrays)
            if "weight" in arrays:
                arrays["weight"] = arrays["weight"].take(range(k - 1), axis=axis + 2)
            yield replace(case, arrays=arrays, kernel=changed(case.kernel, axis, k - 1))
    for axis, (lo, hi) in enumerate(case.padding):
        steps = [(lo - 1, hi), (lo, hi - 1), (lo - 1, hi - 1)] if lo != hi else [(lo - 1, hi - 1)]
        yield from (replace(case, padding=changed(case.padding, axis, pair)) for pair in steps if min(pair) >= 0)
    for name, least in (("stride", 1), ("dilation", 1), ("output_padding", 0), ("output_size", 1)):
        for axis, entry in enumerate(getattr(case, name)):
            if entry > least:
                yield with_argument(case, name, changed(getattr(case, name), axis, entry - 1))


def simpler_cells(case: Case) -> Iterator[Case]:
    """No NaN and nothing infinite; or these kept, and all others nearer to zero, then one by one set to it."""
    if case.group == "large":
        return
    yield replace(case, arrays={name: np.nan_to_num(array, posinf=0, neginf=0) for name, array in case.arrays.items()})
    for place in zip(*np.nonzero(~case.there), strict=True) if case.x.size <= 12 else ():
        there = case.there.copy()
        there[place] = True
        yield replace(case, where=there)
    for name, array in case.arrays.items():
        for simple in (np.sign(array), np.trunc(array / 2)) if array.dtype.kind == "f" else ():
            yield replace(case, arrays=case.arrays | {name: np.where(np.isfinite(array), simple, array).astype(array.dtype)})
        for place in zip(*np.nonzero(array), strict=True):
            if array.size <= 12 and np.isfinite(float(array[place])):
                smaller = array.copy()
                smaller[place] = 0
                yield replace(case, arrays=case.arrays | {name: smaller})


def cut(case: Case, axis: int, kept: range) -> Case:
    """Only these cells of an axis of x, and of its mask."""
    where = None if case.where is None else case.there.take(kept, axis=axis)
    return replace(case, arrays=case.arrays | {"x": case.x.take(kept, axis=axis)}, where=where)


def with_argument(case: Case, name: str, value: Any) -> Case:
    named: dict[str, Any] = {name: value}
    return replace(case, **named)


def changed(entries: tuple[Any, ...], axis: int, entry: Any) -> tuple[Any, ...]:
    return (*entries[:axis], entry, *entries[axis + 1 :])
