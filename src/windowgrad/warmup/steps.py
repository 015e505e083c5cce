"""What `windowgrad warmup` calls: every operator and rule, with windows, sizes and layouts that have kernels of their own.

Which kernel computes a call follows from shapes and dtypes; so there is one geometry here for each way in which a kernel is
chosen, and a test says which kernel is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from windowgrad.autograd.arrays import add, matmul, relu
from windowgrad.autograd.arrays.functions import relu6
from windowgrad.autograd.arrays.normalise import batch_norm
from windowgrad.autograd.transforms import vjp
from windowgrad.dispatch import run as run_rule
from windowgrad.dispatch import run_saving
from windowgrad.dtypes import is_float, is_supported
from windowgrad.errors import KindError, show
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.ops import MEANINGS
from windowgrad.params import Mask, Params, TransposeParams
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op

Step = tuple[str, Callable[[], Any]]

POOLING: dict[str, Geometry] = {
    "": Sliding((3, 3), 2, 1),
    "side by side": Sliding((2, 2), 2),
    "at every cell": Sliding((3, 3), 1, 1),
    "dilated": Sliding((3, 3), 1, 2, 2),
    "dilated and far apart": Sliding((3, 3), 3, 0, 2),
    "of many rows": Sliding((16, 16), 1),
    "of long rows": Sliding((1, 40), 1),
    "adaptive": Adaptive((7, 7)),
    "one bin": Adaptive((1, 1)),
    "of one axis": Sliding((3,), 2, 1),
    "global": Global(2),
}
"""Windows that are computed in different ways."""
MASKED = (
    *(("", windows) for windows in ("", "at every cell", "of long rows", "global")),
    ("small planes", ""),
    ("small planes", "at every cell"),
    ("wide planes, even", "side by side"),
)
"""Layouts, of `pooled`, and windows that are computed in different ways with a mask."""
CONVOLUTIONS: dict[str, tuple[int, int, int, Sliding, int]] = {
    "": (24, 16, 1, Sliding((3, 3), 1, 1), 21),
    "stride 2": (24, 16, 1, Sliding((3, 3), 2, 1), 21),
    "1×1": (24, 16, 1, Sliding((1, 1)), 21),
    "1×1, to one channel": (1, 64, 1, Sliding((1, 1)), 32),
    "few pixels": (64, 48, 1, Sliding((3, 3), 1, 1), 7),
    "windows nearly as large as a plane": (96, 16, 1, Sliding((5, 5), 1), 7),
    "groups": (24, 16, 2, Sliding((3, 3), 1, 1), 21),
    "depthwise": (16, 16, 16, Sliding((3, 3), 1, 1), 21),
    "depthwise, stride 2": (16, 16, 16, Sliding((3, 3), 2, 1), 21),
    "depthwise, 5×5": (16, 16, 16, Sliding((5, 5), 1, 2), 21),
    "depthwise, 5×5, stride 2": (16, 16, 16, Sliding((5, 5), 2, 2), 21),
    "depthwise, 7×7": (16, 16, 16, Sliding((7, 7), 1, 3), 21),
    "depthwise, 7×7, stride 2": (2, 2, 2, Sliding((7, 7), 2, 3), 21),
    "depthwise, 3×5": (16, 16, 16, Sliding((3, 5), 1, (1, 2)), 21),
    "depthwise, 5×4": (16, 16, 16, Sliding((5, 4), 1, 2), 21),
    "depthwise, 5×4, many channels": (32, 32, 32, Sliding((5, 4), 1, 2), 21),
    "depthwise, 5×4, few channels": (2, 2, 2, Sliding((5, 4), 1, 2), 21),
    "depthwise, on several threads": (16, 16, 16, Sliding((3, 3), 1, 1), 40),
    "depthwise, large planes": (2, 2, 2, Sliding((3, 4), 1, 1), 300),
    "depthwise, far apart": (2, 2, 2, Sliding((3, 3), 1, 40, 40), 5),
    "a filter": (1, 1, 1, Sliding((3, 3), 1, 1), 21),
}
"""Channels out and in, groups, windows, side of a plane."""
ONE_IMAGE = frozenset({"few pixels"})
"""Of these; the others have two images."""


def dtype_of(name: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if not is_supported(dtype):
        wanted = "bool, int8 to int64, uint8 to uint64, float16, float32 or float64"
        raise KindError(f"dtype={show(name)}: must be {wanted}")
    return dtype


def parts(dtype: np.dtype[Any]) -> dict[str, list[Step]]:
    """The steps for arrays of a dtype, by operator: those of one operator share kernels."""
    found = {}
    for op in MEANINGS:
        windows = {family.windows for family in op.facts.families} if op.facts else ()
        if windows:
            found[op.name] = list(pooled(op, dtype) if "sliding" in windows else convolved(op, dtype))
    if is_float(dtype):
        large, row = cells((64, 1024), dtype), cells((256,), dtype)
        turned = cells((1024, 256), dtype).T
        found["elementwise"] = [
            ("relu", lambda: pulled(relu, large)),
            ("relu6", lambda: pulled(relu6, large)),
            ("add", lambda: pulled(lambda x: add(x, x), large)),
            ("batch_norm", lambda: pulled(partial(normalised, dtype), large)),
            ("matmul", lambda: matmul(large, cells((256, 1024), dtype).T)),
            ("matmul of a row", lambda: matmul(row, turned)),
            ("matmul of a row, in rows", lambda: matmul(row, np.ascontiguousarray(turned))),
        ]
    return found


def cells(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Different numbers of both signs, small ones."""
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5).astype(dtype)


def pooled(op: Op, dtype: np.dtype[Any]) -> Iterator[Step]:
    record: Any = op.params
    layouts = {
        "": cells((3, 8, 41, 41), dtype),  # enough for several threads
        "channels last": np.moveaxis(cells((3, 41, 41, 8), dtype), -1, 1),
        "many channels last": np.moveaxis(cells((2, 17, 17, 128), dtype), -1, 1),
        "wide planes, even": cells((2, 42, 122), dtype),
        "small planes": cells((2, 8, 17, 17), dtype),
        "few small planes": cells((2, 9, 9), dtype),
    }
    for layout, x in layouts.items():
        for windows, geometry in POOLING.items():
            if isinstance(geometry, Sliding) and max(geometry.kernel) > x.shape[-1]:
                continue
            for options in facts_of(op).kernel_options:
                name = ", ".join(filter(None, (op.name, windows, layout)))
                yield from every_rule(name, op, record(geometry, *options), x)
    few, signals = np.moveaxis(cells((3, 41, 41, 3), dtype), -1, 1), cells((2, 1024), dtype)
    for layout, geometry, x in (
        ("few channels last", POOLING[""], few),
        ("one bin of few channels last", POOLING["one bin"], few),
        ("long rows", POOLING["of one axis"], signals),
        ("long rows, at every cell", Sliding((5,), 1, 2), signals),
    ):
        yield from every_rule(f"{op.name}, {layout}", op, record(geometry, *facts_of(op).kernel_options[0]), x)
    apart = record(Sliding((13, 3), 1, (12, 1), (2, 1)), *facts_of(op).kernel_options[0])
    yield from every_rule(f"{op.name}, of many rows apart", op, apart, layouts[""])
    for layout, windows in MASKED:
        some = Mask(np.arange(layouts[layout].shape[-1]) % 3 > 0)
        left = record(POOLING[windows], *facts_of(op).kernel_options[0], where=some)
        yield from every_rule(f"{op.name} with a mask", op, left, layouts[layout])
    row, along = cells((2, 1, 4301), dtype), record(Sliding((1, 3), (1, 2), (0, 1)), *facts_of(op).kernel_options[0])
    for params in (along, along.masked_by(Mask(np.arange(4301) % 3 > 0))):
        yield from every_rule(f"{op.name} along a row", op, params, row)
    for name, x in strange(layouts[""]) if is_float(dtype) else ():
        for geometry, options in product((POOLING[""], POOLING["global"]), facts_of(op).kernel_options):
            yield from every_rule(f"{op.name} of {name}", op, record(geometry, *options), x)
    large = record(Sliding((7, 7), 1), *facts_of(op).kernel_options[0])
    yield from every_rule(f"{op.name}, nearly as large as a plane", op, large, layouts["few small planes"])
    bins, last = record(Adaptive((4,)), *facts_of(op).kernel_options[0]), np.moveaxis(cells((2, 1024, 8), dtype), -1, 1)
    for layout, x in (("", signals), (", channels last", last)):
        yield from every_rule(f"{op.name}, bins of one axis{layout}", op, bins, x)


def strange(x: Any) -> Iterator[tuple[str, Any]]:
    """Cells that kernels compute again with care, or by another kernel."""
    yield "cells far apart", x * x.dtype.type(1000)
    yield "infinite cells", np.where(x > 4, np.inf, x).astype(x.dtype)


def convolved(op: Op, dtype: np.dtype[Any]) -> Iterator[Step]:
    record: Any = op.params
    for name, (outs, ins, groups, windows, side) in CONVOLUTIONS.items():
        shape = outs, ins // groups, *windows.kernel
        here, there = (outs, ins) if record is TransposeParams else (ins, outs)
        arrays = [cells(each, dtype) for each in ((1 if name in ONE_IMAGE else 2, here, side, side), shape, (there,))]
        yield from every_rule(", ".join(filter(None, (op.name, name))), op, record(windows, groups), *arrays)
        if is_float(dtype):
            arrays[1] = np.where(arrays[1] > 4, np.inf, arrays[1]).astype(dtype)
            yield from every_rule(f"{op.name}, {name} with infinite weights", op, record(windows, groups), *arrays)


def every_rule(name: str, op: Op, params: Params, *arrays: Any) -> Iterator[Step]:
    forward = partial(run_rule, op, "forward", params, *arrays)
    yield name, forward
    yield f"{name}, backward", lambda: run_rule(op, "vjp", params, *arrays, forward())
    if op.with_indices is not None:
        yield f"{name}, with indices", partial(run_rule, op, "with_indices", params, *arrays)
    if is_float(arrays[0].dtype):
        yield f"{name}, forward mode", lambda: run_rule(op, "jvp", params, *arrays, *arrays)
        yield f"{name}, with what it saves", lambda: backward_of_saved(op, params, *arrays)


def backward_of_saved(op: Op, params: Params, *arrays: Any) -> Any:
    y, saved = run_saving(op, params, *arrays)
    return None if saved is None else run_rule(op, "vjp", params, *arrays, y, saved=saved)


def normalised(dtype: np.dtype[Any], x: Any) -> Any:
    ones = np.ones(x.shape[1], dtype)
    return batch_norm(x, ones, ones, 1, 1e-5)


def pulled(function: Callable[[Any], Any], x: Any) -> Any:
    y, pull = vjp(function, x)
    return pull(y)
