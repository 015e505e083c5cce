"""Every public function with right and wrong arguments: it gives a result, or refuses with an error of the library.

A finding is any other exception, a message of 500 characters or more, a warning, a call of more than 5 seconds, or a crash.
Files are written in a folder of its own only.
"""

from __future__ import annotations

import inspect
import os
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import windowgrad as wg
from support import fuzz_api_values as values
from windowgrad import geometry, nn, params
from windowgrad.errors import WindowgradError
from windowgrad.kernels.runtime import buffers, threads

LONGEST_MESSAGE, LONGEST_CALL = 500, 5.0
MEMORY = 3 << 30
"""Bytes that a process may have more than it begins with: a call that wants too much gets a MemoryError, not the machine."""

# --- what is called ----------------------------------------------------------------------------------------------
#
# Functions whose parameters are named as in `fuzz_api_values.FITTING`.


def call_grad(f: Any, argnums: Any, x: Any) -> Any:
    return wg.grad(f, argnums)(x)


def call_value_and_grad(f: Any, argnums: Any, x: Any, other: Any) -> Any:
    return wg.value_and_grad(f, argnums)(x, other)


def call_vjp(f: Any, x: Any, g: Any) -> Any:
    return wg.vjp(f, x)[1](g)


def call_jacobian(f: Any, argnums: Any, x: Any) -> Any:
    return wg.jacobian(f, argnums)(x)


def call_check_grads(f: Any, x: Any, order: Any, tolerance: Any, seed: Any) -> Any:
    return wg.check_grads(f, x, order=order, tolerance=tolerance, seed=seed)


def tape_leaf(value: Any, name: Any, requires_grad: Any) -> Any:
    return str(wg.Tape().leaf(value, name, requires_grad).tape)


def call_has_aux(f: Any, has_aux: Any, x: Any) -> Any:
    return wg.value_and_grad(f, has_aux=has_aux)(x)


def call_hessian(f: Any, argnums: Any, x: Any) -> Any:
    return wg.hessian(f, argnums)(x)


def tape_leaves(tree: Any, name: Any, requires_grad: Any) -> Any:
    tape = wg.Tape()
    return str(tape.leaves(tree, name, requires_grad)), str(tape)


def tape_named(name: Any, key: Any) -> Any:
    tape = wg.Tape()
    x = tape.leaf(np.ones(2), name="leaf")
    with tape.named(name):
        wg.exp(x)
    tape.name(key, "other")
    return tape.to_svg(), tape.backward(wg.sum(tape.var(1))).tree(x)


def tape_var(key: Any) -> Any:
    return values.TAPE.var(key)


def tape_find(key: Any) -> Any:
    return values.TAPE.find(key, range(3))


def tape_backward(out_var: Any, grad: Any, of: Any) -> Any:
    return values.TAPE.backward(out_var, grad, of)


def gradients_of(key: Any) -> Any:
    return values.TAPE.backward(values.RESULT)[key]


def var_arithmetic(other: Any, index: Any) -> Any:
    rules: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b,
        lambda a, b: b - a,
        lambda a, b: a * b,
        lambda a, b: b / a,
        lambda a, b: a @ b,
        lambda a, b: a**b,
        lambda a, b: b**a,
        lambda a, b: a[b],
        lambda a, b: abs(a) + b,
    ]
    return rules[index if type(index) is int and 0 <= index < len(rules) else 0](values.LEAF, other)


def var_sum(axis: Any, keepdims: Any) -> Any:
    return values.OTHER.sum(axis, keepdims)


def var_index(item: Any) -> Any:
    return values.OTHER[item]


def var_astype(dtype: Any) -> Any:
    return values.OTHER.astype(dtype)


def var_transpose(axes: Any) -> Any:
    return values.OTHER.transpose(axes)


def var_reshape(shape: Any) -> Any:
    return values.OTHER.reshape(shape)


def layer_out_shape(layer: Any, in_shape: Any) -> Any:
    return layer.out_shape(in_shape)


def layer_init(layer: Any, rng: Any, in_shape: Any, dtype: Any) -> Any:
    return layer.init(rng, in_shape, dtype)


def layer_call(layer: Any, params: Any, x: Any) -> Any:
    return layer(params, x)


def layer_summary(layer: Any, in_shape: Any) -> Any:
    return layer.summary(in_shape)


def sequential(layers: Any) -> Any:
    return nn.Sequential(*layers) if isinstance(layers, (tuple, list)) else nn.Sequential(layers)


def sgd_update(params: Any, grads: Any, state: Any, learning_rate: Any, momentum: Any) -> Any:
    optimiser = nn.sgd(learning_rate, momentum)
    return optimiser.update(params, grads, state)


def adam_update(params: Any, grads: Any, state: Any) -> Any:
    return nn.adam(0.1).update(params, grads, state)


def optimiser_init(params: Any) -> Any:
    return nn.adam(0.1).init(params), nn.sgd(0.1, 0.9).init(params)


def operator_forward(op: Any, record: Any, x: Any) -> Any:
    return wg.ops.OPS[op if isinstance(op, str) and op in wg.ops.OPS else "max_pool"].forward(record, x)


def operator_vjp(record: Any, x: Any, g: Any) -> Any:
    return wg.ops.OPS["max_pool"].vjp(record, x, g)


def operator_jvp(record: Any, x: Any, dx: Any) -> Any:
    return wg.ops.OPS["avg_pool"].jvp(record, x, dx)


def geometry_out_shape(geometry: Any, shape: Any) -> Any:
    return geometry.out_shape(shape)


def geometry_taps(geometry: Any, place: Any, shape: Any) -> Any:
    return geometry.taps(place, shape), geometry.padded(place, shape)


RECEIVERS = ("layer", "geometry")
"""Parameters that a method is called on: nothing odd in their place."""
CALLABLE = ("object", "int", "np.float32", "wg.max_pool")
"""Odd values that can be called, but not with one array: as a user's function, they raise what they like."""

OWN = [
    *(call_grad, call_value_and_grad, call_vjp, call_jacobian, call_check_grads, wg.jvp, wg.hvp),
    *(call_has_aux, call_hessian, wg.directional, tape_leaves, tape_named),
    *(
        tape_leaf,
        tape_var,
        tape_find,
        tape_backward,
        gradients_of,
        var_arithmetic,
        var_sum,
        var_index,
        var_astype,
        var_transpose,
        var_reshape,
        wg.Tape,
    ),
    *(layer_out_shape, layer_init, layer_call, layer_summary, sequential, nn.sgd, nn.adam),
    *(sgd_update, adam_update, optimiser_init, nn.load, nn.load_extra, wg.set_num_threads, wg.set_buffer_cap),
    *(operator_forward, operator_vjp, operator_jvp, geometry_out_shape, geometry_taps),
    *(geometry.Sliding, geometry.Adaptive, geometry.Global),
    *(
        params.MaxParams,
        params.MinParams,
        params.MeanParams,
        params.SmoothParams,
        params.SharpParams,
        params.ConvParams,
        params.TransposeParams,
    ),
    *(params.PadParams, params.ExtendParams, params.UnpadParams, params.UnpoolParams),
]


def nn_save(path: Any, tree: Any, extra: Any) -> None:
    nn.save(path, tree, extra=extra)


@cache
def targets() -> Mapping[str, Callable[..., Any]]:
    """All that is called, by name."""
    names = [*wg.functional.__all__, *wg.autograd.arrays.__all__]
    found: dict[str, Callable[..., Any]] = {name: getattr(wg, name) for name in names}
    found |= {one.__name__: one for one in (*OWN, nn_save)}
    found |= {
        name: getattr(nn, name)
        for name in nn.__all__
        if name[0].isupper() and name not in ("Compiled", "Layer", "Optimiser", "Sequential")
    }
    return found


# --- calls -------------------------------------------------------------------------------------------------------


def draw(seed: int, number: int, only: str | None) -> tuple[str, dict[str, str]]:
    """(the name of a function, the expressions of its arguments)."""
    rng = np.random.default_rng((seed, number))
    names = list(targets())
    name = only or names[rng.integers(len(names))]
    parameters = inspect.signature(targets()[name]).parameters.values()
    wrong = 0.0 if rng.random() < 0.2 else 1.5 / len(parameters) if len(parameters) else 0.0
    given = {}
    for parameter in parameters:
        if parameter.default is not inspect.Parameter.empty and rng.random() < 0.6:
            continue
        odd = rng.random() < wrong and not (parameter.name in RECEIVERS and name.startswith(parameter.name))
        pool = values.ODD_VALUES if odd else values.FITTING_VALUES[parameter.name]
        chosen = pool[rng.integers(len(pool))]
        given[parameter.name] = "None" if parameter.name == "f" and chosen in CALLABLE else chosen
    return name, given


def describe(seed: int, number: int, only: str | None = None) -> str:
    name, given = draw(seed, number, only)
    return f"{name}({', '.join(f'{key}={text}' for key, text in given.items())})"


def check(seed: int, number: int, only: str | None = None) -> list[str]:
    """What is wrong with a call, nothing if all is well."""
    name, given = draw(seed, number, only)
    wrong, seconds = tried(name, given)
    if seconds > LONGEST_CALL and not wrong:  # the first call of a kernel compiles it
        wrong, seconds = tried(name, given)
        if seconds > LONGEST_CALL:
            wrong.append(f"took {seconds:.1f} s")
    return wrong


def tried(name: str, given: Mapping[str, str]) -> tuple[list[str], float]:
    """(what is wrong, how many seconds of the processor it took)."""
    arguments = {key: values.value(text) for key, text in given.items()}
    before = threads.chosen, buffers.pool
    began = time.process_time()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            wrong = []
            called(targets()[name], arguments)
        except WindowgradError as error:
            wrong = said(str(error))
        except MemoryError:
            pass
        except OSError as error:  # a file that is not there, a folder that is not one
            wrong = [] if name.startswith(("load", "nn_save")) else [f"{type(error).__name__}: {error}"[:300]]
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            users = where.filename == values.USERS and "f" in given  # the user's function raised it
            wrong = (
                [] if users else [f"{type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})"]
            )
        finally:
            threads.chosen, buffers.pool = before
    wrong += [f"{one.category.__name__}: {one.message}" for one in warned]
    return wrong, time.process_time() - began


def said(message: str) -> list[str]:
    return [f"a message of {len(message)} characters: {message[:200]}…"] if len(message) >= LONGEST_MESSAGE else []


def called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Positional parameters by their place, as `*primals` has no name."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    several = [arguments[name] for name in arguments if kinds[name] is inspect.Parameter.VAR_POSITIONAL]
    named = {name: value for name, value in arguments.items() if kinds[name] is not inspect.Parameter.VAR_POSITIONAL}
    function(*several, **named)


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="windowgrad-fuzz-")


def prepare() -> None:
    """A folder to write to, and a limit of memory."""
    os.chdir(folder().name)
    os.mkdir("folder")
    with open("text", "w") as file:
        file.write("no safetensors")
    resource.setrlimit(resource.RLIMIT_AS, (memory_in_use() + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def memory_in_use() -> int:
    """Bytes of addresses, most of them libraries and never touched; of Linux only, elsewhere a guess."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 8 << 30
