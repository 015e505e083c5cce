"""What is known of an operator besides its meaning: the columns of the table in `ops`. All of it is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Windows = Literal["sliding", "adaptive", "global", "convolution", "transposed"]
"""Where the cells come from: pooling windows, bins or whole axes; the windows of a weight, forwards or turned around."""


@dataclass(frozen=True)
class Kernels:
    """One compiled function per rule, on NumPy arrays of machine numbers."""

    forward: Callable[..., Any]
    jvp: Callable[..., Any]
    vjp: Callable[..., tuple[Any, ...]]
    with_indices: Callable[..., tuple[Any, Any]] | None = None
    saving: Callable[..., tuple[Any, Any]] | None = None
    """`(params, *inputs) -> (y, saved)`: the forward rule, and an array that spares its vjp work if it is given as `saved`."""
    saves: Callable[..., tuple[tuple[int, ...], np.dtype[Any]] | None] | None = None
    """`(params, *kinds)`: the shape and dtype of what `saving` saves of inputs of these kinds; None where it saves nothing."""
    pushing: Callable[..., tuple[Any, Any] | None] | None = None
    """`(params, *inputs, *tangents) -> (y, dy)`: the forward rule and the jvp at once; None where each is better by itself."""
    prepare: Callable[..., Callable[..., Any] | None] | None = None
    """`(rule, params, *kinds)`: the rule for arrays of these shapes and dtypes whose cells are in a row and can be written,
    with everything done that follows from the kinds; None where there is none. After its inputs the forward rule takes an
    array for its result, and the vjp what was saved, or `needs=` if the operator chooses gradients. Of kernels for masks, the
    last kind is that of the mask, and the rule takes the mask first, then its arrays alone."""
    prepare_last: Callable[..., Callable[..., Any] | None] | None = None
    """`(rule, params, *arrays)`: the same for arrays with these shapes, dtypes and strides, if their channels stand last."""


@dataclass(frozen=True)
class Family:
    """A public function, its forms for 1, 2 and 3 axes (`name` + "1d", …), and the layer of `nn` that computes the same."""

    name: str
    operator: str
    """The name of the operator that computes it."""
    windows: Windows
    arguments: tuple[str, ...]
    """The names of its arguments in order; those after "*" are given by keyword only."""
    options: tuple[str, ...]
    """The arguments that the operator's parameters take after the geometry, in their order; the rest keep their defaults."""
    layer: str
    """The name of the class in `nn`."""
    summary: str
    """What it computes, in a sentence that opens the docstring; "the last `rank` axes" is said of its own rank in each form."""
    notes: str
    """What else to know of the operator."""
    defaults: tuple[tuple[str, Any], ...] = ()
    """The arguments whose default here is not the usual one."""
    case_arguments: tuple[str, ...] = ()
    """The fields of a case of `conform` that are arguments of this function, in the order in which they are written."""
    factors: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """What the cases of `conform` vary besides the windows: (name, levels) in order. Empty: it is not compared."""


@dataclass(frozen=True)
class Facts:
    """A row of the table without the meaning, which is the rest of the `Op` that carries it."""

    kernels: Callable[[], Kernels]
    """Imports the kernels, and Numba with them; called when the first one is needed."""
    result_dtype: Callable[..., np.dtype[Any]]
    """The dtype of the forward rule's result, from those of the inputs."""
    writes_out: bool
    """Its forward kernels can write into an array that they are given as `out`."""
    masked: Callable[[], Kernels] | None = None
    """Imports its kernels for arrays of which a mask leaves cells out. None: it takes no mask."""
    chooses_gradients: bool = False
    """Its vjp kernel can be told by `needs` which gradients are wanted."""
    families: tuple[Family, ...] = ()
    """The public functions that it computes."""
    copies_x: bool = False
    """Its kernels work on a copy of x as a whole, which counts in the memory that a call is refused for."""
    indices: tuple[str, ...] = ()
    """The inputs that are indices: integers, which have no derivative."""
    derivative_reads: tuple[str, ...] = ()
    """The inputs whose cells its jvp and vjp look at; of the others the shape and the dtype are enough."""
    partial_results: str | None = None
    """How results of parts of a window become that of the whole: "maximum", "minimum", "mean", "logsumexp", "p-norm".
    None: no parts."""
    rounds_by_order: bool = False
    """The same cells summed in another order give other bits, so a part of the outputs is summed in the order of the whole."""
    kernel_options: tuple[tuple[Any, ...], ...] = ((),)
    """The options after the geometry that have kernels of their own; `warmup` compiles those of each."""
    autocasts: bool = False
    """PyTorch's autocast computes it in the lower precision, as its own convolutions."""
    grows: bool | None = None
    """Its result is the input with cells around it (True) or without those (False); None: neither."""
    case_options: tuple[str, ...] = ()
    """The fields of a case of `conform` that the operator's parameters take after the geometry."""
