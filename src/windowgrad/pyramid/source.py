"""The array a pyramid is made of, and what its group tells of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr
from zarr.storage import LocalStore

from windowgrad.errors import KindError, OptionError, show
from windowgrad.pyramid.metadata import TYPES

URL = re.compile(r"[A-Za-z][\w+.-]+:[/:]")


@dataclass(frozen=True)
class Source:
    array: Any
    path: Path
    """The folder of the array, or the file it is in."""
    names: str | None
    axes: list[dict[str, Any]] | None
    scale: list[float] | None
    origin: list[float] | None


def local(name: str, path: object) -> Path:
    """An argument as a path on this machine."""
    if not isinstance(path, (str, Path)):
        raise KindError(f"{name}={show(path)}: must be a path, not {type(path).__name__}")
    if URL.match(str(path)):
        copied = "copy it to one first" if name == "source" else "write to one and copy it"
        raise OptionError(f"{path}: is a URL, but only local folders are supported; {copied}")
    if not str(path) or "\0" in str(path):
        raise OptionError(f"{name}={show(str(path))}: must be the path of a folder")
    return Path(path)


def reason(error: BaseException) -> str:
    """An error of another library in a few words."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 200 else text[:199] + '…'}"


def opened(path: Path) -> Source:
    """The array at `path`; of an OME-Zarr image its first level."""
    node: Any
    try:
        if not path.exists():
            raise OptionError(f"{path}: does not exist")
        node = zarr.open(path, mode="r")
    except OptionError:
        raise
    except Exception as error:  # zarr raises errors of many kinds for what is no Zarr
        raise KindError(f"{path}: cannot be opened as Zarr ({reason(error)})") from error
    if isinstance(node, zarr.Array):
        dims = getattr(node.metadata, "dimension_names", None)
        names = "".join(dims) if dims and all(name in TYPES for name in dims) else None
        return Source(node, folder_of(node, path), names, None, None, None)
    try:
        return first_level(node, path)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        inside = ", ".join(sorted(node.array_keys())) or "none"
        what = (
            "a Zarr group, not an array" if scales_of(node) is None else f"its OME-Zarr metadata is invalid ({reason(error)})"
        )
        raise KindError(f"{path}: {what}; choose one of its arrays ({inside})") from error


def scales_of(node: Any) -> Any:
    ome = node.attrs.get("ome", node.attrs)
    return ome.get("multiscales") if hasattr(ome, "get") else None


def first_level(node: Any, path: Path) -> Source:
    scales = scales_of(node)
    first, axes = scales[0]["datasets"][0], scales[0]["axes"]
    array = node[first["path"]]
    if not isinstance(array, zarr.Array):
        raise ValueError(f"{first['path']} is not an array")
    found = {each["type"]: each[each["type"]] for each in first.get("coordinateTransformations", [])}
    names = "".join(axis["name"] for axis in axes)
    known = names if set(names) <= set(TYPES) else None
    return Source(array, folder_of(array, path), known, axes, found.get("scale"), found.get("translation"))


def folder_of(array: Any, path: Path) -> Path:
    store = array.store_path.store
    return Path(store.root) / array.path if isinstance(store, LocalStore) else path
