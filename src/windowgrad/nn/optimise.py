"""Optimisers as pure functions: they return new parameters and a new state, and never write to their arguments.

The state is a plain nested value, so `save` stores it as it stores parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from textwrap import shorten
from typing import Any

import numpy as np

from windowgrad.arguments import as_int
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.errors import place as shown_place
from windowgrad.loading import loading

PIECE = 1 << 15
"""Elements that are updated at a time: few enough to stay in the cache for all passes."""

LAST_STEP = 2**53
"""Steps are counted in float64."""

Array = np.ndarray[Any, Any]


class Optimiser(ABC):
    """Base of the optimisers: `state = init(params)`, then `params, state = update(params, grads, state)` in each step."""

    @abstractmethod
    def init(self, params: Any) -> Any:
        """The state before the first step."""

    @abstractmethod
    def update(self, params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        """Parameters and state after a step; `grads` has the structure of `params`."""


def sgd(learning_rate: float, momentum: float = 0.0) -> Optimiser:
    """Stochastic gradient descent, with momentum if it is not 0: velocity = momentum · velocity + gradient."""
    return SGD(between("learning_rate", learning_rate, math.inf), between("momentum", momentum, 1))


def adam(learning_rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimiser:
    """Adam: running means of the gradients and of their squares, both with bias correction."""
    rate, least = between("learning_rate", learning_rate, math.inf), between("eps", eps, math.inf)
    return Adam(float(rate), float(between("b1", b1, 1)), float(between("b2", b2, 1)), float(least))


@dataclass(frozen=True)
class SGD(Optimiser):
    """What `sgd` returns. The state is the velocity of every parameter, or nothing without momentum."""

    learning_rate: float
    momentum: float

    def init(self, params: Any) -> dict[str, Any]:
        return {"velocity": _zeros(params, "fO")} if self.momentum else {}

    def update(self, params: Any, grads: Any, state: Any) -> tuple[Any, dict[str, Any]]:
        if not self.momentum:
            (new,) = _mapped(self._plain, 1, "fO", params=params, grads=grads)
            return new, {}
        velocity = _entry(state, "velocity")
        new, velocity = _mapped(self._with_momentum, 2, "fO", params=params, grads=grads, velocity=velocity)
        return new, {"velocity": velocity}

    def _plain(self, new: Array, p: Array, g: Array) -> None:
        np.multiply(g, _beside(g, self.learning_rate), out=new)
        np.subtract(p, new, out=new)

    def _with_momentum(self, new: Array, velocity: Array, p: Array, g: Array, old: Array) -> None:
        np.multiply(old, _beside(old, self.momentum), out=velocity)
        velocity += g
        self._plain(new, p, velocity)


@dataclass(frozen=True)
class Adam(Optimiser):
    """What `adam` returns. The state is the number of steps, and the running means of gradients and of their squares."""

    learning_rate: float
    b1: float
    b2: float
    eps: float

    def init(self, params: Any) -> dict[str, Any]:
        return {"step": 0, "mean": _zeros(params, "f"), "square": _zeros(params, "f")}

    def update(self, params: Any, grads: Any, state: Any) -> tuple[Any, dict[str, Any]]:
        step = as_int('state["step"]', _entry(state, "step"), 0) + 1
        if step > LAST_STEP:
            raise OptionError(f'state["step"]={show(step - 1)}: must be less than {LAST_STEP}')
        rate, root = self.learning_rate / (1 - self.b1**step), math.sqrt(1 - self.b2**step)

        def moved(new: Array, mean: Array, square: Array, p: Array, g: Array, m: Array, s: Array) -> None:
            _average(m, g, self.b1, mean, new)
            np.multiply(g, g, out=new)
            _average(s, new, self.b2, square, new)
            np.sqrt(square, out=new)
            new /= root
            new += self.eps
            np.divide(mean, new, out=new)
            new *= rate
            np.subtract(p, new, out=new)

        means, squares = _entry(state, "mean"), _entry(state, "square")
        new, means, squares = _mapped(moved, 3, "f", params=params, grads=grads, mean=means, square=squares)
        return new, {"step": step, "mean": means, "square": squares}


def _average(old: Array, value: Array, keep: float, out: Array, spare: Array) -> None:
    """`keep` of the old mean and the rest of the value. `spare` is written too, and may be the value."""
    np.multiply(value, 1 - keep, out=spare)
    np.multiply(old, keep, out=out)
    out += spare


# --- over nested values --------------------------------------------------------------------------------------------


def _mapped(rule: Callable[..., None], results: int, kinds: str, **trees: Any) -> tuple[Any, ...]:
    """`rule` on the arrays that stand at the same place in all trees: it writes `results` new arrays, each like the first."""
    with loading:
        import optree

    names = list(trees)
    leaves, structure = _flattened(names[0], trees[names[0]])
    columns = [leaves]
    for name in names[1:]:
        try:
            columns.append(structure.flatten_up_to(trees[name]))
        except (ValueError, RecursionError) as error:
            raise WindowError(
                shorten(f"{name}: must have the same structure as {names[0]}: {error}", 160, placeholder=" …")
            ) from None
    made: list[list[Array]] = [[] for _ in range(results)]
    with np.errstate(all="ignore"):  # infinity and NaN are results, not warnings
        for number, row in enumerate(zip(*columns, strict=True)):
            given = list(row) if _are_floats(row) else _alike(structure.paths()[number], names, row, kinds)
            new = [np.empty(given[0].shape, given[0].dtype) for _ in range(results)]
            for piece in _pieces(new + given):
                _computed(structure, number, rule, piece)
            for column, array in zip(made, new, strict=True):
                column.append(array)
    return tuple(optree.tree_unflatten(structure, column) for column in made)


def _are_floats(row: tuple[Any, ...]) -> bool:
    """Whether all are plain arrays of floats of one shape: most are, and then nothing is wrong with them."""
    shape = getattr(row[0], "shape", None)
    return all(type(array) is np.ndarray and array.dtype.kind == "f" and array.shape == shape for array in row)


def _alike(place: tuple[Any, ...], names: list[str], row: tuple[Any, ...], kinds: str) -> list[Array]:
    at = shown_place(place)
    _check_parameter(f"{names[0]}{at}", row[0], kinds)
    arrays = [_as_array(f"{name}{at}", value) for name, value in zip(names, row, strict=True)]
    for name, array in zip(names, arrays, strict=True):
        if array.dtype.kind not in ("Ofiub" if arrays[0].dtype.kind == "O" else "fiub"):
            raise KindError(f"{name}{at}: must be an array of numbers like {names[0]}, not of dtype {array.dtype}")
        if array.shape != arrays[0].shape:
            raise WindowError(f"{name}{at} of shape {array.shape}: must be {arrays[0].shape}, as in {names[0]}")
    return arrays


def _as_array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        raise KindError(f"{name}={show(value)}: must be an array of numbers, not {type(value).__name__}") from None


def _computed(structure: Any, number: int, rule: Callable[..., None], piece: list[Array]) -> None:
    try:
        rule(*piece)
    except TypeError as error:  # of cells that are objects
        place = shown_place(structure.paths()[number])
        raise KindError(f"params{place}: its elements cannot be combined with those of the gradients: {error}") from None


def _flattened(name: str, tree: Any) -> tuple[list[Any], Any]:
    import optree

    try:
        return optree.tree_flatten(tree)
    except RecursionError:
        raise KindError(f"{name}={show(tree)}: is nested too deeply, or contains itself") from None


def _beside(array: Array, number: Any) -> Any:
    """An option as the number that computes with an array: exact ones with objects, floats with floats."""
    return number if array.dtype.kind == "O" else float(number)


def _check_parameter(name: str, value: Any, kinds: str) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__qualname__
        raise KindError(f"{name}: must be an array of floats, not {got}")


def _pieces(arrays: list[Array]) -> Iterator[list[Array]]:
    """The arrays, alike in shape, a few cells at a time."""
    if arrays[0].size <= PIECE:
        yield arrays
        return
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, arrays[0].size, PIECE):
        yield [array[start : start + PIECE] for array in flat]


def _zeros(params: Any, kinds: str) -> Any:
    with loading:
        import optree

    def zeros(place: tuple[Any, ...], value: Any) -> Array:
        _check_parameter("params" + shown_place(place), value, kinds)
        return np.zeros(value.shape, value.dtype)

    _flattened("params", params)
    return optree.tree_map_with_path(zeros, params)


def _entry(state: Any, name: str) -> Any:
    if not isinstance(state, dict) or name not in state:
        wanted = f"must be the dict that init or update of this optimiser returned, with {name!r}"
        raise KindError(f"state={show(state)}: {wanted}")
    return state[name]


def _is_beyond_floats(value: Any) -> bool:
    try:
        return math.isinf(value)
    except OverflowError:
        return True


def between(name: str, value: Any, most: float) -> Any:
    """A number from 0 to less than `most`; NumPy's become Python's, which leave an array its dtype."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise KindError(f"{name}={show(value)}: must be a number, not {type(value).__name__}")
    if not 0 <= value < most or _is_beyond_floats(value):  # type: ignore[operator]  # real numbers compare
        wanted = "finite and not negative" if most == math.inf else f"at least 0 and less than {most}"
        raise OptionError(f"{name}={show(value)}: must be {wanted}")
    return value.item() if isinstance(value, np.generic) else value
