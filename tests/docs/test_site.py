"""The documentation site: it builds without a warning, has every public name, and works from a folder without a network."""

import html
import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from pydoc import locate
from types import ModuleType
from typing import Literal
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from support.browser import browser, requests
from support.paths import DOCS, ROOT
from windowgrad.cli import app
from windowgrad.functional import signatures

ROOMS = ("autograd", "bridges.torch.nn", "certify", "conform", "functional", "nn", "onnx", "pyramid", "spec")
SAMPLES = (
    "index.html",
    "semantics.html",
    "architecture.html",
    "api/maximum.html",
    "api/commands.html",
    "howto/own-scalar.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site that was just built; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", folder / "doctrees", DOCS, folder / "html"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    return folder / "html"


@cache
def source(path):
    return path.read_text(encoding="utf-8")


@cache
def anchors(path):
    return {html.unescape(name) for name in re.findall(r'\bid="([^"]+)"', source(path))}


def words(path):
    return html.unescape(re.sub(r"<[^>]+>", "", source(path)))


def pages(site):
    found = sorted(site.rglob("*.html"))
    assert len(found) > 60
    return found


def test_every_page_of_the_documentation_is_on_the_site(site):
    for page in [*DOCS.glob("*.md"), *DOCS.glob("api/*.md"), *DOCS.glob("howto/*.md")]:
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists(), page


def test_every_link_leads_to_a_file_of_the_site_and_to_a_place_in_it(site):
    for page in pages(site):
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', source(page)):
            if re.match(r"(https?|data|mailto):", link):
                continue
            path, _, anchor = html.unescape(link).partition("#")
            target = Path(page.parent, unquote(path.partition("?")[0])).resolve() if path else page
            assert target.is_relative_to(site.resolve()), (page, link)
            assert target.is_file(), (page, link)
            assert not anchor or target.suffix != ".html" or unquote(anchor) in anchors(target), (page, link)


def test_no_page_loads_anything_from_the_network(site):
    for page in pages(site):
        assert not re.findall(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"', source(page)), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", source(style)), style


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_every_public_name_is_in_the_reference(site, room):
    module = importlib.import_module(f"windowgrad.{room}".rstrip("."))
    known = set().union(*(anchors(page) for page in site.glob("api/*.html")))
    text = "".join(words(page) for page in site.glob("api/*.html"))
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            assert f"{module.__name__}.{name}" in text
        else:  # it may be documented as a member of another room, which has it too
            assert any(found.endswith(f".{name}") and locate(found) is value for found in known), name


def test_the_reference_shows_signatures_with_types_and_the_words_of_the_docstring(site):
    text = words(site / "api" / "maximum.html")
    for part in ("max_pool2d(x:A,kernel_size:Size,", "ties:Ties='first'", "NaNwinsovereverynumber;"):
        assert part in re.sub(r"\s", "", text), part


def test_the_page_of_types_says_what_they_are():
    pattern = r"py:type:: (\w+)\n   :module: (\S+)\n   :canonical: (.*)\n"
    found = re.findall(pattern, (DOCS / "api" / "types.md").read_text(encoding="utf-8"))
    assert len(found) == 9
    for name, module, text in found:
        names = {"Sequence": Sequence, "Literal": Literal, "A": signatures.A}
        assert getattr(importlib.import_module(module), name) == eval(text, names), name


def test_the_page_of_commands_has_the_help_of_each(site):
    text = words(site / "api" / "commands.html")
    for command in app.registered_commands:
        assert f"$ windowgrad {command.callback.__name__} " in text
        assert command.callback.__doc__.strip() in text


def test_the_changelog_and_the_page_for_contributors_are_those_of_the_repository(site):
    assert "Every change of a numeric result" in source(site / "changelog.html")
    assert "How long it takes" in source(site / "contributing.html")
    assert (site / "files" / "src" / "windowgrad" / "spec" / "mean.py.html").exists()


# --- in a browser, from files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def started():
    with browser() as found:
        yield found


@pytest.fixture
def chrome(started):
    """A browser that complains of nothing, and asks for nothing but files, while a test uses it."""
    started.get("about:blank")
    requests(started)
    yield started
    assert started.get_log("browser") == []
    assert [address for address in requests(started) if not address.startswith(("file:", "data:"))] == []


def seen_by(chrome, width, scheme):
    chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def test_the_search_finds_a_function_and_a_page_without_a_server(chrome, site):
    for word, wanted in (("adaptive_max_pool2d", "api/maximum.html"), ("subnormal", "errors.html")):
        chrome.get(f"{(site / 'search.html').as_uri()}?q={word}")
        WebDriverWait(chrome, 30).until(lambda chrome: "Search finished" in chrome.find_element(By.ID, "search-results").text)
        links = chrome.find_elements(By.CSS_SELECTOR, "#search-results li a")
        assert any(wanted in link.get_attribute("href") for link in links), word


@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_scrolls_sideways_and_all_are_light_or_dark_as_the_reader_prefers(chrome, site, width):
    for scheme in ("light", "dark"):
        seen_by(chrome, width, scheme)
        for page in SAMPLES:
            chrome.get((site / page).as_uri())
            assert chrome.execute_script("return document.documentElement.scrollWidth <= innerWidth"), page
            red, *_ = re.findall(r"\d+", chrome.execute_script("return getComputedStyle(document.body).backgroundColor"))
            assert (int(red) > 127) == (scheme == "light"), page
