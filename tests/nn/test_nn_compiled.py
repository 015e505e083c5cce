"""A compiled network gives what the folded model gives, bit for bit, and owns what it computes with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import nn
from windowgrad.errors import KindError, WindowError
from windowgrad.kernels.runtime import slots

RNG = np.random.default_rng


@pytest.fixture(autouse=True)
def small_results_in_slots(monkeypatch):
    monkeypatch.setattr(slots, "SMALLEST", 1)


def numbers(shape, seed=0, dtype=np.float32):
    return RNG(seed).standard_normal(shape).astype(dtype)


def unit(width, stride=1, act=nn.ReLU, groups=1):
    return [nn.Conv(width, (3, 3), stride, 1, 1, groups, bias=False), nn.BatchNorm(), *([act()] if act else [])]


MODELS = {
    "a residual network": (
        nn.Sequential(
            *unit(4),
            nn.MaxPool((3, 3), 2, 1),
            nn.Residual(nn.Sequential(*unit(8, 2), *unit(8, act=None)), nn.Sequential(nn.Conv(8, (1, 1), 2), nn.BatchNorm())),
            nn.ReLU(),
            nn.Residual(nn.Sequential(*unit(8, groups=8, act=nn.ReLU6), *unit(8, act=None))),
            nn.Sequential(nn.Residual(nn.Sequential(*unit(8))), nn.Sequential()),
            nn.GlobalAvgPool(2),
            nn.Linear(5),
        ),
        (3, 3, 17, 15),
    ),
    "up and down": (
        nn.Sequential(
            nn.ConvTranspose(2, (2, 2), 2), nn.ReLU6(), nn.AvgPool((2, 2)), nn.Tanh(), nn.Flatten(), nn.Linear(3, False)
        ),
        (2, 3, 4, 4),
    ),
    "sums without new memory": (
        nn.Sequential(nn.Residual(nn.Flatten()), nn.ReLU(), nn.Residual(nn.Sequential()), nn.Residual(nn.MaxPool((1,)))),
        (2, 6),
    ),
    "only views": (nn.Flatten(), (2, 3, 4)),
    "a signal": (nn.Sequential(nn.Conv(4, (3,)), nn.ReLU(), nn.ReLU6(), nn.Residual(nn.ReLU()), nn.ReLU()), (1, 2, 9)),
}


def trained(model, shape, dtype=np.float32):
    """Parameters with statistics that are not 0 and 1."""
    params = model.init(RNG(0), shape, dtype)
    return model.train(params, numbers(shape, 3, dtype) * 2)[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_network_gives_the_folded_models_bits(name, dtype):
    model, shape = MODELS[name]
    params, x = trained(model, shape, dtype), numbers(shape, 1, dtype)
    x.reshape(-1)[0] = np.nan if name != "a residual network" else 50
    before = x.copy()
    small, fewer = nn.fold(model, params)
    wanted = np.concatenate([small(fewer, x[i : i + 1]) for i in range(len(x))])  # rows of Linear one by one
    for in_shape in (None, shape):
        y = nn.compile(model, params, in_shape)(x)
        assert y.dtype == dtype
        assert y.tobytes() == wanted.tobytes()
        assert np.array_equal(x, before, equal_nan=True)
        assert not np.may_share_memory(x, y)
    np.testing.assert_allclose(y, model(params, x), rtol=1e-4, atol=1e-5)


def test_bits_do_not_depend_on_threads_batch_or_layout():
    model, shape = MODELS["a residual network"]
    params, x = trained(model, shape), numbers((5, 3, 97, 64), 1)
    compiled, before = nn.compile(model, params), wg.get_num_threads()
    try:
        found = set()
        for count in (1, 2, 3):
            wg.set_num_threads(count)
            found.add(compiled(x).tobytes())
    finally:
        wg.set_num_threads(before)
    found |= {np.concatenate([compiled(x[:2]), compiled(x[2:])]).tobytes(), compiled(np.asfortranarray(x)).tobytes()}
    assert len(found) == 1
    assert compiled(x[:0]).shape == (0, 5)


@pytest.mark.parametrize("last", [[], [nn.ReLU()], [nn.Flatten()], [nn.Residual(nn.Conv(4, (1, 1)))], [nn.Tanh()]], ids=str)
def test_a_result_is_not_changed_by_the_next_call(last):
    model = nn.Sequential(nn.Conv(4, (3, 3)), nn.ReLU(), nn.Conv(4, (3, 3)), *last)
    x = numbers((1, 2, 9, 9))
    params = model.init(RNG(0), x.shape)
    compiled = nn.compile(model, params)
    first = compiled(x)
    kept = first.copy()
    compiled(x + 1)
    assert first.tobytes() == kept.tobytes() == compiled(x).tobytes()


def test_a_layer_may_keep_what_it_was_given():
    seen = []

    class Keeping(nn.ReLU):
        def apply(self, params, x):
            seen.append(x)
            return x[..., ::2]

        def out_shape(self, in_shape):
            return *in_shape[:-1], -(-in_shape[-1] // 2)

    layers = [layer for _ in range(4) for layer in (nn.Conv(4, (3, 3), 1, 1), Keeping())]
    model, x = nn.Sequential(*layers, nn.Conv(4, (3, 3), 1, 1)), numbers((1, 2, 9, 30))
    params = model.init(RNG(0), x.shape)
    y = nn.compile(model, params)(x)
    kept = seen.copy()
    seen.clear()
    assert y.tobytes() == model(params, x).tobytes()
    assert [a.tobytes() for a in kept] == [a.tobytes() for a in seen]


def test_it_owns_its_parameters():
    model, shape = MODELS["up and down"]
    params, x = trained(model, shape), numbers(shape, 1)
    compiled = nn.compile(model, params)
    y = compiled(x)
    params[0]["weight"][:] = 7
    assert np.array_equal(compiled(x), y)
    with pytest.raises(ValueError, match="read-only"):
        compiled.params[0]["weight"][:] = 7
    assert "ConvTranspose" in repr(compiled)


def test_other_arrays_go_layer_by_layer():
    model = nn.Sequential(nn.Conv(2, (2,)), nn.ReLU(), nn.Linear(2))
    params, x = model.init(RNG(0), (1, 1, 4)), numbers((1, 1, 4))
    compiled = nn.compile(model, params)
    assert np.array_equal(compiled(x.astype(np.float64)), model(params, x.astype(np.float64)))
    wg.check_grads(compiled, x.astype(np.float64))
    exact = tuple({name: np.frompyfunc(Fraction, 1, 1)(value) for name, value in own.items()} for own in params)
    cells = np.frompyfunc(Fraction, 1, 1)(x)
    assert (nn.compile(model, exact)(cells) == model(exact, cells)).all()


def test_what_does_not_fit_is_said():
    model, shape = MODELS["a residual network"]
    params = trained(model, shape)
    with pytest.raises(
        WindowError, match=r"layer 0 of Sequential, Conv.*params\[\"weight\"\] of shape \(4, 3, 3, 3\): must be"
    ):
        nn.compile(model, params, (1, 2, 9, 9))
    with pytest.raises(WindowError, match=r"layer 0 of Sequential, Conv"):
        nn.compile(model, params)(numbers((1, 2, 9, 9)))
    with pytest.raises(KindError, match="model=3: must be a layer"):
        nn.compile(3, ())
    with pytest.raises(WindowError, match="Sequential: params has 1 entry, must have 10"):
        nn.compile(model, params[:1])


def test_a_transposed_convolution_keeps_the_size_that_was_chosen():
    model = nn.Sequential(nn.ConvTranspose(2, (3,), 2, output_size=8), nn.ReLU())
    x = np.ones((1, 2, 3), np.float32)
    params = model.init(np.random.default_rng(0), x.shape)
    found = nn.compile(model, params)(x)
    assert found.shape == (1, 2, 8)
    assert np.array_equal(found, model(params, x))
