"""A compiled kernel as bytes: a line of JSON with its names and types, then its object code and its LLVM bitcode.

Numba keeps the same as a pickle, which can name any function to be called when it is read. Here the types of the arguments
and the function are those of the call, and of the file there are names, numbers, and code to be linked. What that cannot
say (constants that are Python objects, results of other types than numbers and tuples of them) is refused by `pack`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from numba.core import types
from numba.core.compiler import CompileResult
from numba.core.environment import _rebuild_env
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.sigutils import normalize_signature
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.core.typing import signature as signature_of

SCALARS = {kind.name: kind for kind in (types.none, types.boolean, *types.number_domain)}
PACKAGES = ("numba", "windowgrad")  # whose modules a file may have imported
LENGTH = 8  # bytes of each of the two lengths at the start


class NotKeptError(Exception):
    """Why a kernel cannot be kept."""


def pack(result: Any, signature: Any) -> bytes:
    """A compile result for `unpack`. Raises NotKeptError if that could not make it again."""
    about, arguments = result.fndesc, tuple(normalize_signature(signature)[0])
    environments = [result.environment, *result._find_referenced_environments()]
    if result.library.has_dynamic_globals or result.lifted or result.reload_init or any(e.consts for e in environments):
        raise NotKeptError("it holds addresses of this process")
    if result.objectmode or not about.native or tuple(result.signature.args) != arguments:
        raise NotKeptError("it is not compiled for the types it is called with")
    name, _, (code, bitcode) = result.library.serialize_using_object_code()
    facts = {
        "library": name,
        "symbol": about.mangled_name,
        "names": about.args,
        "inline": about.inline,
        "noalias": about.noalias,
        "tags": list(about.abi_tags),
        "number": about.uid,
        "unique": about.unique_name,
        "returns": described(result.signature.return_type),
        "environments": [(environment.globals["__name__"], environment.env_name) for environment in environments],
    }
    about.typemap = about.calltypes = None  # large, and of no use once the code is there; Numba's cache drops them too
    header = json.dumps(facts).encode()
    return b"".join((len(header).to_bytes(LENGTH, "little"), len(code).to_bytes(LENGTH, "little"), header, code, bitcode))


def unpack(payload: bytes, function: Any, signature: Any, target: Any) -> Any:
    """The compile result of `function` for the signature, linked into this process."""
    sizes = [int.from_bytes(payload[start : start + LENGTH], "little") for start in (0, LENGTH)]
    rest = payload[2 * LENGTH :]
    facts, code, bitcode = json.loads(rest[: sizes[0]]), rest[sizes[0] : sum(sizes)], rest[sum(sizes) :]
    result, arguments = as_type(facts["returns"]), tuple(normalize_signature(signature)[0])
    own, *others = (environment(*entry) for entry in facts["environments"])
    about = PythonFunctionDescriptor(
        native=True,
        modname=function.__module__,
        qualname=function.__qualname__,
        unique_name=facts["unique"],
        doc=function.__doc__ or "",
        typemap=None,
        restype=result,
        calltypes=None,
        args=tuple(facts["names"]),
        kws=(),
        argtypes=arguments,
        inline=facts["inline"],
        noalias=facts["noalias"],
        abi_tags=facts["tags"],
        uid=facts["number"],
    )
    if about.mangled_name != facts["symbol"] or about.env_name != own.env_name:
        raise ValueError(f"{facts['symbol']} is the code of another function")
    library = (facts["library"], "object", (code, bitcode))
    typed = signature_of(result, *arguments)
    return CompileResult._rebuild(target, library, about, own, typed, False, (), "", [], tuple(others))


def environment(module: str, name: str) -> Any:
    """Numba's record of a function that is part of a kernel; its module is imported if it is one of Numba's or ours."""
    if module not in sys.modules and module.partition(".")[0] not in PACKAGES:
        raise ValueError(f"module {module} is not imported")
    return _rebuild_env(module, [], name)


def described(kind: Any) -> Any:
    """A type as JSON can say it: its name, or the list of those in a tuple."""
    if isinstance(kind, BaseTuple) and not isinstance(kind, BaseNamedTuple):
        return [described(each) for each in kind.types]
    if SCALARS.get(kind.name) == kind:
        return kind.name
    raise NotKeptError(f"its result is of type {kind}")


def as_type(text: Any) -> Any:
    return BaseTuple.from_types([as_type(each) for each in text]) if isinstance(text, list) else SCALARS[text]
