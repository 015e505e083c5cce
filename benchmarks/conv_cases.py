"""The convolutions that are measured: every distinct one of two networks, filters of one channel, some of other ranks and
directions; and random ones (`random_convolutions.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.params import ConvParams, TransposeParams

Array = np.ndarray[Any, Any]

SPECIAL = {
    "U-Net up": "transposed (U-Net)",
    "volume": "volume, audio",
    "audio": "volume, audio",
    "filter": "filters of one channel",
}
"""Those that are no layers of the two networks: their groups in the plot."""


@dataclass(frozen=True)
class Case:
    """One layer with a bias, on images of `size`; backward is the gradients of its input, weight and bias together."""

    net: str
    ins: int
    outs: int
    kernel: tuple[int, ...]
    stride: int
    size: tuple[int, ...]
    padding: int = 0
    groups: int = 1
    transposed: bool = False
    batch: int = 1
    rule: str = "forward"
    dtype: str = "float32"

    @property
    def place(self) -> str:
        kind = f"{'×'.join(map(str, self.kernel))} s{self.stride}{' depthwise' if self.groups > 1 else ''}"
        other = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"{self.net} {self.ins}→{self.outs} {kind}, {'×'.join(map(str, self.size))}{other}"

    @property
    def group(self) -> str:
        """Of which line of the plot it is a part."""
        if self.net in SPECIAL:
            return SPECIAL[self.net]
        kind = "depthwise" if self.groups > 1 else "1×1" if math.prod(self.kernel) == 1 else "3×3 and larger"
        return f"{kind}, {'one image' if self.batch == 1 else 'batches'}"

    @property
    def name(self) -> str:
        return f"{self.rule} {self.place}, batch {self.batch}"

    def described(self) -> dict[str, Any]:
        names = ("net", "rule", "batch", "ins", "outs", "kernel", "stride", "padding", "groups", "transposed", "size", "dtype")
        return {"op": "filter" if self.filters else "depthwise" if self.groups > 1 else "conv"} | {
            name: getattr(self, name) for name in names
        }

    @property
    def filters(self) -> bool:
        """Whether it is what image libraries call a filter: one channel, and the size stays."""
        same = self.stride == 1 and all(k == 2 * self.padding + 1 for k in self.kernel)
        return self.ins == self.outs == 1 and same and not self.transposed

    @property
    def params(self) -> ConvParams:
        kind = TransposeParams if self.transposed else ConvParams
        return kind(Sliding(self.kernel, self.stride, self.padding), self.groups)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of x, weight, bias."""
        first, second = (self.ins, self.outs) if self.transposed else (self.outs, self.ins)
        return (self.batch, self.ins, *self.size), (first, second // self.groups, *self.kernel), (self.outs,)

    @property
    def flops(self) -> int:
        """Two for each multiply-add, those on padding too, as everybody counts; the gradients have twice as many."""
        x, w, _ = self.shapes
        cells = self.size if self.transposed else self.params.out_shape(x, w)[2:]
        forward = 2 * self.batch * math.prod(cells) * math.prod(w)
        return forward if self.rule == "forward" else 2 * forward

    def arrays(self) -> tuple[Array, ...]:
        """x, weight, bias and the gradient of the output."""
        shapes = (*self.shapes, self.params.out_shape(*self.shapes))
        return tuple(cells(shape, seed, self.dtype) for seed, shape in enumerate(shapes))


@lru_cache(maxsize=4)
def cells(shape: tuple[int, ...], seed: int, dtype: str) -> Array:
    """Integers from −3 to 3: the sums of any of these cases stay below 2²⁴, so that float32 is exact in whatever order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


# --- the networks ------------------------------------------------------------------------------------------------


def layer(net: str, ins: int, outs: int, kernel: int, size: int, stride: int = 1, groups: int = 1) -> Case:
    return Case(net, ins, outs, (kernel, kernel), stride, (size, size), kernel // 2, groups)


def resnet50() -> Iterator[Case]:
    """A stem, then four stages of blocks 1×1, 3×3, 1×1; the first 3×3 of a stage has its stride, as has its shortcut."""
    net = "ResNet-50"
    yield layer(net, 3, 64, 7, 224, 2)
    channels, size = 64, 56
    for width, blocks, stage_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = stage_stride if block == 0 else 1
            yield layer(net, channels, width, 1, size)
            yield layer(net, width, width, 3, size, stride)
            if block == 0:
                yield layer(net, channels, 4 * width, 1, size, stride)
            size //= stride
            yield layer(net, width, 4 * width, 1, size)
            channels = 4 * width


def mobilenet_v2() -> Iterator[Case]:
    """A stem, then blocks that widen by 1×1, filter each channel by 3×3 and narrow by 1×1; then the last 1×1."""
    net = "MobileNet-V2"
    yield layer(net, 3, 32, 3, 224, 2)
    channels, size = 32, 112
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for widening, outs, blocks, stage_stride in stages:
        for block in range(blocks):
            stride, width = stage_stride if block == 0 else 1, channels * widening
            if widening > 1:
                yield layer(net, channels, width, 1, size)
            yield layer(net, width, width, 3, size, stride, groups=width)
            size //= stride
            yield layer(net, width, outs, 1, size)
            channels = outs
    yield layer(net, channels, 1280, 1, size)


def others() -> Iterator[Case]:
    for ins, size in ((1024, 28), (512, 56), (256, 112), (128, 224)):
        yield Case("U-Net up", ins, ins // 2, (2, 2), 2, (size, size), transposed=True)
    yield Case("volume", 32, 64, (3, 3, 3), 1, (32, 32, 32), padding=1, batch=2)
    for ins, outs in ((1, 16), (16, 32)):
        yield Case("audio", ins, outs, (9,), 4, (1 << 20,), padding=4)
    for dtype in ("float32", "float64"):
        for side, size in (
            (9, (1 << 22,)),
            (3, (1024, 1024)),
            (7, (512, 512)),
            (11, (481, 637)),
            (3, (128,) * 3),
            (5, (61, 96, 96)),
        ):
            yield Case("filter", 1, 1, (side,) * len(size), 1, size, padding=side // 2, dtype=dtype)
    yield replace(layer("ResNet-50", 64, 64, 3, 56), dtype="float64")
    yield replace(layer("MobileNet-V2", 96, 96, 3, 56, groups=96), dtype="float64")


def grid() -> Iterator[Case]:
    """Every row of the benchmark; rows over the same arrays stand together."""
    layers = [replace(case, batch=batch) for case in dict.fromkeys((*resnet50(), *mobilenet_v2())) for batch in (1, 16)]
    for case in (*layers, *others()):
        for rule in ("forward", "backward"):
            yield replace(case, rule=rule)
