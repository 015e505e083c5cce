"""What a training step computes is what PyTorch computes with the same weights: the loss and every gradient, and further
derivatives of smooth networks. Each network stands here twice, in our layers and in PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest
import torch
import torch.nn.functional as F

import windowgrad as wg
from windowgrad import nn

torch.set_num_threads(1)  # the arrays are small: threads would only wait for each other

# PyTorch's own forward mode does this on its first use.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def smooth_max_pool2d(x, kernel, stride, padding, beta):
    """PyTorch has none: log-sum-exp over what unfold sees, which pads with zeros."""
    n, c, h, _ = x.shape
    patches = F.unfold(x, kernel, padding=padding, stride=stride).reshape(n, c, kernel * kernel, -1)
    rows = (h + 2 * padding - kernel) // stride + 1
    return (torch.logsumexp(beta * patches, dim=2) / beta).reshape(n, c, rows, -1)


class Network(NamedTuple):
    shape: tuple[int, ...]
    model: nn.Sequential
    theirs: Callable[..., torch.Tensor]
    """From the input and the weights in the order of the layers, weight before bias, to the output."""
    classes: int | None
    """The loss is cross entropy with so many, or the mean square distance to the input."""


def lenet(x, w1, b1, w2, b2, w3, b3, w4, b4, w5, b5):
    x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2)), 2)
    x = F.relu(F.linear(torch.flatten(x, 1), w3, b3))
    return F.linear(F.relu(F.linear(x, w4, b4)), w5, b5)


def means(x, w1, b1, w2, b2, w3, b3):
    x = F.avg_pool2d(torch.tanh(F.conv2d(x, w1, b1, padding=1)), 3, 2, 1, ceil_mode=True, count_include_pad=False)
    x = F.avg_pool2d(torch.tanh(F.conv2d(x, w2, b2)), 2)
    return F.linear(torch.flatten(x, 1), w3, b3)


def decoder(x, w1, b1, w2, b2, w3):
    x = torch.tanh(F.conv2d(x, w1, b1, stride=2, padding=1))
    x = F.relu(F.conv_transpose2d(x, w2, b2, stride=2, padding=1, output_padding=1, groups=2))
    return F.conv_transpose2d(x, w3, padding=2, dilation=2)


def grouped(x, w1, b1, w2, b2, w3, w4, b4):
    x = F.relu(F.conv2d(x, w1, b1, stride=(2, 1), padding=(1, 0)))
    x = F.relu(F.conv2d(x, w2, b2, padding=2, dilation=2, groups=2))
    x = F.conv2d(x, w3, groups=8)
    return F.linear(torch.amax(x, (2, 3)), w4, b4)


def smooth(x, w1, b1, w2, b2, w3, b3):
    x = smooth_max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 3, 2, 1, 4.0)
    x = smooth_max_pool2d(F.conv2d(x, w2, b2), 2, 2, 0, -2.0)
    return F.linear(torch.flatten(x, 1), w3, b3)


def signal(x, w1, b1, w2, b2, w3, b3):
    x = F.max_pool1d(F.relu(F.conv1d(x, w1, b1, stride=2, padding=2)), 3, 2, 1)
    x = F.adaptive_max_pool1d(torch.tanh(F.conv1d(x, w2, b2, dilation=2)), 5)
    return F.linear(torch.flatten(x, 1), w3, b3)


def volume(x, w1, b1, w2, b2):
    x = F.max_pool3d(F.relu(F.conv3d(x, w1, b1, padding=1)), 2)
    return F.linear(torch.mean(x, (2, 3, 4)), w2, b2)


NETWORKS = {
    "lenet": Network(
        (4, 1, 28, 28),
        nn.Sequential(
            *(nn.Conv(6, (5, 5), padding=2), nn.ReLU(), nn.MaxPool((2, 2)), nn.Conv(16, (5, 5)), nn.ReLU(), nn.MaxPool((2, 2))),
            *(nn.Flatten(), nn.Linear(120), nn.ReLU(), nn.Linear(84), nn.ReLU(), nn.Linear(10)),
        ),
        lenet,
        10,
    ),
    "means": Network(
        (4, 3, 16, 15),
        nn.Sequential(
            *(nn.Conv(8, (3, 3), padding=1), nn.Tanh(), nn.AvgPool((3, 3), 2, 1, ceil_mode=True, count_include_pad=False)),
            *(nn.Conv(6, (3, 3)), nn.Tanh(), nn.AvgPool((2, 2)), nn.Flatten(), nn.Linear(5)),
        ),
        means,
        5,
    ),
    "decoder": Network(
        (3, 2, 12, 10),
        nn.Sequential(
            *(nn.Conv(6, (3, 3), 2, 1), nn.Tanh(), nn.ConvTranspose(4, (3, 3), 2, 1, 1, groups=2), nn.ReLU()),
            nn.ConvTranspose(2, (3, 3), padding=2, dilation=2, bias=False),
        ),
        decoder,
        None,
    ),
    "grouped": Network(
        (4, 3, 15, 13),
        nn.Sequential(
            *(nn.Conv(8, (3, 3), (2, 1), (1, 0)), nn.ReLU(), nn.Conv(8, (3, 3), padding=2, dilation=2, groups=2), nn.ReLU()),
            *(nn.Conv(8, (3, 3), groups=8, bias=False), nn.GlobalMaxPool(2), nn.Linear(7)),
        ),
        grouped,
        7,
    ),
    "smooth": Network(
        (3, 2, 12, 12),
        nn.Sequential(
            *(nn.Conv(5, (3, 3), padding=1), nn.ReLU(), nn.SmoothMaxPool((3, 3), 2, 1, beta=4)),
            *(nn.Conv(4, (3, 3)), nn.SmoothMaxPool((2, 2), beta=-2), nn.Flatten(), nn.Linear(3)),
        ),
        smooth,
        3,
    ),
    "signal": Network(
        (3, 2, 40),
        nn.Sequential(
            *(nn.Conv(6, (5,), 2, 2), nn.ReLU(), nn.MaxPool((3,), 2, 1), nn.Conv(4, (3,), dilation=2), nn.Tanh()),
            *(nn.AdaptiveMaxPool((5,)), nn.Flatten(), nn.Linear(4)),
        ),
        signal,
        4,
    ),
    "volume": Network(
        (2, 2, 6, 6, 6),
        nn.Sequential(nn.Conv(4, (3, 3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2, 2)), nn.GlobalAvgPool(3), nn.Linear(3)),
        volume,
        3,
    ),
}


def problem(name: str, dtype: Any) -> tuple[Network, Any, Any, Any]:
    """The network, its weights, an input and the labels; the same numbers in every dtype, to its precision."""
    network = NETWORKS[name]
    rng = np.random.default_rng(7)
    weights = network.model.init(rng, network.shape, np.float32)
    x = rng.standard_normal(network.shape, np.float32)
    labels = rng.integers(0, network.classes or 1, network.shape[0])
    return network, optree.tree_map(lambda w: w.astype(dtype), weights), x.astype(dtype), labels


def flat(weights: Any) -> list[Any]:
    """The weights as PyTorch's functions take them."""
    return [layer[name] for layer in weights for name in ("weight", "bias") if name in layer]


def ours(name: str, dtype: Any) -> list[Any]:
    """The loss, the gradient of the input, and those of the weights."""
    network, weights, x, labels = problem(name, dtype)

    def loss(weights: Any, x: Any) -> Any:
        y = network.model(weights, x)
        return wg.cross_entropy(y, labels) if network.classes else wg.mse(y, x)

    value, (gw, gx) = wg.value_and_grad(loss, (0, 1))(weights, x)
    return [value, gx, *flat(gw)]


def theirs(name: str, dtype: Any) -> list[Any]:
    network, weights, x, labels = problem(name, dtype)
    tensors = [torch.from_numpy(array).requires_grad_() for array in (x, *flat(weights))]
    y = network.theirs(*tensors)
    loss = F.cross_entropy(y, torch.from_numpy(labels)) if network.classes else F.mse_loss(y, tensors[0])
    return [part.detach().numpy() for part in (loss, *torch.autograd.grad(loss, tensors))]


def apart(a: Any, b: Any) -> float:
    """How far two arrays are from each other, by their norms."""
    return float(np.linalg.norm(a.astype(float) - b) / np.linalg.norm(b.astype(float)))


@pytest.mark.parametrize(("dtype", "within"), [(np.float32, 1e-5), (np.float64, 1e-13)], ids=["float32", "float64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_loss_and_every_gradient_are_pytorchs(name, dtype, within):
    mine, yours = ours(name, dtype), theirs(name, dtype)
    assert len(mine) == len(yours) == 2 + len(flat(problem(name, dtype)[1]))
    for a, b in zip(mine, yours, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape) == (dtype, b.shape)
        assert np.linalg.norm(b) > 0
        assert apart(a, b) < within


@pytest.mark.parametrize("name", NETWORKS)
def test_no_maximum_of_these_networks_hangs_on_rounding(name):
    """Else float32 and float64 would choose other winners, and the comparison above could fail by chance."""
    for a, b in zip(ours(name, np.float32), ours(name, np.float64), strict=True):
        assert apart(a, b) < 1e-5


# --- further derivatives -----------------------------------------------------------------------------------------


def bent(library: Any, pool: Callable[[Any], Any], x: Any, w: Any, b: Any, v: Any) -> Any:
    """Convolution, tanh, smooth maximum and a last layer, in either library."""
    conv = library.conv2d if library is wg else F.conv2d
    y = pool(library.tanh(conv(x, w, b, padding=1)))
    return library.sum(library.tanh(library.reshape(y, (2, -1)) @ v))


def mine(*arguments: Any) -> Any:
    return bent(wg, lambda y: wg.smooth_max_pool2d(y, 3, 2, 1, beta=1.5), *arguments)


def yours(*arguments: Any) -> Any:
    return bent(torch, lambda y: smooth_max_pool2d(y, 3, 2, 1, 1.5), *arguments)


def point(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape) for shape in ((2, 2, 7, 6), (3, 2, 3, 3), (3,), (36, 2)))


def test_hessian_vector_products_are_pytorchs():
    arguments, tangents = point(0), point(1)
    tensors, moves = (tuple(map(torch.from_numpy, arrays)) for arrays in (arguments, tangents))
    _, backward_over_backward = torch.autograd.functional.hvp(yours, tensors, moves)
    _, forward_over_backward = torch.func.jvp(torch.func.grad(yours, tuple(range(4))), tensors, moves)
    found = wg.hvp(mine, arguments, tangents)
    for expected in (backward_over_backward, forward_over_backward):
        for a, b in zip(found, expected, strict=True):
            assert apart(a, b.numpy()) < 1e-9


def test_second_derivatives_in_the_other_nestings_are_the_same():
    arguments, tangents = point(0), point(1)

    def slope(*arguments):
        return wg.jvp(mine, arguments, tangents)[1]

    def dotted(*arguments):
        return sum(wg.sum(g * t) for g, t in zip(wg.grad(mine, (0, 1, 2, 3))(*arguments), tangents, strict=True))

    for found in (wg.grad(slope, (0, 1, 2, 3))(*arguments), wg.grad(dotted, (0, 1, 2, 3))(*arguments)):
        for a, b in zip(found, wg.hvp(mine, arguments, tangents), strict=True):
            assert apart(a, b) < 1e-12


def test_third_derivatives_along_a_line_are_pytorchs():
    arguments, tangents = point(0), point(1)
    tensors, moves = (tuple(map(torch.from_numpy, arrays)) for arrays in (arguments, tangents))

    def thrice(jvp, f, primals, moves):
        def once(f):
            return lambda *primals: jvp(f, primals, moves)[1]

        return once(once(once(f)))(*primals)

    expected = thrice(torch.func.jvp, yours, tensors, moves)
    assert float(thrice(wg.jvp, mine, arguments, tangents)) == pytest.approx(float(expected), rel=1e-9)


def test_jacobian_is_pytorchs():
    x, w, b, _ = point(0)
    found = wg.jacobian(lambda x: wg.tanh(wg.smooth_max_pool2d(wg.conv2d(x, w, b), 2, beta=2)))(x)
    w, b = torch.from_numpy(w), torch.from_numpy(b)
    f = lambda x: torch.tanh(smooth_max_pool2d(F.conv2d(x, w, b), 2, 2, 0, 2.0))  # noqa: E731  # to stand beside ours
    assert apart(found, torch.func.jacrev(f)(torch.from_numpy(x)).numpy()) < 1e-12
