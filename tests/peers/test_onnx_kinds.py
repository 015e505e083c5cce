"""ONNX's own tests of windows and arithmetic, on arrays of other frameworks: the same numbers, as arrays of the framework."""

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from support.onnx_nodes import made_of
from windowgrad.onnx import load
from windowgrad.onnx.operators import elementwise, linear, normalising, windows
from windowgrad.onnx.reading import OLDEST

OPERATORS = {name for family in (windows, elementwise, linear, normalising) for name in family.TABLE}
KINDS = {
    "PyTorch": (torch.Tensor, lambda x: torch.from_numpy(np.array(x))),
    "JAX": (jax.Array, jnp.asarray),
    "Dask": (da.Array, lambda x: da.from_array(x, chunks=x.shape)),
}


def cases():
    """Tests of opsets that are read, whose inputs are floats; numbers without axes are options."""
    for test in made_of(OPERATORS):
        inputs = [value.type.tensor_type for value in test.model.graph.input]
        if all(value.elem_type == 1 for value in inputs) and test.model.opset_import[0].version >= OLDEST:
            yield test


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_kind_give_the_same_numbers_as_arrays_of_their_kind(kind):
    wanted, made = KINDS[kind]
    count = 0
    for test in cases():
        net = load(test.model)
        for inputs, outputs in test.sets():
            results = net(*[made(x) if x.ndim else x for x in inputs])
            for found, output in zip(results if isinstance(results, tuple) else [results], outputs, strict=True):
                if output.dtype == np.float32:
                    assert isinstance(found, wanted), test.name
                assert found.shape == output.shape, test.name
                np.testing.assert_allclose(np.asarray(found), output, rtol=test.rtol, atol=test.atol, err_msg=test.name)
                count += 1
    assert count == 198
