"""The page of the conformance report, in a real browser: what is clicked, what shows, and that nothing is fetched."""

from __future__ import annotations

import itertools
import os
import re

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from typer.testing import CliRunner

from support import conform_adapters as fakes
from support.browser import browser, quiet_page
from support.paths import ROOT
from windowgrad import cli
from windowgrad.conform.case import CHECKS, Case
from windowgrad.conform.cases import cases
from windowgrad.conform.expected import expected
from windowgrad.conform.known import Known
from windowgrad.conform.report.data import as_data
from windowgrad.conform.report.file import write
from windowgrad.conform.report.html import as_html
from windowgrad.conform.report.html_case import case_of, differing, winners
from windowgrad.conform.report.html_finding import linked
from windowgrad.conform.report.html_rules import SENTENCES
from windowgrad.conform.report.html_svg import reach, window
from windowgrad.conform.rules import RULES
from windowgrad.conform.runner import Plan, run
from windowgrad.drawing.svg import drawn

SETTINGS = {"cases": 34, "seed": 0, "only": ["avg_pool", "max_pool"]}


class Hostile(fakes.WrongDivisor):
    """Its names and its script would be markup, if they were not escaped."""

    name, title = 'a"><i>b', "</script><script>window.broken = 1</script> & <b onclick='x'>'"
    imports = f'{fakes.WrongDivisor.imports}\nmark = "</pre><script>window.broken = 2</script>"'

    def program(self, case, check):
        if case.op == "max_pool" and check == "forward":
            return "raise ValueError('<b>no</b> & \"never\"')"
        return "import os\nos._exit(3)" if case.op == "max_pool" and case.rank == 3 else super().program(case, check)


ENTRY = Known(
    id="last-tie-gradient",
    implementation="last-tie",
    versions=">=0",
    rule="4. Ties",
    kind="differs",
    what="among equals the last gets the gradient",
    reference="https://example.org/ties?a=1&b=2: the last",
    checks=("gradient",),
)


def data_of(adapters, questions, known=(), checks=CHECKS):
    reports = run(adapters, Plan(questions, checks, known=known))
    return as_data(reports, known, SETTINGS, 1.0)


@pytest.fixture(scope="module")
def data():
    adapters = [fakes.Exact(), fakes.LastTie(), fakes.PadOrder(), Hostile(), fakes.NotThere()]
    found = cases(300, 0, ("avg_pool", "max_pool"))
    uneven = [case for case in found if "uneven padding" in case.features and case.group == "tie-free"]
    return data_of(adapters, [*found[:30], *uneven[:4]], (ENTRY,))


@pytest.fixture(scope="module")
def address(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write(path, as_html(data))
    return path.as_uri()


@pytest.fixture(scope="module")
def chrome():
    with browser() as found:
        yield found


@pytest.fixture
def page(chrome, address):
    with quiet_page(chrome, address, also=()) as page:
        yield page


def shown(page):
    return [finding for finding in page.find_elements(By.CSS_SELECTOR, ".finding") if finding.is_displayed()]


def marks(finding):
    return {name: finding.get_attribute(f"data-{name}") for name in ("implementation", "op", "rule", "kind", "state")}


def cell(page, implementation, rule):
    return page.find_element(By.CSS_SELECTOR, f'.matrix button[data-implementation="{implementation}"][data-rule="{rule}"]')


def count(page):
    return page.find_element(By.ID, "count").text


# --- in the browser ----------------------------------------------------------------------------------------------


def test_a_click_on_a_cell_shows_its_differences_with_windows_and_both_answers(page, data):
    every = len(shown(page))
    cell(page, "last-tie", "4. Ties").click()
    found = shown(page)
    (report,) = (report for report in data["implementations"] if report["name"] == "last-tie")
    assert 0 < len(found) == len([f for f in report["findings"] if f["rule"] == "4. Ties"]) < every
    assert {(marks(f)["implementation"], marks(f)["rule"]) for f in found} == {("last-tie", "4. Ties")}
    assert count(page) == f"{len(found)} of {every} shown"
    first, finding = found[0], next(f for f in report["findings"] if f["rule"] == "4. Ties")
    assert first.get_attribute("open")
    assert first.find_element(By.CSS_SELECTOR, "figure svg circle.w").is_displayed()
    assert "expected" in first.find_element(By.CSS_SELECTOR, "figcaption").text or finding["check"] == "gradient"
    wrong = [len(first.find_elements(By.CSS_SELECTOR, f".{side} td.bad")) for side in ("expected", "got")]
    assert wrong[0] == wrong[1] > 0
    assert "always gives the first winner" in first.find_element(By.TAG_NAME, "blockquote").text
    assert finding["call"] in first.text
    assert first.find_element(By.CSS_SELECTOR, ".script code").get_attribute("textContent") == finding["script"]


def test_a_cell_says_its_counts_in_words_and_is_reached_by_keys(page):
    button = cell(page, "pad-order", "2. Padding and max")
    words = button.get_attribute("textContent")
    assert re.search(r"\d+ agrees.*\d+ differs", words)
    assert "new" in button.text
    button.send_keys(Keys.ENTER)
    assert {marks(f)["implementation"] for f in shown(page)} == {"pad-order"}
    assert button.get_attribute("aria-pressed") == "true"
    assert page.switch_to.active_element.get_attribute("id") == "differences"


def test_what_agrees_has_no_button_and_what_is_not_installed_says_so(page):
    rows = page.find_elements(By.CSS_SELECTOR, ".matrix tbody tr")
    assert [bool(row.find_elements(By.TAG_NAME, "button")) for row in rows] == [False, True, True, True, False]
    assert rows[0].find_element(By.CSS_SELECTOR, "td.agrees").text.startswith("✓")
    assert rows[-1].find_element(By.TAG_NAME, "td").text == "not installed"


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", "known"), ("state", "new"), ("op", "max_pool"), ("rule", "6. Mean"), ("implementation", Hostile.name)],
)
def test_a_filter_leaves_what_it_says(page, name, value):
    every = len(shown(page))
    Select(page.find_element(By.NAME, name)).select_by_value(value)
    assert {marks(finding)[name] for finding in shown(page)} == {value}
    assert 0 < len(shown(page)) < every
    page.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    WebDriverWait(page, 10).until(lambda _: len(shown(page)) == every)


def test_filters_that_nothing_fits_leave_nothing(page):
    Select(page.find_element(By.NAME, "implementation")).select_by_value("last-tie")
    Select(page.find_element(By.NAME, "op")).select_by_value("avg_pool")
    assert (shown(page), count(page)[:5]) == ([], "0 of ")


def test_a_link_opens_its_difference_and_brings_it_into_view(page, address):
    target = shown(page)[-1].get_attribute("id")
    page.get("about:blank")
    page.get(f"{address}#{target}")
    finding = page.find_element(By.ID, target)
    assert finding.get_attribute("open")
    assert 0 <= page.execute_script("return arguments[0].getBoundingClientRect().top", finding) < 900
    assert page.switch_to.active_element.tag_name == "summary"
    Select(page.find_element(By.NAME, "state")).select_by_value("known")
    assert not finding.is_displayed()
    page.execute_script("location.hash = ''; location.hash = arguments[0]", target)
    WebDriverWait(page, 10).until(lambda _: finding.is_displayed())


def test_a_known_difference_has_its_reference(page):
    Select(page.find_element(By.NAME, "state")).select_by_value("known")
    finding = shown(page)[0]
    finding.find_element(By.TAG_NAME, "summary").click()
    link = finding.find_element(By.CSS_SELECTOR, ".note a")
    assert link.get_attribute("href") == "https://example.org/ties?a=1&b=2"
    assert ENTRY.what in finding.text


def test_markup_in_names_and_scripts_is_text(page):
    assert page.execute_script("return window.broken") is None
    assert Hostile.title in page.find_element(By.TAG_NAME, "main").text
    finding = next(f for f in shown(page) if marks(f)["implementation"] == Hostile.name)
    code = finding.find_element(By.CSS_SELECTOR, ".script code").get_attribute("textContent")
    assert 'mark = "</pre><script>window.broken = 2</script>"' in code
    assert not page.find_elements(By.CSS_SELECTOR, "main script, main b[onclick], pre.message b")


def test_what_is_refused_or_crashes_says_how(page):
    for kind, words in (("refuses", 'ValueError: <b>no</b> & "never"'), ("crashes", "it exited with status 3")):
        Select(page.find_element(By.NAME, "kind")).select_by_value(kind)
        finding = shown(page)[0]
        finding.find_element(By.TAG_NAME, "summary").click()
        assert words in finding.find_element(By.CSS_SELECTOR, ".got .message").text
        assert finding.find_element(By.CSS_SELECTOR, ".expected table").is_displayed()


def test_the_script_is_copied(page, address):
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    finding = shown(page)[0]
    finding.find_element(By.TAG_NAME, "summary").click()
    button = finding.find_element(By.CSS_SELECTOR, ".copy")
    button.click()
    WebDriverWait(page, 10).until(lambda _: button.text == "Copied")
    copied = page.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == finding.find_element(By.CSS_SELECTOR, ".script code").get_attribute("textContent")


def test_all_that_is_shown_unfolds_for_the_printer(page):
    opened = "return [...document.querySelectorAll('.finding')].filter((f) => f.open).length"
    assert page.execute_script(opened) == 0
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script(opened) == len(shown(page)) > 0
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script(opened) == 0


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_hangs_over_the_side(page, width):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    page.find_element(By.ID, "unfold").click()
    assert page.execute_script("return innerWidth") == width
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_is_followed(page):
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(paper)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    assert page.execute_script(paper) != light
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# --- the text ----------------------------------------------------------------------------------------------------


def test_every_rule_is_quoted_word_for_word_from_its_place():
    text = (ROOT / "docs/semantics.md").read_text()
    titles = {re.sub(r"[^a-z0-9 -]", "", part.split("\n")[0].lower()).replace(" ", "-"): part for part in text.split("\n## ")}
    assert set(SENTENCES) == set(RULES)
    for rule, sentences in SENTENCES.items():
        place = " ".join(titles[RULES[rule].strip("#")].split())
        for sentence in sentences:
            assert sentence in place, (rule, sentence)


def test_the_page_names_nothing_outside_itself(data):
    text = as_html(data)
    assert not re.search(r"<(link|img|iframe|object)|\bsrc=|@import|url\(", text)
    assert re.findall(r'href="(?!#)([^"]*)"', text) == ["https://example.org/ties?a=1&amp;b=2"] * text.count(
        "last-tie-gradient"
    )


def test_every_difference_has_an_address_of_its_own(data):
    twins = [report | {"name": name} for report in data["implementations"] for name in ("a b", "a-b")]
    found = re.findall(r' id="([^"]*)"', as_html(data | {"implementations": twins}))
    assert len(found) == len(set(found)) > 20


def test_agreeing_cases_are_only_counted():
    few, many = (len(as_html(data_of([fakes.Exact()], cases(n, 0, ("max_pool",)), checks=("forward",)))) for n in (2, 20))
    assert abs(many - few) < 200


def test_only_web_addresses_become_links():
    assert linked("javascript:alert(1) <x>") == "javascript:alert(1) &lt;x&gt;"
    assert linked("see https://a.b/c.") == 'see <a href="https://a.b/c" rel="noreferrer">https://a.b/c</a>.'


def test_a_page_is_replaced_whole_or_not_at_all(data, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        write(path, as_html(data))
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
    monkeypatch.undo()
    write(path, as_html(data))
    assert path.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_writes_the_page(tmp_path):
    path = tmp_path / "page.html"
    words = [
        "conform",
        "--adapter",
        "support.conform_adapters:WrongDivisor",
        "--only",
        "avg_pool",
        "--cases",
        "30",
        "--html",
        str(path),
    ]
    assert CliRunner().invoke(cli.app, words).exit_code == 1
    assert 'data-implementation="wrong-divisor"' in path.read_text()


# --- cases and drawings ------------------------------------------------------------------------------------------


def test_a_case_is_read_back_as_it_was():
    for case in cases(120):
        again = case_of(case.as_json())
        assert again.as_json() == case.as_json()
        assert again.out_shape == case.out_shape


def test_a_right_answer_differs_nowhere_and_a_wrong_one_where_it_is_wrong():
    case = Case("max_pool", {"x": np.array([[[1.0, 3.0, 2.0]]])}, (2,), (1,), ((0, 0),), (1,))
    assert differing(case, "forward", [[[3, 3]]], [[[3.0, 3.0]]]) == set()
    assert differing(case, "forward", [[[3, 3]]], [[[3.0, "nan"]]]) == {(0, 0, 1)}
    assert differing(case, "forward", [[["nan", 3]]], [[["nan", 3.0]]]) == set()
    mean = Case("avg_pool", {"x": np.array([[[1.0, 0.0, 0.0]]], np.float32)}, (3,), (1,), ((0, 0),), (1,))
    assert differing(mean, "forward", [[["1/3"]]], [[[float(np.float32(1 / 3))]]]) == set()
    assert differing(mean, "forward", [[["1/3"]]], [[[0.333]]]) == {(0, 0, 0)}


def test_a_window_is_drawn_with_its_padding_its_overhang_and_its_winner():
    x = np.array([[[-4.0, -3.0, -5.0, -1.0]]])
    case = Case("max_pool", {"x": x}, (3,), (2,), ((1, 1),), (1,), ceil_mode=True)
    won = winners(case)
    first, last = (window(case, place, won[place]) for place in ((0, 0, 0), (0, 0, 2)))
    assert (first.seen, first.won) == ({(-1,), (0,), (1,)}, [(1,)])
    assert (last.seen, last.won) == ({(3,), (4,), (5,)}, [(3,)])
    svg = drawn(last)
    assert re.findall(r'<rect class="([^"]*)"', svg) == ["p", "r", "r", "r", "r s w", "p s", "o s"]
    assert re.findall(r"<text[^>]*>([^<]*)", svg) == ["p", "−4", "−3", "−5", "−1", "p", "·"]
    assert 'aria-label="window 2 sees −1 and 2 outside the input; the winner is at 3"' in svg


def test_all_equals_win_where_the_tie_rule_says_so():
    x = np.array([[[2.0, 1.0, 2.0]]])
    assert winners(Case("global_max_pool", {"x": x}, ties="all"))[0, 0, 0] == [(0,), (2,)]
    assert winners(Case("max_pool", {"x": x}, (3,), (1,), ((0, 0),), (1,)))[0, 0, 0] == [(0,)]


def test_higher_ranks_are_drawn_as_the_slices_that_the_window_reaches():
    case = Case("max_pool", {"x": np.arange(12.0).reshape(1, 1, 3, 2, 2)}, (2, 2, 2), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1))
    svg = drawn(window(case, (0, 0, 1, 0, 0), winners(case)[0, 0, 1, 0, 0]))
    assert re.findall(r"\[\d, :, :\]", svg) == ["[1, :, :]", "[2, :, :]"]
    assert svg.count('class="r s"') == 2 * 7
    assert drawn(window(Case("global_avg_pool", {"x": np.zeros((1, 1, 20, 20))}), (0, 0, 0, 0), [])) == ""


def test_an_output_of_a_transposed_convolution_is_drawn_with_the_cells_that_reach_it():
    arrays = {"x": np.ones((1, 1, 3, 2)), "weight": np.ones((1, 1, 2, 3))}
    case = Case("conv_transpose", arrays, (2, 3), (2, 1), ((1, 0), (0, 2)), (2, 1), output_padding=(1, 0))
    for o in itertools.product(*map(range, case.out_shape)):
        reaching = set()
        for i in itertools.product(range(3), range(2)):
            x = np.zeros((1, 1, 3, 2))
            x[(0, 0, *i)] = 1
            one = Case("conv_transpose", arrays | {"x": x}, (2, 3), (2, 1), ((1, 0), (0, 2)), (2, 1), output_padding=(1, 0))
            if expected(one, "forward")["y"][o]:
                reaching.add(i)
        assert reach(case, o).seen == reaching


def test_a_window_does_not_see_what_the_mask_leaves_out():
    where = np.array([True, False, True])
    case = Case("max_pool", {"x": np.float32([[[1, 9, 2]]])}, (3,), (1,), ((0, 0),), (1,), where=where)
    assert case_of(case.as_json()).as_json() == case.as_json()
    view = window(case, (0, 0, 0), winners(case)[0, 0, 0])
    assert (view.seen, view.won) == ({(0,), (2,)}, [(2,)])
    assert "sees 1, 2; the winner is at 2" in drawn(view)
