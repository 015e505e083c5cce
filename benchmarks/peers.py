"""Who is measured. Each takes a case and its arrays and gives a call, with all that can be prepared done; None: it has none.

What a call returns is turned into an N×C×… array by `array_of`, outside the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from cases import BETA, Array, Case
from jax import lax
from onnx import TensorProto, helper
from timing import THREADS, Call

from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams, SmoothParams

MOST_UNFOLDED = 4 << 30  # bytes


def array_of(case: Case, peer: str, result: Any) -> Array:
    array = np.asarray(result.detach() if isinstance(result, torch.Tensor) else result)
    return np.moveaxis(array, -1, 1) if case.last and peer == "JAX" else array


# --- this project ------------------------------------------------------------------------------------------------


def ours(case: Case, x: Array, g: Array) -> Call:
    name, params = {
        "max": ("max_pool", MaxParams(case.geometry)),
        "avg": ("avg_pool", MeanParams(case.geometry)),
        "smooth": ("smooth_max_pool", SmoothParams(case.geometry, BETA)),
    }[case.op]
    op = OPS[name]
    return (lambda: op.forward(params, x)) if case.rule == "forward" else (lambda: op.vjp(params, x, g)[0])


# --- PyTorch -----------------------------------------------------------------------------------------------------


def by_torch(case: Case, x: Array, g: Array) -> Call | None:
    """In the layout of the case: a tensor of a transposed view is PyTorch's channels_last.

    Backward is the pull alone: its forward has run and left the winners' indices, which ours has to find again.
    """
    pool = torch_smooth(case) if case.op == "smooth" else torch_pool(case)
    if pool is None:
        return None
    cells, gradient = torch.from_numpy(x), torch.from_numpy(g)
    if case.last:
        assert cells.is_contiguous(memory_format=torch.channels_last)
    if case.rule == "forward":
        return lambda: pool(cells)
    cells = cells.requires_grad_()
    y = pool(cells)
    return lambda: torch.autograd.grad(y, cells, gradient, retain_graph=True)[0]


def torch_pool(case: Case) -> Callable[[Any], Any] | None:
    rank, geometry = case.geometry.rank, case.geometry
    if isinstance(geometry, Global) and (case.op, case.rule) == ("max", "forward"):
        return lambda x: x.amax((2, 3), keepdim=True)  # its vectorised form; the adaptive one has the faster backward
    if isinstance(geometry, Sliding):
        function = getattr(F, f"{case.op}_pool{rank}d", None)
        return function and (lambda x: function(x, *case.as_windows()))
    bins = (1,) * rank if isinstance(geometry, Global) else geometry.output_size
    function = getattr(F, f"adaptive_{case.op}_pool{rank}d")
    return lambda x: function(x, bins)


def torch_smooth(case: Case) -> Callable[[Any], Any] | None:
    """unfold and logsumexp, the best there is; over everything there is nothing to unfold. Padded cells are zeros, as here."""
    windows = case.as_windows()
    if case.geometry.rank != 2 or windows is None:
        return None
    kernel, stride, padding = windows
    if isinstance(case.geometry, Global):
        return lambda x: x.logsumexp((2, 3), keepdim=True)
    out, cells = case.out_shape, math.prod(kernel)
    if math.prod(out) * cells * 4 > MOST_UNFOLDED:
        return None
    split = (*out[:2], cells, math.prod(out[2:]))
    return lambda x: F.unfold(x, kernel, padding=padding, stride=stride).reshape(split).logsumexp(2).reshape(out)


# --- JAX ---------------------------------------------------------------------------------------------------------


def by_jax(case: Case, x: Array, g: Array) -> Call | None:
    """Compiled ahead. The pull is compiled from (x, g): whatever of its forward it needs is computed again in its time,
    and what it does not need XLA drops. Smooth max is no reduction of `reduce_window`, so there is none."""
    windows = case.as_windows()
    if case.op == "smooth" or windows is None:
        return None
    pool = jax_pool(case, *windows)
    stored = [jax.device_put(np.moveaxis(a, 1, -1) if case.last else a) for a in (x, g)]
    if case.rule == "forward":
        function, arguments = pool, stored[:1]
    else:
        function, arguments = lambda x, g: jax.vjp(pool, x)[1](g)[0], stored
    compiled = jax.jit(function).lower(*arguments).compile()
    return lambda: compiled(*arguments).block_until_ready()


def jax_pool(case: Case, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> Callable[[Any], Any]:
    spatial = slice(1, -1) if case.last else slice(2, None)
    axes = tuple(range(len(case.shape)))[spatial]

    def every(values: Any, other: Any) -> list[Any]:
        whole = [other] * len(case.shape)
        whole[spatial] = values
        return whole

    def pool(x: Any) -> Any:
        if isinstance(case.geometry, Global):  # a plain reduction is the faster form
            return x.max(axes, keepdims=True) if case.op == "max" else x.mean(axes, keepdims=True)
        zero, reduce = (-np.inf, lax.max) if case.op == "max" else (0.0, lax.add)
        pairs = every([(p, p) for p in padding], (0, 0))
        y = lax.reduce_window(x, np.float32(zero), reduce, every(kernel, 1), every(stride, 1), pairs)
        return y if case.op == "max" else y * np.float32(1 / math.prod(kernel))

    return pool


# --- ONNX Runtime ------------------------------------------------------------------------------------------------


def by_onnx(case: Case, x: Array, g: Array) -> Call | None:
    """Forward only, channels first, up to rank 3. Input and output are bound, so that no call copies or allocates them."""
    windows = case.as_windows()
    if case.rule == "backward" or case.op == "smooth" or case.last or windows is None or case.geometry.rank > 3:
        return None
    kind = "MaxPool" if case.op == "max" else "AveragePool"
    if isinstance(case.geometry, Global):
        node = helper.make_node(f"Global{kind}", ["x"], ["y"])
    else:
        kernel, stride, padding = windows
        extra = {} if case.op == "max" else {"count_include_pad": 1}
        node = helper.make_node(kind, ["x"], ["y"], kernel_shape=kernel, strides=stride, pads=padding * 2, **extra)
    ends = [
        helper.make_tensor_value_info(*end) for end in (("x", TensorProto.FLOAT, x.shape), ("y", TensorProto.FLOAT, g.shape))
    ]
    graph = helper.make_graph([node], "pool", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    y = np.zeros(g.shape, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return y

    return call


PEERS: dict[str, Callable[[Case, Array, Array], Call | None]] = {
    "PyTorch": by_torch,
    "JAX": by_jax,
    "ONNX Runtime": by_onnx,
}


# --- where no peer can say whether a result is right ---------------------------------------------------------------


def composed(case: Case, x: Array, g: Array) -> Array:
    """Smooth max of any rank and geometry, slowly: every window cut out, or every bin."""
    cells = torch.tensor(np.ascontiguousarray(x), requires_grad=True)
    y = smooth_windows(case, cells) if isinstance(case.geometry, Sliding) else smooth_bins(case, cells)
    return (y.detach() if case.rule == "forward" else torch.autograd.grad(y, cells, torch.tensor(g))[0]).numpy()


def smooth_windows(case: Case, cells: torch.Tensor) -> torch.Tensor:
    kernel, stride, padding = case.as_windows()
    cut = F.pad(cells, [p for pad in reversed(padding) for p in (pad, pad)])
    for axis, (size, step) in enumerate(zip(kernel, stride, strict=True)):
        cut = cut.unfold(2 + axis, size, step)
    return (BETA * cut.flatten(2 + len(kernel))).logsumexp(-1) / BETA


def smooth_bins(case: Case, cells: torch.Tensor) -> torch.Tensor:
    assert isinstance(case.geometry, Adaptive)
    assert case.geometry.rank == 2
    rows, columns = (
        [slice(t.start[i], t.start[i] + t.count[i]) for i in range(len(t.start))] for t in case.geometry.tables(case.spatial)
    )
    bins = [torch.stack([(BETA * cells[:, :, r, c]).logsumexp((2, 3)) / BETA for c in columns], -1) for r in rows]
    return torch.stack(bins, -2)
