"""Nested tuples, lists, dicts and dataclasses of arrays, as a flat list and back. `optree` does the work."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from windowgrad.autograd.tracer import as_value
from windowgrad.errors import KindError, WindowError, place, show
from windowgrad.loading import loading

NAMESPACE = "windowgrad"


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves, and the structure around them. A dataclass is opened like a dict, whatever its class."""
    with loading:
        import optree

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
    with loading:
        import optree

    return optree.tree_unflatten(structure, leaves)


def is_record(kind: type) -> bool:
    """Whether leaves of this class are dataclasses to be opened."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "__windowgrad__")


def register(kind: Any) -> None:
    """Tell optree how a dataclass is opened and closed. Closing does not run its __init__, which may check numbers."""
    with loading:
        import optree

    names = tuple(field.name for field in dataclasses.fields(kind))

    def opened(record: Any) -> tuple[Any, ...]:
        return tuple(getattr(record, name) for name in names), None, names

    def closed(_: Any, values: Any) -> Any:
        record = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(record, name, value)
        return record

    try:
        optree.register_pytree_node(kind, opened, closed, namespace=NAMESPACE)
    except ValueError:  # another thread was faster
        return


def values(name: str, tree: Any) -> tuple[list[Any], Any]:
    """The leaves as arrays, and the structure; the error for a leaf that is not a number names its position."""
    leaves, structure = flatten(tree)
    return _as_values(name, leaves, structure), structure


def _as_values(name: str, leaves: Sequence[Any], structure: Any) -> list[Any]:
    """Where a leaf stands is asked only for an error: there may be a million of them."""
    found: list[Any] = []
    try:
        found.extend(as_value(name, leaf) for leaf in leaves)
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
    leaves, given = flatten(tree)
    if given != structure:
        raise WindowError(f"{name}: must have the same structure as {what}: {_plain(structure)}, not {_plain(given)}")
    leaves = _as_values(name, leaves, structure)
    for i, (leaf, right) in enumerate(zip(leaves, like, strict=True)):
        if leaf.shape != right.shape:
            where = name + place(structure.paths()[i])
            raise WindowError(f"{where} of shape {leaf.shape}: must be {right.shape}, the shape of {what}")
    return leaves


def _plain(structure: Any) -> str:
    return show(structure, 200).removeprefix("PyTreeSpec(").removesuffix(f", namespace='{NAMESPACE}')").removesuffix(")")
