"""`wg.explain`: what it says of a call is true, on arrays of every kind, and what it draws is well-formed."""

from __future__ import annotations

import itertools
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import functional
from windowgrad.drawing.calls import names
from windowgrad.geometry import Adaptive, Sliding

X = np.array([[Fraction((5 * i + j) % 7 - 2, 2) for j in range(5)] for i in range(5)], dtype=object)
NUMBERS = X.astype(float)
MASK = NUMBERS != 1
WEIGHT = np.array([Fraction(i - 4, 3) for i in range(16)], dtype=object).reshape(2, 2, 2, 2)
CHANNELS = np.stack([X[:4, :4], -X[1:, 1:]])
BIAS = np.array([Fraction(1, 2), Fraction(-3)], dtype=object)
POOLED, INDICES = wg.max_pool2d(X, 2, 1, return_indices=True)

CALLS = {
    "padded maximum": (wg.max_pool2d, (X, 3, 2, 1), {}),
    "split ties": (wg.max_pool2d, (X // 2, 2), {"ties": "split"}),
    "minimum with a mask": (wg.min_pool2d, (X, 3, 2, 1), {"where": MASK}),
    "ceil mode": (wg.avg_pool1d, (X[0], 3, 2, 1, True), {}),
    "real cells only": (wg.avg_pool2d, (X, 3, 2, 1), {"count_include_pad": False}),
    "dilation": (wg.max_pool1d, (X[0], 2), {"dilation": 3, "padding": 1, "stride": 1}),
    "adaptive": (wg.adaptive_avg_pool2d, (X, (2, 3)), {}),
    "global, all ties": (wg.global_max_pool2d, (X,), {}),
    "global without axes": (wg.global_avg_pool, (X, 1), {"keepdims": False}),
    "empty windows": (wg.max_pool1d, (X[0], 1, 1, 2), {}),
    "three axes": (wg.avg_pool3d, (np.stack([X, X + 1, X * 2]), 2), {}),
    "smooth": (wg.smooth_max_pool2d, (NUMBERS, 3, 2, 1), {"beta": 2.0}),
    "smooth, an array of beta": (wg.smooth_max_pool1d, (NUMBERS, 2), {"beta": np.array([1.0, 2.0, -1.0, 3.0, 0.5])}),
    "p-norm": (wg.lp_pool2d, (NUMBERS, 3, 2), {}),
    "convolution": (wg.conv2d, (CHANNELS, WEIGHT, BIAS), {"padding": 1, "stride": 2}),
    "groups": (wg.conv2d, (CHANNELS, WEIGHT[:, :1], None), {"groups": 2, "dilation": 2}),
    "transposed": (wg.conv_transpose2d, (CHANNELS[:, :2, :2], WEIGHT, BIAS), {"stride": 2, "padding": 1, "output_padding": 1}),
    "transposed, groups": (wg.conv_transpose2d, (CHANNELS[:, :2, :2], WEIGHT[:, :1]), {"stride": 3, "groups": 2}),
    "unpooled, the last": (wg.max_unpool2d, (POOLED, INDICES, 2, 1), {}),
    "unpooled, added": (wg.max_unpool2d, (POOLED, INDICES, 2, 1), {"duplicates": "add"}),
    "zeros": (wg.pad, (X, [1, (0, 2)]), {}),
    "reflected": (wg.pad, (X, [2, 2], "reflect"), {}),
    "unpadded": (wg.unpad, (X, [1, (0, 2)]), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_shares_of_an_output_are_its_gradient_and_its_value_is_the_results(name):
    f, (x, *args), kwargs = CALLS[name]
    y, pull = wg.vjp(lambda x: f(x, *args, **kwargs), x)
    for output in itertools.product(*map(range, y.shape)):
        ((sight,),) = [[found for found, _ in row] for row in wg.explain(f, x, *args, output=output, **kwargs)._rows]
        assert sight.value == y[output] or abs(sight.value - y[output]) < 1e-12
        one = np.zeros(y.shape, dtype=x.dtype) + 0
        one[output] = 1
        (wanted,) = pull(one)
        found = np.zeros(x.shape, dtype=x.dtype) + 0
        for tap in sight.taps:
            planes = tuple(int(i) for i in tap.plane[2:-1].split(",")) if tap.plane else (0,) * (x.ndim - len(tap.place))
            assert tap.value == x[(*planes, *tap.place)]
            found[(*planes, *tap.place)] = tap.share
        if x.dtype == object:
            assert (found == wanted).all()
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_the_picture_is_well_formed_and_has_a_panel_for_each_output(name):
    f, args, kwargs = CALLS[name]
    explanation = wg.explain(f, *args, **kwargs)
    root = ElementTree.fromstring(explanation._repr_svg_())
    titles = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text") if text.get("class") == "t"]
    assert len(titles) == len(explanation.outputs)
    assert root.get("aria-label").startswith(f.__name__)
    assert explanation._repr_svg_() in explanation._repr_html_()


def test_the_text_has_the_arithmetic_and_the_way_back():
    text = str(wg.explain(wg.avg_pool1d, np.array([1.0, 2.0, 4.0, 8.0]), 3, 2, 1, ceil_mode=True))
    assert text.splitlines() == [
        "avg_pool1d(x: float64(4,), kernel_size=3, stride=2, padding=1, ceil_mode=True) -> (3,)",
        "",
        "output 0 = 1",
        "□ ■ ■ · ·",
        "  2 cells + 1 padding",
        "  (1 + 2) / 3 = 1",
        "  divisor 3: 2 + 1 padding",
        "  back: a gradient of 1 gives 1/3 to cell 0, 1/3 to cell 1; 1/3 is lost in the padding",
        "",
        "output 1 ≈ 4.66667",
        "  · ■ ■ ■",
        "  3 cells",
        "  (2 + 4 + 8) / 3 ≈ 4.66667",
        "  back: a gradient of 1 gives 1/3 to each of the 3 cells",
        "",
        "output 2 = 4",
        "  · · · ■ □ ×",
        "  1 cell + 1 padding, 1 past the padding",
        "  8 / 2 = 4",
        "  divisor 2: 1 + 1 padding",
        "  back: a gradient of 1 gives 1/2 to cell 3; 1/2 is lost in the padding",
        "",
        "■ seen   · not seen   □ padding it covers   × past the padding",
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ((wg.max_pool1d, np.array([1, 3, 3]), 3), 'max(1, 3, 3) = 3\n  2 cells are equal; ties="first": the first gets'),
        ((wg.lp_pool1d, np.array([3.0, -4.0]), 2, 2), "(|3|^2 + |−4|^2)^(1/2) = 5"),
        ((wg.conv1d, np.array([[1.0, 2.0]]), np.array([[[0.5, -2.0]]]), np.array([3.0])), "1·0.5 + 2·(−2) + bias 3 = −0.5"),
        ((wg.reduce_windows, np.array([1, 2]), Sliding((2,)), np.add, 5), "add folds 5, 1, 2 = 8"),
        ((wg.reduce_windows, np.array([1, 2]), Adaptive((1,)), lambda a, b: b), "<lambda> folds 1, 2 = 2"),
        ((wg.global_avg_pool1d, np.ones(40)), "(1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + … 29 more … + 1) / 40 = 1"),
        ((wg.avg_pool1d, np.ma.array([2.0, 4.0], mask=[0, 1]), 2), "1 cell, 1 left out by the mask\n  2 / 1 = 2"),
        ((wg.pad, np.array([1, 2]), [1], "circular"), "outside x, at -1: circular takes cell 1 = 2"),
    ],
)
def test_every_operator_has_its_own_words(call, words):
    assert words in str(wg.explain(*call))


def test_every_name_in_the_error_can_be_explained_and_nothing_else():
    with pytest.raises(wg.KindError, match=r"^f=exp: cannot be explained; must be one of wg.max_pool, .*wg.unpad, .*global_$"):
        wg.explain(wg.exp, X)
    for wrong in (wg.pool_out_shape, max, np.max, None, "max_pool2d"):
        with pytest.raises(wg.KindError, match="cannot be explained"):
            wg.explain(wrong, X)
    assert {f.__name__.rstrip("123d").replace("global_", "").replace("adaptive_", "") for f, _, _ in CALLS.values()} | {
        "reduce_windows"
    } == {name.rstrip("123d").replace("global_", "").replace("adaptive_", "") for name in names()}


def test_a_wrong_argument_is_the_error_of_the_function_itself():
    for args in [(X, -1), (X, 9), ([[1]], 2), (X.astype(complex), 2)]:
        with pytest.raises(wg.WindowgradError) as its_own:
            wg.max_pool2d(*args)
        with pytest.raises(type(its_own.value)) as found:
            wg.explain(wg.max_pool2d, *args)
        assert str(found.value) == str(its_own.value)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'kernel_size'"):
        wg.explain(functional.max_pool2d, X)


@pytest.mark.parametrize("output", [(2, 2), (0,), (0, 0, 0), -1, "a", (True, 0), (0.0, 0)])
def test_an_output_that_does_not_exist_is_refused(output):
    with pytest.raises(wg.WindowError, match=r"output=.*: must be an index into the output of shape \(2, 2\)"):
        wg.explain(wg.max_pool2d, X, 2, output=output)


def test_an_output_is_chosen_in_the_first_plane_or_by_its_whole_index():
    x = np.arange(60).reshape(3, 4, 5)
    assert wg.explain(wg.max_pool2d, x, 2, output=(1, 1)).outputs == [(0, 1, 1)]
    assert wg.explain(wg.max_pool2d, x, 2, output=(2, 1, 1)).outputs == [(2, 1, 1)]
    assert wg.explain(wg.max_pool2d, x, 1).outputs == [(0, i, j) for i in range(2) for j in range(3)]
    with pytest.raises(wg.WindowError, match="has no cell to explain"):
        wg.explain(wg.max_pool2d, x[:0], 2)


def test_of_a_large_input_only_the_neighbourhood_is_drawn_and_a_huge_window_is_refused():
    x = np.arange(1_000_000.0).reshape(1000, 1000)
    found = wg.explain(wg.max_pool2d, x, 3, output=(100, 0))
    assert "drawn: [299:304, 0:4] of (1000, 1000)" in str(found)
    assert found.to_svg().count("<rect") == 1 + 5 * 4 + 2
    assert "drawn: [90:100, 90:100] of (100, 100)" in str(wg.explain(wg.global_max_pool2d, x[:100, :100]))
    with pytest.raises(wg.WindowError, match="x: an output sees 1000000 cells of it; at most 131,072 can be explained"):
        wg.explain(wg.global_max_pool2d, x)
    with pytest.raises(wg.WindowError, match="x: an output sees 1000000000 cells of it"):
        wg.explain(wg.max_pool1d, x[0], 10**9, padding=10**9, stride=10**9)


def test_many_channels_are_cut_and_said_so():
    found = wg.explain(wg.conv1d, np.ones((6, 3)), np.ones((1, 6, 2)))
    assert "drawn: 4 of 6 channels" in str(found)
    assert found.to_svg().count("x[3]") == 2


def test_arrays_of_other_libraries_give_the_same_text():
    import dask.array as da
    import jax.numpy as jnp
    import torch

    x = NUMBERS.astype(np.float32)
    given = [torch.tensor(x, requires_grad=True), torch.tensor(x).bfloat16(), jnp.asarray(x), da.from_array(x, chunks=2)]
    wanted = str(wg.explain(wg.max_pool2d, x, 3, 2, 1)).partition("\n")[2]
    for array in [*given, wg.Tape().leaf(x), x[::-1][::-1]]:
        assert str(wg.explain(wg.max_pool2d, array, 3, 2, 1)).partition("\n")[2] == wanted
    lazy = wg.explain(wg.avg_pool2d, da.zeros((10**5, 10**5), chunks=10**4), 3, output=(5000, 2))
    assert "drawn: [14999:15004, 5:10] of (100000, 100000)" in str(lazy)
    masked = wg.explain(wg.max_pool2d, torch.tensor(x), 2, where=torch.tensor(x) < 2, output=(0, 0))
    assert str(masked).partition("\n")[2] == str(wg.explain(wg.max_pool2d, x, 2, where=x < 2, output=(0, 0))).partition("\n")[2]
    with pytest.raises(wg.KindError, match="x: the values of a Tensor cannot be taken"):
        wg.explain(wg.max_pool2d, torch.zeros(4, 4, device="meta"), 2)


def test_a_given_out_is_written_as_by_the_function():
    out = np.zeros((2, 2))
    wg.explain(wg.max_pool2d, NUMBERS, 2, out=out)
    assert (out == wg.max_pool2d(NUMBERS, 2)).all()


class Marked(int):
    def __str__(self):
        return "<b>&\"'"


def test_text_of_the_user_is_escaped():
    x = np.array([Marked(1), Marked(2)], dtype=object)
    for explanation in (
        wg.explain(wg.max_pool1d, x, 2),
        wg.explain(wg.reduce_windows, x, Sliding((2,)), lambda a, b: b),
    ):
        svg = explanation.to_svg()
        ElementTree.fromstring(svg)
        assert "<b>" not in svg
        assert "&lt;b&gt;" in svg


def test_a_file_is_not_replaced_unasked(tmp_path):
    explanation = wg.explain(wg.max_pool2d, X, 2)
    path = tmp_path / "window.svg"
    explanation.save(path)
    assert path.read_text("utf-8") == explanation.to_svg()
    path.write_text("mine")
    with pytest.raises(wg.OptionError, match=r"window\.svg.*: exists; overwrite=True replaces it"):
        explanation.save(path)
    assert path.read_text() == "mine"
    explanation.save(str(path), overwrite=True)
    assert path.read_text("utf-8") == explanation.to_svg()
    with pytest.raises(wg.OptionError, match=r"path='window.png': must end in \.svg"):
        explanation.save("window.png")
    with pytest.raises(wg.OptionError, match="does not exist"):
        explanation.save(tmp_path / "no" / "window.svg")
    assert [file.name for file in tmp_path.iterdir()] == ["window.svg"]


def test_its_repr_is_one_line():
    assert repr(wg.explain(wg.max_pool1d, np.arange(4), 2)) == (
        "<Explanation of max_pool1d(x: int64(4,), kernel_size=2): 0, 1>"
    )
