"""PyTorch's memory formats: results have the format that PyTorch's own operators would give them.

A batch of images (N, C, H, W) or of volumes (N, C, D, H, W) may be stored with its channels last. Pooling and padding keep the
format of their input. A convolution has it if its input or its weight does, and so do its gradients. Other results of more
than one spatial axis are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch

from windowgrad.params import ConvParams, Params, PoolParams, UnpoolParams

Shape = Sequence[int]

FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def is_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether PyTorch takes a tensor for one with its channels last: its `suggest_memory_format`, ambiguous strides included.

    The strides must not fall from the channels over the spatial axes, the last first, to the batch. Gaps are allowed.
    """
    if strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1)):
        if strides[axis] < least:
            return False
        least = strides[axis] * max(shape[axis], 1)
    return strides[0] >= least and least != strides[1]  # equal: all axes but the batch have length 1


def has_channels_last(params: Params, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the results of an operator on these inputs have their channels last."""
    ndim = tensors[0].ndim
    if ndim not in FORMATS:
        return False
    for tensor in tensors[: 2 if isinstance(params, ConvParams) else 1]:
        strides = tensor.stride()
        if strides[-1] >= strides[1] and is_channels_last(tensor.shape, strides):  # the first is soon said, and mostly false
            return rank_of(params, ndim) == ndim - 2
    return False


def rank_of(params: Params, ndim: int) -> int:
    if isinstance(params, PoolParams):
        return params.geometry.rank
    return params.window.rank if isinstance(params, (ConvParams, UnpoolParams)) else ndim - 2


def strides_of(shape: Shape, channels_last: bool) -> tuple[int, ...]:
    """The strides of a new tensor; one that is not of images or volumes is contiguous."""
    axes = range(len(shape) - 1, -1, -1)
    order = chain((1,), axes[:-2], (0,)) if channels_last and len(shape) in FORMATS else axes
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def formatted(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with its channels last, copied only if its cells are not in that order already; a bias stays as it is."""
    if tensor.ndim not in FORMATS:
        return tensor
    ordered = tensor.contiguous(memory_format=FORMATS[tensor.ndim])
    return ordered.as_strided(ordered.shape, strides_of(ordered.shape, True))  # PyTorch's strides for axes of length 1
