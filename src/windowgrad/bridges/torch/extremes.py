"""The greater and the lesser of two tensors, and the greatest and the least along axes.

NaN wins; of equals the first is the value, and all share the gradient evenly. To have the value of one cell to the last bit
and the gradients of several, parts that are 0.0 are taken from it: x − x, of which one x is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from windowgrad.bridges.torch.operands import Tensor, alike, wide_of
from windowgrad.params import Params


def best(wins: Callable[[Tensor, Tensor], Tensor], params: Params, a: Tensor, b: Tensor) -> Tensor:
    """The winner; of equals the first, with half of the gradient for each."""
    a, b = alike(a, b)
    if not a.is_floating_point():
        return torch.where(wins(b, a), b, a)
    nan_a, nan_b = a != a, b != b
    ties = (a == b) | (nan_a & nan_b)
    return torch.where(ties, mean_of_equals(a, b), torch.where(nan_a | (wins(a, b) & ~nan_b), a, b))


def mean_of_equals(a: Tensor, b: Tensor) -> Tensor:
    """The value of `a` to the last bit, with half of the gradient for `a` and for `b`; less 0.0, −0.0 stays −0.0."""
    still, other = a.detach(), b.detach()
    finite = still - 0.5 * (still - a) - 0.5 * (other - b)
    return torch.where(torch.isfinite(still), finite, 0.5 * a + 0.5 * b)


def in_rows(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The cells of `axes` along one last axis."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    return x.permute([*kept, *sorted(axes)]).reshape([*(x.shape[axis] for axis in kept), count])


def extreme(find: Callable[..., Tensor], params: Any, x: Tensor) -> Tensor:
    """The first winner of each row; all that equal it share its gradient evenly, in float32 if they are of 16 bits."""
    shape = params.out_shape(tuple(x.shape))
    if 0 in shape:
        return x.new_zeros(shape)
    rows = in_rows(x, params.axes(tuple(x.shape)))
    rows = rows.to(torch.uint8 if x.dtype == torch.bool else wide_of(x.dtype))
    still = rows.detach()
    top = torch.gather(still, -1, find(still, dim=-1, keepdim=True))
    if x.is_floating_point():
        winners = (still == top) | ((still != still) & (top != top))
        count = winners.sum(-1, keepdim=True).to(rows.dtype)
        zero = rows.new_zeros(())
        finite = top - torch.where(winners, (still - rows) / count, zero).sum(-1, keepdim=True)
        top = torch.where(torch.isfinite(top), finite, torch.where(winners, rows / count, zero).sum(-1, keepdim=True))
    return top.to(x.dtype).reshape(shape)
