"""Parameters that PyTorch has trained: from a state dict, or from a safetensors file of one. PyTorch is not imported.

PyTorch names an array by its module and its role: "layer1.0.bn2.running_mean". The roles are those of our parameters, so
modules are matched with layers, one by one, and every role and shape must fit. A state dict has its modules in the order in
which they were made, which is nearly always that of the computation; a safetensors file is sorted by name and has lost it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from windowgrad.arguments import counted
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.nn.files import read_arrays
from windowgrad.nn.layer import Layer, Shape, shape_given
from windowgrad.nn.residual import Residual
from windowgrad.nn.sequential import Sequential

COUNTER = "num_batches_tracked"
"""What PyTorch's batch normalisation also stores, and nobody needs when the momentum is given."""

Array = np.ndarray[Any, Any]
Module = dict[str, Any]
"""The arrays of a module by their role."""


def load_torch(model: Layer, source: Any, in_shape: Shape, *, names: Sequence[str] | None = None) -> Any:
    """The parameters of `model` for inputs of `in_shape` from a PyTorch state dict, or from a safetensors file.

    A module of PyTorch becomes the parameters of a layer. `names` are the modules in the order of the layers with parameters.
    Without them, modules that are called as the layers are ("0", "2.body.0") are matched by name; else those of a state dict
    are taken in its order, and those of a file sorted by name, numbers as numbers. Every array must fit: what does not is an
    error. Statistics of batch normalisation are included. The arrays are copies.
    """
    if not isinstance(model, Layer):
        raise KindError(f"model={show(model)}: must be a layer")
    wanted = dict(layers_of(model, shape_given(in_shape), ""))
    is_file = isinstance(source, (str, os.PathLike))
    modules = modules_of(read_arrays(source)[0] if is_file else source)
    order = matched(list(wanted), modules, is_file, names)
    found = {place: fitted(place, wanted[place], name, modules[name]) for place, name in zip(wanted, order, strict=True)}
    return nested(model, "", found)


def layers_of(model: Layer, shape: Shape, place: str) -> Iterator[tuple[str, dict[str, Shape]]]:
    """The shapes of the parameters of each layer that has some, by its place."""
    for name, layer, inner in parts(model, shape):
        yield from layers_of(layer, inner, join(place, name))
    if not isinstance(model, (Sequential, Residual)) and (sizes := model.sizes(shape)):
        yield place, sizes


def parts(model: Layer, shape: Shape) -> Iterator[tuple[str, Layer, Shape]]:
    """The layers inside a layer: name, layer, and the shape of its input."""
    if isinstance(model, Sequential):
        model.out_shape(shape)  # an error of its own words
        for number, layer in enumerate(model):
            yield str(number), layer, shape
            shape = layer.out_shape(shape)
    elif isinstance(model, Residual):
        for name, layer in model.parts.items():
            yield name, layer, shape


def join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def nested(model: Layer, place: str, found: Mapping[str, Module]) -> Any:
    """The parameters in the structure that the model has."""
    if isinstance(model, Sequential):
        return tuple(nested(layer, join(place, str(number)), found) for number, layer in enumerate(model))
    if isinstance(model, Residual):
        return {name: nested(layer, join(place, name), found) for name, layer in model.parts.items()}
    return dict(found.get(place, {}))


# --- modules -----------------------------------------------------------------------------------------------------


def modules_of(state: Any) -> dict[str, Module]:
    """The arrays by module and role, in the order of the state dict."""
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        wanted = "a state dict, or the path of a safetensors file"
        raise KindError(f"source={show(state)}: must be {wanted}, not {type(state).__name__}")
    modules: dict[str, Module] = {}
    for key, value in state.items():
        module, _, role = key.rpartition(".")
        if role != COUNTER:
            modules.setdefault(module, {})[role] = value
    return modules


def matched(places: list[str], modules: Mapping[str, Module], is_file: bool, names: Sequence[str] | None) -> list[str]:
    """The name of the module for each layer."""
    if names is not None:
        order = [str(name) for name in names]
        for name in order:
            if name not in modules:
                raise OptionError(f"names: {show(name)} is not a module of the source; it has {', '.join(modules)}")
    elif set(places) == set(modules):
        return places
    else:
        order = sorted(modules, key=natural) if is_file else list(modules)
    if len(order) != len(places) or len(set(order)) < len(order):
        has = f"{counted('module', len(set(order)))} with parameters, the model {counted('layer', len(places))}"
        raise WindowError(f"{'names' if names is not None else 'source'}: has {has}{hint(is_file, names)}")
    return order


def natural(name: str) -> list[tuple[int, str]]:
    """By which names are sorted as people count: layer2 before layer10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def hint(is_file: bool, names: Sequence[str] | None) -> str:
    lost = "; a safetensors file has no order" if is_file and names is None else ""
    return f"{lost}; give names=, the modules in the order of the layers" if names is None else ""


def fitted(place: str, sizes: Mapping[str, Shape], name: str, module: Module) -> Module:
    """The arrays of a module, which have exactly the roles and shapes that a layer needs."""
    if module.keys() != sizes.keys():
        has, wanted = (", ".join(roles) for roles in (module, sizes))
        said = f"the module {show(name)} has {has}; layer {place or 'the model'} must have {wanted}"
        raise WindowError(f"source: {said}{hint(False, None)}")
    found = {}
    for role, size in sizes.items():
        array = as_array(f"source[{show(join(name, role))}]", module[role])
        if array.shape != size:
            said = f"must be {size} for {show(join(place, role))} of the model"
            raise WindowError(f"source[{show(join(name, role))}] of shape {array.shape}: {said}{hint(False, None)}")
        found[role] = array
    return found


def as_array(name: str, value: Any) -> Array:
    """A copy of a tensor or an array; bfloat16, which NumPy does not have, as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        raise KindError(f"{name}: must be a tensor or an array of floats, not {getattr(value, 'dtype', type(value).__name__)}")
    return np.array(value, order="C")
