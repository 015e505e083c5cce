"""The pages of the project agree with each other: links lead somewhere, quoted headings exist."""

import re

import pytest

from support.paths import ROOT
from windowgrad.conform import known

FOLDERS = (".", "docs", "docs/api", "docs/howto", "tests", "benchmarks", "examples")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
CODE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)


def headings(page):
    """The headings of a page, without the marks of Markdown."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return [line.replace("`", "") for line in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)]


def anchors(page):
    """What GitHub calls the headings of a page."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    links = re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text(encoding="utf-8")))
    for link in links:
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md", "docs/kernels.md"])
def test_every_file_that_a_page_for_contributors_names_is_there(page):
    for name in re.findall(r"`([\w.]+/[\w./]+\.(?:py|md|toml))`", (ROOT / page).read_text(encoding="utf-8")):
        assert any((ROOT / folder / name).exists() for folder in (".", "src/windowgrad")), name


def test_every_known_difference_that_refers_to_a_page_quotes_its_headings():
    for entry in known.load():
        name, _, quoted = entry.reference.partition(", ")
        if name.startswith("docs/"):
            assert set(quoted.split(" / ")) <= set(headings(ROOT / name)), entry.id


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_the_gallery_shows_every_example_and_its_code_is_theirs():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert all(f"](../examples/{example.name})" in page for example in examples)
    sources = [*examples, ROOT / "src" / "windowgrad" / "demo" / "network.py"]
    known = ["\n".join(lines(source.read_text(encoding="utf-8"))) for source in sources]
    excerpts = re.findall(r"^```py\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(excerpts) >= len(sources)
    for excerpt in excerpts:
        for part in excerpt.split("\n\n\n"):  # two functions of one file
            assert any("\n".join(lines(part)) in text for text in known), part
