"""Calls that PyTorch and windowgrad both understand, drawn within PyTorch's domain, on arrays whose sums are exact.

PyTorch takes a padding of at most half the kernel, dilates no mean, and makes something of an empty window that rule 3 does
not; what lies outside is in test_torch_differences.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import assume
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad.geometry import Adaptive, Geometry, Sliding, named_padding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, TransposeParams

torch.set_num_threads(1)  # the arrays are tiny: threads would only wait for each other

FAMILIES = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "conv", "conv_transpose")
NAMES = [f"{family}{rank}d" for family in FAMILIES for rank in (1, 2, 3)]
MAX_NAMES = [name for name in NAMES if "max" in name]
CONV_NAMES = [name for name in NAMES if "conv" in name]
WINDOW = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
KERNEL = {1: 5, 2: 4, 3: 3}
ROOM = {1: 8, 2: 4, 3: 2}


@dataclass
class Case:
    """One call: the function's name in both libraries, its keyword arguments in both, and its arrays."""

    name: str
    arguments: dict[str, Any]
    arrays: list[np.ndarray]

    @property
    def rank(self) -> int:
        return int(self.name[-2])

    def ours(self, **more: Any) -> Any:
        return getattr(wg, self.name)(*self.arrays, **self.arguments, **more)

    def theirs(self, *tensors: torch.Tensor, **more: Any) -> Any:
        return getattr(F, self.name)(*(tensors or self.tensors()), **self.arguments, **more)

    def tensors(self) -> list[torch.Tensor]:
        return [torch.from_numpy(array) for array in self.arrays]

    def record(self) -> tuple[Any, Any]:
        """The operator's record and its parameters, for the derivatives."""
        name, a = self.name[:-2], dict(self.arguments)
        if name.startswith("adaptive"):
            sizes = per_axis(a["output_size"], self.rank)
            params = MaxParams if "max" in name else MeanParams
            return OPS[name.removeprefix("adaptive_")], params(Adaptive(sizes))
        if name.startswith("conv"):
            kernel, stride, dilation = self.arrays[1].shape[2:], a["stride"], a["dilation"]
            window = Sliding(kernel, stride, named_padding(a["padding"], kernel, stride, dilation), dilation)
            if name == "conv":
                return OPS[name], ConvParams(window, a["groups"])
            return OPS[name], TransposeParams(window, a["groups"], a["output_padding"])
        window = sliding(self.rank, **{k: a.pop(k) for k in WINDOW if k in a})
        return OPS[name], (MaxParams if name == "max_pool" else MeanParams)(window, **a)


def per_axis(value: Any, rank: int) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,) * rank


def sliding(rank: int, kernel_size: Any, **arguments: Any) -> Sliding:
    return Sliding(per_axis(kernel_size, rank), **arguments)


def same(ours: Any, theirs: torch.Tensor) -> bool:
    """Equal as arrays: dtype, shape and every cell; NaN equals NaN."""
    theirs = theirs.detach().numpy()
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


# --- arrays ------------------------------------------------------------------------------------------------------


@st.composite
def filled(draw: st.DrawFn, shape: tuple[int, ...], values: Any) -> np.ndarray:
    """An array of `shape` whose cells are some of `values`; it has their dtype."""
    count = math.prod(shape)
    return values[np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8) % len(values)].reshape(shape)


@st.composite
def small_integers(draw: st.DrawFn, shape: tuple[int, ...], dtype: Any, times: int = 1) -> np.ndarray:
    """−3 … 3 times a factor: ties are common, sums and products exact."""
    return draw(filled(shape, np.arange(-3, 4).astype(dtype) * dtype(times)))


def exact_factor(params: MeanParams, spatial: tuple[int, ...]) -> int:
    """What makes a number divisible by every divisor of a mean, also by one axis after the other, as PyTorch divides."""
    if params.divisor_override is not None:
        return params.divisor_override
    counted = params.count_include_pad
    tables = params.geometry.tables(spatial)
    return math.prod(math.lcm(*(int(c + p * counted) for c, p in zip(t.count, t.padded, strict=True))) for t in tables)


# --- calls -------------------------------------------------------------------------------------------------------


@st.composite
def entries(draw: st.DrawFn, rank: int, low: int, high: int) -> Any:
    """An integer, or one per axis."""
    one = st.integers(low, high)
    return draw(one | st.tuples(*[one] * rank))


@st.composite
def leads(draw: st.DrawFn, channels: Any = None) -> tuple[int, ...]:
    """Channels, with or without a batch, which may be empty."""
    c = draw(st.integers(1, 3)) if channels is None else channels
    return draw(st.sampled_from([(c,), (0, c), (1, c), (2, c)]))


@st.composite
def windows(draw: st.DrawFn, rank: int, name: str) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The arguments of a sliding window and the sizes of an input it fits."""
    kernel = draw(entries(rank, 1, KERNEL[rank]))
    ks = per_axis(kernel, rank)
    halves = min(ks) // 2
    padding = draw(st.integers(0, halves) | st.tuples(*(st.integers(0, k // 2) for k in ks)))
    arguments = {"kernel_size": kernel, "padding": padding, "ceil_mode": draw(st.booleans())}
    if draw(st.booleans()):
        arguments["stride"] = draw(entries(rank, 1, 4))
    if name == "max_pool":
        arguments["dilation"] = draw(entries(rank, 1, 3))
    spans = [d * (k - 1) + 1 for k, d in zip(ks, per_axis(arguments.get("dilation", 1), rank), strict=True)]
    least = [max(1, span - 2 * p) for span, p in zip(spans, per_axis(padding, rank), strict=True)]
    if (name, rank) == ("avg_pool", 3):  # there PyTorch wants the kernel to fit without the padding
        least = list(ks)
    return arguments, tuple(draw(st.integers(n, n + ROOM[rank])) for n in least)


def has_empty_window(geometry: Geometry, spatial: tuple[int, ...]) -> bool:
    return not all(table.count.all() for table in geometry.tables(spatial))


@st.composite
def pools(draw: st.DrawFn, name: str, divided: bool, dtype: Any = None, values: Any = None) -> Case:
    """A pooling call. With `divided` the cells are multiples of every divisor. `values` are the cells to draw from."""
    rank, family = int(name[-2]), name[:-2]
    if family.startswith("adaptive"):
        spatial = tuple(draw(st.integers(1, ROOM[rank] + 4)) for _ in range(rank))
        one = st.integers(1, ROOM[rank] + 3)
        some = one if rank == 1 else one | st.none()
        arguments = {"output_size": draw(one | st.tuples(*[some] * rank))}
    else:
        arguments, spatial = draw(windows(rank, family))
    if family == "avg_pool":
        arguments["count_include_pad"] = draw(st.booleans())
        if rank > 1:
            arguments["divisor_override"] = draw(st.none() | st.integers(1, 7))
    case = Case(name, arguments, [])
    _, params = case.record()
    assume(not has_empty_window(params.geometry, spatial))
    factor = exact_factor(params, spatial) if "avg" in name and divided else 1
    dtype = dtype or draw(st.sampled_from([np.float32, np.float64]))
    if factor * 3 * math.prod(spatial) >= 2**24:  # more than float32 holds exactly
        dtype = np.float64
    shape = draw(leads()) + spatial
    case.arrays = [draw(filled(shape, values) if values is not None else small_integers(shape, dtype, factor))]
    return case


@st.composite
def convolutions(draw: st.DrawFn, name: str, dtype: Any = None) -> Case:
    """A call of conv or conv_transpose, with or without bias."""
    rank, family = int(name[-2]), name[:-2]
    ks = tuple(draw(st.integers(1, KERNEL[rank])) for _ in range(rank))
    stride, dilation = draw(entries(rank, 1, 3)), draw(entries(rank, 1, 3))
    padding = draw(entries(rank, 0, 3) | (st.sampled_from(["same", "valid"]) if family == "conv" else st.nothing()))
    stride = 1 if padding == "same" else stride
    groups, ins, outs = draw(st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2)))
    arguments = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    pads = per_axis({"same": 10**6, "valid": 0}.get(padding, padding) if isinstance(padding, str) else padding, rank)
    steps = [per_axis(v, rank) for v in (stride, dilation)]
    if family == "conv":
        least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(ks, steps[1], pads, strict=True)]
        weight = (groups * outs, ins, *ks)
    else:
        extra = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(*steps, strict=True))
        arguments["output_padding"] = extra
        small = [d * (k - 1) + e - 2 * p for k, d, e, p in zip(ks, steps[1], extra, pads, strict=True)]
        least = [max(1, 1 - m // s) for m, s in zip(small, steps[0], strict=True)]  # (n − 1)·s + m + 1 ≥ 1
        weight = (groups * ins, outs, *ks)
    spatial = tuple(draw(st.integers(n, n + ROOM[rank])) for n in least)
    dtype = dtype or draw(st.sampled_from([np.float32, np.float64]))
    shapes = [draw(leads(groups * ins)) + spatial, weight, (groups * outs,)]
    count = draw(st.sampled_from([2, 3]))
    return Case(name, arguments, [draw(small_integers(shape, dtype)) for shape in shapes[:count]])


def cases(name: str, divided: bool = False) -> st.SearchStrategy[Case]:
    """A call of any function of NAMES."""
    return convolutions(name) if "conv" in name else pools(name, divided or name.startswith("adaptive"))


# --- the smooth maximum, which PyTorch has only as logsumexp ------------------------------------------------------

NORMAL = np.random.default_rng(0).standard_normal(100)


def logsumexp_of_windows(x: torch.Tensor, geometry: Sliding, beta: float, count_include_pad: bool) -> torch.Tensor:
    """(1/β)·log Σ exp(β·x) by PyTorch alone. Padding is zeros or nothing; the overhang of ceil mode is nothing."""
    rank, nothing = geometry.rank, -torch.inf
    pads = [side for lo, hi in reversed(geometry.padding) for side in (lo, hi)]
    scaled = F.pad(beta * x, pads, value=0.0 if count_include_pad else nothing)
    grid = geometry.grid(x.shape[-rank:])
    spans = [d * (k - 1) + 1 for k, d in zip(geometry.kernel, geometry.dilation, strict=True)]
    for axis in range(rank):
        needed = (grid[axis] - 1) * geometry.stride[axis] + spans[axis]
        hang = max(0, needed - scaled.shape[axis - rank])
        scaled = F.pad(scaled, [0, 0] * (rank - 1 - axis) + [0, hang], value=nothing)
    for axis in range(rank):
        scaled = scaled.unfold(x.ndim - rank + axis, spans[axis], geometry.stride[axis])
        scaled = scaled[..., :: geometry.dilation[axis]]
    return torch.logsumexp(scaled, tuple(range(-rank, 0))) / beta
