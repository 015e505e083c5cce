"""x[key], and its adjoint. A key has integers, slices, None and …, as NumPy's; arrays of integers and bools are constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from windowgrad.arguments import MOST_AXES, is_int
from windowgrad.autograd.arrays.records import broadcast
from windowgrad.autograd.arrays.rules import Array, native_op
from windowgrad.dispatch import run
from windowgrad.dtypes import is_float
from windowgrad.errors import IndexingError, KindError, WindowError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.params import Params, Shape
from windowgrad.spec import scalar


class Cut(NamedTuple):
    """A slice, which until Python 3.12 has no hash."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None

    def __repr__(self) -> str:
        start, stop, step = ("" if part is None else str(part) for part in self)
        return f"{start}:{stop}" + (f":{step}" if step else "")


class Rows:
    """An array of integers in a key: a constant, compared by its cells."""

    def __init__(self, array: Array) -> None:
        self.array = np.array(array, dtype=np.intp)
        self.array.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __repr__(self) -> str:
        return f"integers of shape {self.array.shape}"


Entry = int | None | Cut | Rows | EllipsisType


class Key:
    """One entry for each axis of x, and None for each new axis. A … stands for no axis, and only keeps its neighbours apart."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.entries))}]"


@dataclass(frozen=True)
class IndexParams(Params):
    """x[key]."""

    key: Key
    raw: tuple[Any, ...] = field(init=False, repr=False, compare=False)
    """The key as NumPy takes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw", tuple(map(as_numpy, self.key.entries)))

    @property
    def lasting(self) -> bool:
        return not any(isinstance(entry, Rows) for entry in self.key.entries)

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        sizes: list[int] = []
        arrays: list[Shape] = []
        places: list[int] = []  # of integers and arrays, in the key
        front, axis = 0, 0
        for place, entry in enumerate(self.key.entries):
            if entry is None or entry is Ellipsis:
                sizes += [1] if entry is None else []
                continue
            if isinstance(entry, Cut):
                sizes.append(len(range(*slice(*entry).indices(x[axis]))))
            else:
                check_range(entry, axis, x)
                front = front if places else len(sizes)
                places.append(place)
                arrays += [entry.array.shape] if isinstance(entry, Rows) else []
            axis += 1
        if not arrays:
            return tuple(sizes)
        front = front if places[-1] - places[0] + 1 == len(places) else 0  # apart from each other, they go to the front
        return (*sizes[:front], *together(arrays), *sizes[front:])


@dataclass(frozen=True)
class ScatterParams(Params):
    """The adjoint: zeros of `shape`, to whose cells at the key what is given is added."""

    index: IndexParams
    shape: Shape

    @property
    def lasting(self) -> bool:
        return self.index.lasting

    def out_shape(self, *shapes: Shape) -> Shape:
        (g,) = shapes
        if g != (wanted := self.index.out_shape(self.shape)):
            raise WindowError(f"g of shape {g}: must be {wanted}, the shape of what is indexed")
        return self.shape


def as_numpy(entry: Entry) -> Any:
    return slice(*entry) if isinstance(entry, Cut) else entry.array if isinstance(entry, Rows) else entry


def check_range(entry: Any, axis: int, x: Shape) -> None:
    """An index must be one of an axis."""
    least, most = (entry, entry) if not isinstance(entry, Rows) else (entry.array.min(initial=0), entry.array.max(initial=0))
    if isinstance(entry, Rows) and not entry.array.size:
        return
    if least < -x[axis] or most >= x[axis]:
        wrong = least if least < -x[axis] else most
        wanted = f"must be from {-x[axis]} to {x[axis] - 1}" if x[axis] else "it has no cells"
        raise IndexingError(f"index {show(int(wrong))} on axis {axis} of x of shape {x}: {wanted}")


def together(shapes: Sequence[Shape]) -> Shape:
    said = ", ".join(map(str, shapes))
    return reduce(partial(broadcast, f"index with arrays of shapes {said}"), shapes)


def index(x: Any, key: Any) -> Any:
    """x[key]."""
    try:
        return index_by(x, expanded(key, x.shape))
    except WindowgradError as error:
        show_call(error, index, locals())
        raise


def index_by(x: Any, key: tuple[Entry, ...]) -> Any:
    """x[key] with a key of one entry for each axis of x."""
    return run(INDEX, "forward", indexing(key), x)


@lru_cache(maxsize=256)
def kept(key: tuple[Entry, ...]) -> IndexParams:
    return IndexParams(Key(key))


def indexing(key: tuple[Entry, ...]) -> IndexParams:
    """Arrays in keys are not kept: there may be a new one at each call."""
    return IndexParams(Key(key)) if any(isinstance(entry, Rows) for entry in key) else kept(key)


def expanded(key: Any, x: Shape) -> tuple[Entry, ...]:
    """The key with an entry for each axis of an array of shape `x`: … and what is missing at the end are whole axes."""
    given = key if isinstance(key, tuple) else (key,)
    if len(given) > 2 * MOST_AXES:
        raise IndexingError(f"index of {len(given)} entries: an array has at most {MOST_AXES} axes")
    used = sum(axes_used(entry) for entry in given)
    if used > len(x):
        raise IndexingError(f"index {shown(key)}: has entries for {used} axes, x of shape {x} has {len(x)}")
    found: list[Entry] = []
    axis, rest = 0, len(x) - used
    for entry in given:
        if entry is Ellipsis:
            if rest < 0:
                raise IndexingError(f"index {shown(key)}: must not have more than one …")
            found += [Cut()] * rest or [Ellipsis]
            axis, rest = axis + rest, -1
        else:
            found += as_entries(entry, x[axis : axis + axes_used(entry)], axis)
            axis += axes_used(entry)
    return (*found, *[Cut()] * max(rest, 0))


def axes_used(entry: Any) -> int:
    """How many axes of x an entry of a key stands for."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == bool else 1


def as_entries(entry: Any, sizes: Shape, axis: int) -> list[Entry]:
    """An entry of a key, checked; an array of bools is an array of integers for each of its axes."""
    if entry is None:
        return [None]
    if isinstance(entry, slice):
        return [as_cut(entry)]
    if isinstance(entry, list):
        entry = as_array(entry)
    if isinstance(entry, np.ndarray) and entry.dtype == bool and entry.ndim:
        if entry.shape != sizes:
            raise IndexingError(
                f"index with bools of shape {entry.shape} on axis {axis}: must be {sizes}, the sizes of x there"
            )
        return [Rows(cells) for cells in np.nonzero(entry)]
    if isinstance(entry, np.ndarray) and entry.dtype.kind in "iu" and entry.ndim:
        return [Rows(entry)]
    if is_int(entry) and not isinstance(entry, (bool, np.bool_)):
        return [int(entry)]
    if hasattr(type(entry), "__windowgrad__"):
        raise KindError(f"index {show(entry)}: must not be a traced value; use its .value")
    said = f"{entry.dtype}{entry.shape}" if isinstance(entry, np.ndarray) else f"{show(entry)} of type {type(entry).__name__}"
    raise KindError(f"index {said}: must be an integer, a slice, None, …, or a NumPy array of integers or bools")


def as_array(entry: list[Any]) -> Any:
    """A list in a key is an array, if it can be one."""
    try:
        return np.asarray(entry) if entry else np.zeros(0, np.intp)
    except (ValueError, TypeError, RecursionError):
        return entry


def as_cut(entry: slice) -> Cut:
    parts = (entry.start, entry.stop, entry.step)
    for name, part in zip(("start", "stop", "step"), parts, strict=True):
        if part is not None and (not is_int(part) or isinstance(part, (bool, np.bool_))):
            raise KindError(f"index {show(entry)}: {name} must be an integer or None, not {type(part).__name__}")
    if parts[2] is not None and int(parts[2]) == 0:
        raise IndexingError(f"index {show(entry)}: step must not be 0")
    return Cut(*(None if part is None else int(part) for part in parts))


def shown(key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(
        "…" if part is Ellipsis else f"{part.dtype}{part.shape}" if hasattr(part, "dtype") else show(part) for part in parts
    )


def scatter(g: Any, params: IndexParams, shape: Shape) -> Any:
    """The adjoint of x[key]: g at the cells of the key, added up where the key names one twice, and 0 elsewhere."""
    return run(SCATTER, "forward", scattering(params, shape) if params.lasting else ScatterParams(params, shape), g)


scattering = lru_cache(maxsize=256)(ScatterParams)


# --- rules -------------------------------------------------------------------------------------------------------


def _index(params: IndexParams, x: Array) -> Any:
    return x[params.raw]


def _index_push(params: IndexParams, x: Any, dx: Any) -> Any:
    return run(INDEX, "forward", params, dx)


def _index_pull(params: IndexParams, x: Any, g: Any) -> tuple[Any]:
    return (scatter(g, params, x.shape),)


def _scatter(params: ScatterParams, g: Array) -> Any:
    if params.lasting:  # no cell twice
        y = np.zeros(params.shape, g.dtype)
        y[params.index.raw] = g
        return y
    wide = np.dtype(np.float32) if g.dtype.itemsize == 2 and is_float(g.dtype) else g.dtype
    y = np.zeros(params.shape, wide)
    np.add.at(y, params.index.raw, g.astype(wide, copy=False))
    return y.astype(g.dtype, copy=False)


def _scatter_objects(params: ScatterParams, g: Array) -> Any:
    y = scalar.zeros(params.shape, like=g)
    if params.lasting:
        y[params.index.raw] = g if g.ndim else g[()]  # NumPy would put the array itself into a cell
    else:
        np.add.at(y, params.index.raw, g)
    return y


def _scatter_push(params: ScatterParams, g: Any, dg: Any) -> Any:
    return run(SCATTER, "forward", params, dg)


def _scatter_pull(params: ScatterParams, g: Any, gg: Any) -> tuple[Any]:
    return (run(INDEX, "forward", params.index, gg),)


INDEX = native_op("index", IndexParams, _index, _index, _index_push, _index_pull, linear=True)
SCATTER = native_op(
    "scatter", ScatterParams, _scatter, _scatter_objects, _scatter_push, _scatter_pull, linear=True, inputs=("g",)
)
