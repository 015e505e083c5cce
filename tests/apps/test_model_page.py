"""`windowgrad model`: the table of layers, and the page with the graph, in a real browser."""

import re
from pathlib import Path

import onnx
import pytest
from onnx import helper, parser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from support.browser import browser, quiet_page
from support.command import windowgrad
from support.small_model import save_small
from windowgrad.models.layers import in_short, layers
from windowgrad.models.page import as_html
from windowgrad.onnx import load

WINDOWS = """
<ir_version: 8, opset_import: ["" : 17]>
windows (float[N, 2, 8, 7] x) => (float[N, 2, 1, 1] y, float[N, 1, 15, 6] z)
<float[2, 1, 3, 2] w, float[2, 1, 3, 2] v>
{
    a = Conv<auto_pad = "SAME_UPPER", strides = [2, 1], group = 2>(x, w)
    b = MaxPool<kernel_shape = [2, 2], dilations = [1, 2], ceil_mode = 1, strides = [2, 2]>(a)
    c = AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(b)
    y = GlobalMaxPool(c)
    z = ConvTranspose<strides = [2, 1], pads = [1, 1, 1, 1], output_padding = [0, 0], dilations = [1, 1]>(x, v)
}"""


def windows_model():
    model = parser.parse_model(WINDOWS)
    weights = [helper.make_tensor(name, 1, [2, 1, 3, 2], [1.0] * 12) for name in "wv"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
    return model


def page_of(model, *shapes):
    net = load(model)
    return as_html(net, list(layers(net, shapes)), net.in_shapes(*shapes))


def test_the_table_and_the_page_are_written(tmp_path):
    save_small(tmp_path)
    found = windowgrad("model", "small.onnx", "--shape", "3x1x4", "--html", "page.html", cwd=tmp_path)
    assert (found.status, found.err) == (0, "")
    assert found.out.rstrip() == load(tmp_path / "small.onnx").summary((3, 1, 4))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "3 layers, 3 parameters, 36 multiply-adds for x: float32(3, 1, 4)" in page
    assert "MaxPool 2 /2" in page


def test_every_geometry_is_said_and_drawn():
    found = {layer.node.op_type: layer for layer in layers(load(windows_model()))}
    assert {name: in_short(layer.windows.geometry) for name, layer in found.items()} == {
        "Conv": "3×2 /2×1 p0:1",
        "MaxPool": "2×2 /2 d1×2 ceil",
        "AveragePool": "2×2 p1×0:0×1",
        "GlobalMaxPool": "all cells",
        "ConvTranspose": "3×2 /2×1 p1",
    }
    assert all(layer.windows.geometry.grid(layer.windows.cells) == layer.windows.grid for layer in found.values())
    page = page_of(windows_model())
    assert page.count("<figure><svg") == 2 * 5 - 1  # the global window is first and last
    assert "<figcaption>output (0, 0) sees cells 0 to 2 × cells 0 to 1</figcaption>" in page
    assert "<figcaption>output (3, 6) sees cells 6 to 7 + 1 padding × cell 6 + 1 padding</figcaption>" in page
    assert "<figcaption>input (0, 0) adds to cells 0 to 1 + 1 padding × cell 0 + 1 padding</figcaption>" in page


def test_windows_of_many_cells_are_said_and_not_drawn():
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
large (float[1, 1, 60, 60] x) => (float[1, 1, 1, 1] y) { y = GlobalAveragePool(x) }""")
    assert "<figure><figcaption>output (0, 0) sees cells 0 to 59 × cells 0 to 59</figcaption></figure>" in page_of(model)


def test_names_of_a_model_are_only_text():
    model = windows_model()
    model.graph.name = "<script>alert(1)</script>"
    model.graph.node[0].name = '"><img src=x onerror=alert(1)>'
    page = page_of(model)
    assert "<script>alert" not in page
    assert "<img" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx"], "none.onnx: cannot be read: No such file or directory"),
        (["small.onnx", "--shape", "1x1x5"], 'input "x" of shape (1, 1, 5): must be (N, 1, 4)'),
        (["small.onnx", "--shape", "1x1x4", "--shape", "1"], "2 shapes given: the network has 1 inputs"),
        (["small.onnx", "--shape", "wide"], "shape='wide': must be a number such as 3, or one per axis such as 3x5"),
        (["small.onnx", "--html", "none/page.html"], "html=none/page.html: the folder"),
        (["damaged.onnx"], "damaged.onnx: is not an ONNX file, or is truncated or damaged"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(tmp_path, arguments, message):
    save_small(tmp_path)
    (tmp_path / "damaged.onnx").write_bytes((tmp_path / "small.onnx").read_bytes()[:-40])
    found = windowgrad("model", *arguments, cwd=tmp_path)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"windowgrad: {message}"), found.err
    assert found.err.count("\n") == 1


# --- in the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    onnx.save(windows_model(), folder / "windows.onnx")
    assert windowgrad("model", "windows.onnx", "--html", "page.html", cwd=folder).status == 0
    return Path(folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def started():
    with browser() as found:
        yield found


@pytest.fixture
def chrome(started, address):
    with quiet_page(started, address) as page:
        yield page


def seen(chrome):
    return chrome.execute_script(
        "const b = document.getElementById('graph').viewBox.baseVal; return [b.x, b.y, b.width, b.height]"
    )


def shown(chrome):
    return [part.text.split("\n")[0] for part in chrome.find_elements(By.CSS_SELECTOR, ".layer") if part.is_displayed()]


def test_a_click_on_a_box_or_a_row_shows_the_windows_of_the_layer(chrome):
    assert shown(chrome) == ["Conv_0 Conv 3×2 /2×1 p0:1"]
    chrome.find_element(By.CSS_SELECTOR, '#graph [data-layer="1"]').click()
    assert shown(chrome) == ["MaxPool_1 MaxPool 2×2 /2 d1×2 ceil"]
    chrome.find_element(By.XPATH, "//tbody//a[.='GlobalMaxPool_3']").click()
    assert shown(chrome) == ["GlobalMaxPool_3 GlobalMaxPool all cells"]


def test_the_graph_can_be_zoomed_and_moved(chrome):
    before = seen(chrome)
    chrome.find_element(By.CSS_SELECTOR, '[aria-label="Zoom in"]').click()
    nearer = seen(chrome)
    assert nearer[2:] == pytest.approx([side / 1.25 for side in before[2:]])
    graph = chrome.find_element(By.CSS_SELECTOR, ".graph")
    ActionChains(chrome).move_to_element_with_offset(graph, 0, 0).click_and_hold().move_by_offset(60, 40).release().perform()
    moved = seen(chrome)
    assert moved[2:] == nearer[2:]
    assert moved[0] < nearer[0]
    assert moved[1] < nearer[1]
    chrome.find_element(By.XPATH, "//button[.='All']").click()
    whole = re.search(r'id="graph"[^>]* viewBox="([^"]*)"', Path(chrome.current_url.removeprefix("file://")).read_text("utf-8"))
    assert seen(chrome) == [float(number) for number in whole[1].split()]
