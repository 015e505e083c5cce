"""Every public window function with the shapes of its arrays, small enough to compute in no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import windowgrad as wg

SPATIAL = {1: (7,), 2: (5, 6), 3: (4, 5, 3)}


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def arrays(self, dtype: Any = np.float32, seed: int = 0) -> list[Any]:
        """No two cells of an array are equal, so every maximum has one place."""
        rng = np.random.default_rng(seed)
        return [(rng.permutation(int(np.prod(s))).reshape(s) / 16 - 1).astype(dtype) for s in self.shapes]

    def tensors(self, dtype: Any = torch.float64, seed: int = 0, requires_grad: bool = True) -> list[torch.Tensor]:
        return [torch.from_numpy(a).to(dtype).requires_grad_(requires_grad) for a in self.arrays(np.float64, seed)]


def pools(rank: int) -> list[Case]:
    x = ((2, *SPATIAL[rank]),)
    bins = (2,) * rank
    of = {name: getattr(wg, f"{name}{rank}d") for name in POOLS}
    return [
        Case(f"max_pool{rank}d", lambda x: of["max_pool"](x, 3, 2, 1), x),
        Case(f"max_pool{rank}d indices", lambda x: of["max_pool"](x, 2, 1, return_indices=True), x),
        Case(f"min_pool{rank}d", lambda x: of["min_pool"](x, 3, 2, 1), x),
        Case(f"min_pool{rank}d indices", lambda x: of["min_pool"](x, 2, 1, return_indices=True), x),
        Case(f"avg_pool{rank}d", lambda x: of["avg_pool"](x, 3, 2, 1, count_include_pad=False), x),
        Case(f"smooth_max_pool{rank}d", lambda x: of["smooth_max_pool"](x, 3, 2, 1, beta=1.5), x),
        Case(f"lp_pool{rank}d", lambda x: of["lp_pool"](x, 2.5, 3, 2, padding=1), x),
        Case(f"adaptive_lp_pool{rank}d", lambda x: of["adaptive_lp_pool"](x, 2, bins), x),
        Case(f"adaptive_max_pool{rank}d", lambda x: of["adaptive_max_pool"](x, bins), x),
        Case(f"adaptive_max_pool{rank}d indices", lambda x: of["adaptive_max_pool"](x, bins, return_indices=True), x),
        Case(f"adaptive_avg_pool{rank}d", lambda x: of["adaptive_avg_pool"](x, bins), x),
        Case(f"adaptive_smooth_max_pool{rank}d", lambda x: of["adaptive_smooth_max_pool"](x, bins, beta=-2.0), x),
        Case(f"global_max_pool{rank}d", lambda x: of["global_max_pool"](x), x),
        Case(f"global_avg_pool{rank}d", lambda x: of["global_avg_pool"](x, keepdims=False), x),
        Case(f"global_smooth_max_pool{rank}d", lambda x: of["global_smooth_max_pool"](x, beta=0.5), x),
    ]


POOLS = [f"{kind}{what}_pool" for kind in ("", "adaptive_", "global_") for what in ("max", "min", "avg", "smooth_max", "lp")]


def convolutions(rank: int) -> list[Case]:
    spatial, window = SPATIAL[rank], (2,) * rank
    conv, turned = getattr(wg, f"conv{rank}d"), getattr(wg, f"conv_transpose{rank}d")
    x, w, back = (2, 2, *spatial), (4, 1, *window), (2, 3, *window)
    return [
        Case(f"conv{rank}d", lambda x, w, b: conv(x, w, b, 2, 1, groups=2), (x, w, (4,))),
        Case(f"conv{rank}d without bias", lambda x, w: conv(x, w, padding="same"), (x, (3, 2, *window))),
        Case(f"conv_transpose{rank}d", lambda x, w, b: turned(x, w, b, 2, 1, 1), (x, back, (3,))),
    ]


REST = [
    Case("max_pool", lambda x: wg.max_pool(x, (2, 1, 2, 2), ties="split"), ((3, 2, 3, 4),)),
    Case("pad", lambda x: wg.pad(x, ((0, 2), 1)), ((2, 3, 4),)),
    Case("pad with ones", lambda x: wg.pad(x, ((0, 2), 1), value=1), ((2, 3, 4),)),
    Case("pad, reflected", lambda x: wg.pad(x, ((0, 5), 1), "reflect"), ((2, 3, 4),)),
    Case("unpad", lambda x: wg.unpad(x, ((0, 2), 1)), ((2, 3, 4),)),
    Case("global_max_pool of everything", lambda x: wg.global_max_pool(x, 2, keepdims=False), ((3, 4),)),
]
CASES = [*pools(1), *pools(2), *pools(3), *convolutions(1), *convolutions(2), *convolutions(3), *REST]
PLANES = [*pools(2), *convolutions(2), *REST]
"""The same in one rank: what is true of them does not depend on it."""


def values(result: Any) -> Any:
    """The result without its indices."""
    return result[0] if isinstance(result, tuple) else result


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def name(case: Case) -> str:
    return case.name
