"""The body of every public function of convolution: from its options to parameters, and to a call that is ready to be made.

As in `pooling`, what was right once is not checked again: options that are the same objects, and arrays of the same shapes and
dtypes whose cells are in a row, lead to the rule with everything done that follows from them (`dispatch.route`). Nothing of the
cells of a weight is kept: nobody would notice a write to them.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np

from windowgrad import dispatch
from windowgrad.dispatch import Ready
from windowgrad.functional.records import conv_params, kernel_of, padding_for, transpose_params
from windowgrad.functional.remember import KEPT, is_plain
from windowgrad.params import ConvParams
from windowgrad.spec.op import Op

Options = tuple[Any, ...]


def convolving(op: Op, rank: int | None) -> Callable[..., Any]:
    """`compute(x, weight, bias, options, out)`; the options are `stride`, `padding`, `dilation` and `groups`."""
    kept: dict[Options, tuple[Options, ConvParams]] = {}

    def make(x: Any, weight: Any, options: Options) -> ConvParams:
        kernel = kernel_of(rank, weight)
        every = *kernel, *options
        try:
            known, params = kept[every]
            same = all(map(is_, known, every))
        except Exception:  # as below
            same = False
        if same:
            return params
        params = conv_params(kernel, *options)
        if all(map(is_plain, every)):
            if len(kept) >= KEPT:
                kept.clear()
            kept[every] = every, params
        return params

    return computing(op, make)


def transposing(op: Op, rank: int | None) -> Callable[..., Any]:
    """The same for the adjoint, whose options are `output_padding` and `output_size`, too."""

    def make(x: Any, weight: Any, options: Options) -> ConvParams:
        kernel, (stride, padding, dilation, groups, output_padding, output_size) = kernel_of(rank, weight), options
        extra = padding_for(x, kernel, stride, padding, dilation, output_padding, output_size)
        return transpose_params(kernel, stride, padding, dilation, groups, extra)

    return computing(op, make)


def computing(op: Op, make: Callable[[Any, Any, Options], ConvParams]) -> Callable[..., Any]:
    kept: dict[tuple[Any, ...], tuple[Options, Ready]] = {}

    def compute(x: Any, weight: Any, bias: Any, options: Options, out: Any) -> Any:
        arrays = (x, weight) if bias is None else (x, weight, bias)
        kinds = None if out is not None else kinds_of(arrays)
        if kinds is not None and dispatch.READY:
            try:
                known, call = kept[options, kinds]
                same = all(map(is_, known, options))
            except Exception:  # not met before, or it has no hash: of whatever kind the options are, `make` says what is wrong
                same = False
            if same:
                try:
                    return call(*arrays)
                except MemoryError as error:
                    raise dispatch.no_memory(op, error) from error
        params = make(x, weight, options)
        y = op.forward(params, *arrays, out=out)
        if kinds is not None and params.lasting and all(map(is_plain, options)):
            ready = dispatch.route(op, "forward", params, *zip(kinds[::2], kinds[1::2], strict=True))[1]
            if ready is not None:
                if len(kept) >= KEPT:
                    kept.clear()
                kept[options, kinds] = options, ready
        return y

    return compute


def kinds_of(arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The shape and the dtype of each, one after the other, if kernels can take the cells of all as they are; else None."""
    found: list[Any] = []
    for array in arrays:
        if type(array) is not np.ndarray or not array.flags.carray:
            return None
        found += array.shape, array.dtype
    return tuple(found)
