"""From the arguments of a public function to the operator's parameters, made once for each set of options.

`rank` is None in a function for any number of axes, where `kernel_size` and `output_size` are tuples and their length is the
rank; where it is fixed, an integer means the same on every axis.
"""

from __future__ import annotations

from typing import Any, TypeVar

from windowgrad.arguments import axes, flag, ints, shape_of
from windowgrad.dispatch import first_of
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.functional.remember import remember
from windowgrad.geometry import Adaptive, Global, Sliding, named_padding, sliding
from windowgrad.params import ConvParams, PoolParams, TransposeParams

R = TypeVar("R", bound=PoolParams)


def windows(
    record: type[R], rank: int | None, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any, *options: Any
) -> R:
    """The record of a reduction over sliding windows."""
    sizes: Any = axes("kernel_size", kernel, rank, forms=True)
    return record(sliding(sizes, stride, padding, dilation, flag("ceil_mode", ceil_mode)), *options)


def bins(record: type[R], rank: int | None, output_size: Any, *options: Any) -> R:
    """The record of a reduction over adaptive bins."""
    sizes: Any = axes("output_size", output_size, rank, forms=True)
    return record(Adaptive(sizes), *options)


def everything(record: type[R], rank: Any, keepdims: Any, *options: Any) -> R:
    """The record of a reduction over the last axes as a whole."""
    return record(Global(rank, keepdims), *options)


def kernel_of(rank: int | None, weight: Any) -> tuple[int, ...]:
    """The window of a weight: all its axes but the two of the channels."""
    shape = shape_of("weight", weight)
    if len(shape) < 3 or (rank is not None and len(shape) != rank + 2):
        wanted = "at least 3 axes" if rank is None else f"{rank + 2} axes"
        raise WindowError(f"weight of shape {shape}: must have {wanted}, two for channels and one per axis of the window")
    return shape[2:]


def window_of(kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Sliding:
    steps = ints("stride", stride, len(kernel))  # here None is not the kernel
    return Sliding(kernel, steps, named_padding(padding, kernel, stride, dilation), dilation)  # type: ignore[arg-type]


@remember
def conv_params(kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: Any) -> ConvParams:
    params: ConvParams = first_of(ConvParams(window_of(kernel, stride, padding, dilation), groups))
    return params


def padding_for(
    x: Any, kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, output_padding: Any, output_size: Any
) -> Any:
    """The output_padding that gives `output_size`: the sizes of the spatial axes, or the whole shape of the output."""
    if output_size is None or isinstance(padding, str):
        return output_padding
    if any(ints("output_padding", output_padding, len(kernel), least=0)):
        raise OptionError(f"output_size={show(output_size)} and output_padding={show(output_padding)}: give only one of them")
    shape, rank = shape_of("x", x), len(kernel)
    given: Any = output_size
    if isinstance(output_size, (tuple, list)) and len(output_size) == len(shape) > rank:
        given = tuple(output_size)[len(shape) - rank :]
    window = window_of(kernel, stride, padding, dilation)
    return window.extra_for(window.split(shape)[1], ints("output_size", given, rank))


@remember
def transpose_params(
    kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: Any, output_padding: Any
) -> TransposeParams:
    if isinstance(padding, str):
        raise KindError(f"padding={padding!r}: must be an integer or one entry per axis")
    params: TransposeParams = first_of(TransposeParams(window_of(kernel, stride, padding, dilation), groups, output_padding))
    return params
