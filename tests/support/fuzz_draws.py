"""What cases of the fuzzer are drawn from: choices, sizes, geometries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Geometry, Global, Sliding

Shape = tuple[int, ...]
Random = np.random.Generator

LENGTHS = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 31, 32, 33, 37, 63, 64, 65, 97, 127, 129)


def one_of(rng: Random, choices: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
    if weights is None:
        return choices[rng.integers(len(choices))]
    return choices[int(rng.choice(len(choices), p=np.array(weights) / sum(weights)))]


def chance(rng: Random, p: float) -> bool:
    return bool(rng.random() < p)


# --- geometries --------------------------------------------------------------------------------------------------


def rank_of(rng: Random) -> int:
    return one_of(rng, (1, 2, 3, 4, 5), (4, 9, 4, 1.5, 1))


def sizes(rng: Random, rank: int, most: int) -> Shape:
    """Axes with at most that many cells in all, in any order."""
    if rank == 1 and chance(rng, 0.1):
        return (int(rng.integers(200, 5000)),)
    found: list[int] = []
    for _ in range(rank):
        left = max(1, most // math.prod(found))
        found.append(one_of(rng, [n for n in LENGTHS if n <= left]))
    return tuple(int(n) for n in rng.permutation(found))


def axis(rng: Random, n: int, k: int, fits: bool = True) -> tuple[int, int, tuple[int, int], int]:
    """(kernel, stride, padding, dilation) about an axis of n cells and a wanted kernel; a window `fits` if it must."""
    d = one_of(rng, (1, 2, 3, n), (8, 2, 1, 0.3))
    s = one_of(rng, (1, 2, 3, k, k + 1, k + 3, n, n + 1), (6, 4, 2, 2, 1.5, 0.7, 0.5, 0.5))
    reach = d * (k - 1)
    lo, hi = (int(one_of(rng, (0, reach // 2, k // 2, k - 1, k, k + 2, reach + 1), (5, 3, 2, 1, 0.7, 0.4, 0.4))) for _ in "ab")
    if chance(rng, 0.6):
        hi = lo
    if fits and reach + 1 > n + lo + hi:
        d = max(1, (n + lo + hi - 1) // max(k - 1, 1))
        k = k if d * (k - 1) + 1 <= n + lo + hi else n + lo + hi
    return int(k), int(s), (lo, hi), int(d)


def kernel_of(rng: Random, n: int) -> int:
    return int(one_of(rng, (1, 2, 3, 4, 5, 7, n, n + 1, rng.integers(1, 2 * n + 2)), (3, 5, 7, 2, 2, 1, 1, 0.5, 1)))


def sliding(rng: Random, spatial: Shape, kernel: Shape | None = None, ceil: float = 0.3, fits: bool = True) -> Sliding:
    wanted = kernel or tuple(kernel_of(rng, n) for n in spatial)
    sides = [axis(rng, n, k, fits) for n, k in zip(spatial, wanted, strict=True)]
    if kernel is None and chance(rng, 0.25):  # the ordinary kind: the same on every axis, as far as it fits
        k, s, p, d = sides[-1]
        sides = [
            (k, s, p, d) if d * (k - 1) + 1 <= n + sum(p) or not fits else side for n, side in zip(spatial, sides, strict=True)
        ]
    k, s, p, d = zip(*sides, strict=True)
    return Sliding(k, s, p, d, [chance(rng, 0.5) if chance(rng, ceil) else False for _ in spatial])


def geometry(rng: Random, spatial: Shape) -> Geometry:
    kind = one_of(rng, ("sliding", "adaptive", "global"), (7, 2, 1))
    if kind == "global":
        return Global(len(spatial), chance(rng, 0.5))
    if kind == "adaptive":
        return Adaptive([one_of(rng, (None, 1, 2, n, n + 2, int(rng.integers(1, n + 3))), (1, 2, 2, 1, 1, 3)) for n in spatial])
    return sliding(rng, spatial)


def leads(rng: Random) -> Shape:
    sizes = one_of(rng, ((), (1,), (3,), (2, 1), (1, 2), (2, 3), (2, 5), (1, 8), (2, 17), (2, 1, 2), (0, 2), (2, 0)))
    return tuple(sizes)
