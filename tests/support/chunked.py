"""Arrays cut into chunks of any sizes, and what computing with them must give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np


def cut_at_random(shape: Sequence[int], rng: random.Random) -> tuple[tuple[int, ...], ...]:
    """Chunks of any sizes along every axis, also of none."""
    chunks = []
    for n in shape:
        sizes = []
        while sum(sizes) < n:
            sizes.append(rng.randint(0, n - sum(sizes)))
        chunks.append(tuple(sizes) or (0,))
    return tuple(chunks)


def lazy(array: Any, rng: random.Random) -> Any:
    return da.from_array(array, chunks=cut_at_random(array.shape, rng))


def calls(op: Any, params: Any, xs: Sequence[Any], dxs: Sequence[Any], g: Any) -> dict[str, tuple[Any, ...]]:
    """The results of every rule of an operator."""
    found = {"forward": (op.forward(params, *xs),), "jvp": (op.jvp(params, *xs, *dxs),), "vjp": tuple(op.vjp(params, *xs, g))}
    if op.with_indices:
        found["with_indices"] = op.with_indices(params, *xs)
    return found


def same_numbers(found: Any, expected: Any) -> bool:
    """The same shape, dtype and bits; objects are equal."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    return (found == expected).all() if found.dtype == object else found.tobytes() == expected.tobytes()


def normal(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Any:
    return rng.standard_normal(tuple(shape)).astype(dtype)
