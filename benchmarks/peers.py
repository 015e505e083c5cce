"""Who is measured. Each takes a case and its arrays and gives a call, with all that can be prepared done; None: it has none.

What a call returns is turned into N×C×… arrays by `parts_of`, outside the time: the output, the gradient of x, or both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import onnxruntime
import torch
from cases import BETA, COMPOSED, NORM, Array, Case, Pairs
from jax import lax
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedThere
from timing import Call
from torch_peer import Pool, by_torch, differentiated

import windowgrad as wg
from windowgrad.geometry import Adaptive, Global, Sliding

jax.config.update("jax_enable_x64", True)  # without it float64 is float32; float32 stays what it is


def parts_of(case: Case, peer: str, result: Any) -> list[Array]:
    parts = result if isinstance(result, (tuple, list)) else (result,)
    arrays = [np.asarray(part.detach() if isinstance(part, torch.Tensor) else part) for part in parts]
    return [np.moveaxis(a, -1, 1) for a in arrays] if case.last and peer == "JAX" else arrays


# --- this project ------------------------------------------------------------------------------------------------


def ours(case: Case, x: Array, g: Array) -> Call:
    """As a user calls it: the public function, and `wg.vjp` of it."""
    pool = public(case)
    if case.rule == "bridge":
        return differentiated(case, pool, x, g)
    if case.rule == "forward":
        return lambda: pool(x)
    if case.rule == "backward":
        _, pull = wg.vjp(pool, x)
        return lambda: pull(g)[0]

    def both() -> tuple[Array, Array]:
        y, pull = wg.vjp(pool, x)
        return y, pull(g)[0]

    return both


def public(case: Case) -> Pool:
    """The function of the case's rank, with its arguments. Of equal maxima the first wins, as in the peers that say so."""
    geometry, rank = case.geometry, case.geometry.rank
    family = "global_" if isinstance(geometry, Global) else "adaptive_" if isinstance(geometry, Adaptive) else ""
    name = f"{family}{case.reduction}{'_max' if case.op == 'smooth' else ''}_pool"
    options: dict[str, Any] = {"max": {"ties": "first"}, "min": {"ties": "first"}, "smooth": {"beta": BETA}}.get(
        case.reduction, {}
    )
    if (mask := case.mask()) is not None:
        options = {**options, "where": mask}
    function = getattr(wg, f"{name}{rank}d" if rank <= 3 else name)
    if case.op == "lp":
        function = partial(function, norm_type=NORM)
    if isinstance(geometry, Sliding):
        padding, ceil_mode = geometry.padding, geometry.ceil_mode[0]
        sizes = {"kernel_size": geometry.kernel, "stride": geometry.stride, "padding": padding, "ceil_mode": ceil_mode}
        return lambda x: function(x, **sizes, **options)
    if isinstance(geometry, Adaptive):
        return lambda x: function(x, output_size=geometry.output_size, **options)
    return (lambda x: function(x, **options)) if rank <= 3 else (lambda x: function(x, rank=rank, **options))


# --- JAX ---------------------------------------------------------------------------------------------------------


def by_jax(case: Case, x: Array, g: Array) -> Call | None:
    """Compiled ahead. The pull is compiled from (x, g): whatever of its forward it needs is computed again in its time,
    and what it does not need XLA drops. Smooth max is no reduction of `reduce_window`, so there is none."""
    windows = case.as_windows()
    if case.op in COMPOSED or windows is None or (case.op == "avg" and case.hangs_over) or case.rule == "bridge":
        return None
    if case.dtype == "float16":  # of many equal maxima it takes others
        return None
    pool = jax_pool(case, *windows)
    stored = [jax.device_put(np.moveaxis(a, 1, -1) if case.last else a) for a in (x, g)]

    def both(x: Any, g: Any) -> Any:
        y, pull = jax.vjp(pool, x)
        return y, pull(g)[0]

    function = {"forward": pool, "backward": lambda x, g: both(x, g)[1], "both": both}[case.rule]
    arguments = stored[:1] if case.rule == "forward" else stored
    compiled = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(compiled(*arguments))


def jax_pool(case: Case, kernel: tuple[int, ...], stride: tuple[int, ...], padding: Pairs) -> Pool:
    spatial = slice(1, -1) if case.last else slice(2, None)
    axes = tuple(range(len(case.shape)))[spatial]

    def every(values: Any, other: Any) -> list[Any]:
        whole = [other] * len(case.shape)
        whole[spatial] = values
        return whole

    def pool(x: Any) -> Any:
        if isinstance(case.geometry, Global):  # a plain reduction is the faster form
            return x.max(axes, keepdims=True) if case.op == "max" else x.mean(axes, keepdims=True)
        least = 0 if case.dtype == "uint8" else -np.inf
        zero, reduce = (least, lax.max) if case.op == "max" else (0.0, lax.add)
        pairs = every(padding, (0, 0))
        y = lax.reduce_window(x, x.dtype.type(zero), reduce, every(kernel, 1), every(stride, 1), pairs)
        return y if case.op == "max" else y * x.dtype.type(1 / math.prod(kernel))

    return pool


# --- ONNX Runtime ------------------------------------------------------------------------------------------------


def by_onnx(case: Case, x: Array, g: Array) -> Call | None:
    """Forward only, channels first, up to rank 3. Input and output are bound, so that no call copies or allocates them."""
    windows = case.as_windows()
    if case.rule != "forward" or case.op in COMPOSED or case.last or windows is None or case.geometry.rank > 3:
        return None
    if case.hangs_over and (case.op == "avg" or any(max(p) >= k for p, k in zip(windows[2], windows[0], strict=True))):
        return None
    kind = "MaxPool" if case.op == "max" else "AveragePool"
    if isinstance(case.geometry, Global):
        node = helper.make_node(f"Global{kind}", ["x"], ["y"])
    else:
        kernel, stride, padding = windows
        pads = [p for p, _ in padding] + [q for _, q in padding]
        extra = {} if case.op == "max" else {"count_include_pad": 1}
        node = helper.make_node(kind, ["x"], ["y"], kernel_shape=kernel, strides=stride, pads=pads, **extra)
    kind_of = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind_of, a.shape) for name, a in (("x", x), ("y", g))]
    graph = helper.make_graph([node], "pool", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except NotImplementedThere:  # some dtypes of some operators
        return None
    y = np.zeros(g.shape, x.dtype)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, x.dtype, y.shape, y.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return y

    return call


PEERS: dict[str, Callable[[Case, Array, Array], Call | None]] = {
    "PyTorch": by_torch,
    "JAX": by_jax,
    "ONNX Runtime": by_onnx,
}
