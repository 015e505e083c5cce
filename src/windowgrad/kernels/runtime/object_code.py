"""A compiled kernel as bytes: a line of JSON with its names and types, then its object code.

Numba keeps the same as a pickle, which can name any function to be called when it is read. Here the types of the arguments
and the function are those of the call, and of the file there are names, numbers, and code to be linked. What that cannot
say (constants that are Python objects, results of other types than numbers and tuples of them) is refused by `pack`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import llvmlite.binding as llvm
from numba.core import types
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.runtime import rtsys
from numba.core.runtime._nrt_python import c_helpers
from numba.core.sigutils import normalize_signature
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.core.typing import signature as signature_of

SCALARS = {kind.name: kind for kind in (types.none, types.boolean, *types.number_domain)}
PACKAGES = ("numba", "windowgrad")  # whose modules a file may have imported
LENGTH = 8  # bytes of the length at the start


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
    facts = {
        "library": result.library.name,
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
    separates = getattr(result.library, "separates", {})
    facts["separates"] = [(name, len(code)) for name, code in separates.items()]
    header = json.dumps(facts).encode()
    codes = b"".join((*separates.values(), bytes(result.library._get_compiled_object())))
    return len(header).to_bytes(LENGTH, "little") + header + codes


def unpack(payload: bytes, function: Any, signature: Any, target: Any) -> Any:
    """The compile result of `function` for the signature, linked into this process."""
    begin = LENGTH + int.from_bytes(payload[:LENGTH], "little")
    facts, code = json.loads(payload[LENGTH:begin]), payload[begin:]
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
    for name, size in facts["separates"]:
        load(name, code[:size], target.codegen())
        code = code[size:]
    prepare_runtime(code, target)
    library = Loaded(target.codegen(), facts["library"], code)
    library.define(about.llvm_func_name, about.llvm_cpython_wrapper_name)
    entry = target.get_executable(library, about, own)
    for other in others:
        library.codegen.set_env(other.env_name, other)
    return compile_result(
        target_context=target,
        typing_context=target.typing_context,
        library=library,
        environment=own,
        entry_point=entry,
        fndesc=about,
        type_annotation="",
        signature=signature_of(result, *arguments),
        objectmode=False,
        lifted=(),
        reload_init=[],
        referenced_envs=tuple(others),
    )


class Loaded(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Object code from a file, linked into this process."""

    def __init__(self, codegen: Any, name: str, code: bytes) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()

    def define(self, *names: str) -> None:
        """Numba asks for no address of a name that is not defined."""
        self._codegen._engine._defined_symbols.update(names)


loaded: dict[str, Loaded] = {}


def load(name: str, code: bytes, codegen: Any) -> None:
    """Link machine code that kernels call by a name of its own (`separate`) into this process, if it is not there yet."""
    with global_compiler_lock:
        if name not in loaded:
            loaded[name] = Loaded(codegen, name, code)


def prepare_runtime(code: bytes, target: Any) -> None:
    """Name to LLVM what kernels call of Numba's runtime. What is compiled of it, at some cost, they hold if they need it."""
    if rtsys._init or RuntimeLinker.PREFIX.encode() in code:  # a function that calls itself by way of another one
        rtsys.initialize(target)
        return
    for name, address in c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def environment(module: str, name: str) -> Any:
    """Numba's record of a function that is part of a kernel.

    Its module is not imported for that. It is one that is imported already, or Numba's or ours: then the record has a name
    for it; nothing else of it is used, as kernels have no Python objects.
    """
    if module not in sys.modules and module.partition(".")[0] not in PACKAGES:
        raise ValueError(f"module {module} is not imported")
    found = lookup_environment(name)
    if found is None:
        found = Environment(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
        found.env_name = name
        Environment._memo[name] = found
    return found


def described(kind: Any) -> Any:
    """A type as JSON can say it: its name, or the list of those in a tuple."""
    if isinstance(kind, BaseTuple) and not isinstance(kind, BaseNamedTuple):
        return [described(each) for each in kind.types]
    if SCALARS.get(kind.name) == kind:
        return kind.name
    raise NotKeptError(f"its result is of type {kind}")


def as_type(text: Any) -> Any:
    return BaseTuple.from_types([as_type(each) for each in text]) if isinstance(text, list) else SCALARS[text]
