"""The questions: every two levels of any two factors meet (see `FACTORS`), and seeded random rows after that.

Cells are small integers, so every sum is exact in every dtype, and means divide without remainder: where two answers differ,
they differ in meaning. The same count and seed give the same cases; those of an operator do not depend on the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from windowgrad.conform.case import OPS, Case
from windowgrad.conform.cells import filled, sums_are_exact
from windowgrad.conform.pairwise import Row, pairwise
from windowgrad.errors import WindowgradError
from windowgrad.facts import Windows
from windowgrad.ops import FAMILIES, meaning
from windowgrad.routes import facts_of

FLOATS = ("float32", "float64", "float16")
WINDOW = {
    "rank": (2, 1, 3),
    "kernel": ("two", "three", "mixed", "one"),
    "stride": ("one", "two", "kernel", "mixed"),
    "padding": ("none", "half", "one axis", "uneven", "same", "over half", "beyond"),
    "dilation": ("one", "two", "mixed"),
}
BINS = {"rank": (2, 1, 3), "bins": ("uneven", "one", "more than cells", "divisor", "mixed")}
PLANES = {"rank": (2, 1, 3)}
GEOMETRIES: dict[Windows, dict[str, tuple[Any, ...]]] = {
    "sliding": WINDOW,
    "adaptive": BINS,
    "global": PLANES,
    "convolution": WINDOW,
    "transposed": WINDOW,
}
FACTORS: dict[str, dict[str, tuple[Any, ...]]] = {
    name: GEOMETRIES[FAMILIES[name].windows] | dict(FAMILIES[name].factors) for name in OPS
}
"""What is varied, by function: its windows, and what its row in the table of operators says."""
EVERYDAY: dict[str, tuple[Any, ...]] = {
    "kernel": ("two", "three", "mixed"),
    "padding": ("half", "one axis", "none"),
    "dilation": ("one",),
    "divisor": (None,),
    "group": ("tie-free", "tied", "plain"),
    "dtype": ("float32", "float64"),
}
"""What most implementations have: covered by itself as well, so that each of these pairs is asked of all."""
MASKS: dict[str, tuple[Any, ...]] = {
    "mask": ("some cells", "same in every plane", "whole window", "all"),
    "left out": ("plain", "NaN", "infinite"),
}
"""How much a mask leaves out, and what the cells are that it leaves out."""
DTYPES_OF_GROUP: dict[str, tuple[str, ...]] = {
    "NaN": FLOATS,
    "infinite": FLOATS,
    "large": ("float16", "float32"),
    "large convolution": ("int8",),
}


def cases(count: int, seed: int = 0, ops: tuple[str, ...] = OPS) -> list[Case]:
    """`count` cases: the rows that cover all pairs, taken from the operators in turn, then random ones."""
    covered, random = (in_turn(*(rows(op, seed) for op in ops)) for rows in (covering, random_rows))
    numbers = dict.fromkeys(ops, 0)
    found: list[Case] = []
    for op, row in itertools.islice(itertools.chain(covered, random), count):
        found.append(made(op, row, Random(f"{seed}/{op}/{numbers[op]}")))
        numbers[op] += 1
    return found


def everyday_levels(op: str) -> dict[str, tuple[Any, ...]]:
    return {
        name: tuple(level for level in levels if level in EVERYDAY.get(name, levels)) for name, levels in FACTORS[op].items()
    }


def masked_factors(op: str) -> dict[str, tuple[Any, ...]]:
    """What is varied with a mask; nothing if the operator takes none."""
    return everyday_levels(op) | MASKS if facts_of(meaning(FAMILIES[op].operator)).masked else {}


def covering(op: str, seed: int) -> Iterator[tuple[str, Row]]:
    """The everyday pairs (of pooling windows three times over, in other sizes), every type in every rank by itself,
    all pairs, one row without a batch, and the everyday pairs with masks."""
    everyday = everyday_levels(op) | {name: levels[:1] for name, levels in FACTORS[op].items() if name == "ties"}
    rng, windows = Random(f"{seed}/{op}"), FAMILIES[op].windows
    first = {name: levels[:1] for name, levels in everyday.items()}
    types = first | {"rank": (1, 2, 3), "dtype": [name for name in FACTORS[op]["dtype"] if name not in FLOATS]}
    types |= {"group": everyday["group"][-1:]}
    large = first | {"rank": (1, 2, 3), "dtype": ("float16", "float32"), "group": ("large",)}
    large |= {"signs": ("positive",)} if "signs" in large else {}
    has_large_sums = "large" in FACTORS[op]["group"] and windows != "convolution"
    covers: list[Any] = [types, *([large] if has_large_sums else []), FACTORS[op]]
    for factors in (*(everyday,) * (3 if windows == "sliding" else 1), *covers):
        for row in pairwise(factors, possible(op), rng):
            yield op, row
    yield op, {name: levels[0] for name, levels in FACTORS[op].items()} | {"group": "empty batch"}
    for row in pairwise(masked_factors(op), possible(op), rng):
        yield op, row


def random_rows(op: str, seed: int) -> Iterator[tuple[str, Row]]:
    """Any levels; every fourth row has a mask if the operator takes one."""
    rng = Random(f"{seed}/{op}/random")
    for number in itertools.count():
        factors = (number % 4 == 3 and masked_factors(op)) or FACTORS[op]
        while not possible(op)(row := {name: rng.choice(levels) for name, levels in factors.items()}):
            pass
        yield op, row


def in_turn(*sources: Iterator[Any]) -> Iterator[Any]:
    """One of each, again and again, until all have ended."""
    for turn in itertools.zip_longest(*sources):
        yield from (item for item in turn if item is not None)


def possible(op: str) -> Any:
    """Which levels can meet in one row of the operator; a row may lack factors."""

    usual, windows = FACTORS[op].get("ties", (None,))[0], FAMILIES[op].windows

    def judge(row: Row) -> bool:
        group, dtype, padding = row.get("group"), row.get("dtype"), row.get("padding")
        kinds = DTYPES_OF_GROUP.get(f"{group} {windows}", DTYPES_OF_GROUP.get(str(group), ()))
        return not (
            (dtype and kinds and dtype not in kinds)
            or (dtype == "bool" and group not in (None, "tied"))
            or (group == "empty windows" and padding not in (None, "beyond"))
            or (padding == "beyond" and group not in (None, "empty windows") and windows == "sliding")
            or (padding == "beyond" and (windows == "transposed" or dtype == "bool" or row.get("ties", usual) != usual))
            or (row.get("ties", usual) != usual and group not in (None, "tied"))
            or (group == "large" and row.get("divisor"))
            or (group == "large" and row.get("signs", "positive") != "positive")
        )

    return judge


# --- from a row to a case ----------------------------------------------------------------------------------------


def made(op: str, row: Row, rng: Random) -> Case:
    """The case of a row: sizes are drawn until the specification gives them a meaning, and float16 holds the sums."""
    for attempt in itertools.count():
        case = drawn(op, row, rng)
        try:
            small = math.prod(case.out_shape) <= 600
        except WindowgradError:
            continue
        if not small or (case.ceil_mode and attempt < 50 and not case.has_overhang):
            continue
        case = filled(case, row | ({"dtype": "float32"} if attempt > 50 and row["group"] != "large" else {}), rng)
        fits = case.group == row["group"] or "mask" in row or attempt > 100
        if fits and (case.dtype != "float16" or sums_are_exact(case)):
            return case
    raise AssertionError  # it counts for ever


def drawn(op: str, row: Row, rng: Random) -> Case:
    """The arguments and the shapes of a case; its cells are still zeros."""
    rank = row["rank"]
    lead = (0 if row["group"] == "empty batch" else rng.choice((1, 1, 2)), rng.choice((1, 2)))
    if "kernel" not in row:
        spatial = tuple(rng.randint(1, {1: 8, 2: 5, 3: 3}[rank]) for _ in range(rank))
        sizes: dict[str, Any] = {"output_size": tuple(bins(row["bins"], n, rng) for n in spatial)} if "bins" in row else {}
        options: dict[str, Any] = {name: row[name] for name in ("ties", "norm_type") if name in row}
        return Case(op, {"x": np.zeros((*lead, *spatial))}, **sizes, **options)
    kernel = entries(row["kernel"], rank, rng, {"one": 1, "two": 2, "three": 3}, 3 if rank < 3 else 2)
    stride = kernel if row["stride"] == "kernel" else entries(row["stride"], rank, rng, {"one": 1, "two": 2}, 3)
    dilation = entries(row["dilation"], rank, rng, {"one": 1, "two": 2}, 2)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    spatial = tuple(rng.randint(1, 2 + span) + rng.randint(0, 3 if rank < 3 else 1) for span in spans)
    sides = zip(spatial, kernel, stride, spans, strict=True)
    padding = tuple(pads(row["padding"], axis, *side, rng) for axis, side in enumerate(sides))
    window: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    if FAMILIES[op].windows == "sliding":
        names = ("ceil_mode", "count_include_pad", "divisor", "ties", "norm_type")
        options = {name: row[name] for name in names if name in row}
        return Case(op, {"x": np.zeros((*lead, *spatial))}, **window, **options)
    groups, ins, outs = row["groups"], row["channels"], rng.choice((1, 2))
    wide = (groups * ins, outs) if FAMILIES[op].windows == "transposed" else (groups * outs, ins)
    arrays = {"x": np.zeros((lead[0], groups * ins, *spatial)), "weight": np.zeros((*wide, *kernel))}
    arrays |= {"bias": np.zeros(groups * outs)} if row["bias"] else {}
    extra: dict[str, Any] = (
        {"output_padding": extras(row["output_padding"], stride, dilation, rng)} if "output_padding" in row else {}
    )
    return Case(op, arrays, **window, groups=groups, **extra)


def entries(level: str, rank: int, rng: Random, named: dict[str, int], most: int) -> tuple[int, ...]:
    return tuple(named[level] if level in named else rng.randint(1, most) for _ in range(rank))


def pads(level: str, axis: int, n: int, k: int, s: int, span: int, rng: Random) -> tuple[int, int]:
    """The padding of one axis."""
    if level == "same":
        total = max(0, (-(-n // s) - 1) * s + span - n)
        return total // 2, total - total // 2
    if level == "uneven":
        return rng.choice([(0, 1), (1, 0), (1, 2), (0, k // 2)])
    one = {
        "none": 0,
        "half": k // 2,
        "one axis": k // 2 if axis == 0 else 0,
        "over half": min(k // 2 + 1, max(span - 1, k // 2)),
    }
    size = one.get(level, span)
    return size, size


def bins(level: str, n: int, rng: Random) -> int:
    if level == "divisor":
        return rng.choice([m for m in range(1, n + 1) if n % m == 0])
    one = {"one": 1, "more than cells": n + rng.randint(1, 2), "uneven": max(1, n - 1)}
    return one.get(level, rng.randint(1, n + 1))


def extras(level: str, stride: tuple[int, ...], dilation: tuple[int, ...], rng: Random) -> tuple[int, ...]:
    most = [max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)]
    return tuple(0 if level == "none" else min(1, m) if level == "one" else rng.randint(0, m) for m in most)
