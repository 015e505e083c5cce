"""From a file to a whole model: nothing outside its folder is read, nothing is executed, and sizes are checked first."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from windowgrad.errors import KindError, OptionError, WindowgradError, cut, show
from windowgrad.loading import loading
from windowgrad.memory import in_bytes
from windowgrad.onnx.external import embed
from windowgrad.onnx.functions import check_calls, inlined, without_weights
from windowgrad.onnx.own import kept
from windowgrad.onnx.supported import check_operators

Source: TypeAlias = "str | os.PathLike[str]"

LARGEST = 2**31 - 1
"""Bytes: a protobuf cannot be larger."""
OLDEST = 7
"""The first opset that is read: since then arithmetic broadcasts as in NumPy."""
OTHERS = {
    # the first bytes   what such a file is
    b"PK\x03\x04": "a zip archive, such as torch.save and numpy.savez write",
    b"\x93NUMPY": "a file of numpy.save",
    b"\x89HDF": "an HDF5 file",
    b"\x80": "probably a pickle, which can execute code when it is loaded",
    b"version https://git-lfs": "a Git LFS pointer: the model itself was not downloaded",
    b"{": "probably JSON",
    b"<": "probably HTML or XML",
}


def read(source: Any) -> Any:
    """The `ModelProto` of a path, or a copy of the one given: checked, with all its data, and its functions inlined."""
    with loading:
        import onnx

    if isinstance(source, onnx.ModelProto):
        return checked(source, None)
    path = file_name(source)
    return checked(parsed(contents(path)), os.path.dirname(os.path.abspath(path)))


@contextmanager
def blaming(source: Any) -> Iterator[None]:
    """Around the reading of a model: an error begins with the name of the file; one of Python's means that it is damaged."""
    name = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else "model"
    try:
        yield
    except WindowgradError as error:
        error.args = (f"{name}: {error.args[0]}", *error.args[1:])
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # a name that is not text, for one
        raise OptionError(f"{name}: is damaged ({type(error).__name__}: {cut(str(error), 200)})") from error


def file_name(source: Any) -> str:
    if not isinstance(source, (str, os.PathLike)):
        raise KindError(f"must be a path or an onnx.ModelProto, not {type(source).__name__}")
    path = os.fsdecode(source)
    if "\0" in path:
        raise OptionError("must be a file name: embedded null byte")
    return path


def contents(path: str) -> bytes:
    with open(path, "rb", opener=at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OptionError("must be a regular file")
        if found.st_size > LARGEST:
            raise OptionError(f"has {in_bytes(found.st_size)}: an ONNX file has at most 2 GiB; larger data is external")
        return file.read(LARGEST)


def at_once(path: str, flags: int) -> int:
    """Opens a file; a pipe that nobody writes to does not wait."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parsed(data: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    if not data:
        raise OptionError("is empty")
    try:
        return ModelProto.FromString(data)
    except DecodeError as error:
        for start, what in OTHERS.items():
            if data.startswith(start):
                raise OptionError(f"is not an ONNX file but {what}") from None
        raise OptionError(f"is not an ONNX file, or is truncated or damaged ({error})") from None


def checked(model: Any, folder: str | None) -> Any:
    """The model, in which everything is as ONNX says. `folder` is where external data may be."""
    if not model.HasField("graph"):
        raise OptionError("has no graph: it is not an ONNX model, or it is truncated")
    check_opsets(model)
    model = kept(model)
    check_operators(model)
    check_calls(model)
    whole = embed(model, folder)
    bare = without_weights(whole)
    check(bare)
    if not model.functions:
        return whole
    found = inlined(bare, whole)
    check_operators(found)  # a function of another opset is left as it is
    return found


def check_opsets(model: Any) -> None:
    from onnx import defs

    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            raise OptionError(f"imports the opsets {versions[domain]} and {entry.version} of the domain {show(domain)}")
    version, newest = versions.get(""), defs.onnx_opset_version()
    if version is None:
        raise OptionError("imports no opset of ONNX: opset_import must have an entry for the domain ''")
    if not OLDEST <= version <= newest:
        advice = "convert it with onnx.version_converter" if version < OLDEST else "install a newer onnx"
        raise OptionError(f"has opset {version}: must be {OLDEST} to {newest}; {advice}")


def check(model: Any) -> None:
    """What the checker of the `onnx` package finds; it is given no large data."""
    from onnx import checker

    try:
        checker.check_model(model)
    except Exception as error:  # of several kinds
        raise OptionError(f"is not valid ONNX: {' '.join(str(error).split())}") from None
