"""Convolution on Dask arrays: what each chunk of a result needs. Channels are joined, batch and spatial axes stay chunked.

A transposed convolution is cut as the gradient of the convolution it is the adjoint of: its outputs are cells, and each needs
the windows that see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import dask.array as da

from windowgrad.bridges.dask.blocks import bias_pulled, conv_pulled, convolved, settled, total, weight_pulled
from windowgrad.bridges.dask.cuts import Cut, Line, bounds, for_cells, for_outputs, line, shared_out, spread_over
from windowgrad.bridges.dask.graph import Block, Job, Key, Layer, Operand, blocks, tree
from windowgrad.bridges.dask.graph import kept as as_it_was
from windowgrad.bridges.dask.kinds import derivative, pushed
from windowgrad.params import ConvParams, TransposeParams
from windowgrad.spec.op import Op


class Convolution:
    """A convolution of a Dask array of shape `x`, and how its axes are cut."""

    def __init__(self, op: Op, params: ConvParams, x: Any, weight: Any) -> None:
        self.op, self.params, self.x, self.weight = op, params, x, weight
        self.transposed, rank = isinstance(params, TransposeParams), params.window.rank
        self.out = params.out_shape(x.shape, weight.shape)
        self.lead = x.ndim - rank - 1
        self.spatial = (self.out if self.transposed else x.shape)[self.lead + 1 :]
        self.sizes = x.chunks[self.lead + 1 :]
        lines = [without_overhang(line(params.window, axis, n)) for axis, n in enumerate(self.spatial)]
        windows = x.shape[self.lead + 1 :] if self.transposed else [each.outputs for each in lines]
        self.lines: list[Line] = [first(each, count) for each, count in zip(lines, windows, strict=True)]
        self.label = op.label or op.name

    def told(self, *more: Any) -> tuple[Any, ...]:
        return self.op.name, self.params, self.x.chunks, self.weight.shape, *more

    def axes(self, channels: Job, spatial: list[list[Job]], operands: int) -> list[list[Job]]:
        return [*(as_it_was(sizes, operands) for sizes in self.x.chunks[: self.lead]), [channels], *spatial]

    def by_cells(self, cells: Sequence[list[tuple[int, int]]], transposed: bool) -> list[list[Job]]:
        """Jobs that give cells of the convolution's input and need the windows that see them."""
        found = []
        for each, some in zip(self.lines, cells, strict=True):
            cuts = [whole(for_cells(each, wanted)) if transposed else for_cells(each, wanted) for wanted in some]
            found.append([Job(cut.keep[1] - cut.keep[0], (cut.outputs,), cut) for cut in cuts])
        return found

    def by_outputs(self, outputs: Sequence[list[tuple[int, int]]]) -> list[list[Job]]:
        """Jobs that give outputs of the convolution and need the cells they see."""
        found = []
        for each, some in zip(self.lines, outputs, strict=True):
            cuts = [for_outputs(each, wanted) for wanted in some]
            found.append([Job(cut.keep[1] - cut.keep[0], (cut.cells,), cut) for cut in cuts])
        return found

    def outputs(self, rule: str, arrays: Sequence[Any]) -> Any:
        """The result or its tangent: x and dx are cut, all others are needed whole."""
        channel, half = self.lead, len(arrays) // 2 if rule == "jvp" else len(arrays)
        if self.transposed:
            spatial = self.by_cells([spread_over(*each) for each in zip(self.lines, self.sizes, strict=True)], True)
        else:
            spatial = self.by_outputs([shared_out(*each) for each in zip(self.lines, self.sizes, strict=True)])
        axes = self.axes(Job(self.out[channel], ((0, self.x.shape[channel]),)), spatial, 1)
        operands = [Operand(each, 0 if i % half == 0 else None) for i, each in enumerate(arrays)]
        function = partial(convolved, self.op.name, rule, self.params, self.spatial)
        return blocks(self.label, function, axes, operands, pushed(self.op, rule, arrays), self.told(rule))

    def input_gradient(self, bias: Sequence[Any], g: Any) -> Any:
        channel, ranges = self.lead, [bounds(sizes) for sizes in self.sizes]
        spatial = self.by_outputs(ranges) if self.transposed else self.by_cells(ranges, False)
        axes = self.axes(Job(self.x.shape[channel], ((0, self.out[channel]),)), spatial, 1)
        kinds = self.x.dtype, bias[0].dtype if bias else None
        function = partial(conv_pulled, self.op.name, self.params, self.spatial, *kinds)
        operands = [Operand(self.weight), Operand(g, 0)]
        dtype = derivative(self.x.dtype, g.dtype)
        return blocks(f"{self.label}-vjp", function, axes, operands, dtype, self.told("vjp", *kinds))

    def weight_gradient(self, g: Any) -> Any:
        """Every window gives its part to the gradient of the weight, and these are summed in a tree."""
        layer = Layer(f"{self.label}-vjp-weight", [Operand(self.x, 0), Operand(g, 1)], *self.told(self.weight.dtype))
        channels = Job(0, ((0, self.x.shape[self.lead]), (0, self.out[self.lead])))
        axes = self.axes(channels, [], 2)
        for each, sizes in zip(self.lines, self.sizes, strict=True):
            some = [for_outputs(each, outputs) for outputs in (bounds(sizes) if self.transposed else shared_out(each, sizes))]
            seeing = [cut for cut in some if cut.keep[1] - cut.keep[0] == cut.outputs[1] - cut.outputs[0]]  # others see no cell
            axes.append(
                [Job(0, (cut.outputs, cut.cells) if self.transposed else (cut.cells, cut.outputs), cut) for cut in seeing]
            )
        shape, dtype = self.weight.shape, derivative(self.weight.dtype, g.dtype)
        function = partial(weight_pulled, self.op.name, self.params, self.spatial, shape, self.weight.dtype)
        return summed(layer, function, axes, shape, dtype)

    def bias_gradient(self, bias: Any, g: Any) -> Any:
        layer = Layer(f"{self.label}-vjp-bias", [Operand(g, 0)], self.params.window.rank, bias.dtype)
        axes = [as_it_was(sizes, 1) for sizes in g.chunks]
        axes[self.lead] = [Job(0, ((0, g.shape[self.lead]),))]
        return summed(layer, partial(bias_pulled, self.params.window.rank), axes, bias.shape, derivative(bias.dtype, g.dtype))


def without_overhang(line: Line) -> Line:
    """The same axis with its overhang as padding: neither has a product."""
    return replace(line, last=max(line.last, int(line.ends[-1])))


def first(line: Line, outputs: int) -> Line:
    """The same axis with its first windows only: an output_padding beyond the stride leaves room for more than there are."""
    return replace(line, begins=line.begins[:outputs], ends=line.ends[:outputs], counts=line.counts[:outputs])


def whole(cut: Cut) -> Cut:
    """A cut whose cells are no more than those it keeps: a transposed convolution gives just these."""
    low, (first, last) = cut.cells[0], cut.keep
    begin = low - cut.padding[0]
    return Cut(cut.outputs, (low + first, low + last), (low + first - begin, 0), False, (0, last - first))


def summed(layer: Layer, function: Any, axes: Sequence[Sequence[Job]], shape: tuple[int, ...], dtype: Any) -> Any:
    """The sum of what the blocks give, as one chunk."""
    found: list[Key] = []
    for number, jobs in enumerate(product(*axes)):
        found.append((f"{layer.name}-part", number))
        layer.tasks[found[-1]] = (function, Block(jobs), *layer.gathered(jobs))
    if not found:
        return da.zeros(shape, dtype=dtype, chunks=-1)
    tree(layer, found, (0,) * len(shape), total, partial(settled, dtype, shape))
    return layer.array(tuple((n,) for n in shape), dtype)


def compute(op: Op, rule: str, params: ConvParams, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
    convolution = Convolution(op, params, *arrays[:2])
    if rule != "vjp":
        return convolution.outputs(rule, arrays)
    *bias, g = arrays[2:]
    gradients: tuple[Callable[[], Any], ...] = (
        lambda: convolution.input_gradient(bias, g),
        lambda: convolution.weight_gradient(g),
        lambda: convolution.bias_gradient(bias[0], g),
    )
    wanted = needs or (True,) * (len(arrays) - 1)
    return tuple(gradient() if need else None for gradient, need in zip(gradients, wanted, strict=False))
