"""`windowgrad explore`: the file that it writes, and the page in a real browser."""

import webbrowser
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import windowgrad as wg
from support.browser import browser, quiet_page
from support.command import windowgrad
from support.explorer import addresses, asked
from windowgrad.conform.case import OPS, Case
from windowgrad.conform.known import load
from windowgrad.explore.facts import FEATURES, NEVER, facts
from windowgrad.explore.page import html

# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was asked to open."""
    found = []
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) or True)
    return found


def test_the_page_is_written_and_opened(tmp_path, opened):
    found = windowgrad("explore", "--output", "page.html", cwd=tmp_path)
    assert found == (0, "page.html\n", "")
    assert (tmp_path / "page.html").read_text("utf-8") == html()
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_by_default_the_page_is_in_the_cache_folder_of_the_user(tmp_path, opened, monkeypatch):
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "kept"))
    assert windowgrad("explore", cwd=tmp_path) == (0, f"{tmp_path}/kept/explorer.html\n", "")
    assert opened == [(tmp_path / "kept" / "explorer.html").as_uri()]


def test_without_a_cache_folder_the_page_is_in_a_temporary_one(tmp_path, opened, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "file" / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = windowgrad("explore", "--no-open", cwd=tmp_path)
    assert (found.status, opened) == (0, [])
    assert Path(found.out.strip()).parent.parent == tmp_path
    assert Path(found.out.strip()).read_text("utf-8") == html()


def test_without_a_browser_the_command_says_where_the_page_is(tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    found = windowgrad("explore", "--output", "page.html", cwd=tmp_path)
    assert found == (0, "No browser could be opened; the page is here:\npage.html\n", "")


def test_a_page_is_replaced_and_another_file_only_if_asked(tmp_path, opened):
    (tmp_path / "page.html").write_text("of another program")
    call = ("explore", "--no-open", "--output", "page.html")
    found = windowgrad(*call, cwd=tmp_path)
    hint = "choose another name, or replace it with --overwrite"
    assert found == (2, "", f"windowgrad: output=page.html: exists and was not written by windowgrad explore; {hint}\n")
    assert (tmp_path / "page.html").read_text() == "of another program"
    for options in (("--overwrite",), ()):
        assert windowgrad(*call, *options, cwd=tmp_path).status == 0
        assert (tmp_path / "page.html").read_text("utf-8") == html()
    assert opened == []


def test_a_place_where_nothing_can_be_written_is_one_line_and_status_2(tmp_path):
    found = windowgrad("explore", "--output", "none/page.html", cwd=tmp_path)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("windowgrad: output=none/page.html: the folder")


def test_the_features_that_the_page_can_tell_are_words_of_conform():
    words = {word for known in load() for word in (*known.features, *known.without)}
    assert {word for entry in facts()["known"] for word in entry["features"]} <= words & FEATURES
    assert {known.id for known in load()} >= NEVER


# --- in the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    page = tmp_path_factory.mktemp("explorer") / "page.html"
    page.write_text(html(), "utf-8")
    return page.as_uri()


@pytest.fixture(scope="module")
def started():
    with browser() as found:
        yield found


@pytest.fixture
def chrome(started, address):
    with quiet_page(started, address, ("data:,", "about:blank")) as page:
        yield page


def go(chrome, hash_):
    """Another state, as a link on the page leads to it."""
    chrome.execute_script("location.hash = arguments[0]", hash_)


def follows(chrome, end):
    """Wait for the address, which follows when the reader pauses."""
    WebDriverWait(chrome, 10).until(lambda chrome: chrome.current_url.endswith(end))


def text(chrome, selector):
    return chrome.find_element(By.CSS_SELECTOR, selector).text


def values(chrome, grid):
    return [cell.text for cell in chrome.find_elements(By.CSS_SELECTOR, f"#{grid} .cell")]


def places(chrome, classes):
    return [cell.get_attribute("data-place") for cell in chrome.find_elements(By.CSS_SELECTOR, f"#input-grid .{classes}")]


def test_the_arrow_keys_lead_from_window_to_window(chrome):
    go(chrome, "#op=max_pool&size=6x6&kernel=3&stride=2&padding=1&ceil=1&seed=5")
    assert text(chrome, "#told h3") == "Output (0, 0) = 7"
    assert places(chrome, "seen.padding") == ["-1,-1", "-1,0", "-1,1", "0,-1", "1,-1"]
    first = chrome.find_element(By.CSS_SELECTOR, "#output-grid [tabindex='0']")
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#output-grid [tabindex='0']")) == 1
    first.send_keys(Keys.ARROW_RIGHT, Keys.NULL)
    chrome.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert chrome.switch_to.active_element.get_attribute("aria-label").startswith("Output (1, 1): ")
    chrome.switch_to.active_element.send_keys(Keys.END)
    assert text(chrome, "#told h3") == "Output (3, 3) = 8"
    assert places(chrome, "seen.past") == ["5,7", "6,7", "7,5", "7,6", "7,7"]
    assert places(chrome, "won") == ["5,5"]
    follows(chrome, "at=15")
    chrome.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert "Output (3, 2)" in text(chrome, "[aria-live] h3")


def test_the_pointer_shows_a_window_and_a_click_keeps_it(chrome):
    go(chrome, "#op=avg_pool&size=4&kernel=2&cells=1,2,3,6")
    outputs = chrome.find_elements(By.CSS_SELECTOR, "#output-grid .out")
    ActionChains(chrome).move_to_element(outputs[1]).perform()
    assert text(chrome, "#told .words") == "(3 + 6) / 2 = 4.5"
    ActionChains(chrome).move_to_element(chrome.find_element(By.TAG_NAME, "h1")).perform()
    assert text(chrome, "#told h3") == "Output 0 = 1.5"
    outputs[1].click()
    ActionChains(chrome).move_to_element(chrome.find_element(By.TAG_NAME, "h1")).perform()
    assert text(chrome, "#told h3") == "Output 1 = 4.5"
    assert "divisor 2" in text(chrome, "#told .counts")
    assert values(chrome, "gradient-grid") == ["0", "0", "0.5", "0.5"]


def test_a_cell_can_be_edited_and_has_keys_for_what_a_telephone_has_not(chrome):
    go(chrome, "#op=max_pool&size=4&kernel=2&stride=1&cells=1,2,3,4")
    cells = chrome.find_elements(By.CSS_SELECTOR, "#input-grid input")
    cells[0].click()
    cells[0].send_keys("7.5")
    assert values(chrome, "output-grid") == ["7.5", "3", "4"]
    cells[0].send_keys(Keys.ARROW_UP, Keys.ENTER)
    chrome.find_element(By.CSS_SELECTOR, "[data-put=nan]").click()
    assert values(chrome, "output-grid")[0] == "NaN"
    cells[3].click()
    chrome.find_element(By.CSS_SELECTOR, "[data-put='-inf']").click()
    follows(chrome, "cells=nan,2,3,-inf")
    cells[1].click()
    cells[1].send_keys("x")
    assert cells[1].get_attribute("aria-invalid") == "true"
    follows(chrome, "cells=nan,2,3,-inf")
    cells[0].click()
    assert cells[1].get_attribute("value") == "2"


def test_weights_and_the_gradient_at_the_output_can_be_edited(chrome):
    go(chrome, "#op=conv&size=3&kernel=2&cells=1,2,3&weight=1,1&back=all")
    assert values(chrome, "output-grid") == ["3", "5"]
    weight = chrome.find_element(By.CSS_SELECTOR, "#weight-grid input")
    weight.click()
    weight.send_keys("-2")
    assert values(chrome, "output-grid") == ["0", "−1"]
    assert values(chrome, "gradient-grid") == ["−2", "−1", "1"]
    assert values(chrome, "weight-gradient-grid") == ["3", "5"]
    gradient = chrome.find_elements(By.CSS_SELECTOR, "#cotangent-grid input")[1]
    gradient.click()
    gradient.send_keys("0")
    assert values(chrome, "gradient-grid") == ["−2", "1", "0"]
    follows(chrome, "weight=-2,1&g=1,0&back=all")


def test_settings_are_changed_by_buttons_and_by_keys(chrome):
    go(chrome, "#op=max_pool&size=6x6&kernel=2&seed=4")
    chrome.find_element(By.CSS_SELECTOR, "[aria-label='Increase kernel_size, axis 1']").click()
    assert text(chrome, "#output-size") == "3 × 2"
    chrome.find_element(By.CSS_SELECTOR, "[aria-label='padding after, axis 0']").send_keys(Keys.ARROW_UP)
    follows(chrome, "kernel=2x3&padding=0:1x0&seed=4")
    chrome.find_element(By.CSS_SELECTOR, "#choices [value=conv_transpose]").click()
    follows(chrome, "#op=conv_transpose&size=6x6&kernel=2x3&stride=2x3&padding=0:1x0&seed=4")
    chrome.find_element(By.CSS_SELECTOR, "#choices [value='3']").click()
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#input-grid .slice")) == 4
    for name in ("max_pool", "min_pool", "avg_pool", "smooth_max_pool"):
        chrome.find_element(By.CSS_SELECTOR, f"#choices [value={name}]").click()
        for kind in ("adaptive", "global", "sliding"):
            chrome.find_element(By.CSS_SELECTOR, f"#choices [value={kind}]").click()
            assert not chrome.find_element(By.ID, "error").is_displayed()
            assert text(chrome, "#told h3").startswith("Output (0, 0, 0) = ")
    chrome.find_element(By.CSS_SELECTOR, "#choices [value=max_unpool]").click()
    assert text(chrome, "#output-size") == "4 × 4 × 4"


def test_an_error_has_the_words_of_the_library(chrome):
    go(chrome, "#op=max_pool&size=4x4&kernel=3&dilation=2")
    with pytest.raises(wg.WindowError) as told:
        wg.max_pool2d(np.zeros((4, 4)), 3, dilation=2)
    error = chrome.find_element(By.CSS_SELECTOR, "[role=alert]")
    assert error.text == str(told.value).partition(" [")[0]
    assert not chrome.find_element(By.ID, "told").is_displayed()
    chrome.find_element(By.CSS_SELECTOR, "[aria-label='Decrease kernel_size, axis 0']").click()
    chrome.find_element(By.CSS_SELECTOR, "[aria-label='Decrease kernel_size, axis 1']").click()
    assert not error.is_displayed()
    assert text(chrome, "#output-size") == "1 × 1"


def test_an_address_reproduces_what_is_seen(chrome, address):
    for hash_ in addresses(9, seed=3):
        go(chrome, hash_)
        seen, where = text(chrome, ".content"), chrome.execute_script("return states.written(states.read(location.hash))")
        chrome.get("about:blank")
        chrome.get(address + where)
        assert text(chrome, ".content") == seen
        assert chrome.execute_script("return states.written(states.read(location.hash))") == where


@pytest.mark.parametrize(
    ("hash_", "message"),
    [
        ("#op=median_pool", "op=median_pool: must be max_pool, "),
        ("#op=max_pool&size=5x5&kernel=x", "kernel=x: must be an integer, or one per axis such as 3x5"),
        ("#size=2x2&cells=1,2,3", "cells: has 3 numbers, must have 4"),
        ("#colour=red", "colour: is not a setting"),
        ("#size=99x99", "size=99x99: the page draws at most 400 cells"),
        ("#%", "%: is not a setting"),
    ],
)
def test_an_address_that_cannot_be_read_is_told_of_and_the_page_opens_as_usual(chrome, hash_, message):
    go(chrome, hash_)
    assert text(chrome, "#message").startswith(f"The address could not be read: {message}")
    assert text(chrome, "#input-size") == "6 × 6"


@pytest.mark.parametrize("operator", ["max_pool", "conv", "smooth_max_pool"])
def test_a_telephone_has_no_sideways_scroll(chrome, operator):
    chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        for size in ("9", "99", "9x12", "4x5x5"):
            go(chrome, f"#op={operator}&size={size}&kernel=3&stride=2&padding=1")
            assert not chrome.find_element(By.ID, "error").is_displayed()
            assert chrome.execute_script("return document.documentElement.scrollWidth") == 400
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_known_differences_are_told_where_they_are_met(chrome):
    go(chrome, "#op=max_pool&size=4&kernel=2&cells=1,nan,nan,2")
    assert "among several NaN the last wins" in text(chrome, "#notes-list")
    tab = chrome.find_element(By.ID, "tab-torch")
    assert tab.text == "PyTorch 2 known differences"
    tab.click()
    assert "F.max_pool1d(x, 2, stride=2)" in text(chrome, "#program-text")
    go(chrome, "#op=avg_pool&size=4&kernel=2&dilation=2&padding=1")
    assert text(chrome, "#program-says") == "PyTorch's avg_pool has no dilation."
    assert tab.text == "PyTorch"


# --- programs and notes, for drawn settings --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn(started, address):
    """What the page answers for settings of all kinds."""
    started.get(address)
    found = [asked(started, hash_) for hash_ in addresses(84, seed=1)]
    return [answer for answer in found if "error" not in answer]


def numbers(texts, shape):
    return np.array([float(each) for each in texts]).reshape(shape)


@pytest.mark.parametrize(("framework", "few"), [("windowgrad", 84), ("torch", 84), ("jax", 28), ("onnx", 84)])
def test_the_programs_give_the_values_of_the_page(chrome, drawn, framework, few):
    """Those of JAX are compiled one by one: fewer are run."""
    ran = 0
    for answer in drawn[:few]:
        program = answer["programs"][framework]
        assert program["text"] or program["says"]
        if not (program["text"] and program["agrees"]):
            continue
        names = {}
        exec(program["text"], names)
        got, wanted = np.asarray(names["y"], dtype=float), numbers(answer["values"], answer["out"])
        rough = {"rtol": 1e-4, "atol": 1e-4} if framework in ("jax", "onnx") else {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(got.reshape(answer["out"]), wanted, **rough, err_msg=program["text"])
        ran += 1
    assert ran > few / 3


def case_of(answer):
    """The same question for conform."""
    shape, kernel = (1, 1, *answer["size"]), (1, 1, *answer["kernel_size"])
    arrays = {"x": numbers(answer["cells"], shape)}
    given = {"op": answer["op"], "ties": answer["ties"]}
    if answer["op"].startswith("adaptive"):
        sizes = zip(answer["output_size"], answer["size"], strict=True)
        return Case(arrays=arrays, output_size=tuple(n if m is None else m for m, n in sizes), **given)
    if answer["op"].startswith("global"):
        return Case(arrays=arrays, **given)
    if answer["op"].startswith("conv"):
        arrays["weight"] = numbers(answer["weight"], kernel)
        if answer["bias"] is not None:
            arrays["bias"] = np.array([answer["bias"]])
    given |= {name: answer[name] for name in ("ceil_mode", "count_include_pad") if "pool" in answer["op"]}
    if answer["op"] == "avg_pool":
        given["divisor"] = answer["divisor_override"]
    if answer["op"] == "conv_transpose":
        given["output_padding"] = tuple(answer["output_padding"])
    sizes = {name: tuple(answer[name]) for name in ("stride", "dilation")}
    padding = tuple(map(tuple, answer["padding"]))
    return Case(arrays=arrays, kernel=tuple(answer["kernel_size"]), padding=padding, **sizes, **given)


def test_features_groups_and_known_differences_are_those_of_conform(chrome, drawn):
    seen = set()
    for answer in drawn:
        if answer["op"] not in OPS:
            continue
        case = case_of(answer)
        assert set(answer["features"]) == case.features & FEATURES, answer
        assert answer["group"] == case.group, answer
        told = {name for framework, name in answer["known"] if framework == "torch"}
        known = [entry for entry in load() if entry.implementation in ("torch", "torch*") and entry.id not in NEVER]
        covering = {e.id for e in known if any(e.covers(case, check) for check in case.checks)}
        assert told <= covering, answer
        if case.has_usual_ties:
            assert told == covering, answer
        seen |= told
    assert seen >= {"torch-padding-over-half", "torch-last-nan", "torch-amax-splits"}
