"""Sums and negatives on which bounds were once wrong."""

import numpy as np

import windowgrad as wg
from windowgrad import certify


def test_the_box_of_a_negative_has_its_ends_swapped():
    for method in ("box", "linear", "optimised"):
        lower, upper = certify.bounds(lambda x: wg.relu(-x), np.array([[1.0, -3.0]]), np.array([[2.0, 5.0]]), method=method)
        assert (lower <= [[0.0, 0.0]]).all()
        assert (upper >= [[0.0, 3.0]]).all()


def test_a_linear_layer_may_start_from_its_bias():
    """1000 small terms added one by one to a large bias: each of the sums is rounded relative to the bias."""
    weight, bias = np.full((1000, 1), 1.0, np.float32), np.float32([4097.0])
    x = np.full((1, 1000), 2.0**-13 * 1.1, np.float32)
    total = bias.copy()
    for cell in x[0]:
        total = total + cell * weight[0]
    lower, upper = certify.bounds(lambda x: x @ weight.astype(float) + bias.astype(float), x, x, arithmetic="float32")
    assert lower[0, 0] <= total[0] <= upper[0, 0]


def test_a_maximum_may_read_a_value_that_comes_later():
    def net(x):
        first = wg.relu(x) + wg.relu(-x)
        return wg.maximum(first, wg.relu(first - 1.0) + x)

    lower, upper = certify.bounds(net, np.array([[-1.0, 2.0]]), np.array([[1.0, 3.0]]))
    assert (lower <= [[0.0, 3.0]]).all()
    assert (upper >= [[1.0, 5.0]]).all()
