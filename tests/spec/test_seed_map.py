"""docs/seed-map.md has every definition with an example, and the trickiest of them mean what their pages say.

The oracles below are literal loops over dicts of fractions, written from the words of those pages and sharing no code
with the library.
"""

import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.log2 import Log2
from support.paths import DOCS
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, SmoothParams

MAX, MEAN, SMOOTH = OPS["max_pool"], OPS["avg_pool"], OPS["smooth_max_pool"]

# --- every definition is on the page -----------------------------------------------------------------------------

DEFINITIONS = {
    "N-D pooling (`NN.Spec.Layers.Pooling.ND`)": """
        MaxPoolSpec AvgPoolSpec poolOutSpatial poolOutSpatialPad
        poolOutShape poolMultiOutShape poolOutShapePad poolMultiOutShapePad
        Private.tensorOfDims Private.foldlIndices' Private.paddedCoords? Private.unpadCoords?
        Private.getPaddedAverageInputVal Private.getPaddedMaxInputVal?
        Private.maxPoolValue Private.maxPoolJvpValue Private.avgPoolValue
        Private.smoothMaxPoolValue Private.smoothMaxPoolJvpValue
        maxPoolSpatialSpec avgPoolSpatialSpec smoothMaxPoolSpatialSpec maxPoolSpec avgPoolSpec smoothMaxPoolSpec
        maxPoolSpatialJvpSpec maxPoolJvpSpec smoothMaxPoolSpatialJvpSpec smoothMaxPoolJvpSpec
        maxPoolSpatialBackwardSpec maxPoolBackwardSpec avgPoolSpatialBackwardSpec avgPoolBackwardSpec
        smoothMaxPoolSpatialBackwardSpec smoothMaxPoolBackwardSpec
    """,
    "Padded 2D pooling (`NN.Spec.Layers.Pooling.PaddedTwoD`)": """
        unpadImage unpadMultiChannel maxPool2dMultiSpecPad maxPool2dMultiJvpSpecPad maxPool2dMultiBackwardSpecPad
        avgPool2dMultiSpecPad avgPool2dMultiBackwardSpecPad smoothMaxPool2dBackwardSpec smoothMaxPool2dMultiBackwardSpec
    """,
    "Global pooling (`NN.Spec.Layers.GlobalPooling`)": """
        GlobalAvgPool2DSpec GlobalMaxPool2DSpec (C,1,1) (C)
        reduceSpatial globalChannelReduce channelSpatialMax globalPool2d1x1 globalPool2dFlat
        globalAvgPool2dSpec globalMaxPool2dSpec globalAvgPool2dFlatSpec globalMaxPool2dFlatSpec
        globalAvgPool2dBackwardSpec globalAvgPool2dFlatBackwardSpec
        globalMaxPool2dBackwardSpec globalMaxPool2dFlatBackwardSpec globalMaxPool2dBackwardDistributedSpec
    """,
    "Tape (`NN.Runtime.Autograd.Engine.Core.ConvPool`)": """
        Tape.conv Tape.conv2d Tape.convTranspose Tape.convTranspose2d Tape.maxPool Tape.avgPool Tape.smoothMaxPool
        Tape.maxPool2d Tape.maxPool2dPad Tape.smoothMaxPool2d Tape.avgPool2d Tape.avgPool2dPad
        Result name value parents backward
    """,
    "2D pooling (`NN.Spec.Layers.Pooling.TwoD`)": """
        MaxPool2DSpec AvgPool2DSpec
        smoothMaxPool2dSpec smoothMaxPool2dMultiSpec smoothMaxPool2dJvpSpec smoothMaxPool2dMultiJvpSpec
        maxPool2dSpec maxPool2dMultiSpec maxPool2dJvpSpec maxPool2dMultiJvpSpec
        maxPool2dBackwardSpec maxPool2dMultiBackwardSpec avgPool2dSpec avgPool2dMultiSpec avgPool2dBackwardSpec
        adaptiveStart adaptiveEnd AdaptiveAvgPool2d AdaptiveMaxPool2d
    """,
}


DEFINITIONS = {section: tuple(names.split()) for section, names in DEFINITIONS.items()}


def parts(text, mark):
    """(heading, what stands under it) for every heading of one level."""
    return [tuple(part.split("\n", 1)) for part in re.split(rf"^{mark} ", text, flags=re.MULTILINE)[1:]]


PAGE = (DOCS / "seed-map.md").read_text(encoding="utf-8")
SECTIONS = dict(parts(PAGE, "##"))


def test_the_page_has_the_five_sections_and_no_other():
    assert list(SECTIONS) == list(DEFINITIONS)


@pytest.mark.parametrize("section", DEFINITIONS)
def test_every_definition_stands_in_exactly_one_heading_of_its_section(section):
    named = [name for heading, _ in parts(SECTIONS[section], "###") for name in re.findall("`(.+?)`", heading)]
    assert sorted(named) == sorted(DEFINITIONS[section])


@pytest.mark.parametrize("section", DEFINITIONS)
def test_every_heading_has_a_sentence_and_then_exactly_one_executed_block(section):
    for heading, body in parts(SECTIONS[section], "###"):
        assert body.count("```python\n>>> ") == body.count("```python") == body.count("```") / 2 == 1, heading
        sentence = body.partition("```python")[0].strip()
        assert sentence[:1].isalnum() or sentence.startswith("(1/β)"), heading
        assert sentence.endswith((".", ":")), heading


def test_the_page_speaks_the_public_functions():
    """Derivatives by the transforms, the tape by the tape: the records behind them are the business of other pages."""
    assert "OPS[" not in PAGE
    assert "later version" not in PAGE
    for heading, body in parts(SECTIONS["Tape (`NN.Runtime.Autograd.Engine.Core.ConvPool`)"], "###"):
        assert "wg.Tape()" in body, heading
    rows = [row for text in SECTIONS.values() for row in parts(text, "###")]
    derivatives = [(heading, body) for heading, body in rows if re.search("(Jvp|Backward).*Spec", heading)]
    assert len(derivatives) == 13
    for heading, body in derivatives:
        assert "Jvp" not in heading or "wg.jvp(" in body, heading
        assert "Backward" not in heading or "wg.vjp(" in body, heading


# --- oracles -----------------------------------------------------------------------------------------------------


def look(x, o, w, stride, padding):
    """The cell that place `w` of the kernel sees from output `o`, or None if it lies in the padding."""
    padded = [i * s + j for i, j, s in zip(o, w, stride, strict=True)]
    cell = tuple(p - lo for p, lo in zip(padded, padding, strict=True))
    return cell if cell in x else None


def window(x, o, kernel, stride, padding):
    """What each place of the kernel sees, in row-major order."""
    return [look(x, o, w, stride, padding) for w in product(*map(range, kernel))]


def first_best(x, seen):
    best = None
    for cell in seen:
        if cell is not None and (best is None or x[cell] > x[best]):
            best = cell
    return best


def as_dict(array):
    return {index: array[index] for index in np.ndindex(*array.shape)}


def as_array(cells, shape):
    array = np.empty(shape, dtype=object)
    for index, value in cells.items():
        array[index] = value
    return array


def fractions(values):
    return np.array(values, dtype=object) + Fraction(0)


@st.composite
def problems(draw):
    """(x, dx, g, kernel, stride, padding): small, with many ties, windows that overlap, overreach or see nothing."""
    axes = draw(st.lists(st.tuples(*(st.integers(*r) for r in ((1, 4), (1, 3), (1, 3), (0, 3)))), min_size=1, max_size=3))
    axes = [(max(n, k - 2 * p), k, s, p) for n, k, s, p in axes]
    spatial, kernel, stride, padding = zip(*axes, strict=True)
    out = [(n + 2 * p - k) // s + 1 for n, k, s, p in axes]  # poolOutSpatialPad

    def cells(shape):
        values = draw(st.lists(st.integers(-2, 2), min_size=math.prod(shape), max_size=math.prod(shape)))
        return fractions(values).reshape(shape)

    return cells(spatial), cells(spatial), cells(out), kernel, stride, padding


ROUTES = pytest.mark.parametrize("kind", [object, np.float64], ids=["specification", "kernel"])


@ROUTES
@given(problems())
def test_max_pool_spatial_spec_with_its_jvp_and_backward(kind, problem):
    """The winner is the first of the greatest real cells; no real cell: value and tangent 0, and nothing goes back."""
    x, dx, g, kernel, stride, padding = problem
    cells, y, dy, gx = as_dict(x), {}, {}, dict.fromkeys(np.ndindex(*x.shape), 0)
    for o in np.ndindex(*g.shape):
        best = first_best(cells, window(cells, o, kernel, stride, padding))
        y[o], dy[o] = (0, 0) if best is None else (x[best], dx[best])
        if best is not None:
            gx[best] += g[o]
    params = MaxParams(Sliding(kernel, stride, padding))
    x, dx, g = (a.astype(kind) for a in (x, dx, g))
    assert (MAX.forward(params, x) == as_array(y, g.shape)).all()
    assert (MAX.jvp(params, x, dx) == as_array(dy, g.shape)).all()
    assert (MAX.vjp(params, x, g)[0] == as_array(gx, x.shape)).all()


@given(problems())
def test_avg_pool_spatial_spec_and_backward(problem):
    """The sum over the kernel's size, padded zeros counted; each gradient is spread evenly over the kernel window."""
    x, _, g, kernel, stride, padding = problem
    cells, size = as_dict(x), math.prod(kernel)
    y, gx = {}, dict.fromkeys(cells, Fraction(0))
    for o in np.ndindex(*g.shape):
        seen = [cell for cell in window(cells, o, kernel, stride, padding) if cell is not None]
        y[o] = sum((cells[cell] for cell in seen), start=Fraction(0)) / size
        for cell in seen:
            gx[cell] += g[o] / size
    params = MeanParams(Sliding(kernel, stride, padding))
    assert (MEAN.forward(params, x) == as_array(y, g.shape)).all()
    assert (MEAN.vjp(params, x, g)[0] == as_array(gx, x.shape)).all()


@given(problems(), st.sampled_from([1, 2, -1, -3]))
def test_smooth_max_pool_spatial_jvp_and_backward(problem, beta):
    """Shares of Σ exp(β·x), in which each padded zero is 1. The cells are k·log 2, so every share is a fraction."""
    powers, dx, g, kernel, stride, padding = problem
    cells = {cell: Fraction(2) ** int(beta * k) for cell, k in as_dict(powers).items()}
    dy, gx = {}, dict.fromkeys(cells, Fraction(0))
    for o in np.ndindex(*g.shape):
        seen = window(cells, o, kernel, stride, padding)
        total = sum(Fraction(1) if cell is None else cells[cell] for cell in seen)
        real = [cell for cell in seen if cell is not None]
        dy[o] = sum((cells[cell] / total * dx[cell] for cell in real), start=Fraction(0))
        for cell in real:
            gx[cell] += cells[cell] / total * g[o]
    x = np.vectorize(lambda k: Log2(int(k)), otypes=[object])(powers)
    params = SmoothParams(Sliding(kernel, stride, padding), beta)
    assert (SMOOTH.jvp(params, x, dx) == as_array(dy, g.shape)).all()
    assert (SMOOTH.vjp(params, x, g)[0] == as_array(gx, x.shape)).all()


@given(problems())
def test_taps_are_the_padded_coordinates_that_come_back_from_unpadding(problem):
    x, _, g, kernel, stride, padding = problem
    geometry, cells = Sliding(kernel, stride, padding), as_dict(x)
    assert geometry.out_shape(x.shape) == g.shape
    for o in np.ndindex(*g.shape):
        seen = window(cells, o, kernel, stride, padding)
        assert geometry.taps(o, x.shape) == [cell for cell in seen if cell is not None]
        assert geometry.padded(o, x.shape) == seen.count(None)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 1, 1), (3, 2, 1), (2, 2, 2), (3, 1, 3)])
def test_avg_pool_2d_backward_with_padding_is_backprop_then_unpad(kernel, stride, padding):
    random = np.random.default_rng(0)
    x = fractions(random.integers(-9, 9, (2, 3, 4)))
    params = MeanParams(Sliding((kernel, kernel), stride, padding))
    g = fractions(random.integers(-9, 9, params.out_shape(x.shape)))
    image = fractions(np.zeros((2, 3 + 2 * padding, 4 + 2 * padding), dtype=int))
    for (c, i, j), gradient in as_dict(g).items():
        for di, dj in product(range(kernel), range(kernel)):
            image[c, i * stride + di, j * stride + dj] += gradient / kernel**2
    (gx,) = MEAN.vjp(params, x, g)
    (whole,) = MEAN.vjp(MeanParams(Sliding((kernel, kernel), stride)), wg.pad(x, (padding, padding)), g)
    assert (whole == image).all()
    assert (wg.unpad(whole, (padding, padding)) == gx).all()
    assert (gx == image[:, padding : 3 + padding, padding : 4 + padding]).all()


def test_adaptive_start_and_end_are_floor_and_ceil():
    for n, m in product(range(1, 13), repeat=2):
        ends = [(math.floor(Fraction(i * n, m)), math.ceil(Fraction((i + 1) * n, m))) for i in range(m)]
        assert wg.adaptive_bins(n, m) == ends
        assert Adaptive((m,)).out_shape((n,)) == (m,)


@ROUTES
@pytest.mark.parametrize("out", list(product((1, 2, 3, 5), (1, 2, 4))), ids=str)
def test_adaptive_pooling_takes_mean_and_maximum_of_each_bin_starting_from_its_first_cell(kind, out):
    x = fractions(np.random.default_rng(0).integers(-9, 0, (2, 3, 4)))  # all negative: a sentinel of 0 would show
    rows, columns = (wg.adaptive_bins(n, m) for n, m in zip((3, 4), out, strict=True))
    most, mean = {}, {}
    for c, (i, (top, bottom)), (j, (left, right)) in product(range(2), enumerate(rows), enumerate(columns)):
        cells = [x[c, a, b] for a in range(top, bottom) for b in range(left, right)]
        most[c, i, j], mean[c, i, j] = max(cells), sum(cells) / len(cells)
    assert (wg.adaptive_max_pool2d(x.astype(kind), out) == as_array(most, (2, *out))).all()
    wanted = as_array(mean, (2, *out))
    assert (wg.adaptive_avg_pool2d(x.astype(kind), out) == wanted.astype(kind)).all()


@ROUTES
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("ties", ["all", "split"])
@given(st.lists(st.integers(-1, 1), min_size=12, max_size=12))
def test_global_max_pool_2d_backward_gives_each_maximum_all_of_the_gradient_or_an_even_part(kind, keepdims, ties, values):
    x, g = fractions(values).reshape(2, 2, 3), fractions([60, -120])  # 60 is divided by 1 to 6 without a rest
    wanted = fractions(np.zeros((2, 2, 3), dtype=int))
    for c in range(2):
        best = max(x[c].flat)
        places = [(c, i, j) for i in range(2) for j in range(3) if x[c, i, j] == best]
        for place in places:
            wanted[place] = g[c] / (len(places) if ties == "split" else 1)
    arrived = g.reshape(2, 1, 1) if keepdims else g
    params = MaxParams(Global(2, keepdims), ties=ties)
    assert (MAX.vjp(params, x.astype(kind), arrived.astype(kind))[0] == wanted).all()


def test_global_avg_pool_2d_backward_divides_by_height_times_width():
    x, g = fractions(np.zeros((2, 2, 3), dtype=int)), fractions([1, 5])
    for keepdims, arrived in ((True, g.reshape(2, 1, 1)), (False, g)):
        (gx,) = MEAN.vjp(MeanParams(Global(2, keepdims)), x, arrived)
        assert [set(channel.flat) for channel in gx] == [{Fraction(1, 6)}, {Fraction(5, 6)}]


def test_tape_conv_backward_gives_input_kernel_and_bias_their_gradients():
    """From the sum that convolution is, product by product; the pages have no batch axis."""
    random = np.random.default_rng(0)
    x, w, b = (fractions(random.integers(-9, 9, shape)) for shape in ((2, 4, 5), (3, 2, 3, 2), (3,)))
    params = ConvParams(Sliding((3, 2), 2, 1))
    y = fractions(np.zeros(params.out_shape(x.shape, w.shape, b.shape), dtype=int))
    g = fractions(random.integers(-9, 9, y.shape))
    gx, gw, gb = (a * 0 for a in (x, w, b))
    for f, i, j in np.ndindex(*y.shape):
        y[f, i, j] += b[f]
        gb[f] += g[f, i, j]
        for c, di, dj in np.ndindex(*w.shape[1:]):
            row, column = 2 * i + di - 1, 2 * j + dj - 1
            if 0 <= row < 4 and 0 <= column < 5:
                y[f, i, j] += w[f, c, di, dj] * x[c, row, column]
                gx[c, row, column] += g[f, i, j] * w[f, c, di, dj]
                gw[f, c, di, dj] += g[f, i, j] * x[c, row, column]
    for kind in (object, np.float64):  # small integers: sums of floats are exact
        arrays = [a.astype(kind) for a in (x, w, b)]
        assert (wg.conv2d(*arrays, stride=2, padding=1) == y).all()
        for got, wanted in zip(OPS["conv"].vjp(params, *arrays, g.astype(kind)), (gx, gw, gb), strict=True):
            assert (got == wanted).all()


def test_an_error_comes_before_any_work():
    """The cells refuse every operation, so a result or another error would show that work had begun."""

    class Untouchable:
        __add__ = __mul__ = __gt__ = __eq__ = lambda *_: pytest.fail("work had begun")

    x = np.array([[Untouchable() for _ in range(4)]], dtype=object)
    for name, params, *others in (
        ("max_pool", MaxParams(Sliding((5,)))),
        ("max_pool", MaxParams(Sliding((2,), padding=2), empty="raise")),
        ("conv", ConvParams(Sliding((2,), 1)), x[None, :, :2], x[0]),
        ("conv", ConvParams(Sliding((2,), 1)), np.stack([x[:, :2], x[:, :2]], axis=1)),
    ):
        with pytest.raises(wg.WindowError):
            OPS[name].forward(params, x, *others)
    with pytest.raises(wg.WindowError, match="g of shape"):
        MAX.vjp(MaxParams(Sliding((2,))), x, x)
