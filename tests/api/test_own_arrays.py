"""An array type of the user's own, known only by its method, is differentiated like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.dispatch import run


@dataclass(frozen=True, eq=False)
class Noted:
    """Notes what is computed with it. A dataclass: it is an array all the same, and is not opened."""

    array: Any
    notes: list[str]
    __array_ufunc__ = None

    @property
    def shape(self):
        return self.array.shape

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def ndim(self):
        return self.array.ndim

    @property
    def size(self):
        return self.array.size

    def __windowgrad__(self, op, rule, params, arrays):
        if not all(isinstance(array, (Noted, np.ndarray)) for array in arrays):
            return NotImplemented
        self.notes.append(f"{op.name} {rule}")
        result = run(op, rule, params, *(array.array if isinstance(array, Noted) else array for array in arrays))
        return tuple(Noted(part, self.notes) for part in result) if rule == "vjp" else Noted(result, self.notes)

    def __sub__(self, other):
        return wg.subtract(self, other)

    def __mul__(self, other):
        return wg.multiply(self, other)

    __rmul__ = __mul__


def f(x, w):
    y = wg.smooth_max_pool1d(wg.conv1d(x, w), 2, beta=1.5)
    return wg.sum(y * y + wg.max_pool1d(wg.conv1d(x, w), 2))


RNG = np.random.default_rng(0)
X, W, DX, DW = (RNG.standard_normal(shape) for shape in ((2, 1, 7), (3, 1, 2)) * 2)


def plain(value):
    return [part.array if isinstance(part, Noted) else part for part in value]


@pytest.mark.parametrize(
    "transform",
    [
        lambda x, w, dx: wg.jvp(f, (x, w), (dx, DW)),
        lambda x, w, dx: wg.grad(f, (0, 1))(x, w),
        lambda x, w, dx: wg.vjp(lambda x: (x, x), x)[1]((dx, dx)),
        lambda x, w, dx: wg.hvp(f, (x, w), (dx, DW)),
        lambda x, w, dx: [wg.jacobian(lambda x: wg.conv1d(x * x, w, stride=3))(x)],
        lambda x, w, dx: [wg.jacobian(lambda x: wg.conv1d(x * x, w))(x)],
    ],
    ids=["jvp", "grad", "shared", "hvp", "jacobian backward", "jacobian forward"],
)
def test_every_transform_takes_it_and_gives_it_back_with_the_same_numbers(transform):
    notes: list[str] = []
    found, expected = transform(Noted(X, notes), W, Noted(DX, notes)), transform(X, W, DX)
    assert isinstance(found[0], Noted)
    assert notes
    for mine, yours in zip(plain(found), plain(expected), strict=True):
        assert np.array_equal(mine, yours)


def test_it_can_be_a_leaf_of_a_tape_or_stand_beside_a_variable():
    notes: list[str] = []
    tape = wg.Tape()
    x, w = tape.leaf(Noted(X, notes), name="x"), tape.leaf(W, name="w")
    assert np.array_equal(tape.backward(wg.sum(wg.conv1d(x, w)))["x"].array, wg.grad(lambda x: wg.sum(wg.conv1d(x, W)))(X))
    beside = wg.grad(lambda w: wg.sum(wg.conv1d(Noted(X, notes), w)))(W)
    assert np.array_equal(beside.array, wg.grad(lambda w: wg.sum(wg.conv1d(X, w)))(W))
    assert "conv forward" in notes
    assert "conv vjp" in notes
    assert "0  x" in str(tape)
