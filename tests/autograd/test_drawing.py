"""The picture of a tape can be read: no box covers another, every text fits, and no edge runs behind a box."""

import doctest
import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

import windowgrad as wg
from support.paths import DOCS

TAG = "{http://www.w3.org/2000/svg}"


def network(tape):
    x = tape.leaf(np.ones((2, 1, 8, 8)), name="a rather long name of an input image", requires_grad=False)
    model = wg.nn.Sequential(
        wg.nn.Conv(3, (3, 3)), wg.nn.ReLU(), wg.nn.AdaptiveSmoothMaxPool((2, 2), beta=2), wg.nn.Flatten(), wg.nn.Linear(5)
    )
    params = model.init(np.random.default_rng(0), (2, 1, 8, 8))
    held = tuple({name: tape.leaf(value) for name, value in layer.items()} for layer in params)
    wg.cross_entropy(model(held, x), np.zeros(2, int))


def residual(tape):
    x = tape.leaf(np.ones((1, 4, 8, 8)), name="x")
    for _ in range(3):
        x = x + wg.relu(wg.conv2d(x, tape.leaf(np.ones((4, 4, 3, 3))), padding=1))


def tangled(tape):
    x = tape.leaf(np.ones((2, 3, 4, 5, 6, 7, 8)), name="x" * 60)
    y = wg.adaptive_smooth_max_pool3d(x, (2, 2, 2), beta=1)
    wg.sum(y) * wg.sum(wg.relu(x)) + wg.sum(wg.global_avg_pool3d(x)) * wg.sum(y) + wg.sum(x)


def squares(tape):
    x = tape.leaf(3.0)
    y = x * x
    y * y + x


TAPES = pytest.mark.parametrize("record", [network, residual, tangled, squares], ids=lambda record: record.__name__)


def drawn(record):
    tape = wg.Tape()
    record(tape)
    return tape, ElementTree.fromstring(tape.to_svg())


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def boxes(root):
    """(left, top, right, bottom) of each node."""
    found = [numbers(rect, "x", "y", "width", "height") for rect in root.iter(f"{TAG}rect")]
    return [(x, y, x + w, y + h) for x, y, w, h in found]


def points(path):
    """Many points of an edge, of which the commands are M, V and C."""
    x = y = 0.0
    for command, text in re.findall("([MVC])([^MVC]+)", path.get("d")):
        values = [float(number) for number in text.split()]
        if command == "M":
            x, y = values
        elif command == "V":
            yield from ((x, y + (values[0] - y) * t) for t in np.linspace(0, 1, 9))
            y = values[0]
        else:
            ends = np.array([x, y, *values]).reshape(4, 2)
            for t in np.linspace(0, 1, 33):
                weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3]
                yield tuple(weights @ ends)
            x, y = values[-2:]


@TAPES
def test_no_box_covers_another_and_all_are_inside_the_picture(record):
    tape, root = drawn(record)
    found = boxes(root)
    assert len(found) == len(tape.nodes)
    for a, b in combinations(found, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    left, top, width, height = map(float, root.get("viewBox").split())
    for a in found:
        assert left < a[0] < a[2] < left + width
        assert top < a[1] < a[3] < top + height


@TAPES
def test_every_text_fits_its_box(record):
    """Measured in DejaVu Sans, which is wider than Helvetica and Arial and stands in where they are missing."""
    _, root = drawn(record)
    for group in root.iter(f"{TAG}g"):
        (width,) = numbers(group.find(f"{TAG}rect"), "width")
        for text in group.iter(f"{TAG}text"):
            path = TextPath((0, 0), text.text, size=float(text.get("font-size")), prop=FontProperties(family="DejaVu Sans"))
            assert path.get_extents().width + 8 < width, text.text


@TAPES
def test_no_edge_runs_behind_a_box_and_each_begins_and_ends_at_one(record):
    tape, root = drawn(record)
    found, paths = boxes(root), root.findall(f"{TAG}path")
    edges = [(parent, i) for i, node in enumerate(tape.nodes) for parent in node.parents]
    assert len(paths) == len(edges)
    for path, (parent, child) in zip(paths, edges, strict=True):
        along = list(points(path))
        for x, y in along:
            assert not any(a < x < c and b < y < d for a, b, c, d in found)
        (x, y), (nx, ny) = along[0], along[-1]
        assert (found[parent][0] < x < found[parent][2], y) == (True, found[parent][3])
        assert (found[child][0] < nx < found[child][2], ny) == (True, found[child][1])


def test_an_argument_that_stands_twice_has_two_edges_to_be_seen():
    _, root = drawn(squares)
    paths = [path.get("d") for path in root.findall(f"{TAG}path")]
    assert len(set(paths)) == len(paths) == 6


def test_the_picture_of_the_page_is_that_of_its_example():
    """Else write it anew: docs/tape.svg is what this test compares it with, and a line end."""
    page = (DOCS / "differentiation.md").read_text(encoding="utf-8")
    known = {}
    for block in re.findall("```python\n(.*?)```", page[: page.index("tape.svg")], flags=re.DOTALL):
        for example in doctest.DocTestParser().get_examples(block):
            exec(compile(example.source, "differentiation.md", "exec"), known)
    assert (DOCS / "tape.svg").read_text(encoding="utf-8") == known["tape"].to_svg() + "\n"
