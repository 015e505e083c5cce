"""Layers: descriptions compared by value, checked when made, which compute what the functions compute."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad import dispatch, nn
from windowgrad.errors import OptionError


def numbers(*shape, seed=0):
    """Floats whose sums are exact: quarters."""
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 4).astype(np.float32)


def fractions(array):
    return np.vectorize(Fraction, otypes=[object])(array)


# --- each layer is its function ----------------------------------------------------------------------------------

SIDES = {1: (7,), 2: (7, 6), 3: (5, 4, 6)}
TWO = {rank: (2,) * rank for rank in SIDES}

POOLS = {
    "max": (
        lambda k: nn.MaxPool(k, 1, 1, 2, True, ties="all", empty="zero"),
        lambda x, k: wg.max_pool(x, k, 1, 1, 2, True, ties="all", empty="zero"),
    ),
    "min": (
        lambda k: nn.MinPool(k, 1, 1, 2, True, ties="all", empty="zero"),
        lambda x, k: wg.min_pool(x, k, 1, 1, 2, True, ties="all", empty="zero"),
    ),
    "avg": (
        lambda k: nn.AvgPool(k, 3, 1, True, False, 3, dilation=2),
        lambda x, k: wg.avg_pool(x, k, 3, 1, True, False, 3, dilation=2),
    ),
    "smooth": (
        lambda k: nn.SmoothMaxPool(k, 2, 1, 1, True, False, beta=2.0),
        lambda x, k: wg.smooth_max_pool(x, k, 2, 1, 1, True, False, beta=2.0),
    ),
    "adaptive max": (lambda k: nn.AdaptiveMaxPool(k, ties="split"), lambda x, k: wg.adaptive_max_pool(x, k, ties="split")),
    "lp": (lambda k: nn.LpPool(3, k, 1, True, padding=1), lambda x, k: wg.lp_pool(x, 3, k, 1, True, padding=1)),
    "adaptive lp": (lambda k: nn.AdaptiveLpPool(2, k), lambda x, k: wg.adaptive_lp_pool(x, 2, k)),
    "global lp": (lambda k: nn.GlobalLpPool(2.5, len(k)), lambda x, k: wg.global_lp_pool(x, 2.5, len(k), keepdims=False)),
    "adaptive min": (lambda k: nn.AdaptiveMinPool(k, ties="split"), lambda x, k: wg.adaptive_min_pool(x, k, ties="split")),
    "adaptive avg": (lambda k: nn.AdaptiveAvgPool(k), lambda x, k: wg.adaptive_avg_pool(x, k)),
    "adaptive smooth": (
        lambda k: nn.AdaptiveSmoothMaxPool(k, beta=-2.0),
        lambda x, k: wg.adaptive_smooth_max_pool(x, k, beta=-2.0),
    ),
    "global max": (
        lambda k: nn.GlobalMaxPool(len(k), ties="first"),
        lambda x, k: wg.global_max_pool(x, len(k), keepdims=False, ties="first"),
    ),
    "global min": (lambda k: nn.GlobalMinPool(len(k)), lambda x, k: wg.global_min_pool(x, len(k), keepdims=False)),
    "global avg": (lambda k: nn.GlobalAvgPool(len(k), True), lambda x, k: wg.global_avg_pool(x, len(k), keepdims=True)),
    "global smooth": (
        lambda k: nn.GlobalSmoothMaxPool(len(k), beta=2.0),
        lambda x, k: wg.global_smooth_max_pool(x, len(k), keepdims=False, beta=2.0),
    ),
}


def same(a, b):
    assert a.dtype == b.dtype
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("rank", SIDES)
@pytest.mark.parametrize("name", POOLS)
def test_a_pooling_layer_is_the_function_of_its_name(name, rank):
    layer, function = POOLS[name][0](TWO[rank]), POOLS[name][1]
    x = numbers(2, 3, *SIDES[rank])
    assert layer.init(np.random.default_rng(0), x.shape) == {}
    same(layer({}, x), function(x, TWO[rank]))
    assert layer.out_shape(x.shape) == layer({}, x).shape


@pytest.mark.parametrize("rank", SIDES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_layer_is_conv_with_its_parameters(rank, bias):
    layer = nn.Conv(4, (3, *TWO[rank][1:]), 2, 1, 1, 2, bias)
    x = numbers(2, 6, *SIDES[rank])
    params = layer.init(np.random.default_rng(0), x.shape)
    assert {name: array.shape for name, array in params.items()} == {
        "weight": (4, 3, 3, *TWO[rank][1:]),
        **({"bias": (4,)} if bias else {}),
    }
    same(layer(params, x), wg.conv(x, params["weight"], params.get("bias"), 2, 1, 1, 2))
    assert layer.out_shape(x.shape) == layer(params, x).shape


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("rank", SIDES)
def test_padding_modes_are_pytorchs(rank, mode):
    x = numbers(2, 2, *SIDES[rank])
    layer = nn.Conv(3, (3, *TWO[rank][1:]), 2, (2, *(1,) * (rank - 1)), bias=False, padding_mode=mode)
    theirs = getattr(torch.nn, f"Conv{rank}d")(2, 3, layer.kernel_size, 2, layer.padding, bias=False, padding_mode=mode)
    params = {"weight": numbers(*layer.sizes(x.shape)["weight"], seed=1)}
    theirs.weight.data = torch.from_numpy(params["weight"])
    y = layer(params, x)
    assert np.array_equal(y, theirs(torch.from_numpy(x)).detach().numpy())
    assert layer.out_shape(x.shape) == y.shape
    assert np.array_equal(nn.compile(nn.Sequential(layer, nn.ReLU()), (params, {}))(x), np.maximum(y, 0))
    wide = nn.Conv(1, (1,), padding=9, bias=False, padding_mode=mode)  # more than the input has
    kind = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    assert np.array_equal(wide({"weight": np.ones((1, 1, 1))}, np.array([[[1.0, 2, 4]]]))[0, 0], np.pad([1.0, 2, 4], 9, kind))


def test_an_unknown_padding_mode_is_refused():
    with pytest.raises(OptionError, match="padding_mode='same': must be one of 'zeros', 'reflect', 'replicate', 'circular'"):
        nn.Conv(1, (1,), padding_mode="same")


@pytest.mark.parametrize("rank", SIDES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_transposed_convolution_layer_is_conv_transpose_with_its_parameters(rank, bias):
    layer = nn.ConvTranspose(4, TWO[rank], 3, 1, 2, 2, bias, dilation=2)
    x = numbers(2, 6, *SIDES[rank])
    params = layer.init(np.random.default_rng(0), x.shape)
    assert params["weight"].shape == (6, 2, *TWO[rank])
    assert ("bias" in params) == bias
    same(layer(params, x), wg.conv_transpose(x, params["weight"], params.get("bias"), 3, 1, 2, 2, 2))
    assert layer.out_shape(x.shape) == layer(params, x).shape


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (0, 5)])
def test_linear_acts_on_the_last_axis(shape):
    layer = nn.Linear(3)
    x, weight, bias = numbers(*shape), numbers(3, 5, seed=1), numbers(3, seed=2)
    y = layer({"weight": weight, "bias": bias}, x)
    assert np.array_equal(y, x @ weight.T + bias)
    assert y.shape == layer.out_shape(shape) == (*shape[:-1], 3)
    assert np.array_equal(nn.Linear(3, bias=False)({"weight": weight}, x), x @ weight.T)


def test_relu_and_tanh_act_on_every_cell_and_flatten_keeps_the_first_axis():
    x = numbers(2, 3, 4)
    assert np.array_equal(nn.ReLU()({}, x), np.maximum(x, 0))
    assert np.allclose(nn.Tanh()({}, x), np.tanh(x), rtol=1e-6)
    assert np.array_equal(nn.Flatten()({}, x), x.reshape(2, 12))
    for layer in (nn.ReLU(), nn.Tanh(), nn.Flatten()):
        assert layer.init(np.random.default_rng(0), x.shape) == {}
        assert layer.out_shape(x.shape) == layer({}, x).shape
    assert nn.Flatten().out_shape((0, 3, 4)) == nn.Flatten()({}, x[:0]).shape == (0, 12)


def test_a_network_computes_with_fractions_exactly():
    model = nn.Sequential(
        nn.Conv(2, (2, 2), padding=1),
        nn.ReLU(),
        nn.MaxPool((2, 2)),
        nn.ConvTranspose(2, (2, 2), 2),
        nn.AvgPool((3, 3), 1, 1, count_include_pad=False),
        nn.Flatten(),
        nn.Linear(3),
    )
    x = numbers(2, 1, 4, 4)
    params = model.init(np.random.default_rng(0), x.shape)
    exact = tuple({name: fractions(array) for name, array in layer.items()} for layer in params)
    y = model(exact, fractions(x))
    assert all(type(value) is Fraction for value in y.flat)
    assert np.allclose(y.astype(float), model(params, x), rtol=0, atol=1e-6)


class Boxed:
    """An array that computes for itself, as a traced variable does."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __windowgrad__(self, op, rule, params, arrays):
        return Boxed(dispatch.run(op, rule, params, *(a.array if isinstance(a, Boxed) else a for a in arrays)))


@pytest.mark.parametrize("what", ["x", "params", "both"])
def test_a_network_computes_with_arrays_that_compute_for_themselves(what):
    model = nn.Sequential(nn.Conv(2, (2, 2)), nn.Tanh(), nn.MaxPool((2, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(3))
    x = numbers(2, 1, 5, 5)
    params = model.init(np.random.default_rng(0), x.shape)
    boxed = tuple({name: Boxed(array) for name, array in layer.items()} for layer in params)
    y = model(params if what == "x" else boxed, x if what == "params" else Boxed(x))
    same(y.array, model(params, x))


# --- stacks of layers --------------------------------------------------------------------------------------------


def layers(rank):
    """Layers of the rank, small enough for spec and kernels; the sizes may not fit."""
    sizes = st.tuples(*[st.integers(1, 3)] * rank)
    some = st.integers(1, 2)
    pads = st.integers(0, 1) | st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 1))] * rank)
    channels = st.sampled_from([2, 4])
    return st.one_of(
        st.builds(nn.Conv, channels, sizes, some, pads, some, st.integers(1, 2), st.booleans()),
        st.builds(nn.ConvTranspose, channels, sizes, st.just(2), pads, st.integers(0, 1), st.integers(1, 2)),
        st.builds(nn.MaxPool, sizes, st.none() | some, pads, some, st.booleans()),
        st.builds(nn.AvgPool, sizes, st.none() | some, pads, st.booleans(), st.booleans()),
        st.builds(nn.AdaptiveMaxPool, sizes),
        st.builds(nn.AdaptiveAvgPool, sizes),
        st.builds(nn.GlobalMaxPool, st.just(rank), st.just(True)),
        st.just(nn.ReLU()),
        st.builds(nn.Linear, st.integers(1, 3), st.booleans()),
    )


@st.composite
def stacks(draw):
    rank = draw(st.integers(1, 3))
    inner = st.lists(layers(rank), max_size=2).map(lambda some: nn.Sequential(*some))
    body = draw(st.lists(layers(rank) | inner, max_size=4))
    tail = draw(st.sampled_from([[], [nn.Flatten()], [nn.Flatten(), nn.Linear(2)], [nn.GlobalAvgPool(rank), nn.Linear(2)]]))
    return nn.Sequential(*body, *tail), (draw(st.integers(0, 2)), 2, *draw(st.tuples(*[st.integers(1, 5)] * rank)))


@given(stacks())
def test_out_shape_is_the_shape_of_what_is_computed_and_what_it_refuses_cannot_be_computed(drawn):
    model, shape = drawn
    try:
        wanted = model.out_shape(shape)
    except wg.WindowError:
        with pytest.raises(wg.WindowError, match=r"^layer \d of Sequential, "):
            model.init(np.random.default_rng(0), shape)
        return
    x = numbers(*shape)
    params = model.init(np.random.default_rng(0), shape)
    y = model(params, x)
    assert y.shape == wanted
    assert y.dtype == np.float32
    assert eval(repr(model), vars(nn)) == model
    total = model.summary(shape).splitlines()[-1].split()
    assert int(total[1].replace(",", "")) == count(params)


def count(params):
    if isinstance(params, tuple):
        return sum(map(count, params))
    return sum(array.size for array in params.values())


def test_an_empty_sequential_changes_nothing():
    x = numbers(2, 3)
    assert nn.Sequential()((), x) is x
    assert nn.Sequential().out_shape((2, 3)) == (2, 3)
    assert nn.Sequential().init(np.random.default_rng(0), (2, 3)) == ()


def test_parameters_of_a_sequential_are_a_tuple_and_may_be_a_list():
    model = nn.Sequential(nn.Linear(2), nn.Sequential(nn.ReLU(), nn.Linear(1, bias=False)))
    params = model.init(np.random.default_rng(0), (4, 3))
    assert [type(params), type(params[0]), type(params[1]), params[1][0]] == [tuple, dict, tuple, {}]
    x = numbers(4, 3)
    same(model([params[0], list(params[1])], x), model(params, x))


@dataclass(frozen=True, repr=False)
class Scale(nn.Layer):
    """A layer of one's own: every channel by a factor."""

    channels: int

    def result(self, shape):
        return shape

    def sizes(self, shape):
        return {"weight": (self.channels, 1, 1)}

    def apply(self, params, x):
        return x * params["weight"]


def test_a_layer_of_ones_own_takes_part():
    model = nn.Sequential(Scale(2), nn.GlobalAvgPool(2))
    params = model.init(np.random.default_rng(0), (3, 2, 4, 4))
    x = numbers(3, 2, 4, 4)
    same(model(params, x), wg.global_avg_pool(x * params[0]["weight"], 2, keepdims=False))
    assert repr(model) == "Sequential(Scale(channels=2), GlobalAvgPool(rank=2))"


# --- what a layer is ---------------------------------------------------------------------------------------------

EQUAL = [
    (nn.Conv(8, (3, 3)), nn.Conv(np.int64(8), [3, 3], (1, 1), ((0, 0), 0), np.array([1, 1]), 1, True)),
    (nn.Conv(8, (3, 3), padding="same"), nn.Conv(8, (3, 3), padding=1)),
    (nn.Conv(8, (2,), padding="same"), nn.Conv(8, (2,), padding=((0, 1),))),
    (nn.Conv(8, (3, 3), padding="valid"), nn.Conv(8, (3, 3))),
    (nn.ConvTranspose(8, (3, 3), 2, output_padding=(1, 1)), nn.ConvTranspose(8, (3, 3), [2, 2], output_padding=1)),
    (nn.MaxPool((2, 3)), nn.MaxPool([2, 3], (2, 3), (0, 0), 1)),
    (nn.AvgPool((2, 2), 2), nn.AvgPool((2, 2))),
    (nn.AdaptiveAvgPool((2, None)), nn.AdaptiveAvgPool([2, None])),
    (nn.GlobalMaxPool(2), nn.GlobalMaxPool(np.int8(2), np.False_)),
    (nn.Sequential(nn.ReLU(), nn.Linear(3)), nn.Sequential(nn.ReLU(), nn.Linear(np.int32(3), np.True_))),
]


@pytest.mark.parametrize(("a", "b"), EQUAL, ids=repr)
def test_layers_that_mean_the_same_are_equal_print_alike_and_pickle(a, b):
    assert a == b
    assert hash(a) == hash(b)
    assert repr(a) == repr(b)
    assert eval(repr(a), vars(nn)) == a
    assert pickle.loads(pickle.dumps(a)) == a


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (nn.Conv(8, (3, 3)), nn.Conv(8, (3, 3), bias=False)),
        (nn.Conv(8, (3, 3)), nn.ConvTranspose(8, (3, 3))),
        (nn.MaxPool((2, 2)), nn.AvgPool((2, 2))),
        (nn.MaxPool((2, 2)), nn.MaxPool((2, 2), ties="all")),
        (nn.MaxPool((2, 2)), nn.MaxPool((2, 2), 1)),
        (nn.Sequential(nn.ReLU()), nn.Sequential(nn.Sequential(nn.ReLU()))),
        (nn.ReLU(), nn.Tanh()),
    ],
    ids=repr,
)
def test_layers_that_mean_something_else_differ(a, b):
    assert a != b


def test_a_layer_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        nn.Conv(8, (3, 3)).stride = 2
    with pytest.raises(FrozenInstanceError):
        nn.Sequential(nn.ReLU()).layers = ()


BAD = {
    "kernel_size=3: must be a tuple with one entry per axis; write (3,) for one axis, (3, 3) for two": lambda: nn.Conv(8, 3),
    "kernel_size=2: must be a tuple": lambda: nn.MaxPool(2),
    "output_size=2: must be a tuple": lambda: nn.AdaptiveMaxPool(2),
    "out_channels=0: must be at least 1": lambda: nn.Conv(0, (3,)),
    "out_channels=2.5: must be an integer, not float": lambda: nn.ConvTranspose(2.5, (3,)),
    "groups=3: must divide out_channels=8 [Conv(out_channels=8, kernel_size=(3,), groups=3)]": lambda: nn.Conv(
        8, (3,), groups=3
    ),
    "stride=None": lambda: nn.Conv(8, (3,), None),
    "bias=1: must be True or False": lambda: nn.Conv(8, (3,), bias=1),
    'padding="same": stride must be 1': lambda: nn.Conv(8, (3,), 2, "same"),
    "padding='same': must be an integer": lambda: nn.ConvTranspose(8, (3,), padding="same"),
    "output_padding=2 on axis 0: must be smaller than the stride (2)": lambda: nn.ConvTranspose(8, (3,), 2, output_padding=2),
    "padding=-1 on axis 0: must not be negative [MaxPool(kernel_size=(2,), padding=-1)]": lambda: nn.MaxPool((2,), padding=-1),
    "ceil_mode=2: must be True or False": lambda: nn.AvgPool((2,), ceil_mode=2),
    "ties='last': must be one of 'first', 'all', 'split'": lambda: nn.MaxPool((2,), ties="last"),
    "empty=0: must be one of": lambda: nn.MaxPool((2,), empty=0),
    "beta=0: must not be zero": lambda: nn.SmoothMaxPool((2,), beta=0),
    "divisor_override=0: must be at least 1": lambda: nn.AvgPool((2,), divisor_override=0),
    "rank=0: must be at least 1": lambda: nn.GlobalAvgPool(0),
    "keepdims='no': must be True or False": lambda: nn.GlobalMaxPool(1, "no"),
    "out_features=0: must be at least 1 [Linear(out_features=0)]": lambda: nn.Linear(0),
    "layer 1 of Sequential: 'relu' is not a layer": lambda: nn.Sequential(nn.ReLU(), "relu"),
    "is not a layer; write Tanh(...)": lambda: nn.Sequential(nn.Tanh),
}


@pytest.mark.parametrize("message", BAD)
def test_a_layer_that_cannot_be_is_refused_when_it_is_made(message):
    with pytest.raises(wg.WindowgradError) as caught:
        BAD[message]()
    assert message in str(caught.value)


# --- shapes and parameters that do not fit -----------------------------------------------------------------------

MODEL = nn.Sequential(
    nn.Conv(4, (3, 3)), nn.MaxPool((2, 2)), nn.Sequential(nn.ReLU(), nn.Conv(2, (3, 3), groups=2)), nn.Flatten(), nn.Linear(3)
)
GOOD = (2, 1, 10, 10)

MISFITS = {
    (2, 1, 10): "layer 0 of Sequential, Conv(out_channels=4, kernel_size=(3, 3)): x of shape (2, 1, 10): "
    "must have at least 4 axes (batch, channels and 2 for the window)",
    (2, 0, 10, 10): "layer 0 of Sequential, Conv(out_channels=4, kernel_size=(3, 3)): x of shape (2, 0, 10, 10): "
    "has 0 channels, must have at least one",
    (2, 1, 3, 10): "layer 1 of Sequential, MaxPool(kernel_size=(2, 2)): kernel_size=2 on axis 0: the window covers 2 cells, "
    "the padded input has 1",
    (2, 1, 10, 6): "layer 2 of Sequential, layer 1 of Sequential, Conv(out_channels=2, kernel_size=(3, 3), groups=2): "
    "kernel_size=3 on axis 1: the window covers 3 cells, the padded input has 2",
}


@pytest.mark.parametrize("shape", MISFITS, ids=str)
def test_a_shape_that_does_not_fit_names_the_layer_where_it_ends(shape):
    for question in (MODEL.out_shape, MODEL.summary, lambda s: MODEL.init(np.random.default_rng(0), s)):
        with pytest.raises(wg.WindowError) as caught:
            question(shape)
        assert str(caught.value).startswith(MISFITS[shape])


@pytest.mark.parametrize("shape", [5, (), (2, -1), (2, 1.5), "abc"])
def test_a_shape_is_a_tuple_of_integers(shape):
    with pytest.raises(wg.WindowgradError, match="in_shape="):
        MODEL.out_shape(shape)


def test_channels_that_the_groups_do_not_divide_are_refused():
    with pytest.raises(wg.WindowError, match=r"x of shape \(1, 3, 8\): has 3 channels, must have a multiple of groups=2"):
        nn.ConvTranspose(4, (3,), groups=2).out_shape((1, 3, 8))


def test_an_empty_window_that_is_to_raise_is_found_without_computing():
    with pytest.raises(wg.WindowError, match=r"MaxPool.*covers no cell of the input"):
        nn.MaxPool((2,), padding=2, empty="raise").out_shape((1, 1, 4))


def test_linear_and_flatten_need_their_axis():
    with pytest.raises(wg.WindowError, match=r"Linear.*must have at least one axis"):
        nn.Linear(2)({}, np.array(1.0))
    for question in (nn.Flatten().out_shape, lambda shape: nn.Flatten()({}, np.ones(shape))):
        with pytest.raises(wg.WindowError, match=r"Flatten\(\): start_axis=1: must be from -1 to 0 for x of shape \(3,\)"):
            question((3,))


def changed(place, params):
    return tuple(params if i == place else p for i, p in enumerate(MODEL.init(np.random.default_rng(0), GOOD)))


LAYER_0 = "layer 0 of Sequential, Conv(out_channels=4, kernel_size=(3, 3)): "
WEIGHT, BIAS = np.zeros((4, 1, 3, 3), np.float32), np.zeros(4, np.float32)
WRONG = [
    ({"weight": WEIGHT}, LAYER_0 + 'params has "weight": must have "weight" and "bias", of shapes (4, 1, 3, 3) and (4,)'),
    ({}, LAYER_0 + "params has no entries: must have"),
    ({"weight": WEIGHT, "bias": BIAS, "scale": BIAS}, LAYER_0 + 'params has "weight" and "bias" and "scale": must have'),
    ({"weight": BIAS, "bias": BIAS}, LAYER_0 + 'params["weight"] of shape (4,): must be (4, 1, 3, 3) for x of shape (2, 1, 10'),
    ({"weight": WEIGHT, "bias": WEIGHT}, LAYER_0 + 'params["bias"] of shape (4, 1, 3, 3): must be (4,)'),
    ({"weight": WEIGHT, "bias": None}, LAYER_0 + 'params["bias"]: must be an array, not NoneType'),
    (None, LAYER_0 + 'params=None: must be a dict with "weight" and "bias", not NoneType'),
]


@pytest.mark.parametrize(("params", "message"), WRONG)
def test_parameters_that_do_not_fit_name_the_layer_and_the_shapes(params, message):
    with pytest.raises(wg.WindowgradError) as caught:
        MODEL(changed(0, params), np.ones(GOOD, np.float32))
    assert str(caught.value).startswith(message)


def test_parameters_of_another_nesting_are_refused():
    params, x = MODEL.init(np.random.default_rng(0), GOOD), np.ones(GOOD, np.float32)
    with pytest.raises(wg.WindowError, match="Sequential: params has 4 entries, must have 5, one per layer"):
        MODEL(params[:4], x)
    with pytest.raises(wg.KindError, match="must be a tuple with one entry for each of 5 layers, not dict"):
        MODEL({}, x)
    with pytest.raises(
        wg.WindowError, match="layer 2 of Sequential, Sequential: params has 0 entries, must have 2, one per layer"
    ):
        MODEL((*params[:2], (), *params[3:]), x)
    with pytest.raises(
        wg.WindowError, match=r"layer 3 of Sequential, Flatten\(\): params has \"weight\" and \"bias\": must have no entries$"
    ):
        MODEL((*params[:3], params[0], params[4]), x)
    with pytest.raises(wg.KindError, match="x: must be an array, not list"):
        MODEL(params, [1.0])


# --- first parameters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "shape", "fan_in"),
    [
        (nn.Conv(50, (3, 3), groups=2), (1, 8, 9, 9), 36),
        (nn.ConvTranspose(8, (3, 3)), (1, 50, 9, 9), 72),
        (nn.Linear(50), (1, 100), 100),
    ],
    ids=repr,
)
def test_first_parameters_are_even_within_the_bound_that_pytorch_takes(layer, shape, fan_in):
    params = layer.init(np.random.default_rng(0), shape)
    bound = 1 / np.sqrt(fan_in)
    weight = params["weight"]
    assert weight.dtype == params["bias"].dtype == np.float32
    assert 0.99 * bound < abs(weight).max() <= np.float32(bound)
    assert abs(params["bias"]).max() <= np.float32(bound)
    assert abs(weight.mean()) < 0.05 * bound
    assert abs(weight.std() - bound / np.sqrt(3)) < 0.05 * bound


def test_the_same_generator_gives_the_same_parameters_in_every_dtype():
    narrow, wide = (nn.Linear(3).init(np.random.default_rng(5), (1, 4), dtype) for dtype in ("float16", np.float64))
    assert (narrow["weight"].dtype, wide["weight"].dtype) == (np.float16, np.float64)
    assert np.array_equal(wide["weight"].astype(np.float16), narrow["weight"])
    assert not np.array_equal(nn.Linear(3).init(np.random.default_rng(6), (1, 4), "float16")["weight"], narrow["weight"])


def test_nothing_is_drawn_when_a_layer_does_not_fit():
    rng = np.random.default_rng(0)
    with pytest.raises(wg.WindowError, match="layer 2 of"):
        MODEL.init(rng, (2, 1, 10, 6))
    assert rng.integers(1 << 40) == np.random.default_rng(0).integers(1 << 40)


@pytest.mark.parametrize("rng", [None, 0, np.random.RandomState(0), np.random])
def test_a_generator_is_needed(rng):
    for model in (MODEL, nn.Linear(3)):
        with pytest.raises(wg.KindError, match=r"rng=.*: must be a numpy.random.Generator; write numpy.random.default_rng"):
            model.init(rng, GOOD)


@pytest.mark.parametrize("dtype", [None, int, object, "complex64", "no such", 3])
def test_parameters_are_floats(dtype):
    with pytest.raises(wg.KindError, match=r"dtype=.*: must be float16, float32 or float64"):
        nn.Linear(3).init(np.random.default_rng(0), (1, 4), dtype)


def test_parameters_larger_than_memory_are_refused_before_they_are_drawn():
    with pytest.raises(wg.WindowError, match=r"Linear\(.*\): weight of shape .* this machine has"):
        nn.Linear(10**9).init(np.random.default_rng(0), (1, 10**9))


# --- the summary -------------------------------------------------------------------------------------------------

SUMMARY = """\
Sequential on an input of shape (64, 1, 28, 28)

     layer                                                        output shape     parameters  multiply-adds
------------------------------------------------------------------------------------------------------------
0    Conv(out_channels=8, kernel_size=(3, 3), padding=1)          (64, 8, 28, 28)          80      3,612,672
1.0  ReLU()                                                       (64, 8, 28, 28)           0              0
1.1  MaxPool(kernel_size=(2, 2))                                  (64, 8, 14, 14)           0              0
2    ConvTranspose(out_channels=4, kernel_size=(2, 2), stride=2)  (64, 4, 28, 28)         132      1,605,632
3    Flatten()                                                    (64, 3136)                0              0
4    Linear(out_features=10, bias=False)                          (64, 10)             31,360      2,007,040
------------------------------------------------------------------------------------------------------------
     total                                                                             31,572      7,225,344"""


def test_the_summary_counts_parameters_and_multiply_adds():
    model = nn.Sequential(
        nn.Conv(8, (3, 3), padding=1),
        nn.Sequential(nn.ReLU(), nn.MaxPool((2, 2))),
        nn.ConvTranspose(4, (2, 2), 2),
        nn.Flatten(),
        nn.Linear(10, bias=False),
    )
    assert model.summary((64, 1, 28, 28)) == SUMMARY


def test_a_lone_layer_has_a_summary_too():
    lines = nn.Linear(3).summary((2, 4)).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["layer", "output", "shape", "parameters", "multiply-adds"],
        ["-" * len(lines[3])],
        ["Linear(out_features=3)", "(2,", "3)", "15", "24"],
        ["-" * len(lines[3])],
        ["total", "15", "24"],
    ]
