"""Pages that also read well in the repository: what they link to there is on the site too.

CONTRIBUTING.md and CHANGELOG.md are pages by themselves, the README is the first page. Every other file that a page links to,
such as a script of `examples/`, becomes a page with its text, and a folder a list of its files. The explorer is beside them,
and the page about it begins with a link to it.
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

from windowgrad.explore.page import html

ROOT = Path(__file__).parents[2]
SHOWN = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}
PAGES = {name: page for page, name in SHOWN.items()} | {"README.md": "index"}
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
EXPLORER = "explorer.html"
FENCE = re.compile(r"(^```.*?^```)", flags=re.MULTILINE | re.DOTALL)


def read(app: Sphinx, docname: str, content: list[str]) -> None:
    """The pages of files outside docs/ have their text, with links that lead from docs/."""
    if docname in SHOWN:
        path = ROOT / SHOWN[docname]
        app.env.note_dependency(str(path))
        parts = FENCE.split(path.read_text(encoding="utf-8"))
        content[0] = "".join(part if place % 2 else LINK.sub(r"](../\1)", part) for place, part in enumerate(parts))


def linked(app: Sphinx, doctree: nodes.document) -> None:
    """Links to files outside docs/ become links to their pages."""
    here = app.env.docname
    for node in list(doctree.findall(lambda found: isinstance(found, addnodes.download_reference | addnodes.pending_xref))):
        if node.get("reftype") != "myst":
            continue
        target = node["reftarget"] + (".md" if node["refdomain"] == "doc" else "")  # a page is named without its suffix
        path = Path(os.path.normpath(Path(app.srcdir, here).parent / target.partition("#")[0]))
        if path.is_relative_to(app.srcdir) or not path.is_relative_to(ROOT) or not is_shown(path):
            continue
        name = path.relative_to(ROOT).as_posix()
        page = PAGES.get(name)
        if page is None:
            page = f"files/{name}"
            files(app.env).setdefault(here, set()).add(name)
        new = nodes.reference("", "", *(child.deepcopy() for child in node.children), internal=True)
        new["refuri"] = app.builder.get_relative_uri(here, page)
        node.replace_self(new)


def is_shown(path: Path) -> bool:
    """Whether a file or folder becomes a page; others, such as pictures, are offered for download."""
    if path.is_file():
        try:
            return bool(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            return False
    return path.is_dir() and not path.name.startswith((".", "_"))


def files(env: Any) -> dict[str, set[str]]:
    """The files and folders that each page links to."""
    found: dict[str, set[str]] = vars(env).setdefault("repository_files", {})
    return found


def forget(app: Sphinx, env: Any, docname: str) -> None:
    files(env).pop(docname, None)


def merge(app: Sphinx, env: Any, docnames: list[str], other: Any) -> None:
    files(env).update({name: found for name, found in files(other).items() if name in docnames})


def made(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all files that are linked to, and of what is in the folders among them."""
    linked_to = [ROOT / name for name in set().union(*files(app.env).values())]
    inside = [path for folder in linked_to if folder.is_dir() for path in folder.rglob("*")]
    for path in filter(is_shown, {*linked_to, *inside}):
        name = path.relative_to(ROOT).as_posix()
        body = listing(path) if path.is_dir() else text_of(path)
        yield f"files/{name}", {"title": name, "body": f"<h1><code>{name}</code></h1>{body}"}, "page.html"


def listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if is_shown(path))
    lines = [f'<li><a href="{folder.name}/{name}.html"><code>{name}</code></a></li>' for name in names]
    return f"<ul>{''.join(lines)}</ul>"


def text_of(path: Path) -> str:
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = get_lexer_for_filename("file.txt")
    return highlight(path.read_text(encoding="utf-8"), lexer, HtmlFormatter(linenos="inline", cssclass="highlight"))


def offered(app: Sphinx, doctree: nodes.document) -> None:
    """The page about the explorer with a link to the explorer itself, which is only on the site."""
    if app.env.docname == "explore":
        title = next(doctree.findall(nodes.title))
        link = nodes.reference("", "Open the explorer", internal=True, refuri=EXPLORER)
        title.parent.insert(title.parent.index(title) + 1, nodes.paragraph("", "", link))


def written(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        Path(app.outdir, EXPLORER).write_text(html(), encoding="utf-8")


def trimmed(app: Sphinx, doctree: nodes.document) -> None:
    """Blocks of code without the empty line that ends an example in Markdown."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        block.rawsource, block.children = text, [nodes.Text(text)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    app.connect("doctree-read", linked, priority=100)  # before Sphinx collects what is to be downloaded
    app.connect("doctree-read", trimmed)
    app.connect("doctree-read", offered)
    app.connect("build-finished", written)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", made)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
