"""A model as a program: which layer each call belongs to, and whether the batch may have any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd.arrays.records import CollectParams, RepeatParams, ReshapeParams
from windowgrad.autograd.program import Call, Program, Value, record
from windowgrad.autograd.program import Recorded as Traced
from windowgrad.errors import KindError, WindowgradError, place, show
from windowgrad.nn import Layer, Residual, Sequential
from windowgrad.params import Params, PoolParams, Shape

Array = np.ndarray[Any, Any]
RESIZED = (ReshapeParams, RepeatParams, CollectParams)
"""Records whose shape is that of the result."""


class Note(NamedTuple):
    """The calls from `start` to before `end` were made by a layer, on x."""

    place: str
    layer: Layer
    params: Any
    start: int
    end: int
    x: Value
    y: Any


@dataclass(frozen=True, repr=False)
class Noted(Layer):
    """The same layer, which writes down the calls that it makes."""

    layer: Layer
    place: str
    notes: list[Note]

    def result(self, shape: Shape) -> Shape:
        return self.layer.out_shape(shape)

    def apply(self, params: Any, x: Any) -> Any:
        return self(params, x)

    def __call__(self, params: Any, x: Any) -> Any:
        if not isinstance(x, Traced):  # a constant, of which no calls are recorded
            return self.layer(params, x)
        recorder = x.recorder
        start = len(recorder.calls)
        y = self.layer(params, x)
        self.notes.append(Note(self.place, self.layer, params, start, len(recorder.calls), x.place, recorder.argument(y)))
        return y


def noted(model: Layer, notes: list[Note], where: str = "") -> Layer:
    """The model with all its layers noted, by their places in the parameters."""
    inner = model
    if type(model) is Sequential:
        inner = Sequential(*(noted(layer, notes, below(where, i)) for i, layer in enumerate(model)))
    elif type(model) is Residual:
        inner = Residual(*(noted(layer, notes, below(where, name)) for name, layer in model.parts.items()))
    return Noted(inner, where, notes)


def below(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def named_arrays(params: Any, where: str = "", path: tuple[Any, ...] = ()) -> dict[str, Array]:
    """The arrays of nested tuples, lists and dicts by their places."""
    if type(params) is np.ndarray:
        if params.dtype.kind == "O":
            raise KindError(f"params{place(path)}: unsupported dtype object; must be an array of floats")
        return {where: params}
    if isinstance(params, Mapping):
        entries: Sequence[tuple[Any, Any]] = list(params.items())
    elif isinstance(params, (tuple, list)):
        entries = list(enumerate(params))
    else:
        raise KindError(f"params{place(path)}={show(params)}: must be a NumPy array, not {type(params).__name__}")
    found: dict[str, Array] = {}
    for key, own in entries:
        found |= named_arrays(own, below(where, key), (*path, key))
    return found


# --- the batch -----------------------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """A program with what is known of its first axis: the values that have the batch there, or why it is fixed."""

    program: Program
    notes: Sequence[Note]
    moving: set[int]
    fixed: str | None


def recorded(f: Callable[..., Any], notes: list[Note], examples: Sequence[Array], batch: bool) -> Recorded:
    """The calls of `f`; with `batch`, also for one sample more, to see what depends on their number."""
    with np.errstate(all="ignore"):
        program = record(f, *examples)
        kept = list(notes)
        if not batch:
            return Recorded(program, kept, set(), None)
        try:
            more = [longer(example) if example.shape[:1] == examples[0].shape[:1] else example for example in examples]
            other = record(f, *more)
        except (WindowgradError, ValueError, TypeError, IndexError) as error:
            return Recorded(program, kept, set(), f"with one sample more it fails: {error}")
    try:
        return Recorded(program, kept, Comparison(program, other, examples[0].shape[0]).moving(), None)
    except Differs as difference:
        return Recorded(program, kept, set(), str(difference))


def longer(example: Array) -> Array:
    return np.concatenate([example, example[:1]]) if len(example) else np.ones((1, *example.shape[1:]), example.dtype)


class Differs(Exception):  # noqa: N818  # it says why, and never leaves this file
    """Two programs are not the same but for the size of the first axis."""


class Comparison:
    """Two recordings of one function, for batches of n and of n + 1 samples."""

    def __init__(self, one: Program, other: Program, n: int) -> None:
        self.one, self.other, self.n = one, other, n

    def moving(self) -> set[int]:
        found = {a.number for a, b in zip(self.one.inputs, self.other.inputs, strict=True) if self.moves("an input", a, b)}
        if len(self.one.calls) != len(self.other.calls):
            raise Differs("the number of calls depends on it")
        for a, b in zip(self.one.calls, self.other.calls, strict=True):
            self.compare(a, b)
            found |= {x.number for x, y in zip(a.results, b.results, strict=True) if self.moves(a.name, x, y)}
        for a, b in zip(self.one.outputs, self.other.outputs, strict=True):
            self.same("an output", a, b)
        return found

    def moves(self, said: str, a: Value, b: Value) -> bool:
        if a.shape == b.shape and a.dtype == b.dtype:
            return False
        if (a.shape[:1], b.shape[:1]) == ((self.n,), (self.n + 1,)) and a.shape[1:] == b.shape[1:] and a.dtype == b.dtype:
            return True
        raise Differs(f"{said} of shape {a.shape} has it elsewhere than on its first axis")

    def compare(self, a: Call, b: Call) -> None:
        if (a.op.name, a.rule, len(a.arguments)) != (b.op.name, b.rule, len(b.arguments)):
            raise Differs(f"{a.name} or {b.name} is called depending on it")
        if not alike(a.params, b.params):
            raise Differs(f"the options of {a.name} depend on it")
        for x, y in zip(a.arguments, b.arguments, strict=True):
            self.same(f"an argument of {a.name}", x, y)

    def same(self, said: str, a: Any, b: Any) -> None:
        """The same value, or constants with the same cells."""
        if isinstance(a, Value) or isinstance(b, Value):
            if not (isinstance(a, Value) and isinstance(b, Value) and a.number == b.number):
                raise Differs(f"{said} depends on it")
        elif a is not b and not (a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")):
            raise Differs(f"{said} is a constant that depends on it")


def alike(a: Params, b: Params) -> bool:
    """Whether two records say the same; shapes are compared as those of the results."""
    if type(a) is not type(b):
        return False
    if isinstance(a, RESIZED):
        return True
    if isinstance(a, PoolParams) and a.where is not None and b.where is not None:
        plain = {name: value for name, value in vars(a).items() if name != "where"}
        return all(vars(b)[name] == value for name, value in plain.items()) and np.array_equal(a.where.array, b.where.array)
    return a == b
