"""Residual blocks, nesting, batch normalisation and folding, over floats and fractions, and beside PyTorch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import windowgrad as wg
from windowgrad import nn
from windowgrad.errors import KindError, OptionError, WindowError

RNG = np.random.default_rng


def numbers(shape, seed=0, dtype=np.float32, middle=0.5):
    return (RNG(seed).standard_normal(shape) * 2 + middle).astype(dtype)


def fractions(shape, seed=0):
    cells = RNG(seed).integers(-9, 10, shape)
    return np.frompyfunc(lambda n: Fraction(int(n), 3), 1, 1)(cells)


def block(width, stride=1):
    """A block of ResNet."""
    body = nn.Sequential(
        nn.Conv(width, (3, 3), stride, 1, bias=False), nn.BatchNorm(), nn.ReLU(),
        nn.Conv(width, (3, 3), padding=1, bias=False), nn.BatchNorm(),
    )  # fmt: skip
    shortcut = nn.Sequential(nn.Conv(width, (1, 1), stride, bias=False), nn.BatchNorm()) if stride > 1 else None
    return nn.Sequential(nn.Residual(body, shortcut), nn.ReLU())


class TorchBlock(torch.nn.Module):
    def __init__(self, ins, width, stride=1):
        super().__init__()
        t = torch.nn
        self.body = t.Sequential(
            t.Conv2d(ins, width, 3, stride, 1, bias=False), t.BatchNorm2d(width), t.ReLU(),
            t.Conv2d(width, width, 3, 1, 1, bias=False), t.BatchNorm2d(width),
        )  # fmt: skip
        self.shortcut = t.Sequential(t.Conv2d(ins, width, 1, stride, bias=False), t.BatchNorm2d(width)) if stride > 1 else None

    def forward(self, x):
        return torch.relu(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def randomised(params, seed=5):
    """The same structure with other numbers; variances stay positive."""
    rng = RNG(seed)
    if isinstance(params, dict):
        return {name: randomised(own, seed + i) for i, (name, own) in enumerate(params.items())}
    if isinstance(params, tuple):
        return tuple(randomised(own, seed + 7 * i) for i, own in enumerate(params))
    return rng.uniform(0.2, 1.0, params.shape).astype(params.dtype) * float(rng.choice([0.3, 1.0]))


def leaves(params, prefix=""):
    """The arrays by PyTorch's names."""
    if isinstance(params, np.ndarray):
        return {prefix[:-1]: params}
    entries = params.items() if isinstance(params, dict) else enumerate(params)
    return {key: value for name, own in entries for key, value in leaves(own, f"{prefix}{name}.").items()}


# --- Sequential and Residual -------------------------------------------------------------------------------------


def test_a_sequential_has_a_length_entries_slices_and_can_be_iterated():
    layers = nn.Conv(4, (3, 3)), nn.ReLU(), nn.Flatten(), nn.Linear(2)
    model = nn.Sequential(*layers)
    assert len(model) == 4
    assert tuple(model) == layers
    assert model[0] is layers[0]
    assert model[-1] is layers[3]
    assert model[1:3] == nn.Sequential(layers[1], layers[2])
    x = numbers((2, 3, 6, 6))
    params = model.init(RNG(0), x.shape)
    assert np.array_equal(model[2:](params[2:], model[:2](params[:2], x)), model(params, x))
    with pytest.raises(IndexError):
        model[4]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_adds_its_body_and_its_shortcut(stride):
    body = nn.Conv(3, (3, 3), stride, 1)
    shortcut = nn.Conv(3, (1, 1), stride) if stride > 1 else None
    layer, x = nn.Residual(body, shortcut), fractions((2, 3, 5, 6))
    sizes = {name: part.sizes(x.shape) for name, part in layer.parts.items()}
    params = {name: {key: fractions(size, 1) for key, size in own.items()} for name, own in sizes.items()}
    beside = x if shortcut is None else shortcut(params["shortcut"], x)
    y = layer(params, x)
    assert (y == body(params["body"], x) + beside).all()
    assert layer.out_shape(x.shape) == y.shape
    assert layer.init(RNG(0), x.shape).keys() == params.keys()


def test_what_does_not_fit_a_residual_is_said():
    x = numbers((1, 2, 5, 5))
    layer = nn.Residual(nn.Conv(3, (3, 3), padding=1))
    with pytest.raises(WindowError, match=r"Residual: the body gives \(1, 3, 5, 5\) .* must be \(1, 2, 5, 5\), the shape of x"):
        layer.out_shape(x.shape)
    own = {"body": nn.Conv(3, (3, 3), padding=1).init(RNG(0), x.shape)}
    with pytest.raises(WindowError, match="the body gives"):
        layer(own, x)
    thin = nn.Residual(nn.Conv(1, (3, 3), padding=1))  # nothing is broadcast
    with pytest.raises(WindowError, match="the body gives"):
        thin({"body": nn.Conv(1, (3, 3), padding=1).init(RNG(0), x.shape)}, x)
    with pytest.raises(KindError, match=r"Residual: params=\(\): must be a dict with \"body\", not tuple"):
        layer((), x)
    with pytest.raises(WindowError, match='Residual: params has "shortcut": must have "body"'):
        layer({"shortcut": {}}, x)
    with pytest.raises(KindError, match=r"body=.*ReLU.*: must be a layer; write ReLU\(...\)"):
        nn.Residual(nn.ReLU)
    with pytest.raises(KindError, match="shortcut=3: must be a layer"):
        nn.Residual(nn.ReLU(), 3)
    nested = nn.Sequential(nn.ReLU(), nn.Residual(nn.Sequential(nn.MaxPool((9, 9)))))
    with pytest.raises(WindowError, match="layer 1 of Sequential, body of Residual, layer 0 of Sequential, MaxPool"):
        nested.out_shape(x.shape)


def test_the_table_shows_the_parts_and_counts_what_is_learnt():
    table = nn.Sequential(block(4, 2)).summary((1, 3, 8, 8)).splitlines()
    assert [line.split()[0] for line in table[4:-2]] == [
        *(f"0.0.body.{i}" for i in range(5)), "0.0.shortcut.0", "0.0.shortcut.1", "0.1",
    ]  # fmt: skip
    assert table[-1].split()[1] == str(sum(p.numel() for p in TorchBlock(3, 4, 2).parameters()))


# --- batch normalisation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 9), (3, 4, 5, 7), (2, 3, 3, 4, 5), (2, 1, 1, 8), (4, 33, 17, 3)], ids=str)
def test_training_and_inference_are_pytorchs(shape, dtype):
    layer, x, g = nn.BatchNorm(eps=1e-3, momentum=0.3), numbers(shape, 0, dtype, 7), numbers(shape, 1, dtype)
    params = randomised(layer.init(RNG(0), shape, dtype))
    kind = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}[len(shape)]
    theirs = kind(shape[1], eps=1e-3, momentum=0.3).to(torch.from_numpy(x).dtype)
    theirs.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in params.items()}, strict=False)
    close = {"rtol": 2e-5, "atol": 2e-5} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(layer(params, x), theirs.eval()(torch.from_numpy(x)).detach().numpy(), **close)

    there = torch.from_numpy(x).requires_grad_()
    wanted = theirs.train()(there)
    wanted.backward(torch.from_numpy(g))
    before = {name: value.copy() for name, value in params.items()}
    (y, new), pull = wg.vjp(lambda p, x: layer.train(p, x), params, x)
    nought = {name: np.zeros_like(value) for name, value in new.items()}
    grads, gx = pull((g, nought))
    for found, right in (
        (y, wanted.detach()),
        (gx, there.grad),
        (grads["weight"], theirs.weight.grad),
        (grads["bias"], theirs.bias.grad),
        (new["running_mean"], theirs.running_mean),
        (new["running_var"], theirs.running_var),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right.numpy(), **close)
    assert not grads["running_mean"].any()
    assert not grads["running_var"].any()
    assert all(np.array_equal(params[name], before[name]) for name in params)
    assert new["weight"] is params["weight"]


def test_a_large_mean_costs_no_digits():
    """PyTorch's test of the same: mean 10⁴ and deviation 1, in float32."""
    x = (RNG(0).standard_normal((64, 2, 16)) + 1e4).astype(np.float32)
    layer = nn.BatchNorm(eps=0.0)
    y, _ = layer.train(layer.init(RNG(0), x.shape), x)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean((0, 2), keepdims=True)) / exact.std((0, 2), keepdims=True)
    assert abs(y - exact).max() < 1e-3  # an ulp of x, divided by a deviation of about 1


@pytest.mark.parametrize("affine", [True, False])
def test_derivatives_of_both_orders_in_both_modes(affine):
    layer, x = nn.BatchNorm(-1, affine=affine), numbers((4, 2, 3), 0, np.float64)
    params = randomised(layer.init(RNG(0), x.shape, np.float64))
    stats = {name: params.pop(name) for name in layer.statistics}
    for function in (lambda p, x: layer.train(p, x)[0], layer):

        def squared(p, x, function=function):
            y = function({**p, **stats}, x)
            return y * y

        wg.check_grads(squared, params, x, order=2, tolerance=1e-4)


def test_statistics_count_as_constants():
    """A fine-tuned network keeps them, as PyTorch's buffers are kept."""
    layer, x = nn.BatchNorm(), numbers((2, 3, 4))
    params = layer.init(RNG(0), x.shape)
    for function in (layer, lambda p, x: layer.train(p, x)[0]):
        grads = wg.grad(lambda p, function=function: wg.sum(function(p, x) * x))(params)
        assert grads["weight"].any()
        assert not grads["running_mean"].any()
        assert not grads["running_var"].any()
        stepped, _ = nn.sgd(0.1, 0.9).update(params, grads, nn.sgd(0.1, 0.9).init(params))
        assert all(np.array_equal(stepped[name], params[name]) for name in layer.statistics)


def test_over_fractions_only_the_root_is_rounded():
    half = np.array([Fraction(1, 2)])
    layer = nn.BatchNorm(eps=Fraction(1, 4), momentum=Fraction(1, 10))
    x = np.array([Fraction(n) for n in (1, 1, 4, 4)]).reshape(2, 1, 2)  # the variance is 9/4, so the root of 10/4 is irrational
    params = {"weight": half, "bias": half, "running_mean": half, "running_var": half * 4}
    y, new = layer.train(params, x)
    root = Fraction(np.sqrt(2.5))
    assert y.reshape(-1).tolist() == [s * Fraction(3, 2) / root / 2 + Fraction(1, 2) for s in (-1, -1, 1, 1)]
    assert new["running_mean"].tolist() == [Fraction(9, 20) + Fraction(1, 4)]
    assert new["running_var"].tolist() == [Fraction(18, 10) + Fraction(3, 10)]
    assert layer(params, x).reshape(-1).tolist()[0] == Fraction(1, 2) * Fraction(1, 2) / Fraction(3, 2) + Fraction(1, 2)


@pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda x: x[::-1], lambda x: np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)]
)
def test_every_layout_gives_the_same_bits(change):
    layer, x = nn.BatchNorm(), change(numbers((3, 5, 4, 9)))
    params = layer.init(RNG(0), x.shape)
    plain = np.ascontiguousarray(x)
    for one, two in ((x, plain), (x.astype(">f4"), plain)):
        assert np.array_equal(layer.train(params, one)[0], layer.train(params, two)[0])
        pulls = [wg.vjp(lambda x: layer.train(params, x)[0], each)[1](each)[0] for each in (one, two)]
        assert np.array_equal(*pulls)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    layer, x = nn.BatchNorm(), numbers((8, 16, 33, 31))
    params = layer.init(RNG(0), x.shape)
    before, found = wg.get_num_threads(), set()
    try:
        for count in (1, 2, 3):
            wg.set_num_threads(count)
            y, pull = wg.vjp(lambda x: layer.train(params, x)[0], x)
            found.add(y.tobytes() + pull(x)[0].tobytes())
    finally:
        wg.set_num_threads(before)
    assert len(found) == 1


def test_float16_is_computed_in_float32_and_nan_stays_in_its_channel():
    layer, x = nn.BatchNorm(), numbers((3, 4, 5), 0, np.float16)
    params = layer.init(RNG(0), x.shape, np.float16)
    y, new = layer.train(params, x)
    wide, _ = layer.train(layer.init(RNG(0), x.shape), x.astype(np.float32))
    assert y.dtype == new["running_mean"].dtype == np.float16
    assert np.array_equal(y, wide.astype(np.float16))
    x[0, 1, 2] = np.nan
    assert np.isnan(layer.train(params, x)[0]).all((0, 2)).tolist() == [False, True, False, False]


def test_what_does_not_fit_a_batch_norm_is_said():
    layer = nn.BatchNorm()
    params = layer.init(RNG(0), (2, 3, 4))
    with pytest.raises(WindowError, match=r"BatchNorm\(\): x of shape \(1, 3\): training needs at least 2 cells per channel"):
        layer.train(params, numbers((1, 3)))
    with pytest.raises(WindowError, match=r'params\["weight"\] of shape \(3,\): must be \(4,\) for x of shape \(2, 4\)'):
        layer(params, numbers((2, 4)))
    with pytest.raises(WindowError, match=r"x of shape \(3,\): has no axis 1"):
        layer.out_shape((3,))
    with pytest.raises(OptionError, match=r"momentum=1\.5: must be at least 0 and at most 1"):
        nn.BatchNorm(momentum=1.5)
    with pytest.raises(OptionError, match="eps=-1: must be finite and not negative"):
        nn.BatchNorm(eps=-1)


# --- whole blocks ------------------------------------------------------------------------------------------------


def test_a_residual_network_trains_as_pytorchs_does():
    """Three steps of momentum, statistics included, starting with the same parameters."""
    model, rate = nn.Sequential(block(4, 2), block(4), nn.GlobalAvgPool(2), nn.Linear(3)), 0.05
    t = torch.nn
    theirs = t.Sequential(
        TorchBlock(3, 4, 2), TorchBlock(4, 4), t.Sequential(t.AdaptiveAvgPool2d(1), t.Flatten()), t.Linear(4, 3)
    )
    x, labels = numbers((6, 3, 9, 8)), np.arange(6) % 3
    params = model.init(RNG(0), x.shape)
    names = {name: name.replace(".0.body", ".body").replace(".0.shortcut", ".shortcut") for name in leaves(params)}
    given = {names[name]: torch.from_numpy(value.copy()) for name, value in leaves(params).items()}
    theirs.load_state_dict(given, strict=False)
    optimiser, descend = torch.optim.SGD(theirs.parameters(), rate, 0.9), nn.sgd(rate, 0.9)
    state = descend.init(params)

    def loss(p):
        y, new = model.train(p, x)
        return wg.cross_entropy(y, labels), new

    for _ in range(3):
        (value, params), grads = wg.value_and_grad(loss, has_aux=True)(params)
        params, state = descend.update(params, grads, state)
        optimiser.zero_grad()
        wanted = t.functional.cross_entropy(theirs(torch.from_numpy(x)), torch.from_numpy(labels))
        wanted.backward()
        optimiser.step()
        assert abs(float(value) - float(wanted.detach())) < 1e-5
    after = theirs.state_dict()
    for name, value in leaves(params).items():
        np.testing.assert_allclose(value, after[names[name]].numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def test_blocks_go_into_files_and_come_back(tmp_path):
    model = nn.Sequential(block(4, 2))
    params = model.init(RNG(0), (1, 3, 8, 8))
    nn.save(tmp_path / "p", params)
    x = numbers((1, 3, 8, 8))
    assert np.array_equal(model(nn.load(tmp_path / "p"), x), model(params, x))


# --- folding -----------------------------------------------------------------------------------------------------

FOLDED = {
    "Conv": (nn.Sequential(nn.Conv(4, (3, 2), groups=2, bias=False), nn.BatchNorm()), (2, 2, 4, 5)),
    "Conv with a bias": (nn.Sequential(nn.Conv(4, (3,)), nn.BatchNorm(-2), nn.ReLU()), (2, 3, 5)),
    "ConvTranspose": (nn.Sequential(nn.ConvTranspose(6, (2, 2), 2, groups=3), nn.BatchNorm(affine=False)), (1, 3, 2, 3)),
    "Linear": (nn.Sequential(nn.Linear(4), nn.BatchNorm(), nn.Tanh()), (3, 2)),
    "blocks": (nn.Sequential(block(2, 2), block(2)), (1, 2, 4, 4)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folding_keeps_the_function(name):
    model, shape = FOLDED[name]
    params = randomised(model.init(RNG(0), shape))
    x = numbers(shape)
    small, fewer = nn.fold(model, params)
    assert "BatchNorm" not in repr(small)
    np.testing.assert_allclose(small(fewer, x), model(params, x), rtol=1e-4, atol=1e-5)


def test_folding_is_exact_over_fractions():
    model, shape = FOLDED["blocks"]
    model = nn.Sequential(*(model[0][0].body.layers))

    def exact(own):
        return np.frompyfunc(lambda n: Fraction(int(8 * n) + 1, 8), 1, 1)(own)

    params = tuple({name: exact(value) for name, value in own.items()} for own in randomised(model.init(RNG(0), shape)))
    x = fractions(shape)
    fractional = nn.Sequential(
        *(nn.BatchNorm(eps=Fraction(1, 100)) if isinstance(each, nn.BatchNorm) else each for each in model)
    )
    small, fewer = nn.fold(fractional, params)
    assert (small(fewer, x) == fractional(params, x)).all()


def test_what_cannot_be_folded_stays():
    model = nn.Sequential(nn.BatchNorm(), nn.Conv(2, (1, 1)), nn.ReLU(), nn.BatchNorm(), nn.Conv(2, (1, 1)), nn.BatchNorm(2))
    params = model.init(RNG(0), (1, 2, 3, 3))
    assert nn.fold(model, params) == (model, params)
    assert nn.fold(nn.ReLU(), {}) == (nn.ReLU(), {})
    with pytest.raises(KindError, match="model=3: must be a layer"):
        nn.fold(3, ())


@pytest.mark.parametrize("cell", [np.inf, -np.inf, np.nan, 3e38])
def test_batch_norm_of_what_has_no_variance_warns_of_nothing(cell):
    """Warnings are errors in tests; NaN is the result, in its own channel only."""
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    x[0, 0] = cell
    layer = nn.BatchNorm()
    params = layer.init(np.random.default_rng(0), x.shape)
    g = wg.grad(lambda x: wg.sum(layer.train(params, x)[0] ** 2))(x)
    assert np.isfinite(g[:, 1]).all()
    y, new = layer.train(params, x)
    assert np.isfinite(y[:, 1]).all()
    assert np.isfinite(new["running_mean"][1])
