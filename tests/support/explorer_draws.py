"""Settings of the window explorer, drawn at random: valid ones of every operator, and ones that the library refuses."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

State = dict[str, Any]

REDUCTIONS = ("max_pool", "min_pool", "avg_pool", "smooth_max_pool")
OPERATORS = tuple(family + name for family in ("", "adaptive_", "global_") for name in REDUCTIONS)
OTHERS = ("conv", "conv_transpose", "max_unpool")
LONGEST = {1: 9, 2: 5, 3: 3}
"""The most cells on an axis, by the number of axes."""


def draw(random: Random) -> State:
    """Settings, most of them valid. The cotangent is left out: it depends on the output's shape."""
    op = random.choice(OPERATORS + (REDUCTIONS + OTHERS) * 2)
    rank = random.choices((1, 2, 3), (3, 4, 2))[0]
    size = [random.randint(1, LONGEST[rank]) for _ in range(rank)]
    state: State = {"op": op, "size": size, "cells": values(random, math.prod(size))}
    if op.startswith("adaptive_"):
        state["output_size"] = [random.choice((None, 1, 2, 3, n, n + 2)) for n in size]
    elif not op.startswith("global_"):
        state.update(windows(random, rank))
    state.update(options(random, state))
    if random.random() < 0.15:
        spoil(random, state)
    return state


def windows(random: Random, rank: int) -> State:
    longest = 4 if rank < 3 else 2
    kernel = [random.randint(1, longest) for _ in range(rank)]
    pads = [random.choice(((0, 0), (k // 2, k // 2), (random.randint(0, k + 1), random.randint(0, k + 1)))) for k in kernel]
    found: State = {"kernel_size": kernel, "padding": [list(pair) for pair in pads]}
    if random.random() < 0.8:
        found["stride"] = [random.randint(1, min(longest, 3)) for _ in range(rank)]
    if random.random() < 0.5:
        found["dilation"] = [random.choice((1, 1, 2, longest)) for _ in range(rank)]
    return found


def options(random: Random, state: State) -> State:
    op, rank = state["op"], len(state["size"])
    found: State = {}
    if op in REDUCTIONS and random.random() < 0.5:
        found["ceil_mode"] = True
    if op.endswith(("max_pool", "min_pool")) and "smooth" not in op and random.random() < 0.8:
        found.update(ties=random.choice(("first", "all", "split")), empty=random.choice(("zero", "zero", "zero", "raise")))
    if op in ("avg_pool", "smooth_max_pool") and random.random() < 0.7:
        found["count_include_pad"] = random.choice((True, False))
    if op == "avg_pool" and random.random() < 0.3:
        found["divisor_override"] = random.randint(1, 7)
    if "smooth" in op:
        found["beta"] = random.choice((1, -1, 2, random.uniform(-5, 5), random.choice((-1, 1)) * 10 ** random.uniform(-8, 4)))
    if op in ("conv", "conv_transpose"):
        found["weight"] = values(random, math.prod(state["kernel_size"]))
        found["bias"] = random.choice((None, values(random, 1)[0]))
    if op == "conv_transpose" and random.random() < 0.5:
        least = [max(pair) for pair in zip(state.get("stride", [1] * rank), state.get("dilation", [1] * rank), strict=True)]
        found["output_padding"] = [random.randrange(most) for most in least]
    if op == "max_unpool":
        state.pop("dilation", None)
        found["duplicates"] = random.choice(("last", "add"))
        found["output_size"] = random.choice((None, [n + random.randint(0, 3) for n in state["size"]]))
        plane = math.prod(found["output_size"] or state["size"])  # without `output_size` an index may be too large
        found["indices"] = [random.randrange(-1, random.choice((plane, (plane + 2) // 2))) for _ in state["cells"]]
    return found


# --- numbers -----------------------------------------------------------------------------------------------------


def values(random: Random, count: int) -> list[float]:
    """Few distinct ones, so that many are equal; ones with NaN, zeros of both signs and infinities; or of many magnitudes."""
    kind = random.choice(("few", "zeros", "plain", "special", "wide", "any"))
    return [number(random, kind) for _ in range(count)]


FEW = {"few": (-1.0, -0.0, 0.0, 1.0, 2.0), "zeros": (-0.0, 0.0)}


def number(random: Random, kind: str) -> float:
    if kind in FEW:
        return random.choice(FEW[kind])
    if kind == "special" and random.random() < 0.3:
        return random.choice((math.nan, math.inf, -math.inf, -0.0, 0.0))
    if kind == "any":  # any 64 bits, subnormal and huge numbers and NaN among them
        return struct.unpack("<d", random.randbytes(8))[0]
    if kind == "wide":
        return random.choice((-1, 1)) * random.random() * 2.0 ** random.randint(-40, 40)
    return random.choice((random.uniform(-3, 3), float(random.randint(-4, 9))))


# --- what is wrong -----------------------------------------------------------------------------------------------

WRONG = {
    "size": (0,),
    "kernel_size": (0, -1, 12, 2.5),
    "stride": (0, -3, 0.5),
    "padding": ([-1, 0], [0, -2], [9, 9], [0, 1.5]),
    "dilation": (0, -1, 9),
    "output_size": (0, -1, 3.5),
    "output_padding": (-1, 3, 7),
}
"""Entries of one axis; some of them are valid in some places."""
WRONG_OPTIONS = {
    "ties": ("last", "none"),
    "empty": ("error",),
    "divisor_override": (0, -4, 2.5),
    "beta": (0, -0.0, math.inf, -math.inf, math.nan),
    "duplicates": ("first",),
    "indices": (-2, 10_000),
}


def spoil(random: Random, state: State) -> None:
    """Make one or two settings wrong."""
    names = [name for name in (*WRONG, *WRONG_OPTIONS) if state.get(name) is not None]
    for name in random.sample(names, random.choice((1, min(2, len(names))))):
        if name in ("stride", "dilation", "output_padding") and random.random() < 0.1:
            state[name] = [*state[name], 1]
        elif name == "kernel_size" and "weight" in state:
            state.update(kernel_size=[0] * len(state["size"]), weight=[])  # an array has no other wrong sizes
        elif name in WRONG or name == "indices":
            state[name][random.randrange(len(state[name]))] = random.choice((WRONG | WRONG_OPTIONS)[name])
        else:
            state[name] = random.choice(WRONG_OPTIONS[name])
