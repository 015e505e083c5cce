"""From a recorded model to a checked `ModelProto`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import onnx
from onnx import checker, helper, shape_inference

from windowgrad.autograd.program import Call, Program, Value
from windowgrad.errors import KindError, OptionError, WindowError, WindowgradError, show
from windowgrad.nn import Layer
from windowgrad.nn.layer import shape_given
from windowgrad.onnx.domain import DOMAIN, VERSION
from windowgrad.onnx.exporting import arrays, layers, windows
from windowgrad.onnx.exporting.recording import Note, Recorded, named_arrays, noted, recorded
from windowgrad.onnx.exporting.writer import Graph, Refused, code_of, lying
from windowgrad.params import Shape

OLDEST = 19
"""The first opset with everything that is written: dilations of AveragePool, Pad that continues periodically."""

TABLE = {**windows.TABLE, **arrays.TABLE}
"""What writes a call, by the name of its operator."""


def made(
    model: Any, params: Any, in_shape: Any, dtype: Any = np.float32, opset: int = 21, batch: str | None = "N"
) -> onnx.ModelProto:
    """The model, checked by ONNX."""
    check_options(opset, batch)
    inputs = inputs_of(in_shape, dtype)
    examples = [example(shape, kind) for shape, kind in inputs.values()]
    notes: list[Note] = []
    places = {} if params is None else named_arrays(params)
    found = recorded(function_of(model, params, notes), notes, examples, batch is not None and bool(examples[0].shape))
    if found.fixed is not None:
        said = f"export: the batch is fixed at {examples[0].shape[0]}, because {found.fixed}; batch=None says that it should be"
        warnings.warn(said, UserWarning, stacklevel=3)
    graph = Graph(opset, {lying(array): name for name, array in places.items()}, found.moving)
    names = dict(zip((value.number for value in found.program.inputs), inputs, strict=True))
    graph.names.update(inputs)
    graph.batched = next((names[value.number] for value in found.program.inputs if value.number in found.moving), "")
    write(graph, found, names)
    return assembled(graph, found, names, "model" if not isinstance(model, Layer) else type(model).__name__, batch)


def check_options(opset: Any, batch: Any) -> None:
    newest = onnx.defs.onnx_opset_version()
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= newest:
        raise OptionError(f"opset={show(opset)}: must be from {OLDEST} to {newest}, the newest of onnx {onnx.__version__}")
    if batch is not None and not (isinstance(batch, str) and batch.isidentifier()):
        raise OptionError(f'batch={show(batch)}: must be the name of a symbolic size, such as "N", or None for a fixed size')


def inputs_of(in_shape: Any, dtype: Any) -> dict[str, tuple[Shape, np.dtype[Any]]]:
    """The inputs by name, with shapes and dtypes. One without a name is called x."""
    given = in_shape if isinstance(in_shape, Mapping) else {"x": in_shape}
    if not given:
        raise WindowError("in_shape={}: must have at least one input")
    for name in given:
        if not isinstance(name, str) or not name:
            raise KindError(f"in_shape={show(in_shape)}: the names of inputs must be strings, not {show(name)}")
    kinds = dtype if isinstance(dtype, Mapping) else dict.fromkeys(given, dtype)
    if kinds.keys() != given.keys():
        raise WindowError(f"dtype has {show(list(kinds))}: must have the inputs {show(list(given))}")
    return {name: (shape_given(shape), dtype_given(kinds[name])) for name, shape in given.items()}


def dtype_given(dtype: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise KindError(f"dtype={show(dtype)}: must be a dtype of NumPy") from None
    code_of(found)
    return found


def example(shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Ones, and zeros for integers, which may be labels."""
    return np.zeros(shape, dtype) if dtype.kind in "biu" else np.ones(shape, dtype)


def function_of(model: Any, params: Any, notes: list[Note]) -> Callable[..., Any]:
    """What is recorded: a function of the inputs alone."""
    if isinstance(model, Layer):
        if params is None:
            raise KindError(f"params=None: must be the parameters of {type(model).__name__}, as init returns them")
        marked = noted(model, notes)
        return fresh(notes, lambda x: marked(params, x))
    if not callable(model):
        raise KindError(f"model={show(model)}: must be a layer or a function, not {type(model).__name__}")
    return model if params is None else lambda *xs: model(params, *xs)


def fresh(notes: list[Note], f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Each recording has notes of its own."""

    def run(x: Any) -> Any:
        notes.clear()
        return f(x)

    return run


# --- calls ---------------------------------------------------------------------------------------------------------


def write(graph: Graph, found: Recorded, names: dict[int, str]) -> None:
    """All calls as nodes; the names of their results are added to `names`. One error lists all that cannot be written."""
    missing: list[str] = []
    calls, number = found.program.calls, 0
    whole = {note.start: note for note in found.notes if type(note.layer) in layers.TABLE and note.end > note.start}
    while number < len(calls):
        note = whole.get(number)
        graph.place = place_of(found.notes, number)
        if note is not None and (y := layers.TABLE[type(note.layer)](graph, note, names[note.x.number])) is not None:
            names[note.y.number] = y
            number = note.end
            continue
        call = calls[number]
        try:
            names |= zip((value.number for value in call.results), written(graph, call, names), strict=True)
        except Refused as reason:
            missing.append(f"{said(call, graph.place, number)}: {reason}")
            names |= {value.number: "" for value in call.results}
        number += 1
    graph.place = ""
    if missing:
        raise UnsupportedCallsError(missing)


class UnsupportedCallsError(KindError):
    """Calls that cannot be exported; `missing` has a line for each."""

    longest = 4000

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = list(missing)
        super().__init__(f"export: {len(self.missing)} of the calls cannot be written as ONNX: {'; '.join(self.missing)}")


def written(graph: Graph, call: Call, names: Mapping[int, str]) -> Sequence[str]:
    if call.op.name not in TABLE:
        raise Refused("there is no translation")
    inputs = [names[each.number] if isinstance(each, Value) else graph.constant(each) for each in call.arguments]
    try:
        return TABLE[call.op.name](graph, call, inputs)
    except WindowgradError as error:
        raise Refused(str(error)) from None


def said(call: Call, where: str, number: int) -> str:
    return f"{call.name} (layer {where})" if where else f"{call.name} (call {number})"


def place_of(notes: Sequence[Note], number: int) -> str:
    """The place of the innermost layer that made a call: inner layers end, and are noted, before those around them."""
    return next((note.place for note in notes if note.start <= number < note.end), "")


# --- the model -----------------------------------------------------------------------------------------------------


def assembled(graph: Graph, found: Recorded, names: dict[int, str], name: str, batch: str | None) -> onnx.ModelProto:
    program = found.program
    outputs = named_outputs(graph, program, names)
    inputs = [value_info(graph, names[value.number], value, batch) for value in program.inputs]
    results = [value_info(graph, title, each, batch) for title, each in outputs]
    shown = {proto.name for proto in (*inputs, *results)}
    inner = [value for call in program.calls for value in call.results if names.get(value.number, "") not in {"", *shown}]
    infos = [value_info(graph, names[value.number], value, batch) for value in inner]
    proto = helper.make_graph(graph.nodes, name, inputs, results, graph.initialisers, value_info=infos)
    opsets = [helper.make_opsetid("", graph.opset)]
    if graph.functions:
        opsets.append(helper.make_opsetid(DOMAIN, VERSION))
    model = helper.make_model(proto, opset_imports=opsets, functions=list(graph.functions.values()))
    model.ir_version = helper.find_min_ir_version_for(opsets[:1])
    model.producer_name, model.producer_version = "windowgrad", version("windowgrad")
    try:
        checker.check_model(model, full_check=True)
    except (
        checker.ValidationError,
        shape_inference.InferenceError,
    ) as error:  # a dtype that an operator does not take, for one
        raise KindError(f"export: ONNX does not accept the model: {' '.join(str(error).split())}") from None
    return model


def named_outputs(graph: Graph, program: Program, names: dict[int, str]) -> list[tuple[str, Any]]:
    """The outputs as y, or y_0, y_1, …; one that is an input, a constant or another output too is a node of its own."""
    made = {output for node in graph.nodes for output in node.output}
    renamed: dict[str, str] = {}
    found = []
    for number, each in enumerate(program.outputs):
        source = names[each.number] if isinstance(each, Value) else graph.constant(each)
        title = graph.unique("y" if len(program.outputs) == 1 else f"y_{number}")
        if source in made and source not in renamed:
            renamed[source] = title
        else:
            graph.nodes.append(helper.make_node("Identity", [source], [title], title))
        found.append((title, each))
    for node in graph.nodes:
        for entries in (node.input, node.output):
            entries[:] = [renamed.get(entry, entry) for entry in entries]
    names |= {number: renamed.get(name, name) for number, name in names.items()}
    return found


def value_info(graph: Graph, name: str, each: Any, batch: str | None) -> onnx.ValueInfoProto:
    shape: list[Any] = list(each.shape)
    if isinstance(each, Value) and each.number in graph.moving:
        shape[0] = batch
    return helper.make_tensor_value_info(name, code_of(each.dtype), shape)
