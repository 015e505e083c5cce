"""The array a pyramid is made of, and what its group tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from windowgrad.errors import KindError, OptionError
from windowgrad.pyramid.metadata import TYPES


@dataclass(frozen=True)
class Source:
    array: Any
    names: str | None
    axes: list[dict[str, Any]] | None
    scale: list[float] | None
    origin: list[float] | None


def opened(path: Path) -> Source:
    """The array at `path`; of an OME-Zarr image its first level."""
    if not path.exists():
        raise OptionError(f"{path}: does not exist")
    node: Any
    try:
        node = zarr.open(path, mode="r")
    except Exception as error:  # zarr raises errors of many kinds for what is no Zarr
        raise KindError(f"{path}: cannot be opened as Zarr ({error})") from error
    if isinstance(node, zarr.Array):
        dims = getattr(node.metadata, "dimension_names", None)
        names = "".join(dims) if dims and all(name in TYPES for name in dims) else None
        return Source(node, names, None, None, None)
    scales = node.attrs.get("ome", node.attrs).get("multiscales")
    if not scales:
        inside = ", ".join(sorted(node.array_keys())) or "none"
        raise KindError(f"{path}: a Zarr group, not an array; name one of its arrays ({inside})")
    first, axes = scales[0]["datasets"][0], scales[0]["axes"]
    found = {each["type"]: each[each["type"]] for each in first.get("coordinateTransformations", [])}
    names = "".join(axis["name"] for axis in axes)
    known = names if set(names) <= set(TYPES) else None
    return Source(node[first["path"]], known, axes, found.get("scale"), found.get("translation"))
