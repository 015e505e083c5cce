"""A network on NumPy floats as fused steps: a convolution, the array that is added to it and its activation are one step.

The second call with arrays of some shapes and dtypes records the network (`autograd/program.py`): one that is called once costs
no more than before. The result has the bits of the plain evaluation. What cannot be recorded is evaluated plainly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd import trees
from windowgrad.autograd.program import Call, Program, Value, record
from windowgrad.dispatch import run
from windowgrad.errors import WindowgradError
from windowgrad.kernels.runtime.slots import Slots
from windowgrad.nn.steps import Array, Convolution
from windowgrad.params import ConvParams

FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
MOST = 4
"""Kinds of arguments whose plans are kept."""

Key = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


class Plans:
    """The plans of one network, by the shapes and dtypes of its arguments. `f` evaluates it plainly."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.known: dict[Key, Plan | None] = {}
        self.met: dict[Key, None] = {}
        self.steps: dict[Any, tuple[Any, Convolution]] = {}
        self.lock = Lock()

    def __reduce__(self) -> tuple[type[Plans], tuple[Any]]:
        """A copy of a network, or one in another process, makes its own."""
        return Plans, (self.f,)

    def find(self, arrays: Sequence[Any]) -> Plan | None:
        """The plan for arguments like these, if they have come before."""
        if not arrays or not all(type(array) is np.ndarray and array.dtype in FLOATS for array in arrays):
            return None
        key = tuple((array.shape, array.dtype) for array in arrays)
        try:
            return self.known[key]
        except KeyError:
            pass
        with self.lock:
            if key not in self.met:
                kept(self.met, key, None)
                return None
            try:
                plan = Plan(record(self.f, *arrays), self.convolution)
            except WindowgradError:  # a value is looked at, or the arguments do not fit
                plan = None
            kept(self.known, key, plan)
            return plan

    def convolution(self, params: ConvParams, weight: Array, bias: Array | None, top: float | None) -> Convolution:
        """The same for all shapes: its packed weights are kept once. The constants of a network are not written by anybody."""
        key = (params, id(weight), id(bias), top)
        if key not in self.steps:
            self.steps[key] = (weight, bias), Convolution(params, weight, bias, top)  # what an id is of must live
        return self.steps[key][1]


def kept(memory: dict[Any, Any], key: Any, value: Any) -> None:
    """At most so many: the oldest goes."""
    if key not in memory and len(memory) == MOST:
        del memory[next(iter(memory))]
    memory[key] = value


class Piece(NamedTuple):
    """One step: a function of values of the program, by their numbers, and what may be forgotten after it."""

    run: Callable[..., Any]
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    over: tuple[int, ...]


class Plan:
    """A program whose convolutions take what follows them into their own memory."""

    def __init__(self, program: Program, convolution: Callable[..., Convolution]) -> None:
        self.program = program
        self.pieces = forgetting(program, pieces(program, convolution))
        self.leaving = {output.number for output in program.outputs if isinstance(output, Value)}

    def __call__(self, *arrays: Array) -> Any:
        known: dict[int, Any] = dict(zip([value.number for value in self.program.inputs], arrays, strict=True))
        own, leaving = Slots(), self.leaving
        for piece in self.pieces:
            given = [known[number] for number in piece.inputs]
            found = piece.run(*given) if leaving.issuperset(piece.results) else own.run(piece.run, *given)
            known |= zip(piece.results, found if len(piece.results) > 1 else (found,), strict=True)
            for number in piece.over:
                del known[number]
        outputs = [
            own.released(known[output.number]) if isinstance(output, Value) else output for output in self.program.outputs
        ]
        return trees.unflatten(self.program.structure, outputs)


def forgetting(program: Program, found: list[Piece]) -> list[Piece]:
    """The same pieces, each with the values that nobody needs after it."""
    seen = {output.number for output in program.outputs if isinstance(output, Value)}
    done = []
    for piece in reversed(found):
        over = tuple(number for number in dict.fromkeys((*piece.inputs, *piece.results)) if number not in seen)
        seen.update(over)
        done.append(piece._replace(over=over))
    return done[::-1]


# --- what is fused ---------------------------------------------------------------------------------------------------


class Fused(NamedTuple):
    """A convolution and what follows it: the numbers of its calls, the value that is added, and the greatest result."""

    calls: tuple[int, ...]
    result: Value
    beside: Value | None = None
    top: float | None = None
    clips: bool = False


def pieces(program: Program, convolution: Callable[..., Convolution]) -> list[Piece]:
    """One for each call, or for several: a convolution waits for what is added to it."""
    taken: dict[int, Fused | None] = {}
    follows = followers(program)
    for place, call in enumerate(program.calls):
        if place not in taken and is_constant_convolution(call):
            found = fused(program.calls, place, follows, taken)
            taken |= dict.fromkeys(found.calls[:-1])  # done by the last of them
            taken[found.calls[-1]] = found
    made = []
    for place, call in enumerate(program.calls):
        if place not in taken:
            made.append(general(call))
        elif (found_here := taken[place]) is not None:
            made.append(joined(program.calls[found_here.calls[0]], found_here, convolution))
    return made


def followers(program: Program) -> dict[int, int]:
    """The one call that uses a value, of the values that are used once and are no output."""
    uses = Counter(argument.number for call in program.calls for argument in call.arguments if isinstance(argument, Value))
    uses.update(output.number for output in program.outputs if isinstance(output, Value))
    outputs = {output.number for output in program.outputs if isinstance(output, Value)}
    return {
        argument.number: place
        for place, call in enumerate(program.calls)
        for argument in call.arguments
        if isinstance(argument, Value) and uses[argument.number] == 1 and argument.number not in outputs
    }


def is_constant_convolution(call: Call) -> bool:
    if not isinstance(call.params, ConvParams) or call.rule != "forward":
        return False
    x, *constants = call.arguments
    if not isinstance(x, Value) or x.dtype not in FLOATS:
        return False
    return all(type(array) is np.ndarray and array.dtype == x.dtype and not array.flags.writeable for array in constants)


def fused(calls: Sequence[Call], place: int, follows: dict[int, int], taken: dict[int, Any]) -> Fused:
    found = Fused((place,), calls[place].results[0])
    while (after := follows.get(found.result.number)) is not None and after not in taken:
        if (longer := extended(found, calls, after, follows)) is None:
            break
        found = longer
    return found


def extended(found: Fused, calls: Sequence[Call], after: int, follows: dict[int, int]) -> Fused | None:
    """With the call `after`, or with it and the next, if the convolution can do that too."""
    call, (result, *_) = calls[after], calls[after].results
    if (result.shape, result.dtype) != (found.result.shape, found.result.dtype):
        return None
    longer = found._replace(calls=(*found.calls, after), result=result)
    match call.op.name:
        case "add" if found.top is None and found.beside is None:
            other = call.arguments[call.arguments[0] == found.result]
            if isinstance(other, Value) and (other.shape, other.dtype) == (result.shape, result.dtype):
                return longer._replace(beside=other)
        case "relu" if found.top is None:
            return longer._replace(top=math.inf)
        case "minimum" if found.top == math.inf and (high := bound(call)) is not None and high > 0:
            return longer._replace(top=high)
        case "maximum" if found.top is None and is_zero(bound(call)) and has_no_negative_zero(calls[found.calls[0]]):
            after = follows.get(result.number, -1)  # without an upper bound, it is left as it is
            if after >= 0 and calls[after].op.name == "minimum":
                return extended(longer._replace(top=math.inf, clips=True), calls, after, follows)
    return None


def bound(call: Call) -> float | None:
    """The number that every cell is compared with, if there is one, and it stands second."""
    number = call.arguments[1]
    return float(number.reshape(())) if isinstance(number, np.ndarray) and number.size == 1 else None


def is_zero(number: float | None) -> bool:
    return number == 0 and math.copysign(1, number) > 0


def has_no_negative_zero(call: Call) -> bool:
    """A clip keeps −0.0, relu does not. Sums that begin with 0 or a number do not give it, unless a product underflows."""
    return not any(((bias == 0) & np.signbit(bias)).any() for bias in call.arguments[2:])


# --- pieces ----------------------------------------------------------------------------------------------------------


def joined(call: Call, found: Fused, convolution: Callable[..., Convolution]) -> Piece:
    x, weight, *bias = call.arguments
    step = convolution(call.params, weight, bias[0] if bias else None, found.top)
    inputs = (x.number,) if found.beside is None else (x.number, found.beside.number)
    compute = step if found.top is None or not found.clips else partial(clipped, step, found.top)
    return Piece(compute, inputs, (found.result.number,), ())


def clipped(step: Convolution, top: float, x: Array, beside: Array | None = None) -> Array:
    """Where the kernel leaves the end to others, it is what a clip does, which keeps −0.0."""
    y, ended = step.begun(x, beside)
    if not ended:
        if beside is not None:
            np.add(y, beside, out=y)
        np.minimum(np.maximum(y, 0, out=y), top, out=y)
    return y


def general(call: Call) -> Piece:
    """The call as it is."""
    places = [place for place, argument in enumerate(call.arguments) if isinstance(argument, Value)]
    rest = list(call.arguments)

    def compute(*values: Any) -> Any:
        arguments = rest.copy()
        for place, value in zip(places, values, strict=True):
            arguments[place] = value
        return run(call.op, call.rule, call.params, *arguments)

    numbers = tuple(rest[place].number for place in places)
    return Piece(compute, numbers, tuple(value.number for value in call.results), ())
