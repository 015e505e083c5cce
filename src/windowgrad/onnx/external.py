"""Tensors that are stored in other files, which must be in the folder of the model."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Any

from windowgrad.errors import OptionError, show
from windowgrad.onnx.tensors import nbytes


def embed(model: Any, folder: str | None) -> Any:
    """The model with all data inside; a copy if there was some outside."""
    if not any(is_external(tensor) for tensor in tensors(model)):
        return model
    if folder is None:
        name = next(tensor.name for tensor in tensors(model) if is_external(tensor))
        raise OptionError(f"tensor {show(name)} is in another file: load the model by its path")
    whole = type(model)()
    whole.CopyFrom(model)
    taken: Counter[str] = Counter()
    for tensor in tensors(whole):
        if is_external(tensor):
            tensor.raw_data = content(tensor, folder, taken)
            tensor.data_location = tensor.DEFAULT
            del tensor.external_data[:]
    return whole


def is_external(tensor: Any) -> bool:
    return bool(tensor.data_location == tensor.EXTERNAL)


def tensors(model: Any) -> Iterator[Any]:
    """Those of the graph, of its nodes and of functions."""
    yield from model.graph.initializer
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def content(tensor: Any, folder: str, taken: Counter[str]) -> bytes:
    """The bytes of a tensor. Together, tensors take no more bytes from a file than it has."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    where = f"tensor {show(tensor.name)}"
    path = inside(where, folder, said.get("location", ""))
    offset, need = number(where, "offset", said.get("offset", "0")), nbytes(where, tensor)
    length = number(where, "length", said["length"]) if "length" in said else need
    if length != need:
        raise OptionError(f"{where}: length={length} of external data, but its shape and dtype need {need} bytes")
    try:
        with open(path, "rb", opener=without_links) as file:
            found = os.fstat(file.fileno())
            taken[path] += length
            if not stat.S_ISREG(found.st_mode) or offset + length > found.st_size or taken[path] > found.st_size:
                raise OptionError(
                    f"{where}: wants {length} bytes at {offset} of {show(said['location'])}, which has {found.st_size} bytes"
                    " in all, or not as many for all tensors"
                )
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise OptionError(f"{where}: cannot open its external data {show(said['location'])}: {error.strerror}") from None


def without_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def number(where: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise OptionError(f"{where}: {name}={show(text)} of external data: must be a number of bytes")
    return int(text)


def inside(where: str, folder: str, location: str) -> str:
    """The path of a file in the folder; no link leads there, so it is not somewhere else."""
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location or ":" in location or os.path.isabs(location) or not all(parts) or ".." in parts:
        raise OptionError(f"{where}: external data in {show(location)}: must be a file in the folder of the model")
    base = os.path.realpath(folder)
    path = os.path.normpath(os.path.join(base, *parts))
    if os.path.realpath(path) != path:
        raise OptionError(f"{where}: external data in {show(location)}: must not be reached by a symbolic link")
    return path
