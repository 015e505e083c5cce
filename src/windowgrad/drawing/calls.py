"""A call of a public function, and what it comes to: the operator, its parameters, its arrays and its result."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from windowgrad import functional
from windowgrad.arguments import counted, is_masked
from windowgrad.autograd.tracer import Tracer
from windowgrad.drawing.places import Place
from windowgrad.errors import KindError, WindowError, show
from windowgrad.foreign import is_lazy
from windowgrad.functional import shapes
from windowgrad.functional.call import shown
from windowgrad.ops import FAMILIES
from windowgrad.params import Params, PoolParams
from windowgrad.spec.op import Op

MOST_TAKEN = 1 << 17
"""How many cells of an array are looked at for one output."""

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """`op` is None for `reduce_windows`, which folds by `fold`, a function and what it begins with."""

    text: str
    op: Op | None
    params: Params
    arrays: tuple[Any, ...]
    where: tuple[Any, ...]
    """Arrays of bool: cells where one of them is False are left out."""
    result: Any
    fold: tuple[Any, Any] | None = None

    @property
    def out_shape(self) -> Place:
        return tuple(self.result.shape)

    @property
    def dtype(self) -> str:
        return str(self.result.dtype).rpartition(".")[2]


class Listener:
    """Stands for x in a call whose arguments are right, and is told the operator and its parameters. Nothing is computed."""

    told: tuple[Op, Params, Sequence[Any]]

    def __init__(self, x: Any) -> None:
        self.shape, self.dtype, self.ndim = tuple(x.shape), x.dtype, len(x.shape)

    def __windowgrad__(self, op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Any:
        self.told = op, params, arrays[1:]
        return self


def names() -> list[str]:
    """The functions that can be explained."""
    return [name for name in functional.__all__ if name not in shapes.__all__]


def called(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The call, made: what is wrong with its arguments is said by the function itself."""
    name = getattr(f, "__name__", "")
    if name not in names() or getattr(functional, name) is not f:
        pools = [family.name for family in FAMILIES.values() if family.windows == "sliding"]
        others = [other for other in names() if not other[-2].isdigit() and not other.endswith(tuple(pools))]
        raise KindError(
            f"f={name or show(f)}: cannot be explained; must be one of wg.{', wg.'.join([*pools, *others])}, "
            "with or without 1d, 2d, 3d, or a pooling with the prefix adaptive_ or global_"
        )
    result = f(*args, **kwargs)
    bound = inspect.signature(f).bind(*args, **kwargs)
    given = bound.arguments
    text = f"{name}({', '.join(shown(key, value) for key, value in given.items())})"
    x = given["x"]
    if f is functional.reduce_windows:
        return Call(text, None, PoolParams(given["geometry"]), (x,), (), result, (given["f"], given.get("init")))
    masks: list[Any] = [] if given.get("where") is None else [given["where"]]
    if is_masked(x):
        x, masks = x.data, [*masks, ~np.ma.getmaskarray(x)]
    listener = Listener(x)
    heard = {key: value for key, value in given.items() if key not in ("out", "where")} | {"x": listener}
    bound.arguments.clear()
    bound.arguments.update(heard)
    f(*bound.args, **bound.kwargs)
    op, params, more = listener.told
    return Call(text, op, params, (x, *more), tuple(masks), result[0] if isinstance(result, tuple) else result)


# --- cells ---------------------------------------------------------------------------------------------------------


def taken(name: str, array: Any, index: tuple[Any, ...]) -> Any:
    """Cells of an array of any kind, as an array of Python's numbers; one cell if the index leaves no axis."""
    while isinstance(array, Tracer):
        array = array.value
    try:
        part = array[index] if index else array
        if is_lazy(type(part)):
            part = part.compute()
        cells = part.tolist() if hasattr(part, "tolist") else part  # a number in an array of objects has no such method
    except (TypeError, RuntimeError) as error:  # an array that is traced, or of a device without memory
        raise KindError(
            f"{name}: the values of a {type(array).__qualname__} cannot be taken: {show(str(error), 120)}"
        ) from None
    shape = tuple(getattr(part, "shape", ()))
    if not shape:
        return cells
    found = np.empty(math.prod(shape), dtype=object)
    found[:] = flat(cells, len(shape))
    return found.reshape(shape)


def flat(cells: Any, depth: int) -> list[Any]:
    for _ in range(depth - 1):
        cells = [cell for part in cells for cell in part]
    return list(cells)


def refuse_many(name: str, ranges: Iterable[range]) -> None:
    cells = math.prod(map(len, ranges))
    if cells > MOST_TAKEN:
        raise WindowError(f"{name}: an output sees {counted('cell', cells)} of it; at most {MOST_TAKEN:,} can be explained")


def block(name: str, array: Any, lead: Place, ranges: Sequence[range]) -> Array:
    """The cells of a plane between these places, if they are not too many."""
    refuse_many(name, ranges)
    found: Array = taken(name, array, (*lead, *(slice(side.start, side.stop) for side in ranges)))
    return found


def left(masks: Sequence[Any], shape: Place, lead: Place, ranges: Sequence[range]) -> Array | None:
    """Which cells of such a block all masks leave; None if there is no mask."""
    whole: Array | None = None
    for mask in masks:
        if np.ndim(mask) == 0 and not hasattr(mask, "shape"):
            mask = np.asarray(mask)
        place = (*lead, *(slice(side.start, side.stop) for side in ranges))[len(shape) - len(mask.shape) :]
        index = tuple(
            (0 if isinstance(i, int) else slice(0, 1)) if n == 1 else i for i, n in zip(place, mask.shape, strict=True)
        )
        part = np.broadcast_to(np.asarray(taken("where", mask, index), bool), tuple(map(len, ranges)))
        whole = part if whole is None else whole & part
    return whole
