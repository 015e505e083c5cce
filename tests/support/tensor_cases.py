"""Every array function on arrays of many shapes, dtypes and values, as the tests of the bridges call it on their arrays."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import windowgrad as wg
from support.bits import settled
from windowgrad import nn
from windowgrad.autograd.arrays.functions import relu6
from windowgrad.autograd.arrays.indexing import index
from windowgrad.autograd.arrays.normalise import batch_norm, inverse_root
from windowgrad.autograd.arrays.rules import broadcast_to, cast
from windowgrad.dtypes import is_float

Array = np.ndarray[Any, Any]

FLOATS = ("float16", "float32", "float64")
WHOLE = ("int8", "uint8", "int16", "int32", "int64")
SHAPES = ((), (3, 5), (0,), (2, 0, 3), (2, 3, 4))
PAIRS = (((), ()), ((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (1, 4)), ((2, 3, 4), ()), ((0, 3), (3,)), ((1,), (2, 0)))
STRANGE = (1.5, -2.0, 0.0, -0.0, 6.0, np.nan, np.inf, -np.inf, 6.0, 0.25, 7.0, -0.0, 3.0)


@dataclass(frozen=True)
class Case:
    """`call(*arrays)`. An exact one gives the same bits everywhere, others the same but for `ulps` of the largest number."""

    name: str
    call: Callable[..., Any]
    arrays: tuple[Array, ...]
    ulps: int = 0

    def __str__(self) -> str:
        return f"{self.name} of " + ", ".join(f"{a.dtype}{a.shape}" for a in self.arrays)

    def differs(self, got: Array, right: Array) -> str:
        """What is wrong with a result; nothing if it is right."""
        if (got.dtype, got.shape) != (right.dtype, right.shape):
            return f"{self}: {got.dtype}{got.shape} instead of {right.dtype}{right.shape}"
        near = settled(got) == settled(right) if not self.ulps else close(got, right, self.ulps)
        return "" if near else f"{self}{[a.tolist() for a in self.arrays]}: {got.tolist()} instead of {right.tolist()}"


def close(got: Array, right: Array, ulps: int) -> bool:
    """Whether finite numbers are near each other, by the spacing of the largest and of 1, and all others the same."""
    finite = np.isfinite(right)
    if not np.array_equal(got[~finite], right[~finite], equal_nan=is_float(right.dtype)):
        return False
    a, b = got[finite].astype(float), right[finite].astype(float)
    size = max(1.0, np.abs(b).max(initial=0))
    room = ulps * float(np.finfo(right.dtype).eps) * size if is_float(right.dtype) else 0
    return bool((np.abs(a - b) <= room).all())


def cells(shape: tuple[int, ...], dtype: str, strange: bool = True, seed: int = 0) -> Array:
    """Small numbers with ties; among floats NaN, infinities and zeros of both signs."""
    count = math.prod(shape)
    if dtype == "bool":
        return (np.arange(count) % 3 > 0).reshape(shape)
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 7, count) if dtype.startswith("u") else rng.integers(-6, 7, count)
    found = small.astype(dtype) if dtype not in FLOATS else (small / 4).astype(dtype)
    if strange and dtype in FLOATS and count > 1:
        found[rng.permutation(count)[: count // 2]] = rng.choice(STRANGE, count // 2)
    return np.asarray(found).reshape(shape)


def singles() -> Iterator[Case]:
    """One array, cell by cell."""
    functions = [(name, getattr(wg, name), 0) for name in ("relu", "abs", "negative", "stop_gradient", "sign")]
    functions += [
        ("sqrt", wg.sqrt, 1)
    ]  # MKL's, which PyTorch calls, rounds one in 160 up or down as it should not, on some CPUs
    functions += [(name, getattr(wg, name), 16) for name in ("exp", "log", "tanh", "sigmoid", "erf")]
    functions += [("relu6", relu6, 0), ("inverse_root", inverse_root, 8)]
    for (name, call, ulps), shape, dtype in itertools.product(functions, SHAPES, (*FLOATS, *WHOLE, "bool")):
        if name not in ("negative", "sign") or dtype != "bool":
            yield Case(name, call, (cells(shape, dtype),), ulps)


def pairs() -> Iterator[Case]:
    """Two arrays that are broadcast together, of the same dtype and of different ones."""
    mixed = (("float32", "int64"), ("float16", "float32"), ("int8", "uint8"), ("bool", "int16"), ("int16", "float16"))
    kinds = [(dtype, dtype) for dtype in (*FLOATS, *WHOLE, "bool")] + list(mixed)
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "where"):
        for (a, b), (one, other) in itertools.product(PAIRS, kinds):
            if name == "subtract" and (one, other) == ("bool", "bool"):
                continue
            arrays = cells(a, one), cells(b, other, seed=1)
            if name == "where":
                yield Case(name, wg.where, (cells(np.broadcast_shapes(a, b)[-1:], "bool"), *arrays))
            else:
                yield Case(name, getattr(wg, name), arrays)
    for (a, b), dtype in itertools.product(PAIRS, FLOATS):
        base, exponent = cells(a, dtype), cells(b, dtype, seed=1)
        yield Case("power", wg.power, (base, exponent), 16)
        yield Case("power", lambda x: wg.power(x, 2), (base,), 4)
        yield Case("power", lambda x: wg.power(2.0, x), (base,), 16)
    for dtype in (*WHOLE, "bool"):
        yield Case("power", wg.power, (cells((3, 5), dtype), cells((5,), "uint8").astype(dtype)))


def numbers() -> Iterator[Case]:
    """A Python number beside an array takes its dtype."""
    calls = {
        "add": lambda x: wg.add(x, 1),
        "multiply": lambda x: wg.multiply(2.5, x),
        "divide": lambda x: wg.divide(1, wg.add(x, 7)),
        "maximum": lambda x: wg.maximum(x, 0),
        "clip": lambda x: wg.clip(x, 0, 1),
        "clip below": lambda x: wg.clip(x, high=1.5),
        "where": lambda x: wg.where(np.bool_(True), x, 0),
        "stack": lambda x: wg.stack([x[()], 1]) if not x.shape else x,
        "subtract": lambda x: wg.subtract(1, x),
    }
    for (name, call), shape, dtype in itertools.product(calls.items(), ((), (3, 5), (0,)), (*FLOATS, *WHOLE)):
        yield Case(name, call, (cells(shape, dtype),))


def reductions() -> Iterator[Case]:
    shapes = (((), None), ((3, 5), None), ((3, 5), 0), ((3, 5), -1), ((2, 3, 4), (0, 2)), ((2, 3, 4), ()), ((0, 3), 0))
    for name, (shape, axis), keep in itertools.product(("sum", "mean", "max", "min"), shapes, (False, True)):
        if name in ("max", "min") and (shape, axis) == ((0, 3), 0):
            shape, axis = (0, 3), 1
        for dtype, strange in itertools.product((*FLOATS, *WHOLE, "bool"), (False, True)):
            call = getattr(wg, name)
            ulps = 8 if name in ("sum", "mean") and dtype in FLOATS else 0
            x = cells(shape, dtype, strange)
            yield Case(name, lambda x, call=call, axis=axis, keep=keep: call(x, axis, keep), (x,), ulps)
    many = np.full((3, 70_000), 0.5, np.float16)
    yield Case("mean", lambda x: wg.mean(x, 1), (many,))
    yield Case("max", lambda x: wg.max(x, 1), (many,))


def shaped() -> Iterator[Case]:
    for dtype in (*FLOATS, *WHOLE, "bool"):
        x, y = cells((2, 3, 4), dtype), cells((2, 1, 4), dtype, seed=1)
        yield Case("reshape", lambda x: wg.reshape(x, (4, -1)), (x,))
        yield Case("reshape", lambda x: wg.reshape(x, ()), (cells((1, 1), dtype),))
        yield Case("flatten", wg.flatten, (x,))
        yield Case("transpose", wg.transpose, (x,))
        yield Case("transpose", lambda x: wg.transpose(x, (1, -1, 0)), (x,))
        yield Case("concatenate", lambda *xs: wg.concatenate(xs, axis=1), (x, y))
        yield Case("concatenate", lambda *xs: wg.concatenate(xs, axis=None), (x, y))
        yield Case("concatenate", lambda *xs: wg.concatenate(xs, -2), (x, cells((2, 0, 4), "float32")))
        yield Case("stack", lambda *xs: wg.stack(xs, axis=-1), (x, x))
        yield Case("stack", lambda *xs: wg.stack(xs), (x, cells((2, 3, 4), "int16")))
        yield Case("broadcast_to", lambda x: broadcast_to(x, (5, 2, 3, 4)), (y,))
        yield Case("cast", lambda x: cast(x, np.dtype("float64")), (x,))
    yield Case("stack", lambda *xs: wg.stack(xs), tuple(cells((2,), "float32", seed=i) for i in range(70)))
    yield from (Case("index", lambda x, key=key: index(x, key), (cells((2, 3, 4), "float64"),)) for key in KEYS)


ROWS = np.array([[1, -1], [0, 1]])
KEYS: tuple[Any, ...] = (
    (),
    ...,
    1,
    (slice(None), -1),
    (..., None, 2),
    (slice(None, None, -1), slice(2, 0, -2)),
    (slice(1, 1),),
    ROWS,
    (0, slice(None), ROWS),
    (slice(None), ROWS, slice(None, None, -1)),
    (ROWS, None, slice(None), ROWS),
    (ROWS, 1, ROWS),
    (0, ..., ROWS, 1),
    (0, ROWS, ..., 1),
    (ROWS, ROWS, 1, ...),
    (ROWS, ..., 1, ROWS),
    np.array([True, False]),
    (slice(None), [0, 0, 2]),
)


def products() -> Iterator[Case]:
    shapes = (((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)))
    kinds = [(dtype, dtype) for dtype in (*FLOATS, *WHOLE, "bool")] + [("float16", "float32"), ("int8", "float64")]
    for (a, b), (one, other) in itertools.product(shapes, kinds):
        yield Case("matmul", wg.matmul, (cells(a, one, False), cells(b, other, False, 1)))  # sums of sixteenths are exact


def losses() -> Iterator[Case]:
    for dtype, strange in itertools.product((*FLOATS, "int32", "uint8"), (False, True)):
        for shape, axis in (((5,), -1), ((3, 5), 0), ((2, 3, 4), 1), ((0, 3), 1)):
            x = cells(shape, dtype, strange)
            yield Case("softmax", lambda x, axis=axis: wg.softmax(x, axis), (x,), 16)
            yield Case("log_softmax", lambda x, axis=axis: wg.log_softmax(x, axis), (x,), 16)
        for shape in ((3,), (4, 3), (2, 2, 3), (0, 3)):
            x = cells(shape, dtype, strange)
            labels = (np.arange(math.prod(shape[:-1])) % 3).reshape(shape[:-1])
            yield Case("cross_entropy", lambda x, labels=labels: wg.cross_entropy(x, labels), (x,), 16)
        for shape, target in (((3, 5), (3, 5)), ((3, 5), ()), ((), ()), ((0,), ())):
            yield Case("mse", wg.mse, (cells(shape, dtype, strange), cells(target, "float32", strange, 1)), 16)
        yield Case("mse", lambda x: wg.mse(x, 1), (cells((3, 5), dtype, strange),), 16)
    for dtype, (shape, axis) in itertools.product(FLOATS, (((4, 3, 5), 1), ((4, 3), -1), ((5, 2, 3), 0))):
        x, weight, bias = (cells(s, dtype, False, i) for i, s in enumerate((shape, shape[axis:][:1], shape[axis:][:1])))
        yield Case("batch_norm", lambda *xs, axis=axis: batch_norm(*xs, axis, 0.5), (x, weight, bias), 32)


CASES = [*singles(), *pairs(), *numbers(), *reductions(), *shaped(), *products(), *losses()]
NAMES = sorted({case.name for case in CASES})


def of(name: str) -> list[Case]:
    return [case for case in CASES if case.name == name]


def some(cases: list[Case], most: int) -> list[Case]:
    """So many of them at most, always the same ones, for a framework that compiles each call."""
    return random.Random(0).sample(cases, min(most, len(cases)))


def network() -> tuple[nn.Layer, Any, Array]:
    """A network with every kind of layer, its parameters, and a batch."""
    block = nn.Sequential(nn.Conv(4, (3, 3), padding=1), nn.BatchNorm(affine=False), nn.ReLU6())
    head = (nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(5), nn.Tanh())
    model = nn.Sequential(nn.Conv(4, (3, 3), padding=1), nn.BatchNorm(), nn.ReLU(), nn.Residual(block), *head)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 2, 6, 6)).astype(np.float32)
    return model, model.init(rng, x.shape), x


def trained(model: nn.Layer, params: Any, x: Array) -> tuple[Any, Any]:
    """(the parameters with new statistics, the gradients) of a step of training on NumPy arrays."""

    def loss(params: Any) -> Any:
        y, new = model.train(params, x)
        return wg.mse(y, 1), new

    (_, new), gradient = wg.value_and_grad(loss, has_aux=True)(params)
    return new, gradient


def gradient_cases(name: str) -> list[Case]:
    """Those of floats, beside which a condition is a constant.

    Where both are variables, the base of a power is positive and finite: elsewhere the frameworks have limits of their own.
    """
    found = [case for case in of(name) if all(is_float(a.dtype) or a.dtype == bool for a in case.arrays)]
    found = [case for case in found if any(is_float(a.dtype) for a in case.arrays)]
    if name != "power":
        return found
    return [replace(case, arrays=(positive(case.arrays[0]), case.arrays[1])) if case.arrays[1:] else case for case in found]


def positive(x: Array) -> Array:
    return np.abs(cells(x.shape, x.dtype.name, False)) + np.asarray(0.25, x.dtype)


def plain(name: str) -> Case:
    """One of them, of float64 and more than one cell, and no NaN or infinity."""
    for case in gradient_cases(name):
        *_, x = case.arrays
        if x.dtype == np.float64 and x.size > 1 and case.call(*case.arrays).size:
            finite = [np.nan_to_num(a, nan=0.75, posinf=2.5, neginf=-2.5) for a in case.arrays]
            return replace(case, arrays=tuple(positive(a) if name in POSITIVE else a for a in finite), ulps=16)
    raise AssertionError(name)


POSITIVE = ("log", "sqrt", "inverse_root", "power", "divide")


def beside_constants(case: Case, own: Callable[[Array], Any] = np.asarray) -> tuple[Callable[..., Any], list[Array]]:
    """The call as a function of its floats, and those; `own` makes what it is given of the other arrays."""
    moves = [is_float(a.dtype) for a in case.arrays]
    fixed = [own(a) for a, move in zip(case.arrays, moves, strict=True) if not move]

    def call(*xs: Any) -> Any:
        given, rest = iter(xs), iter(fixed)
        return case.call(*(next(given) if move else next(rest) for move in moves))

    return call, [a for a, move in zip(case.arrays, moves, strict=True) if move]


def gradients(case: Case) -> tuple[Array, list[Array]]:
    """(a cotangent, the gradients that our own vjp gives for it)."""
    call, xs = beside_constants(case)
    y, pull = wg.vjp(call, *xs)
    g = cells(y.shape, "float64", False, seed=7).astype(y.dtype)
    found = pull(g)
    return g, list(found if isinstance(found, tuple) else (found,))


def near(case: Case) -> Case:
    """The same for gradients, which are within a few ulps."""
    return replace(case, name=f"gradient of {case.name}", ulps=16)
