"""Operators of the domain `windowgrad`: a record of parameters as the attributes of a node, and back.

An operator that ONNX does not have is written as a function of this domain, whose body of standard operators every runtime can
run. Its name, without a number at the end, is that of the operator of windowgrad, and its attributes are the whole record, so a
loader that knows windowgrad computes the operator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from windowgrad.arguments import Pairs
from windowgrad.autograd.arrays import ARRAY_OPS
from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.autograd.arrays.records import CrossEntropyParams, EachParams, MseParams
from windowgrad.dispatch import run
from windowgrad.errors import KindError, MissingError, WindowError, WindowgradError
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import (
    ExtendParams,
    LpParams,
    Mask,
    MaxParams,
    MeanParams,
    MinParams,
    Params,
    PoolParams,
    SharpParams,
    SmoothParams,
    TransposeParams,
    UnpoolParams,
)
from windowgrad.spec.op import Op

DOMAIN, VERSION = "windowgrad", 1

Attributes = dict[str, Any]


class Meaning(NamedTuple):
    """What a node of the domain computes."""

    op: Op
    params: Params
    masked: bool
    """Whether the last input is a mask: `where`."""

    def __call__(self, *inputs: Any, indices: bool = False) -> Any:
        """The result for these inputs, and the indices of the winners if they are asked for."""
        params, arrays = self.params, inputs
        if self.masked:
            *arrays, where = inputs  # type: ignore[assignment]
            params = replace(params, where=Mask(np.asarray(where)))  # type: ignore[type-var]  # all records of pooling are
        return run(self.op, "with_indices" if indices else "forward", params, *arrays)


def meaning(name: str, attributes: Mapping[str, Any]) -> Meaning:
    """What a node with this name and these attributes computes."""
    if name not in OPERATORS:
        raise MissingError(f"{DOMAIN}.{name}: no such operator; a newer version of windowgrad may have it")
    try:
        op, read = OPERATORS[name]
        return Meaning(op, read(attributes), bool(attributes.get("masked", 0)))
    except WindowgradError:
        raise
    except KeyError as error:
        raise WindowError(f"{DOMAIN}.{name}: the attribute {error} is missing") from None
    except (TypeError, ValueError) as error:  # of another kind or length than they should be
        raise WindowError(f"{DOMAIN}.{name}: wrong attributes: {error}") from None


def attributes_of(params: Params) -> Attributes:
    """The record as attributes; numbers that are not integers as tensors of one float64."""
    machine = params.machine()
    if type(machine) not in WRITE:
        raise KindError(f"{type(params).__name__} cannot be written as attributes")
    found = WRITE[type(machine)](machine)
    return {name: value for name, value in found.items() if value is not None}


# --- geometries --------------------------------------------------------------------------------------------------


def pads_of(padding: Pairs) -> tuple[int, ...]:
    """As ONNX has them: all before, then all after."""
    return tuple(lo for lo, _ in padding) + tuple(hi for _, hi in padding)


def pairs_of(pads: Any) -> Pairs:
    half = len(pads) // 2
    return tuple(zip(pads[:half], pads[half:], strict=True))


def window_attributes(window: Sliding) -> Attributes:
    return {
        "kernel_shape": window.kernel,
        "strides": window.stride,
        "pads": pads_of(window.padding),
        "dilations": window.dilation,
        "ceil_mode": tuple(map(int, window.ceil_mode)),
    }


def window_of(given: Mapping[str, Any]) -> Sliding:
    ceil = tuple(map(bool, given["ceil_mode"]))
    return Sliding(given["kernel_shape"], given["strides"], pairs_of(given["pads"]), given["dilations"], ceil)


def geometry_attributes(geometry: Geometry) -> Attributes:
    if isinstance(geometry, Sliding):
        return window_attributes(geometry)
    if isinstance(geometry, Adaptive):
        return {"output_size": tuple(-1 if size is None else size for size in geometry.output_size)}
    assert isinstance(geometry, Global)
    return {"rank": geometry.rank, "keepdims": int(geometry.keepdims)}


def geometry_of(given: Mapping[str, Any]) -> Geometry:
    if "kernel_shape" in given:
        return window_of(given)
    if "output_size" in given:
        return Adaptive(tuple(None if size == -1 else size for size in given["output_size"]))
    return Global(int(given["rank"]), bool(given["keepdims"]))


# --- records -----------------------------------------------------------------------------------------------------


def pool(params: PoolParams, **options: Any) -> Attributes:
    return {**geometry_attributes(params.geometry), **options, "masked": None if params.where is None else 1}


def write_winner(params: MaxParams) -> Attributes:
    return pool(params, ties=params.ties, empty=params.empty)


def write_mean(params: MeanParams) -> Attributes:
    return pool(params, count_include_pad=int(params.count_include_pad), divisor_override=params.divisor_override)


def write_smooth(params: SmoothParams) -> Attributes:
    return pool(params, beta=number(params.beta), count_include_pad=int(params.count_include_pad))


def write_unpool(params: UnpoolParams) -> Attributes:
    return {**window_attributes(params.window), "output_size": params.output_size, "duplicates": params.duplicates}


def write_transpose(params: TransposeParams) -> Attributes:
    extra = params.output_padding
    return {**window_attributes(params.window), "group": params.groups, "output_padding": extra}


def number(value: Any) -> Any:
    return np.array(float(value))


def plain(value: Any) -> float:
    return float(np.asarray(value).reshape(()))


def read_winner(record: type[MaxParams]) -> Callable[[Mapping[str, Any]], Params]:
    return lambda given: record(geometry_of(given), given["ties"], given["empty"])


def read_mean(given: Mapping[str, Any]) -> Params:
    return MeanParams(geometry_of(given), bool(given["count_include_pad"]), given.get("divisor_override"))


def read_transpose(given: Mapping[str, Any]) -> Params:
    return TransposeParams(window_of(given), int(given["group"]), tuple(given["output_padding"]))


WRITE: dict[type[Params], Callable[[Any], Attributes]] = {
    MaxParams: write_winner,
    MinParams: write_winner,
    MeanParams: write_mean,
    SmoothParams: write_smooth,
    SharpParams: lambda params: pool(params, count_include_pad=int(params.count_include_pad)),
    LpParams: lambda params: pool(params, norm_type=number(params.norm_type)),
    UnpoolParams: write_unpool,
    TransposeParams: write_transpose,
    ExtendParams: lambda params: {"pads": pads_of(params.padding), "mode": params.mode},
    NormaliseParams: lambda params: {"axis": params.axis, "epsilon": number(params.eps)},
    EachParams: lambda params: {},
    CrossEntropyParams: lambda params: {},
    MseParams: lambda params: {},
}

ARRAYS = {op.name: op for op in ARRAY_OPS}

OPERATORS: dict[str, tuple[Op, Callable[[Mapping[str, Any]], Params]]] = {
    "max_pool": (OPS["max_pool"], read_winner(MaxParams)),
    "min_pool": (OPS["min_pool"], read_winner(MinParams)),
    "avg_pool": (OPS["avg_pool"], read_mean),
    "smooth_max_pool": (
        OPS["smooth_max_pool"],
        lambda given: SmoothParams(geometry_of(given), plain(given["beta"]), bool(given["count_include_pad"])),
    ),
    "sharp_smooth_max_pool": (
        OPS["sharp_smooth_max_pool"],
        lambda given: SharpParams(geometry_of(given), bool(given["count_include_pad"])),
    ),
    "lp_pool": (OPS["lp_pool"], lambda given: LpParams(geometry_of(given), plain(given["norm_type"]))),
    "max_unpool": (
        OPS["max_unpool"],
        lambda given: UnpoolParams(window_of(given), given.get("output_size"), given["duplicates"]),
    ),
    "conv_transpose": (OPS["conv_transpose"], read_transpose),
    "extend": (OPS["extend"], lambda given: ExtendParams(pairs_of(given["pads"]), given["mode"])),
    "batch_norm": (ARRAYS["batch_norm"], lambda given: NormaliseParams(given["axis"], plain(given["epsilon"]))),
    "cross_entropy": (ARRAYS["cross_entropy"], lambda given: CrossEntropyParams()),
    "mse": (ARRAYS["mse"], lambda given: MseParams()),
    "inverse_root": (ARRAYS["inverse_root"], lambda given: EachParams()),
}
"""The operators by name, each with what makes its record from attributes."""
