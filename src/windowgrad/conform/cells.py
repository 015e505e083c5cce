"""The cells of a case: small integers, so that every sum is exact in every dtype; and its mask, if it has one."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np

from windowgrad.conform.case import Array, Case, ramp
from windowgrad.conform.pairwise import Row
from windowgrad.spec.scalar import windows

LARGE_CELL = {"float16": 2**15, "float32": 2.0**127, "int8": 100}
LARGE_BASE = {"float16": 2**10, "float32": 2.0**100}
"""A cell whose powers do not fit the type, although a p-norm of a few of them does."""


def filled(case: Case, row: Row, rng: Random) -> Case:
    """The same case with cells of the row's group and dtype."""
    factor = divisors(case) if case.is_mean and row["group"] != "large" else 1
    arrays = {}
    for name, array in case.arrays.items():
        cells = numbers(array.shape, row["group"] if name == "x" else "plain", row["dtype"], rng)
        if row["group"] == "large" and case.is_norm:
            cells = np.full(array.shape, LARGE_BASE[row["dtype"]])
        arrays[name] = (cells * factor).astype(row["dtype"])
    if row.get("signs") == "positive":
        arrays["x"] = np.abs(arrays["x"]) + (arrays["x"] == 0).astype(row["dtype"])
    if row["group"] == "large" and case.is_convolution:
        arrays["weight"] = np.ones_like(arrays["weight"])
    return masked(replace(case, arrays=arrays), row, rng) if "mask" in row else replace(case, arrays=arrays)


def masked(case: Case, row: Row, rng: Random) -> Case:
    """The case with a mask, and with cells of the row's kind where the mask leaves them out."""
    where = mask(case, row["mask"], rng)
    special = {"NaN": [math.nan], "infinite": [math.inf, -math.inf]}.get(row["left out"], [])
    x = case.x.copy()
    for place in zip(*np.nonzero(~np.broadcast_to(where, x.shape)), strict=True) if special else ():
        x[place] = rng.choice(special)
    return replace(case, arrays=case.arrays | {"x": x}, where=where)


def mask(case: Case, level: str, rng: Random) -> Array:
    """All cells are left out, a whole window, or some here and there; the same in every plane, or other ones in each."""
    shape = case.spatial if level == "same in every plane" else case.x.shape
    if level == "all":
        return np.zeros(shape, dtype=bool)
    if level == "whole window":
        where = np.ones(shape, dtype=bool)
        for tap in rng.choice(list(windows(case.geometry, shape))).taps:
            where[tap] = False
        return where
    where = np.array([rng.random() < 0.7 for _ in range(math.prod(shape))], dtype=bool).reshape(shape)
    where.flat[rng.randrange(where.size)] = False
    return where


def numbers(shape: tuple[int, ...], group: str, dtype: str, rng: Random) -> Array:
    """Cells of a group, as floats: distinct in each plane, or few and often equal, some of them NaN or infinite."""
    low, high = (0, 1) if dtype == "bool" else (0, 3) if dtype.startswith("u") else (-2, 3)
    if group == "large":
        return np.full(shape, LARGE_CELL[dtype])
    if group in ("tie-free", "empty windows"):
        plane = math.prod(shape[2:])
        order = [rng.sample(range(plane), plane) for _ in range(math.prod(shape[:2]))]
        return (np.array(order, dtype=float) - (plane // 2 if low < 0 else 0)).reshape(shape)
    cells = [float(rng.randint(low, high)) for _ in range(math.prod(shape))]
    special = {"NaN": [math.nan], "infinite": [math.inf, -math.inf, -math.inf]}.get(group, [])
    cells = [rng.choice(special) if special and rng.random() < 0.3 else cell for cell in cells]
    return np.array(cells, dtype=float).reshape(shape)


def divisors(case: Case) -> int:
    """What makes a number divisible by every divisor of the mean, also by one axis after the other."""
    if case.divisor is not None:
        return case.divisor
    tables = case.geometry.tables(case.spatial)
    counts = [table.count + table.padded * case.count_include_pad for table in tables]
    return math.prod(math.lcm(*(int(count) for count in column if count)) for column in counts)


def sums_are_exact(case: Case) -> bool:
    """Whether float16, whose integers end at 2048, holds every sum, were all cells and gradients positive."""
    if case.group in ("large", "NaN", "infinite", "empty batch"):
        return case.group != "NaN" or not case.is_mean or divisors(case) < 40
    arrays = {name: np.abs(array).astype(object) for name, array in case.arrays.items()}
    if case.is_norm:
        return True
    g = ramp(case.out_shape, "float16").astype(object)
    if case.is_mean:
        window = math.prod(int(max(table.count)) for table in case.geometry.tables(case.spatial))
        return float(np.abs(case.x).max()) * window <= 2048 and divisors(case) <= 64
    pulled = case.meaning.vjp(case.params, *arrays.values(), g)
    return max(float(part.max(initial=0)) for part in pulled) <= 2048 and float(np.abs(case.x).max()) <= 2048
