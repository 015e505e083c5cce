"""Every public function on small arrays, as the tests of the JAX bridge call it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import windowgrad as wg


@dataclass(frozen=True)
class Case:
    """`call(*arrays)` is one of the public functions, on arrays of these shapes."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def arrays(self, dtype: Any = np.float32, seed: int = 0) -> list[np.ndarray]:
        """Quarters around zero, no two in an array the same: sums of them are exact, and no maximum is tied."""
        rng = np.random.default_rng(seed)
        return [((rng.permutation(prod(s)) - prod(s) // 2) / 4).reshape(s).astype(dtype) for s in self.shapes]


def case(name: str, call: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    return Case(name, call, shapes)


POOLING = (
    case("max_pool1d", lambda x: wg.max_pool1d(x, 3, 2, 1), (2, 9)),
    case("max_pool2d", lambda x: wg.max_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 6, 7)),
    case("max_pool3d", lambda x: wg.max_pool3d(x, 2), (1, 4, 4, 5)),
    case("max_pool, dilated", lambda x: wg.max_pool(x, (2, 3), 1, dilation=2), (2, 6, 7)),
    case("max_pool, split", lambda x: wg.max_pool(x, (3,), 2, 1, ties="split"), (2, 7)),
    case("min_pool2d", lambda x: wg.min_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 6, 7)),
    case("avg_pool1d", lambda x: wg.avg_pool1d(x, 3, 2, 1), (2, 9)),
    case("avg_pool2d", lambda x: wg.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 3, 6, 7)),
    case("avg_pool3d", lambda x: wg.avg_pool3d(x, 2), (1, 4, 4, 5)),
    case("smooth_max_pool1d", lambda x: wg.smooth_max_pool1d(x, 3, 2, 1, beta=0.5), (2, 9)),
    case("smooth_max_pool2d", lambda x: wg.smooth_max_pool2d(x, 2, beta=-0.5, count_include_pad=False), (1, 2, 4, 5)),
    case("lp_pool2d", lambda x: wg.lp_pool2d(x, 2, 2, 1, padding=1), (1, 2, 4, 5)),
    case("global_lp_pool1d", lambda x: wg.global_lp_pool1d(x, 2), (2, 6)),
    case("adaptive_max_pool2d", lambda x: wg.adaptive_max_pool2d(x, (2, 3)), (2, 5, 7)),
    case("adaptive_avg_pool2d", lambda x: wg.adaptive_avg_pool2d(x, (2, None)), (2, 5, 4)),
    case("adaptive_smooth_max_pool1d", lambda x: wg.adaptive_smooth_max_pool1d(x, 3, beta=1), (2, 8)),
    case("global_max_pool2d", lambda x: wg.global_max_pool2d(x), (2, 3, 4)),
    case("global_avg_pool", lambda x: wg.global_avg_pool(x, 2, keepdims=False), (2, 3, 4)),
    case("global_smooth_max_pool1d", lambda x: wg.global_smooth_max_pool1d(x, beta=0.25), (2, 6)),
    case("pad", lambda x: wg.pad(x, ((1, 0), (0, 2))), (2, 3, 4)),
    case("pad with ones", lambda x: wg.pad(x, ((1, 0), (0, 2)), value=1), (2, 3, 4)),
    case("pad, reflected", lambda x: wg.pad(x, ((1, 0), (0, 7)), "reflect"), (2, 3, 4)),
    case("max_unpool1d", lambda x: wg.max_unpool1d(x, np.arange(24).reshape(2, 3, 4) % 7, 2), (2, 3, 4)),
    case("unpad", lambda x: wg.unpad(x, ((1, 0), (0, 2))), (2, 3, 4)),
)
CONVOLUTION = (
    case("conv1d", lambda x, w: wg.conv1d(x, w, padding="same"), (2, 3, 8), (4, 3, 3)),
    case("conv2d", lambda x, w, b: wg.conv2d(x, w, b, stride=2, padding=1), (2, 3, 5, 6), (4, 3, 3, 2), (4,)),
    case("conv2d, grouped", lambda x, w, b: wg.conv2d(x, w, b, groups=2, dilation=2), (4, 5, 6), (2, 2, 2, 3), (2,)),
    case("conv3d", lambda x, w: wg.conv3d(x, w), (1, 2, 3, 4, 3), (2, 2, 2, 2, 2)),
    case("conv_transpose1d", lambda x, w: wg.conv_transpose1d(x, w, stride=2), (2, 3, 4), (3, 2, 3)),
    case(
        "conv_transpose2d",
        lambda x, w, b: wg.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2),
        (1, 4, 3, 4),
        (4, 1, 3, 2),
        (2,),
    ),
)
CASES = POOLING + CONVOLUTION
NAMED = {c.name: c for c in CASES}
