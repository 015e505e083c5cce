"""`windowgrad conform --model`: a network computed layer by layer here and by others, on the same inputs to each layer.

Every layer is given what it is given here, so that differences do not add up, and is compared with its result in float64. What
is further away than rounding explains (`model_bounds`) is a difference; the first of each implementation is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windowgrad.conform.model_bounds import allowed, is_floats
from windowgrad.conform.model_runtimes import RUNTIMES, Runtime, cells, single
from windowgrad.conform.report.terminal import COLUMNS
from windowgrad.conform.text import printable
from windowgrad.errors import KindError, OptionError, cut
from windowgrad.onnx import Network
from windowgrad.onnx.domain import DOMAIN
from windowgrad.onnx.graph import Array, Node, decoded, names_of
from windowgrad.onnx.network import Step, computed
from windowgrad.onnx.reading import blaming, contents, parsed, read

RULES = {
    "MaxPool": "2. Padding and max",
    "AveragePool": "6. Mean",
    "Conv": "Convolution",
    "ConvTranspose": "Transposed convolution",
}
"""Of docs/semantics.md; what is not here is a rule of ONNX for the operator."""
CLOSE = 1000
"""A difference of fewer times the bound is one of rounding, and a greater one of meaning."""
LACKS = ("NotImplemented", "NOT_IMPLEMENTED")


class Difference(NamedTuple):
    """Where an implementation parts from the exact result."""

    layer: str
    rule: str
    text: str


@dataclass
class Found:
    """One implementation: how many layers it computed, and how."""

    title: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    first: Difference | None = None
    left_out: int = 0

    def add(self, kind: str, difference: Difference | None = None) -> None:
        self.counts[kind] += 1
        self.first = self.first or difference


def conform_model(path: Any, names: Sequence[str], seed: int, console: Console) -> int:
    """Compare, print, and give the exit status: 0 if no layer differs and all that was named is there, else 1."""
    chosen = runtimes(names)
    with blaming(path):
        try:
            whole, net = network(path)
        except OSError as error:
            raise OptionError(f"cannot be read: {error.strerror or error}") from None
        except ModuleNotFoundError as error:
            raise KindError(f"reading it needs {error.name}: pip install 'windowgrad[onnx]'") from error
    found = compared(net, whole, [runtime for runtime in chosen if runtime.version()], inputs(net, seed))
    missing = [runtime.title for runtime in chosen if not runtime.version()]
    show(found, missing, console)
    return 1 if any(one.first for one in found) or (names and missing) else 0


def runtimes(names: Sequence[str]) -> list[Runtime]:
    known = {runtime.name: runtime for runtime in RUNTIMES}
    for name in names:
        if name not in known:
            raise OptionError(f"implementation={name!r}: must be one of {', '.join(known)} with --model")
    return [known[name] for name in dict.fromkeys(names or known)]


def network(path: Any) -> tuple[Any, Network]:
    """The model as others are given it, with its nodes by what they compute, and as it is computed here."""
    model = read(path)
    net = Network(decoded(model))
    if any(node.domain == DOMAIN for node in model.graph.node):  # others need the bodies of these functions
        raw = parsed(contents(str(path)))
        written = {node.output[0]: node for node in raw.graph.node if node.domain == DOMAIN}
        for node in model.graph.node:
            if node.domain == DOMAIN:
                node.op_type = written[node.output[0]].op_type
        model.functions.extend(function for function in raw.functions if function.domain == DOMAIN)
    return model, net


def inputs(net: Network, seed: int) -> list[Array]:
    """Random arrays in the shapes of the model, with 1 where it has a symbol."""
    random = np.random.default_rng(seed)
    made = []
    for value, shape in zip(net.inputs, net.in_shapes(), strict=True):
        floats = is_floats(np.empty(0, value.dtype))
        cells = random.standard_normal(shape) if floats else random.integers(0, 2 if value.dtype.kind == "b" else 10, shape)
        made.append(np.asarray(cells).astype(value.dtype))
    return made


# --- layer by layer --------------------------------------------------------------------------------------------------


def compared(net: Network, whole: Any, chosen: Sequence[Runtime], arrays: Sequence[Array]) -> list[Found]:
    protos = dict(zip(names_of(whole.graph.node), whole.graph.node, strict=True))
    own = Found("windowgrad")
    others = [Found(f"{runtime.title} {runtime.version()}") for runtime in chosen]
    live = {value.name for value in net.inputs}
    for step in net.steps(*arrays):
        results = {name: np.asarray(array) for name, array in step.results.items()}
        check = Check(step, results)
        check.note(own, list(results.values()))
        given = {name: array for name, array in zip(step.node.inputs, step.inputs, strict=True) if name}
        fed, constants = ({n: np.asarray(a) for n, a in given.items() if (n in live) is wanted} for wanted in (True, False))
        model = single(protos[step.node.name], whole, fed, constants, results)
        for runtime, found in zip(chosen, others, strict=True):
            if cells(step.node, results) > runtime.most:
                found.left_out += 1
            else:
                ask(runtime, model, fed, check, found)
        live |= set(results)
    return [own, *others]


def ask(runtime: Runtime, model: Any, given: dict[str, Array], check: Check, found: Found) -> None:
    try:
        answers = runtime.run(model, given)
    except Exception as error:  # whatever it raises, that is its answer
        words = printable(cut(" ".join(str(error).split()), 200))
        if any(word in f"{type(error).__name__} {words}" for word in LACKS):
            found.add("unsupported")
        else:
            rule = f"ONNX {check.step.node.op_type}"
            found.add("refuses", Difference(str(check.step.node), rule, f"{type(error).__name__}: {words}"))
    else:
        check.note(found, answers)


class Check:
    """What a layer gives by float64, and how far others may be from that."""

    def __init__(self, step: Step, results: dict[str, Array]) -> None:
        self.step, self.results = step, results
        wide = [x.astype(np.float64) if is_floats(x) else x for x in step.inputs]
        exact = [np.asarray(array) for array in computed(step.node, wide)]
        self.exact = exact[: len(results)]
        self.room = [allowed(step.node, wide, y, array.dtype) for y, array in zip(self.exact, results.values(), strict=True)]

    def note(self, found: Found, answers: Sequence[Array]) -> None:
        """Count what an implementation answered, and keep the first difference."""
        difference = next(self.differences(answers), None)
        found.add("differs" if difference else "agrees", difference)

    def differences(self, answers: Sequence[Array]) -> Iterator[Difference]:
        node = self.step.node
        if len(answers) != len(self.results):
            yield Difference(str(node), f"ONNX {node.op_type}", f"{len(answers)} outputs, expected {len(self.results)}")
        for (name, own), exact, room, got in zip(self.results.items(), self.exact, self.room, answers, strict=False):
            if got.shape != own.shape:
                yield Difference(str(node), "1. Size", f"{name} has shape {got.shape}, expected {own.shape}")
            elif got.dtype != own.dtype:
                yield Difference(str(node), "8. Types and error", f"{name} has dtype {got.dtype}, expected {own.dtype}")
            elif (away := distance(exact, got, own.dtype) > room).any():
                yield self.described(name, exact, np.broadcast_to(room, own.shape), got, np.argwhere(away)[0])

    def described(self, name: str, exact: Array, room: Array, got: Array, at: Array) -> Difference:
        place = tuple(map(int, at))
        off = float(distance(exact[place], got[place], got.dtype))
        rounded = 0 < off <= CLOSE * float(room[place])
        rule = "8. Types and error" if rounded else rule_of(self.step.node, name, self.step.inputs)
        right = f"{exact[place]:.9g}" if is_floats(got) else str(exact[place])
        text = f"{name}{list(place)} is {got[place]}, expected {right}"
        return Difference(str(self.step.node), rule, f"{text} ± {float(room[place]):.3g}")


def distance(exact: Array, got: Array, dtype: np.dtype[Any]) -> Array:
    """How far cells are from the exact ones: 0 for equal NaN and infinities, and where the exact one overflows in the dtype."""
    if not is_floats(np.empty(0, dtype)):
        return np.asarray(np.abs(exact.astype(object) - got.astype(object)), dtype=np.float64)
    wide = got.astype(np.float64)
    over = (np.abs(exact) > float(np.finfo(dtype).max)) & np.isinf(wide) & (np.sign(exact) == np.sign(wide))
    with np.errstate(invalid="ignore"):
        away = np.abs(exact - wide)
    same = (exact == wide) | (np.isnan(exact) & np.isnan(wide)) | over
    return np.where(same, 0.0, np.where(np.isnan(away), np.inf, away))


def rule_of(node: Node, name: str, given: Sequence[Any]) -> str:
    """The rule that a difference of values breaks."""
    if node.op_type == "MaxPool" and name != node.outputs[0]:
        return "Indices"
    if node.op_type == "MaxPool" and is_floats(given[0]) and np.isnan(given[0]).any():
        return "5. NaN"
    return RULES.get(node.op_type, f"ONNX {node.op_type}")


# --- the report ------------------------------------------------------------------------------------------------------


def show(found: Sequence[Found], missing: Sequence[str], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("implementation")
    for kind, style in COLUMNS.items():
        table.add_column(kind, justify="right", style=style)
    for one in found:
        table.add_row(Text(one.title), *[str(one.counts[kind] or "·") for kind in COLUMNS])
    for title in missing:
        table.add_row(Text(title), "not installed", style="dim")
    console.print(table)
    for one in found:
        if one.left_out:
            console.print(
                Text(f"{one.title}: {one.left_out} layers left out, their windows have too many cells"), soft_wrap=True
            )
        if one.first:
            layer, rule, text = one.first
            console.print(Text(f"\n{one.title} parts at {layer} · rule {rule}\n  {printable(text)}"), soft_wrap=True)
    if not any(one.first for one in found):
        console.print("every layer agrees within its rounding")
