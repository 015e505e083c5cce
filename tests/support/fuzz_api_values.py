"""Arguments for the fuzzer of the public API, as expressions: those that fit a parameter by its name, and odd ones for any.

They are written as Python, so that a finding is a call one can paste.
"""

from __future__ import annotations

import array
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import dask.array as da
import ml_dtypes
import numpy as np

import windowgrad as wg
from windowgrad import nn


class Sub(np.ndarray):
    """A subclass of NumPy's array."""


class Shaped:
    """Says that it is an array, and is none."""

    shape, dtype = None, 3


def recursive() -> list[Any]:
    """A list in itself."""
    found: list[Any] = [1]
    found.append(found)
    return found


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


def fractions(*shape: int) -> Any:
    found = np.empty(shape, object)
    found.reshape(-1)[:] = [Fraction(i, 3) for i in range(found.size)]
    return found


TAPE = wg.Tape()
LEAF, OTHER = TAPE.leaf(np.arange(6.0), name="leaf"), TAPE.leaf(np.ones((2, 3)), name="other")
RESULT = wg.sum(LEAF * LEAF)
FOREIGN = wg.Tape().leaf(np.ones(3))
MODEL = nn.Sequential(nn.Conv(2, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(3))
MODEL_PARAMS = MODEL.init(np.random.default_rng(0), (2, 1, 4, 4))
NAMES = {
    "array": array,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "Path": Path,
    "da": da,
    "ml_dtypes": ml_dtypes,
    "np": np,
    "wg": wg,
    "nn": nn,
    "Sub": Sub,
    "Shaped": Shaped,
    "recursive": recursive,
    "nested": nested,
    "ones": ones,
    "fractions": fractions,
    "LEAF": LEAF,
    "OTHER": OTHER,
    "RESULT": RESULT,
    "FOREIGN": FOREIGN,
    "MODEL": MODEL,
    "MODEL_PARAMS": MODEL_PARAMS,
}

ODD = """
None; ...; object; int; np.float32; object(); lambda *_: 0; wg; wg.max_pool; wg.Tape(); np.dtype("f4"); np.random.default_rng(0)
True; False; np.True_; 0; -1; 1; 7; 2**31; 2**63; 2**64; 10**30; 1 << 100000; -(1 << 100000); 10**400
1.5; -0.5; 1e308; float("nan"); float("inf"); -float("inf"); np.float16(2); np.longdouble(2); np.int8(2); np.uint64(2**64 - 1)
Decimal("1.5"); Decimal("NaN"); Fraction(1, 3); Fraction(10**400, 3); 1j; np.complex64(1); np.datetime64(0, "s")
"x"; ""; "\\0"; "first"; "same"; "\\ud800"; "[bold]"; b"x"; "x" * 10**6; bytearray(3)
memoryview(b"abc"); array.array("f", [1, 2])
(); []; {}; set(); {1, 2}; {"a": 1}; frozenset({1}); ((),); [[]]; [[1, 2], [3]]; (1, "a"); (None,); (1, 2, 3, 4, 5, 6)
(-1, 2); (1.5, 2); (1 << 100000,); (2, (1, 1)); recursive(); (recursive(),); {"a": recursive()}; nested(50); nested(10000)
range(3); range(10**8); iter(()); (i for i in range(3)); slice(2); [0] * 10**5; (2,) * 40; (10**30,) * 3
np.array(3); np.array(2.5); np.array(None); np.array(True); np.array([2, 2]); np.array([1.5]); np.array([[1, 2]])
np.array([1, "a", None], object); np.array([None, None]); np.array([Decimal(1), Decimal(2)]); np.array([1j, 2j], object)
np.array([Fraction(1), 2.5, 3], object); np.empty((1,) * 33, object); ones(*(1,) * 33); np.full((1,) * 40, Fraction(1, 2))
ones(3, dtype=complex); np.zeros(3, "V4"); np.zeros(2, [("a", "f4")]); np.zeros(3, "M8[s]"); np.zeros(3, "m8[s]")
np.array(["a", "b"]); np.array([b"a"]); ones(3, dtype=np.longdouble); ones(3, dtype=">f4"); ones(2, 3, dtype=ml_dtypes.bfloat16)
np.ma.masked_array([1.0, 2.0], [0, 1]); np.ma.masked_array([1, 2]); np.matrix([[1.0, 2.0]]); ones(4).view(Sub); Shaped()
ones(0); ones(0, 2); ones(2, 0, 3); ones(); np.array([np.nan, np.inf]); ones(2, 4, 5, 5)[::-1, :, ::-2]; np.float64(3)
da.ones((2, 4, 5, 5), chunks=2); da.ones(6, chunks=4); LEAF; OTHER; FOREIGN; RESULT; Path("there"); Path("\\0")
"""

ARRAYS = """
ones(2, 4, 5, 5); ones(2, 4, 5, 5, dtype=float); np.arange(6.0); np.arange(16.0).reshape(4, 4); np.arange(24).reshape(2, 3, 4)
ones(4, 6, 6, dtype=np.int8); ones(1, 4, 3, 3, dtype=bool); fractions(2, 4, 4); fractions(4); np.float32(3); 2.0; LEAF; OTHER
ones(2, 2, 3, 4, 4); ones(0, 4, 5, 5); ones(4, 4, dtype=np.float16); Fraction(1, 3)
"""
FUNCTIONS = """
lambda x, *_: wg.sum(x * x); lambda x, *_: x; lambda *xs: wg.sum(xs[0]); lambda x, *_: wg.max_pool1d(x, 2)
lambda x, *_: {"a": x, "b": (x, 2 * x)}; lambda *_: None; lambda *_: "text"; lambda *_: 1.0; lambda *_: recursive()
lambda *_: np.ones(3); lambda x, *_: wg.sum(wg.exp(x))
"""
FLAGS, SIZES = "True; False; np.True_", "2; 3; (2, 2); (3, 3); (2,); (1, 2, 2); [2, 2]; np.array([2, 2]); np.int64(2); 1"
STATES = """
{}; {"velocity": ones(3)}; {"step": 0, "mean": ones(3), "square": ones(3)}; {"step": -1, "mean": ones(3), "square": ones(3)}
{"step": 10**30, "mean": ones(3), "square": ones(3)}; nn.adam(0.1).init(MODEL_PARAMS); nn.sgd(0.1, 0.9).init(MODEL_PARAMS)
"""
LAYERS = """
nn.ReLU(); nn.Linear(3); nn.Conv(4, (3, 3)); nn.ConvTranspose(2, (2, 2)); nn.MaxPool((2, 2)); nn.Flatten(); MODEL; nn.Tanh()
nn.GlobalAvgPool(2); nn.SmoothMaxPool((2,), beta=2); nn.AdaptiveAvgPool((2, 2))
"""
GEOMETRIES = """
wg.geometry.Sliding((2, 2)); wg.geometry.Sliding((3,), 1, 1); wg.geometry.Adaptive((2,)); wg.geometry.Global(2)
"""
RECORDS = """
wg.params.MaxParams(wg.geometry.Sliding((2,))); wg.params.MeanParams(wg.geometry.Global(1)); wg.params.PadParams(((1, 1),))
wg.params.SmoothParams(wg.geometry.Adaptive((2, 2)), 2); wg.params.ConvParams(wg.geometry.Sliding((2,), 1))
"""
WEIGHTS = """
ones(4, 4, 2, 2); ones(4, 1, 2, 2); ones(4, 4, 3, 3, dtype=float); ones(6, 4, 2); fractions(4, 4, 2, 2); ones(4, 4, 1, 1)
"""
TREES = "ones(3); {'a': ones(3), 'b': (ones(2), [ones(1)])}; MODEL_PARAMS; (ones(2, dtype=float),); {}"
SHAPES = "(4, 4); (5,); (2, 4, 5, 5); (2, 1, 4, 4); [6, 6]; (3, 3, 3); np.array([4, 4]); (0, 4, 5, 5)"

FITTING: dict[str, str] = {
    **dict.fromkeys(("x", "a", "b", "value", "logits", "target", "g", "dx", "primal", "tangent", "other"), ARRAYS),
    **dict.fromkeys(("kernel_size", "kernel", "output_size"), SIZES),
    **dict.fromkeys(
        ("ceil_mode", "return_indices", "keepdims", "count_include_pad", "requires_grad", "timed", "has_aux"), FLAGS
    ),
    **dict.fromkeys(("spatial", "in_shape", "shape"), SHAPES),
    **dict.fromkeys(("params", "grads", "tree"), TREES),
    **dict.fromkeys(
        ("primals", "tangents"), "(ones(3),); (np.arange(6.0),); [2.0]; ({'a': ones(2)},); (LEAF,); (ones(2), ones(2))"
    ),
    "condition": "np.array([True, False]); True; ones(2, 4, 4, 4) > 0; np.array(False)",
    **dict.fromkeys(("low", "high"), "None; 0; 1.5; ones(4); Fraction(1, 2); np.float32(2)"),
    "arrays": "[ones(2, 3), ones(2, 3)]; (ones(3), LEAF); [1, 2.0]; [LEAF]; [ones(0, 3), ones(2, 3, dtype=float)]",
    "item": "0; -1; (0, 1); slice(None, 2); (..., None); [0, 0]; np.array([True, False]); (slice(None, None, -2), 0); 10**30",
    "weight": WEIGHTS,
    "bias": "None; ones(4); ones(6); ones(4, dtype=float); ones(1)",
    "labels": "np.array([0, 1]); np.array([0]); np.array([1, 2, 0, 1]); 1; np.zeros((2, 5, 5), int); np.array([-1, 7])",
    "stride": "None; 1; 2; (1, 2); 3",
    "padding": "0; 1; (1, 1); ((1, 0), (0, 1)); 'same'; 2; [1]",
    "dilation": "1; 2; (1, 2)",
    "divisor_override": "None; 3; 1",
    "ties": "'first'; 'all'; 'split'",
    "empty": "'zero'; 'raise'",
    "norm_type": "1; 2; 3; 2.5; Fraction(3, 2); 400",
    "where": "None; None; np.ones((), bool); np.arange(5) > 1; np.zeros((1, 1), bool)",
    "beta": "1; 2.5; -1; Fraction(1, 2); 1e-300; 1e300",
    "out": "None; np.empty((2, 4, 2, 2), np.float32); np.empty((2, 4, 1, 1), np.float32); np.empty((2, 4, 4, 4), np.float32)",
    "init": "None; 0; 1.5",
    "learn_beta": "True; False; 'channel'",
    "indices": "np.zeros((2, 4, 6, 6), int); np.arange(24).reshape(2, 3, 4); -np.ones((4, 6, 6), int)",
    "duplicates": "'last'; 'add'",
    "mode": "'constant'; 'reflect'; 'replicate'; 'circular'",
    "value": "0; 1; -2.5; Fraction(1, 3); float('nan')",
    "output_padding": "0; 1; (0, 1)",
    "groups": "1; 2; 4",
    "rank": "1; 2; 3",
    "n": "5; 7; 1",
    "m": "2; 3; 9",
    "axis": "None; -1; 0; 1; (0, 1)",
    "axes": "None; (1, 0); (0, 1); (0, 2, 1)",
    "start_axis": "0; 1; 2; -1",
    "f": FUNCTIONS,
    "argnums": "0; (0,); -1; (0, 1)",
    "order": "1; 2",
    "tolerance": "None; 1e-3",
    "seed": "0; 1",
    "name": "None; 'w'; 'leaf'",
    "key": "0; 1; 'leaf'; LEAF; RESULT; 99; -1",
    "out_var": "RESULT; LEAF; 2; 'leaf'",
    "grad": "None; ones(1); np.arange(6.0); 1.0",
    "of": "None; [LEAF]; ['leaf']; [0, 1]; 'leaf'; LEAF",
    "count": "1; 2; 3",
    "size": "0; 1 << 20; 1 << 28",
    "out_channels": "1; 2; 4; 8",
    "out_features": "3; 1; 10",
    "learning_rate": "0.1; 0; 1e-3; Fraction(1, 10)",
    "momentum": "0.0; 0.9",
    "b1": "0.9; 0",
    "b2": "0.999; 0.5",
    "eps": "1e-8; 0",
    "state": STATES,
    "path": "'a.safetensors'; Path('b.safetensors'); 'missing'; 'folder/c'; '.'; b'd'; 'text'",
    "extra": "None; {}; {'epoch': 3, 'a': [1, None]}",
    "rng": "np.random.default_rng(0)",
    "dtype": "np.float32; 'float64'; np.dtype('f2'); float",
    "layers": "(nn.ReLU(), nn.Flatten()); (); (nn.Linear(3),)",
    "layer": LAYERS,
    "body": LAYERS,
    "shortcut": LAYERS,
    "affine": "True; False",
    "padding_mode": "'zeros'; 'reflect'; 'replicate'; 'circular'",
    "geometry": GEOMETRIES,
    "window": "wg.geometry.Sliding((2, 2), 1); wg.geometry.Sliding((3,), 2, 1, 2)",
    "record": RECORDS,
    "op": "'max_pool'; 'avg_pool'; 'conv'; 'pad'; 'smooth_max_pool'",
    "place": "(0,); (0, 0); (1,)",
    "index": "0; 1; 5; 6; 7; 8",
}


def split(text: str) -> list[str]:
    """The expressions of a text, apart by semicolons and ends of lines."""
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";") if part.strip()]


ODD_VALUES = split(ODD)
FITTING_VALUES = {name: split(text) for name, text in FITTING.items()}


USERS = "<an argument>"
"""The file name of what is not ours."""


def value(expression: str) -> Any:
    """A new value for every call, as a call may change it."""
    return eval(compile(expression, USERS, "eval"), dict(NAMES))
