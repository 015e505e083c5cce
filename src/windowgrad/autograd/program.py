"""A function as a list of calls: what it computes from its arguments, operator by operator, with everything else constant.

    program = record(lambda x: relu(conv2d(x, w)), x0)
    program(x)                                            # the same function, on arrays of any kind
    [call.op.name for call in program.calls]              # ['conv', 'relu']

The calls are those that were made on arguments of one shape and dtype. A comparison, a conversion or a look at `.value` would
make the list depend on the numbers too, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from windowgrad.arguments import shape_of
from windowgrad.autograd import trees
from windowgrad.autograd.tracer import Tracer, next_level
from windowgrad.dispatch import run
from windowgrad.errors import KindError, WindowError
from windowgrad.params import Params, Shape
from windowgrad.spec.op import Op


class Value(NamedTuple):
    """An array that a program is given or computes: its number among all of them, and its kind."""

    number: int
    shape: Shape
    dtype: np.dtype[Any]


class Call(NamedTuple):
    """One operator on values of the program and on constants, which are NumPy arrays."""

    op: Op
    rule: str
    """ "forward", or "with_indices" of an operator whose indices are used too."""
    params: Params
    arguments: tuple[Any, ...]
    results: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The name it was called by, such as max_pool2d."""
        return self.op.label or self.op.name


class Program(NamedTuple):
    """What `record` returns: call it with arrays like those it was recorded with."""

    inputs: tuple[Value, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Any, ...]
    """Values, or constants where a result does not depend on the inputs."""
    structure: Any
    """How the outputs are nested."""

    def __call__(self, *arrays: Any) -> Any:
        """The outputs for `arrays`, one per input; they may be of any kind, with the shapes of the inputs."""
        if len(arrays) != len(self.inputs):
            raise WindowError(f"{len(arrays)} arrays given: the program has {len(self.inputs)} inputs")
        known: dict[int, Any] = {}
        for value, array in zip(self.inputs, arrays, strict=True):
            if (given := shape_of(f"input {value.number}", array)) != value.shape:
                raise WindowError(f"input {value.number} of shape {given}: must be {value.shape}, for which it was recorded")
            known[value.number] = array
        for call in self.calls:
            found = run(call.op, call.rule, call.params, *[held(known, argument) for argument in call.arguments])
            known |= zip([value.number for value in call.results], found if len(call.results) > 1 else [found], strict=True)
        return trees.unflatten(self.structure, [held(known, output) for output in self.outputs])


def held(known: dict[int, Any], argument: Any) -> Any:
    return known[argument.number] if isinstance(argument, Value) else argument


def record(f: Callable[..., Any], *examples: Any) -> Program:
    """The calls that `f` makes on arrays like `examples`, NumPy arrays of which only shape and dtype matter."""
    for number, example in enumerate(examples):
        if type(example) is not np.ndarray:
            raise KindError(f"example {number}: must be a NumPy array, not {type(example).__name__}")
    recorder = Recorder()
    given = [recorder.new(example) for example in examples]
    found, structure = trees.values("result", f(*given))
    outputs = tuple(recorder.argument(array) for array in found)
    return Program(tuple(array.place for array in given), tuple(recorder.calls), outputs, structure)


class Recorder:
    """The calls so far. Values are computed on the way: that is how their shapes and dtypes become known."""

    def __init__(self) -> None:
        self.level = next_level()
        self.calls: list[Call] = []
        self.count = 0

    def new(self, array: Any) -> Recorded:
        value = Value(self.count, array.shape, array.dtype)
        self.count += 1
        return Recorded(self, value, array)

    def argument(self, array: Any) -> Any:
        """What stands for an array in the list: its value, or itself if it is a constant."""
        if isinstance(array, Recorded) and array.recorder is self:
            return array.place
        if isinstance(array, Tracer):
            raise KindError("record: the function uses a traced value of another differentiation; it would become a constant")
        return array

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Any:
        if rule not in ("forward", "with_indices"):
            raise KindError(f"record: the function must not differentiate, but it asks for the {rule} of {op.label or op.name}")
        arguments = tuple(map(self.argument, arrays))
        plain = [array.example if isinstance(array, Recorded) else array for array in arrays]
        found = run(op, rule, params, *plain)
        results = [self.new(array) for array in (found if rule == "with_indices" else [found])]
        self.calls.append(Call(op, rule, params, arguments, tuple(result.place for result in results)))
        return tuple(results) if rule == "with_indices" else results[0]


class Recorded(Tracer):
    """A value of a program that is being recorded: it has a shape and a dtype, but no numbers to look at."""

    __slots__ = ("example", "place", "recorder")

    def __init__(self, recorder: Recorder, place: Value, example: Any) -> None:
        self.recorder, self.place, self.example = recorder, place, example

    def __repr__(self) -> str:
        return f"Recorded({self.dtype}{self.shape})"

    @property
    def level(self) -> int:  # type: ignore[override]
        return self.recorder.level

    @property
    def shape(self) -> Shape:
        return self.place.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.place.dtype

    @property
    def size(self) -> int:
        return int(self.example.size)

    @property
    def chunks(self) -> None:
        return None

    @property
    def value(self) -> NoReturn:
        raise KindError("a value was compared, converted or read while the function is recorded: the outcome would be frozen")

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        return self.recorder.follow(op, rule, params, arrays)

    def _refuse(self, conversion: str, look: str | None = None, to: str = "a number") -> NoReturn:
        raise KindError(f"{conversion.format('x')}: cannot convert to {to} while the function is recorded: it would be frozen")
