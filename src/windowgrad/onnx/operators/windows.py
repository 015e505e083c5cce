"""Convolution and pooling. The attributes of ONNX become explicit arguments here, padding in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from windowgrad import functional
from windowgrad.autograd import arrays
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.geometry import index_of, place_of
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import places_beside
from windowgrad.onnx.operators.values import integers, numbers

Pairs = list[tuple[int, int]]


# --- windows ---------------------------------------------------------------------------------------------------------


class Side(NamedTuple):
    """One axis: its cells, and the window along it."""

    n: int
    kernel: int
    stride: int
    dilation: int


def sides(node: Node, x: Any, kernel: Sequence[int]) -> list[Side]:
    plane = tuple(x.shape)[2:]
    if len(plane) != len(kernel):
        raise WindowError(
            f"x of shape {tuple(x.shape)}: must have {len(kernel) + 2} axes for kernel_shape={show(tuple(kernel))}"
        )
    strides, dilations = (entries(node, name, len(kernel), 1) for name in ("strides", "dilations"))
    if min(strides, default=1) < 1:
        raise WindowError(f"strides={show(strides)}: must be at least 1")
    return [Side(*side) for side in zip(plane, kernel, strides, dilations, strict=True)]


def entries(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    found = node.get(name) or (default,) * count  # an empty list is one left out
    if len(found) != count:
        raise OptionError(f"{name}={show(found)}: must have {count} entries")
    return tuple(found)


def explicit(node: Node, rank: int) -> Pairs:
    """ "pads format should be as follow [x1_begin, x2_begin...x1_end, x2_end,...]", and VALID means none."""
    if auto_pad(node) == "VALID":
        return [(0, 0)] * rank
    pads = entries(node, "pads", 2 * rank, 0)
    return list(zip(pads[:rank], pads[rank:], strict=True))


def auto_pad(node: Node) -> str:
    found = node.get("auto_pad", "NOTSET")
    if found not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise OptionError(f"auto_pad={show(found)}: must be NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return str(found)


def is_same(node: Node) -> bool:
    return auto_pad(node).startswith("SAME")


def halves(node: Node, totals: Sequence[int]) -> Pairs:
    """ "If the padding is an odd number, the extra padding is added at the end for SAME_UPPER", else at the beginning."""
    return [(t // 2, t - t // 2) if auto_pad(node) == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]


def padding(node: Node, given: list[Side]) -> Pairs:
    """ "SAME_UPPER or SAME_LOWER mean pad the input so that output_shape[i] = ceil(input_shape[i] / strides[i])"."""
    if not is_same(node):
        return explicit(node, len(given))
    return halves(node, [max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n) for n, k, s, d in given])


def transposed_padding(node: Node, given: list[Side]) -> tuple[Pairs, list[int]]:
    """(padding, output_padding). With an output_shape, or with SAME, for which it is input_shape[i] · strides[i]:

    "total_padding[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i] - 1) * dilations[i] + 1) -
    output_shape[i]. If (auto_pads == SAME_UPPER): pads[start_i] = total_padding[i]/2; pads[end_i] = total_padding[i] -
    (total_padding[i]/2). Else: pads[start_i] = total_padding[i] - (total_padding[i]/2); pads[end_i] = (total_padding[i]/2)."
    A total below zero is that much more output_padding.
    """
    extra = list(entries(node, "output_padding", len(given), 0))
    sizes = node.get("output_shape")
    if not is_same(node) and not sizes:
        return explicit(node, len(given)), extra
    sizes = tuple(sizes or [side.n * side.stride for side in given])[-len(given) :]
    if len(sizes) != len(given):
        raise OptionError(f"output_shape={show(sizes)}: must have {len(given)} entries")
    totals = [s * (n - 1) + e + d * (k - 1) + 1 - m for (n, k, s, d), e, m in zip(given, extra, sizes, strict=True)]
    extra = [e + max(0, -t) for e, t in zip(extra, totals, strict=True)]
    return halves(node, [max(0, t) for t in totals]), extra


# --- convolution -----------------------------------------------------------------------------------------------------


def kernel_of(node: Node, w: Any) -> tuple[int, ...]:
    """ "kernel_shape: If not present, should be inferred from input W."."""
    kernel = tuple(w.shape)[2:]
    if tuple(node.get("kernel_shape") or kernel) != kernel:
        raise WindowError(f"kernel_shape={show(node.get('kernel_shape'))}: W of shape {tuple(w.shape)} has windows of {kernel}")
    return kernel


def conv(node: Node, x: Any, w: Any, bias: Any = None) -> Any:
    given = sides(node, x, kernel_of(node, w))
    stride, dilation = [side.stride for side in given], [side.dilation for side in given]
    return functional.conv(x, w, bias, stride, padding(node, given), dilation, node.get("group", 1))


def conv_transpose(node: Node, x: Any, w: Any, bias: Any = None) -> Any:
    given = sides(node, x, kernel_of(node, w))
    pads, extra = transposed_padding(node, given)
    stride, dilation = [side.stride for side in given], [side.dilation for side in given]
    return functional.conv_transpose(x, w, bias, stride, pads, extra, node.get("group", 1), dilation)


# --- pooling ---------------------------------------------------------------------------------------------------------


def window(node: Node, x: Any) -> dict[str, Any]:
    """The window of a pooling as arguments."""
    given = sides(node, x, node.get("kernel_shape", ()))
    return {
        "kernel_size": [side.kernel for side in given],
        "stride": [side.stride for side in given],
        "padding": padding(node, given),
        "dilation": [side.dilation for side in given],
        "ceil_mode": bool(node.get("ceil_mode", 0)),
    }


def max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) == 1:
        return functional.max_pool(x, **window(node, x))
    y, index = functional.max_pool(x, **window(node, x), return_indices=True)
    if not node.get("storage_order", 0):
        return y, in_all(index, tuple(x.shape))
    return y, places_beside(x, in_all(by_columns(numbers("Indices", index), tuple(x.shape)[2:]), tuple(x.shape)))


def in_all(index: Any, shape: tuple[int, ...]) -> Any:
    """ "The values of indices of are the indices of the selected values during max pooling. The indices are computed as flatten
    1-D tensor": here of all planes, not of each."""
    planes = np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * (len(shape) - 2))
    return arrays.add(index, planes * math.prod(shape[2:]))


def by_columns(index: Any, plane: tuple[int, ...]) -> Any:
    """storage_order 1: the cells of each plane are counted with its last axis the slowest."""
    return index_of(place_of(index, plane)[::-1], plane[::-1])


def average_pool(node: Node, x: Any) -> Any:
    return functional.avg_pool(x, **window(node, x), count_include_pad=bool(node.get("count_include_pad", 0)))


def lp_pool(node: Node, x: Any) -> Any:
    return functional.lp_pool(x, node.get("p", 2), **window(node, x))


def global_max_pool(node: Node, x: Any) -> Any:
    return functional.global_max_pool(x, rank_of(x))


def global_average_pool(node: Node, x: Any) -> Any:
    return functional.global_avg_pool(x, rank_of(x))


def global_lp_pool(node: Node, x: Any) -> Any:
    return functional.global_lp_pool(x, node.get("p", 2), rank_of(x))


def rank_of(x: Any) -> int:
    if len(x.shape) < 3:
        raise WindowError(f"x of shape {tuple(x.shape)}: must be (N, C, *spatial)")
    return len(x.shape) - 2


def max_unpool(node: Node, x: Any, indices: Any, output_shape: Any = None) -> Any:
    """ "The indices ... are the indices of the selected values ... computed as flatten 1-D tensor" of the output whose size
    follows from the attributes; "output_shape" only puts zeros after it."""
    kernel = node.get("kernel_shape", ())
    given = sides(node, x, kernel)
    strides, pads = [side.stride for side in given], explicit(node, len(given))
    plane = functional.conv_transpose_out_shape([side.n for side in given], kernel, strides, pads)
    places = numbers("I", indices) % math.prod(plane)
    y = functional.max_unpool(x, places_beside(x, places), kernel, strides, pads)
    if output_shape is None:
        return y
    sizes = integers("output_shape", output_shape)[2:]
    if len(sizes) != len(plane):
        raise WindowError(f"output_shape={show(sizes)}: must have {len(plane) + 2} entries")
    return functional.pad(y, [(0, n - m) for n, m in zip(sizes, plane, strict=True)])


TABLE: dict[str, Callable[..., Any]] = {
    "AveragePool": average_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
