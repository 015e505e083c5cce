"""vmap. Pooling has batch axes already: a new one goes before them. So has convolution, as long as all share one weight;
weights of their own are those of groups of their own, and the new axis goes among the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from windowgrad.bridges.jax.host import FORWARD, Like, Needs, given
from windowgrad.bridges.jax.primitives import kinds, saved_like
from windowgrad.params import ConvParams, Params, Shape, SharpParams
from windowgrad.spec.op import Op

IMAGES = ("x", "indices", "y")  # the roles that have batch axes; a weight and a bias have none


@dataclass(frozen=True)
class First:
    """The new axis is the first one of every image."""

    size: int

    def shape(self, role: str, shape: Shape) -> Shape:
        return (self.size, *shape) if role in IMAGES else shape

    def inserted(self, role: str, array: Any, place: int | None) -> Any:
        return at_front(array, place, self.size) if role in IMAGES else array

    def taken_out(self, role: str, array: Any) -> Any:
        return array


@dataclass(frozen=True)
class Channels:
    """The new axis is one with that of the channels, before them: channel c of entry b is channel b · channels + c."""

    size: int
    rank: int
    kept: int | None = None
    """How many axes of the output come after its channels, if not as many as of the input."""

    def channel(self, role: str, shape: Shape) -> int:
        if role not in IMAGES:
            return 0
        return len(shape) - (self.rank if role != "y" or self.kept is None else self.kept) - 1

    def shape(self, role: str, shape: Shape) -> Shape:
        c = self.channel(role, shape)
        return (*shape[:c], self.size * shape[c], *shape[c + 1 :])

    def inserted(self, role: str, array: Any, place: int | None) -> Any:
        front = at_front(array, place, self.size)
        one = front.shape[1:]
        return jnp.moveaxis(front, 0, self.channel(role, one)).reshape(self.shape(role, one))

    def taken_out(self, role: str, array: Any) -> Any:
        c = self.channel(role, array.shape)
        split = (*array.shape[:c], self.size, array.shape[c] // self.size, *array.shape[c + 1 :])
        return jnp.moveaxis(array.reshape(split), c, 0)


@dataclass(frozen=True)
class Own:
    """The new axis is that of the channels, just before the windows: each entry has a number of its own there."""

    size: int
    rank: int
    kept: int

    def place(self, role: str, count: int) -> int:
        """Where it is in an array that has `count` axes without it."""
        return count - (self.kept if role == "y" else self.rank) if role in IMAGES else 0

    def shape(self, role: str, shape: Shape) -> Shape:
        at = self.place(role, len(shape))
        return (*shape[:at], self.size, *shape[at:])

    def inserted(self, role: str, array: Any, place: int | None) -> Any:
        return jnp.moveaxis(at_front(array, place, self.size), 0, self.place(role, array.ndim - (place is not None)))

    def taken_out(self, role: str, array: Any) -> Any:
        return jnp.moveaxis(array, self.place(role, array.ndim - 1), 0)


def at_front(array: Any, place: int | None, size: int) -> Any:
    """The array with the new axis first; one that does not have it is the same all along it."""
    return jnp.broadcast_to(array, (size, *array.shape)) if place is None else jnp.moveaxis(array, place, 0)


def roles(op: Op, rule: str, count: int, needs: Needs, has_saved: bool) -> tuple[list[str], list[str]]:
    """What the arrays of a primitive are, and what its results are. What is saved has the batch axes of the output."""
    if rule in FORWARD:
        return list(op.inputs[:count]), ["y"] if rule == "forward" else ["y", "y"]
    inputs = op.inputs[: len(needs)]
    known = [name for name, here in zip(inputs, given(op, rule, needs), strict=True) if here] + ["y"] * has_saved
    if rule == "jvp":
        return [*known, *inputs], ["y"]
    return [*known, "y"], [name for name, need in zip(inputs, needs, strict=True) if need]


def batched(
    bind: Callable[..., list[Any]],
    op: Op,
    rule: str,
    arrays: Sequence[Any],
    places: Sequence[int | None],
    *,
    params: Params,
    needs: Needs = (),
    like: Like = (),
    has_saved: bool = False,
) -> tuple[list[Any], list[int]]:
    """The results of a primitive over a new axis, which stands in the given places of the arrays or is not there (None)."""
    size = next(a.shape[place] for a, place in zip(arrays, places, strict=True) if place is not None)
    taken, made = roles(op, rule, len(arrays), needs, has_saved)
    axis: First | Channels | Own = First(size)
    own = {role for role, place in zip(taken, places, strict=True) if place is not None} | set(made)
    if isinstance(params, ConvParams) and not own.issubset(IMAGES):
        if size == 0:  # there are no groups of nothing
            return nothing(op, rule, arrays, places, params, needs, like)
        axis, params = Channels(size, params.window.rank), replace(params, groups=params.groups * size)
    elif isinstance(params, SharpParams) and "beta" in own:
        one = next(
            len(like[1].shape) if like else len(a.shape) - (p is not None)
            for a, r, p in zip(arrays, taken, places, strict=True)
            if r == "beta"
        )
        axis = (
            Channels(size, params.geometry.rank, params.kept_axes) if one else Own(size, params.geometry.rank, params.kept_axes)
        )
    static: dict[str, Any] = {"params": params}
    whole = [jax.ShapeDtypeStruct(axis.shape(r, a.shape), a.dtype) for r, a in zip(op.inputs, like or (), strict=False)]
    inserted = list(map(axis.inserted, taken, arrays, places))
    if (rule == "saving" or has_saved) and saved_like(op, params, whole or inserted) is None:
        return unsaved(bind, op, rule, inserted, made, whole, params, needs)
    if like:
        static |= {"needs": needs, "like": tuple(whole), "has_saved": has_saved}
    return list(map(axis.taken_out, made, bind(rule, *inserted, **static))), [0] * len(made)


def unsaved(
    bind: Callable[..., list[Any]],
    op: Op,
    rule: str,
    arrays: Sequence[Any],
    made: Sequence[str],
    like: Sequence[Any],
    params: Params,
    needs: Needs,
) -> tuple[list[Any], list[int]]:
    """The results of a rule of a reduction that would save, or use what was saved, where so many images save nothing."""
    if rule == "saving":
        size, *_ = arrays[0].shape
        one = jax.ShapeDtypeStruct(arrays[0].shape[1:], arrays[0].dtype)
        kept = kinds(op, rule, [one], params)[1]
        return [*bind("forward", *arrays, params=params), jnp.zeros((size, *kept.shape), kept.dtype)], [0, 0]  # nobody reads it
    known = sum(given(op, rule, needs))
    rest = [*arrays[:known], *arrays[known + 1 :]]
    return bind(rule, *rest, params=params, needs=needs, like=tuple(like), has_saved=False), [0] * len(made)


def nothing(
    op: Op, rule: str, arrays: Sequence[Any], places: Sequence[int | None], params: Params, needs: Needs, like: Like
) -> tuple[list[Any], list[int]]:
    """The results over an axis of length 0."""
    ones = [
        a if place is None else jax.ShapeDtypeStruct((*a.shape[:place], *a.shape[place + 1 :]), a.dtype)
        for a, place in zip(arrays, places, strict=True)
    ]
    found = kinds(op, rule, ones, params, needs, like)
    return [jnp.zeros((0, *kind.shape), kind.dtype) for kind in found], [0] * len(found)
