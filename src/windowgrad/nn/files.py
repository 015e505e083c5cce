"""Parameters in a file: a `safetensors` file whose metadata holds the structure of the nested values.

Arrays are named by their position ("0.weight"), which is also PyTorch's name for the weight of a layer in a `Sequential`.
Nothing in a file is ever executed, and a checksum detects damage.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, place, show
from windowgrad.loading import loading
from windowgrad.saving import replacing

FORMAT, VERSION = "windowgrad", 1
KINDS = ("float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool")
VALUES = (int, float, str, bool, type(None))

Arrays = dict[str, np.ndarray[Any, Any]]
Path = str | os.PathLike[str]

OTHERS = {
    # the first bytes   who writes such a file
    b"PK\x03\x04": "a zip archive, such as torch.save and numpy.savez write",
    b"\x93NUMPY": "a file of numpy.save",
    b"\x89HDF": "an HDF5 file",
    b"\x80": "probably a pickle, which can execute code when it is loaded",
}


def save(path: Path, params: Any, *, extra: Mapping[str, Any] | None = None) -> None:
    """Store nested tuples, lists and dicts of arrays and plain values, and `extra`, which `load_extra` returns.

    The file is replaced atomically: if writing is interrupted, `path` is still the old file. Its permissions are kept, and
    only a regular file is replaced. The same content always gives the same bytes.
    `extra` is a small dict of JSON values: numbers, strings, None, lists and dicts (a tuple comes back as a list).
    """
    with loading:
        from safetensors.numpy import save as serialised

    where = _path(path)
    arrays: Arrays = {}
    try:
        structure = json.dumps(_flattened(params, (), arrays))
        notes = json.dumps(_plain({} if extra is None else extra))
    except RecursionError:
        raise KindError("params or extra: is nested too deeply, or contains itself") from None
    except ValueError as error:  # an integer of more digits than Python writes
        raise OptionError(f"params or extra: cannot be written as JSON: {error}") from None
    about = {"format": FORMAT, "version": str(VERSION), "structure": structure, "extra": notes}
    data = serialised(arrays, about | {"checksum": _checksum(arrays, structure, notes)})
    header, start = _ordered(data)
    with replacing(where) as file:
        file.write(header)
        file.write(memoryview(data)[start:])


def load(path: Path) -> Any:
    """The parameters that `save` stored in a file, with the same structure."""
    arrays, about = _read(path)
    with _blaming(path):
        return _nested(json.loads(about["structure"]), arrays)


def load_extra(path: Path) -> dict[str, Any]:
    """The `extra` that `save` stored with the parameters; {} if there was none."""
    _, about = _read(path)
    with _blaming(path):
        return dict(json.loads(about["extra"]))


# --- nested values as named arrays ---------------------------------------------------------------------------------


def _flattened(value: Any, path: tuple[Any, ...], arrays: Arrays) -> Any:
    """The nesting of `value` as JSON can say it; its arrays are added to `arrays` under a name of their own."""
    if type(value) is np.ndarray:
        return {"array": _named(value, path, arrays)}
    if type(value) in VALUES:
        return {"value": value}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_flattened(entry, (*path, i), arrays) for i, entry in enumerate(value)]}
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise KindError(f"params{place(path)}: keys must be strings, not {show(key)}")
        return {"dict": {key: _flattened(entry, (*path, key), arrays) for key, entry in value.items()}}
    wanted = "a NumPy array, a tuple, a list, a dict, a number, a string or None"
    raise KindError(f"params{place(path)}: must be {wanted}, not {type(value).__module__}.{type(value).__qualname__}")


def _named(array: Any, path: tuple[Any, ...], arrays: Arrays) -> str:
    if array.dtype.name not in KINDS:
        raise KindError(f"params{place(path)}: unsupported dtype {array.dtype}; must be one of {', '.join(KINDS)}")
    name = ".".join(map(str, path)).encode("utf-8", "backslashreplace").decode()
    while name in arrays or name == "__metadata__":  # the one name that safetensors keeps for itself
        name += "~"
    arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return name


def _nested(node: Any, arrays: Arrays) -> Any:
    """What `_flattened` has taken apart."""
    ((kind, inner),) = node.items()
    if kind == "array":
        return arrays[inner]
    if kind == "value":
        return inner
    if kind == "dict":
        return {key: _nested(entry, arrays) for key, entry in inner.items()}
    return {"tuple": tuple, "list": list}[kind](_nested(entry, arrays) for entry in inner)


def _plain(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """`value`, of which nothing changes its meaning in JSON."""
    if type(value) in VALUES and path:
        return value
    if type(value) in (tuple, list) and path:
        return [_plain(entry, (*path, i)) for i, entry in enumerate(value)]
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: _plain(entry, (*path, key)) for key, entry in value.items()}
    wanted = "a number, a string, None, a list, or a dict with strings as keys" if path else "a dict with strings as keys"
    raise KindError(f"extra{place(path)}={show(value)}: must be {wanted} (JSON), not {type(value).__qualname__}")


def _checksum(arrays: Arrays, *texts: str) -> str:
    digest = hashlib.sha256(json.dumps(texts).encode())
    for name in sorted(arrays):
        digest.update(json.dumps([name, arrays[name].dtype.name, arrays[name].shape]).encode())
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _ordered(data: bytes) -> tuple[bytes, int]:
    """The header of a safetensors file with its metadata in one order, and where the arrays start in `data`."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the arrays stay aligned
    return len(text).to_bytes(8, "little") + text, start


# --- files ---------------------------------------------------------------------------------------------------------


def _path(path: Any) -> str:
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise KindError(f"path={show(path)}: must be a string or a path, not {type(path).__name__}") from None
    try:
        if "\0" in name:
            raise ValueError("embedded null byte")
        os.fsencode(name)  # half of a character has no bytes
    except ValueError as error:
        raise OptionError(f"path={show(path)}: must be a file name: {error}") from None
    return name


def read_arrays(path: Path) -> tuple[Arrays, Mapping[str, str]]:
    """The arrays and the metadata of any safetensors file."""
    with loading:
        from safetensors import SafetensorError
        from safetensors.numpy import load as deserialised

    with open(_path(path), "rb") as file:
        data = file.read()
    try:
        arrays: Arrays = deserialised(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise OptionError(f"{os.fsdecode(path)}: {_instead(data, error)}") from None
    return arrays, header.get("__metadata__", {})


def _read(path: Path) -> tuple[Arrays, Mapping[str, str]]:
    """The arrays and the metadata of a file that is whole, ours, and of a version we know."""
    arrays, about = read_arrays(path)
    with _blaming(path):
        _check_version(path, about)
        if about["checksum"] != _checksum(arrays, about["structure"], about["extra"]):
            raise ValueError("checksum mismatch")
    return arrays, about


def _check_version(path: Path, about: Mapping[str, str]) -> None:
    if about.get("format") != FORMAT:
        found = f"format {show(about['format'])}" if "format" in about else "no format"
        raise OptionError(
            f"{os.fsdecode(path)}: is a safetensors file, but not written by windowgrad: its metadata has {found}"
        )
    if int(about["version"]) > VERSION:
        newer = f"has version {show(int(about['version']))} of the file format, this windowgrad reads version {VERSION}"
        raise OptionError(f"{os.fsdecode(path)}: {newer}; install a newer windowgrad")


def _instead(data: bytes, error: Exception) -> str:
    """What a file seems to be that is not a safetensors file."""
    if not data:
        return "is empty"
    for start, what in OTHERS.items():
        if data.startswith(start) and data[8:9] != b"{":  # a safetensors file may start with any byte
            return f"is not a safetensors file but {what}"
    return f"is not a safetensors file, or is truncated or damaged ({str(error).removeprefix('Error while deserializing: ')})"


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Around the reading of what only `save` writes: an error there means that the file is damaged."""
    try:
        yield
    except OptionError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OptionError(f"{os.fsdecode(path)}: is damaged ({type(error).__name__}: {error})") from None
