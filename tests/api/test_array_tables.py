"""Every operator that a public array function runs has an entry in the table of each bridge to a framework."""

from unittest.mock import patch

import numpy as np
import pytest

import windowgrad as wg
from support.tensor_cases import CASES
from windowgrad.autograd.arrays import ARRAY_OPS, SINGLE_STEPS
from windowgrad.bridges.jax.arrays import FORWARD as JAX
from windowgrad.bridges.torch.arrays import FORWARD as TORCH

OF_DERIVATIVES = {"sum_to", "gate", "mask", "share", "split", "scatter", "log_or_zero", "pick", "place", "bell"}
"""Operators that only derivatives are made of (and cross_entropy in pieces); the frameworks have their own."""


@pytest.mark.parametrize("table", [TORCH, JAX], ids=["torch", "jax"])
def test_every_array_operator_but_those_of_derivatives_has_an_entry(table):
    assert set(table) == {op.name for op in ARRAY_OPS} - OF_DERIVATIVES


def test_the_cases_run_every_function_and_every_entry():
    functions, ran = {step.__name__ for step in SINGLE_STEPS}, set()
    assert functions <= {case.name for case in CASES}
    run = wg.dispatch.on_numpy

    def seen(op, *rest):
        ran.add(op.name)
        return run(op, *rest)

    with patch.object(wg.dispatch, "on_numpy", seen), patch.object(wg.dispatch, "READY", False):
        for case in CASES:
            if all(np.size(a) for a in case.arrays):
                case.call(*case.arrays)
    assert ran == set(TORCH)
