"""What a notebook shows of a network: its layers as a table, and its summary with all the numbers of the text."""

import copy
import pickle
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pytest

from windowgrad import nn

SHAPE = (2, 3, 8, 8)
BODY = nn.Sequential(nn.Conv(4, (3, 3), 2, 1), nn.BatchNorm(), nn.ReLU())
NETWORKS = {
    "a layer": nn.Conv(4, (3, 3)),
    "layers": nn.Sequential(nn.Conv(4, (3, 3)), nn.ReLU(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(5)),
    "blocks": nn.Sequential(nn.Residual(BODY, nn.Conv(4, (1, 1), 2)), nn.Sequential(nn.Flatten(), nn.Linear(5))),
    "a block": nn.Residual(nn.ReLU()),
    "nothing": nn.Sequential(),
}
every = pytest.mark.parametrize("model", NETWORKS.values(), ids=NETWORKS)


def table(text):
    """(caption, [[cell of a row]]), of a table that is well formed."""
    root = ElementTree.fromstring(text)
    assert root.tag == "table"
    rows = [[cell.text or "" for cell in row] for row in root.iter("tr")]
    assert len({len(row) for row in rows}) == 1
    return root.find("caption").text, rows


@every
def test_a_model_shows_its_layers(model):
    caption, (heads, *lines) = table(model._repr_html_())
    assert (caption, heads) == (type(model).__name__, ["", "layer"])
    assert lines == [[row.place, row.layer] for row in model.rows(SHAPE, "")]


@every
def test_a_summary_shows_what_its_text_says(model):
    summary = model.summary(SHAPE)
    caption, lines = table(summary._repr_html_())
    title, _, *text = summary.splitlines()
    assert caption == title
    printed = [line.split() for line in text if set(line) != {"-"}]
    assert [" ".join(cells).split() for cells in lines] == printed
    assert lines[-1][1] == "total"
    assert str(summary) == summary
    assert isinstance(summary, str)
    for twin in (copy.deepcopy(summary), pickle.loads(pickle.dumps(summary))):
        assert (twin, twin._repr_html_()) == (summary, summary._repr_html_())


def test_numbers_are_to_the_right_and_names_to_the_left():
    root = ElementTree.fromstring(NETWORKS["layers"].summary(SHAPE)._repr_html_())
    for row in root.iter("tr"):
        assert [cell.get("style") for cell in row] == ["text-align: left"] * 3 + ["text-align: right"] * 2


def test_a_layer_of_a_users_own_may_have_any_name():
    @dataclass(frozen=True, repr=False)
    class Odd(nn.Layer):
        name: str

        def result(self, shape):
            return shape

        def apply(self, params, x):
            return x

    odd = Odd("<b>&")
    assert table(odd._repr_html_())[1][1] == ["", "Odd(name='<b>&')"]
    assert table(nn.Sequential(odd, odd).summary((1,))._repr_html_())[1][2][:2] == ["1", "Odd(name='<b>&')"]


def test_a_compiled_model_shows_what_it_computes():
    model = nn.Sequential(nn.Conv(4, (3, 3)), nn.BatchNorm(), nn.ReLU())
    compiled = nn.compile(model, model.init(np.random.default_rng(0), SHAPE))
    assert table(compiled._repr_html_())[1][1:] == [["0", "Conv(out_channels=4, kernel_size=(3, 3))"], ["1", "ReLU()"]]
