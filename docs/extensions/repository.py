"""Links from pages to files of the repository, which on the site lead to pages of the site.

CONTRIBUTING.md and CHANGELOG.md are pages by themselves. Every other file that a page links to, such as a script of
`examples/`, becomes a page with its text; a folder becomes a list of its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGES = {"CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog", "README.md": "index"}
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```)", flags=re.MULTILINE | re.DOTALL)


def read(app: Sphinx, docname: str, content: list[str]) -> None:
    """The pages of files outside docs/ have their text, with links that lead from docs/."""
    name = next((name for name, page in PAGES.items() if page == docname and page != "index"), None)
    if name:
        app.env.note_dependency(str(ROOT / name))
        parts = FENCE.split((ROOT / name).read_text(encoding="utf-8"))
        content[0] = "".join(part if place % 2 else LINK.sub(r"](../\1)", part) for place, part in enumerate(parts))


def linked(app: Sphinx, doctree: nodes.document) -> None:
    """Links to files outside docs/ become links to their pages."""
    here = app.env.docname
    for node in list(doctree.findall(lambda found: isinstance(found, addnodes.download_reference | addnodes.pending_xref))):
        if node.get("reftype") != "myst":
            continue
        target = node["reftarget"] + (".md" if node["refdomain"] == "doc" else "")  # a page is named without its suffix
        path = Path(os.path.normpath(Path(app.srcdir, here).parent / target.partition("#")[0]))
        if path.is_relative_to(app.srcdir) or not path.is_relative_to(ROOT) or not path.exists():
            continue
        name = path.relative_to(ROOT).as_posix()
        page = PAGES.get(name)
        if page is None:
            page = f"files/{name}"
            files(app).setdefault(here, set()).add(name)
        new = nodes.reference("", "", *(child.deepcopy() for child in node.children), internal=True)
        new["refuri"] = app.builder.get_relative_uri(here, page)
        node.replace_self(new)


def files(app: Sphinx) -> dict[str, set[str]]:
    """The files and folders that each page links to."""
    if not hasattr(app.env, "repository_files"):
        app.env.repository_files = {}
    found: dict[str, set[str]] = app.env.repository_files
    return found


def forget(app: Sphinx, env: Any, docname: str) -> None:
    files(app).pop(docname, None)


def merge(app: Sphinx, env: Any, docnames: list[str], other: Any) -> None:
    files(app).update({name: found for name, found in getattr(other, "repository_files", {}).items() if name in docnames})


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    left = sorted(set().union(*files(app).values()))
    seen: set[str] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        path = ROOT / name
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if not child.name.startswith(("_", ".")))
            left += [child.relative_to(ROOT).as_posix() for child in inside]
            body = listing(app, name, inside)
        else:
            body = text_of(path)
        yield f"files/{name}", {"title": name, "body": f"<h1><code>{name}</code></h1>{body}"}, "page.html"


def listing(app: Sphinx, name: str, inside: list[Path]) -> str:
    links = [app.builder.get_relative_uri(f"files/{name}", f"files/{path.relative_to(ROOT).as_posix()}") for path in inside]
    return (
        "<ul>"
        + "".join(f'<li><a href="{link}"><code>{path.name}</code></a></li>' for link, path in zip(links, inside, strict=True))
        + "</ul>"
    )


def text_of(path: Path) -> str:
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = get_lexer_for_filename("file.txt")
    return highlight(path.read_text(encoding="utf-8"), lexer, HtmlFormatter(linenos="inline", cssclass="highlight"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    app.connect("doctree-read", linked, priority=100)  # before Sphinx collects what is to be downloaded
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
