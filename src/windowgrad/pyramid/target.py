"""What is on disk of a pyramid: whether it may be gone on with, and the arrays to write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr

from windowgrad.errors import KindError, OptionError
from windowgrad.pyramid import metadata
from windowgrad.pyramid.store import Folder, is_ours, remove_array, remove_partial

MARK = "windowgrad"
"""The attribute by which a pyramid is known as ours, with what was asked for and what identifies its source."""
OPTIONS = ("op", "levels", "axes")

Asked = dict[str, Any]
"""op, levels and axes; the shape and dtype of the source, and its identity."""


def check_apart(source: Path, target: Path) -> None:
    here, there = source.resolve(), target.resolve()
    if there == here or here in there.parents or there in here.parents:
        raise OptionError(f"{target}: must not be inside {source}, or contain it")


def mark_of(target: Path) -> Any:
    """The mark of the pyramid that is there; None if there is nothing. Anything else is refused. It only reads."""
    if not target.exists() or (target.is_dir() and all(is_ours(each.name) for each in target.iterdir())):
        return None
    try:
        group: Any = zarr.open_group(target, mode="r")
        mark = group.attrs.get(MARK)
    except OSError:
        raise KindError(f"{target}: exists and is not a Zarr group; nothing was changed") from None
    except Exception as error:  # zarr raises errors of many kinds for what is not a group
        raise KindError(f"{target}: exists and is not a Zarr group; nothing was changed") from error
    if not isinstance(mark, dict) or "pyramid" not in mark:
        raise OptionError(f"{target}: exists and is not a windowgrad pyramid; nothing was changed, choose another name")
    return mark


def must_be_replaced(target: Path, asked: Asked, rebuild: bool) -> bool:
    """Whether what is there has to go first. If it is another pyramid, it is refused, unless `rebuild` says to replace it."""
    mark = mark_of(target)
    if mark is None:
        return False
    if mark["pyramid"] is None:  # see `disown`
        return True
    different = difference(mark, asked)
    if different and not rebuild:
        hint = "nothing was changed; choose another name, or replace it with --rebuild"
        raise OptionError(f"{target}: exists and is a different pyramid: {different}; {hint}")
    return rebuild


def difference(mark: Any, asked: Asked) -> str:
    """In what a pyramid that is there differs from the one that is asked for; nothing if it does not."""
    made: Asked = mark["pyramid"]
    old, new = made.get("source"), asked["source"]
    if not isinstance(old, dict):
        return "it was made by an earlier version, which did not record its source"
    if old.get("path") != new["path"]:
        return f"it was made from {old.get('path')}, not from {new['path']}"
    other = [name for name in OPTIONS if made.get(name) != asked[name]]
    if other:
        return ", ".join(f"it has {name}={made.get(name)}, not {asked[name]}" for name in other)
    return "" if made == asked else f"{new['path']} has changed since it was {'made' if mark['complete'] else 'started'}"


def prepared(target: Path, asked: Asked, levels: list[metadata.Level], source: Any, replace: bool) -> tuple[Any, list[Any]]:
    """The group and its arrays, made if they are not there. The caller holds the folder, so all that is ours there is old."""
    store, zarr_format = Folder(target), source.metadata.zarr_format
    if mark_of(target) is None:
        group = zarr.create_group(store, zarr_format=zarr_format, attributes={MARK: {"pyramid": asked, "complete": False}})
    else:
        group = zarr.open_group(store, mode="r+", use_consolidated=False)
    if group.metadata.zarr_format != zarr_format:
        raise OptionError(
            f"{target}: has Zarr format {group.metadata.zarr_format}, the source has {zarr_format}; choose another name"
        )
    if replace:
        emptied(target, group, asked)
    remove_partial(target, [target / str(level) for level in range(len(levels))])
    names = asked["axes"]
    arrays = [group[str(i)] if str(i) in group else made(group, str(i), level, source, names) for i, level in enumerate(levels)]
    return group, arrays


def emptied(target: Path, group: Any, asked: Asked) -> None:
    """The levels that are there are removed. What is not ours stays: other arrays and groups, other attributes."""
    disown(group)
    for level in range(group.attrs[MARK]["levels"]):
        remove_array(target / str(level))
    ome = {key: value for key, value in group.attrs.get("ome", {}).items() if key != "multiscales"}
    rest = {key: value for key, value in group.attrs.items() if key not in ("ome", "multiscales")}
    begun = {MARK: {"pyramid": asked, "complete": False}}
    group.attrs.put({**rest, **({"ome": ome} if ome else {}), **begun})


def disown(group: Any) -> None:
    """Say that no chunk that is there may be used: the next run removes them, also if this one is stopped on the way."""
    mark = group.attrs[MARK]
    levels = mark["levels"] if mark["pyramid"] is None else mark["pyramid"]["levels"]
    group.attrs[MARK] = {"pyramid": None, "levels": levels, "complete": False}


def is_complete(group: Any) -> bool:
    return bool(group.attrs[MARK]["complete"])


def finish(group: Any, told: dict[str, Any]) -> None:
    """Say what the levels are, and that they are complete."""
    if "ome" in told:
        told = {**told, "ome": {**group.attrs.get("ome", {}), **told["ome"]}}
    group.attrs.update({**told, MARK: {**group.attrs[MARK], "complete": True}})


def made(group: Any, name: str, level: metadata.Level, source: Any, names: str) -> Any:
    v3 = source.metadata.zarr_format == 3
    separated = {"name": "default" if v3 else "v2", "separator": "/"}
    return group.create_array(
        name,
        shape=level.shape,
        chunks=level.chunks,
        dtype=source.dtype,
        compressors=source.compressors,
        filters=source.filters,
        fill_value=source.fill_value,
        chunk_key_encoding=separated,
        dimension_names=list(names) if v3 else None,
        config={"write_empty_chunks": True},
    )
