"""Where resized cells lie: integers over one denominator are the formulas of ONNX, and rounding is that of fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowgrad.onnx import Node
from windowgrad.onnx.operators import TABLE
from windowgrad.onnx.operators.resizing import COORDINATES, Line, nearest, original, places, taps

HALF = Fraction(1, 2)
BY_FRACTIONS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda place: math.ceil(place - HALF),
    "round_prefer_ceil": lambda place: math.floor(place + HALF),
}
SCALES = st.fractions(Fraction(1, 9), 9, max_denominator=50) | st.sampled_from(
    [Fraction(float(np.float32(0.6))), Fraction(10**25 + 1, 10**25)]
)


@pytest.mark.parametrize("coordinates", COORDINATES)
@given(n=st.integers(1, 9), out=st.integers(1, 9), scale=SCALES, span=st.tuples(SCALES, SCALES))
def test_all_places_are_multiples_of_one_step(coordinates, n, out, scale, span):
    line = Line(n, out, scale, *span, coordinates)
    above, below = places(line)
    assert [Fraction(int(place), below) for place in above] == [original(line, place) for place in range(out)]
    for rounding, by_fractions in BY_FRACTIONS.items():
        found = nearest(rounding, above, below)
        assert found.tolist() == [by_fractions(original(line, place)) for place in range(out)]
        assert taps(line, rounding).first.tolist() == found.clip(0, n - 1).tolist()


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_an_empty_batch_is_resized(mode, coordinates):
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    node, x = Node("one", "Resize", (), ("y",), attributes, 11), np.zeros((0, 2, 3), np.float32)
    roi = np.array([0, 0, 0, 1, 1, 1], np.float32)
    assert TABLE["Resize"](node, x, roi, np.array([1.0, 1.0, 2.0])).shape == (0, 2, 6)
    assert TABLE["Resize"](node, x, roi, None, np.array([0, 2, 6])).shape == (0, 2, 6)
