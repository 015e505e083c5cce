"""What the rules of an operator are given: how many arrays and which, of what kinds and shapes; everything else is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.arguments import counted, is_masked
from windowgrad.dtypes import is_supported
from windowgrad.errors import KindError, WindowError, show
from windowgrad.foreign import conversion, kind_of
from windowgrad.memory import refuse_unallocatable
from windowgrad.params import Params
from windowgrad.spec.op import Op

Kind = tuple[tuple[int, ...], np.dtype[Any]]  # the shape and the dtype of an array: on what its computing depends


def argument_names(op: Op, rule: str, given: int) -> list[str]:
    """The names of the arrays of a call with `given` of them: inputs, then tangents or the gradient."""
    for count in range(len(op.inputs) - op.optional, len(op.inputs) + 1):
        inputs = list(op.inputs[:count])
        names = inputs + {"jvp": [f"d{name}" for name in inputs], "vjp": ["g"]}.get(rule, [])
        if len(names) == given:
            return names
    raise KindError(f"{op.name}.{rule}: got {counted('array', given)}, must be given {', '.join(names)}")


def inputs_of(rule: str, given: Sequence[Any]) -> Sequence[Any]:
    """Of what a rule is given for its arrays, that for the inputs of the operator."""
    return {"jvp": given[: len(given) // 2], "vjp": given[:-1]}.get(rule, given)


def check_params(op: Op, params: Params) -> None:
    if type(params) is not op.params:  # a subclass is another operator's
        raise KindError(f"params={show(params, 240)}: must be {op.params.__name__} for {op.name}")


def check_array(name: str, array: Any) -> None:
    if is_masked(array):
        raise KindError(
            f"{name}: must not be a masked array, which only pooling takes; "
            f"fill it with what masked elements should count as, such as {name}.filled(0)"
        )
    if not isinstance(array, np.ndarray):
        raise KindError(f"{name}: must be a NumPy array, not {kind_of(array)}; {conversion(name, array)}")
    check_dtype(name, array.dtype)


def check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind != "O" and not is_supported(dtype):
        wanted = "bool, int8 to int64, uint8 to uint64, float16, float32, float64, or object"
        raise KindError(f"{name}: unsupported dtype {dtype}; must be {wanted}")


def check_shapes(rule: str, params: Params, names: Sequence[str], kinds: Sequence[Kind], stored: bool = True) -> None:
    """The shape rule of the operator, tangents like their inputs, the gradient like the output.

    An output that is not `stored` at once may be larger than memory.
    """
    shapes = [shape for shape, _ in kinds]
    inputs = len(shapes) - {"jvp": len(shapes) // 2, "vjp": 1}.get(rule, 0)
    out = params.out_shape(*shapes[:inputs])
    wanted = shapes[:inputs] if rule == "jvp" else [out]
    for name, shape, right in zip(names[inputs:], shapes[inputs:], wanted, strict=False):
        if shape != right:
            what = f"the shape of {name[1:] if rule == 'jvp' else 'the output'}"
            raise WindowError(f"{name} of shape {shape}: must be {right}, {what}")
    if stored:
        refuse_unallocatable(out, max(dtype.itemsize for _, dtype in kinds))
    params.check(*shapes[:inputs])
