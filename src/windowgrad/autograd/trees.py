"""Nested tuples, lists, dicts and dataclasses of arrays, as a flat list and back. `optree` does the work."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from windowgrad.autograd.tracer import PLAIN, Tracer, as_value
from windowgrad.errors import KindError, WindowError, place, show
from windowgrad.loading import loading

NAMESPACE = "windowgrad"

FEW = 8
"""The most leaves of a tuple that is opened and closed here: it is what most functions are called with."""


@cache
def _optree() -> Any:
    """It takes a while to load, so not before it is needed."""
    with loading:
        import optree
    return optree


@cache
def _row(size: int) -> Any:
    """The structure of a tuple of so many leaves; of a leaf alone for −1."""
    return _optree().tree_structure(0 if size < 0 else (0,) * size, namespace=NAMESPACE)


def is_leaf(value: Any) -> bool:
    """Whether it is an array or a traced value: what needs nobody to open it."""
    return type(value) is np.ndarray or isinstance(value, Tracer)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves, and the structure around them. A dataclass is opened like a dict, whatever its class."""
    if is_leaf(tree):
        return [tree], _row(-1)
    if type(tree) is tuple and len(tree) <= FEW and all(map(is_leaf, tree)):
        return list(tree), _row(len(tree))
    optree = _optree()
    try:
        leaves, structure = optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        raise KindError(f"{show(tree)}: is nested too deeply, or contains itself") from None
    while new := set(filter(is_record, set(map(type, leaves)))):
        for kind in new:
            register(kind)
        leaves, structure = optree.tree_flatten(tree, namespace=NAMESPACE)
    return leaves, structure


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    if structure is _row(-1):
        return leaves[0]
    if (size := len(leaves)) <= FEW and structure is _row(size):
        return tuple(leaves)
    return _optree().tree_unflatten(structure, leaves)


def is_record(kind: type) -> bool:
    """Whether leaves of this class are dataclasses to be opened."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "__windowgrad__")


def register(kind: Any) -> None:
    """Tell optree how a dataclass is opened and closed. Closing does not run its __init__, which may check numbers."""
    names = tuple(field.name for field in dataclasses.fields(kind))

    def opened(record: Any) -> tuple[Any, ...]:
        return tuple(getattr(record, name) for name in names), None, names

    def closed(_: Any, values: Any) -> Any:
        record = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(record, name, value)
        return record

    try:
        _optree().register_pytree_node(kind, opened, closed, namespace=NAMESPACE)
    except ValueError:  # another thread was faster
        return


def values(name: str, tree: Any) -> tuple[list[Any], Any]:
    """The leaves as arrays, and the structure; the error for a leaf that is not a number names its position."""
    if type(tree) is tuple and len(tree) <= FEW:
        for leaf in tree:
            if type(leaf) is not np.ndarray or leaf.dtype not in PLAIN:
                break
        else:  # the usual call
            return [*tree], _row(len(tree))
    elif isinstance(tree, Tracer):
        return [tree], _row(-1)
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if not (leaf.dtype in PLAIN if type(leaf) is np.ndarray else isinstance(leaf, Tracer)):
            return _as_values(name, leaves, structure), structure
    return leaves, structure


def _as_values(name: str, leaves: Sequence[Any], structure: Any) -> list[Any]:
    """Where a leaf stands is asked only for an error: there may be a million of them."""
    found: list[Any] = []
    try:
        for leaf in leaves:
            found.append(leaf if isinstance(leaf, Tracer) else as_value(name, leaf))  # counted for the error
    except KindError:
        where = name + place(structure.paths()[len(found)])
        try:
            as_value(where, leaves[len(found)])
        except KindError as error:
            raise KindError(f"{error}; every leaf of an argument must be a number or an array") from None
        raise
    return found


def matched(name: str, tree: Any, structure: Any, like: Sequence[Any], what: str) -> list[Any]:
    """The leaves of `tree`, which must have the structure and the shapes of `like`."""
    if type(tree) is np.ndarray and structure is _row(-1) and tree.dtype in PLAIN and tree.shape == like[0].shape:
        return [tree]
    leaves, given = flatten(tree)
    if given is not structure and given != structure:
        raise WindowError(f"{name}: must have the same structure as {what}: {_plain(structure)}, not {_plain(given)}")
    leaves = _as_values(name, leaves, structure)
    for i, (leaf, right) in enumerate(zip(leaves, like, strict=True)):
        if leaf.shape != right.shape:
            where = name + place(structure.paths()[i])
            raise WindowError(f"{where} of shape {leaf.shape}: must be {right.shape}, the shape of {what}")
    return leaves


def _plain(structure: Any) -> str:
    return show(structure, 200).removeprefix("PyTreeSpec(").removesuffix(f", namespace='{NAMESPACE}')").removesuffix(")")
