"""What the library and its specification say to settings of the window explorer.

The specification runs over NumPy's float64 scalars: from Python 3.12 on, `sum` adds Python's own floats with compensation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

import windowgrad as wg
from support.explorer_draws import State, draw, values
from windowgrad.errors import WindowgradError
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, index_of
from windowgrad.params import (
    ConvParams,
    MaxParams,
    MeanParams,
    MinParams,
    SharpParams,
    SmoothParams,
    TransposeParams,
    UnpoolParams,
)
from windowgrad.spec import convolution, maximum, mean, minimum, selection, sharpness, unpooling
from windowgrad.spec.scalar import Array, windows

Answer = dict[str, Any]

MODULES = {"max_pool": maximum, "min_pool": minimum, "avg_pool": mean, "smooth_max_pool": sharpness, "max_unpool": unpooling}
NUMBERS = ("op", "size", "cells", "weight", "bias", "indices")
"""What is not an option of the public function."""
TINY = 2.0**-1022
"""The least number that is rounded as finely as greater ones are."""


def case(random: Random) -> tuple[State, Answer]:
    """Settings, and the answer to be expected; where they are valid, with a cotangent or None."""
    state = draw(random)
    with np.errstate(all="ignore"):
        try:
            y, indices = forward(state)
        except WindowgradError as error:
            return state, {"error": error.args[0]}
        state.update(cotangent=random.choice((None, values(random, y.size))), o=random.randrange(y.size))
        g = scalars(state["cotangent"] or [1.0] * y.size, y.shape)
        found = {
            "out": list(y.shape[1:] if is_conv(state) else y.shape),
            "values": floats(y),
            "indices": None if indices is None else indices.reshape(-1).tolist(),
            "back": pull(state, g),
            "gives": pull(state, scalars([float(o == state["o"]) for o in range(y.size)], y.shape)),
            "windows": list(terms(state, y.shape) if is_conv(state) or state["op"] == "max_unpool" else regions(state)),
        }
        return state, {**found, "scale": scale(state, found, g)}


def scalars(numbers: Any, shape: Any = None) -> Array:
    found = np.empty(len(numbers), dtype=object)
    found[:] = list(np.array(numbers, dtype=np.float64))
    return found if shape is None else found.reshape(shape)


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def name_of(state: State) -> str:
    return str(state["op"]).removeprefix("adaptive_").removeprefix("global_")


def is_conv(state: State) -> bool:
    return str(state["op"]).startswith("conv")


def floats(array: Array) -> Array:
    return array.reshape(-1).astype(np.float64)


def inputs(state: State) -> list[Array]:
    lead = (1,) if is_conv(state) else ()
    x = scalars(state["cells"][: math.prod(state["size"])], (*lead, *state["size"]))  # none if an axis is empty
    if state["op"] == "max_unpool":
        return [x, np.array(state["indices"][: x.size], dtype=np.int64).reshape(x.shape)]
    if not is_conv(state):
        return [x]
    bias = [] if state["bias"] is None else [scalars([state["bias"]])]
    return [x, scalars(state["weight"], (1, 1, *state["kernel_size"])), *bias]


def forward(state: State) -> tuple[Array, Array | None]:
    """(values, indices) by the public function, whose errors are those to be expected."""
    op, name, arrays = getattr(wg, state["op"]), name_of(state), inputs(state)
    options = {key: tuples(value) for key, value in state.items() if key not in NUMBERS}
    if is_conv(state):
        options.pop("kernel_size")
    if state["op"].startswith("global_"):
        options["rank"] = len(state["size"])
    if name in ("max_pool", "min_pool"):
        y, indices = op(*arrays, **options, return_indices=True)
        return y, indices
    return op(*arrays, **options), None


# --- the operator's record, and its rules ------------------------------------------------------------------------


def geometry_of(state: State) -> Geometry:
    if state["op"].startswith("adaptive_"):
        return Adaptive(state["output_size"])
    if state["op"].startswith("global_"):
        return Global(len(state["size"]))
    stride = state.get("stride", 1 if is_conv(state) else None)
    return Sliding(state["kernel_size"], stride, state["padding"], state.get("dilation", 1), state.get("ceil_mode", False))


def params_of(state: State) -> Any:
    geometry, name, get = geometry_of(state), name_of(state), state.get
    if name == "conv":
        return ConvParams(geometry)
    if name == "conv_transpose":
        return TransposeParams(geometry, 1, tuples(get("output_padding", 0)))
    if name == "max_unpool":
        return UnpoolParams(geometry, tuples(get("output_size")), get("duplicates", "last"))
    if name == "avg_pool":
        return MeanParams(geometry, get("count_include_pad", True), get("divisor_override"))
    if name == "smooth_max_pool":
        return SharpParams(geometry, get("count_include_pad", True))
    record = {"max_pool": MaxParams, "min_pool": MinParams}[name]
    return record(geometry, get("ties", "all" if isinstance(geometry, Global) else "first"), get("empty", "zero"))


def pull(state: State, g: Array) -> Answer:
    """The vector-Jacobian products by name."""
    params, arrays, name = params_of(state), inputs(state), name_of(state)
    if is_conv(state):
        names, found = ("x", "weight", "bias"), convolution.vjp(params, *arrays, g)
    elif name == "smooth_max_pool":
        names, found = ("x", "beta"), sharpness.vjp(params, *arrays, beta_of(state), g)
    else:
        names, found = ("x",), MODULES[name].vjp(params, *arrays, g)
    return {name: floats(array) for name, array in zip(names, found, strict=False)}


def beta_of(state: State) -> Array:
    return scalars([state["beta"]], ())


def scale(state: State, found: Answer, g: Array) -> Answer:
    """What the rounding errors of a smooth maximum are measured by; 0 where nothing is rounded, as in all other operators."""
    seen, none = found["windows"], dict.fromkeys(found["back"], 0.0)
    if "beta" not in state:
        return {"values": 0.0, "shares": [0.0] * len(seen), "back": none, "gives": none}
    size, sharp, o = floats(abs(g)), 1 / abs(state["beta"]), state["o"]
    counts = state.get("count_include_pad", True)
    alone = np.array([len(window["flats"]) + counts * window["padded"] <= 1 for window in seen])
    slopes = np.where(alone, 0.0, [abs(window["slope"]) + sharp**2 for window in seen])
    spread = pull(state, abs(g))["x"] + TINY * (1 + size[np.isfinite(size)].sum())
    return {
        "values": np.where(alone, 0.0, np.maximum(abs(found["values"]), sharp)),
        "shares": np.where(alone, 0.0, 1.0),
        "back": {"x": 0.0 if alone.all() else spread, "beta": (slopes * size).sum()},
        "gives": {"x": 0.0 if alone[o] else found["gives"]["x"] + TINY, "beta": slopes[o]},
    }


# --- what each output sees ---------------------------------------------------------------------------------------


def regions(state: State) -> Iterator[Answer]:
    """For each output: the flat cells with their taps, how many padded places and others; winners, divisor, shares."""
    params, (x,), name, size = params_of(state), inputs(state), name_of(state), state["size"]
    geometry = params.geometry
    for window in windows(geometry, size):
        flats = [index_of(cell, size) for cell in window.taps]
        places = math.prod(len(geometry.cover(axis, i, size[axis])) for axis, i in enumerate(window.out))
        found = {
            "flats": flats,
            "taps": [None] * len(flats),
            "padded": window.padded,
            "past": places - len(flats) - window.padded,
        }
        if isinstance(geometry, Sliding):
            found["taps"] = [list(tap) for tap, _ in geometry.reach(window.out, size)]
        if name in ("max_pool", "min_pool"):
            among = selection.winners(x, window.taps, params.ties, MODULES[name].winner)
            found["winners"] = [index_of(cell, size) for cell in among]
        if name == "avg_pool":
            found["divisor"] = mean.divisor(params, window)
            found["shares"] = [1 / found["divisor"]] * len(flats)
        if name == "smooth_max_pool":
            record = SmoothParams(geometry, beta_of(state)[()], params.count_include_pad)
            found["shares"], found["slope"] = sharpness.slopes(record, x, window, 0)
        yield found


def terms(state: State, shape: tuple[int, ...]) -> Iterator[Answer]:
    """Of a convolution or its adjoint by the list of its products; of unpooling by what is sent."""
    params, arrays, size = params_of(state), inputs(state), state["size"]
    cells, taps = defaultdict(list), defaultdict(list)
    if is_conv(state):
        for i, j, k in convolution.terms(params, *arrays[:2]):
            cells[i].append(index_of(k[1:], size))
            taps[i].append(list(j[2:]))
    for o in np.ndindex(*shape):
        found = {"flats": cells[o], "taps": taps[o], "padded": 0, "past": 0}
        if state["op"] == "conv":
            found["padded"] = params.window.padded(o[1:], size)
        if state["op"] == "max_unpool":
            index = index_of(o, shape)
            found["flats"] = [i for i, each in enumerate(state["indices"]) if each == index]
            found["taps"] = [None] * len(found["flats"])
            found["winners"] = [index_of(cell, size) for cell, target in unpooling.sent(params, arrays[1]) if target == o]
        yield found
