"""The documentation site: `make docs` builds it into `site/`. The pages are Markdown, the reference comes from docstrings."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "extensions"))

project = "windowgrad"
author = "the windowgrad authors"
release = version = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "docstrings",
    "pages",
    "reference",
]

smartquotes_action = "D"  # dashes; quotes stay as they are written
pygments_style, pygments_dark_style = "default", "github-dark"

# --- pages -----------------------------------------------------------------------------------------------------------

myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# --- the reference ---------------------------------------------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: f"windowgrad.arguments.{name}" for name in ("Padding", "Size")}
autodoc_type_aliases |= {
    name: f"windowgrad.functional.signatures.{name}"
    for name in ("Bins", "Border", "Duplicates", "Empty", "Named", "Pair", "Ties")
}
python_use_unqualified_type_names = True
nitpicky = True
UNSHOWN = (
    "autograd.tracer.Tracer bridges.torch.nn.M certify.nodes.Network certify.proving.Leaf nn.summary.Row nn.summary.Summary"
)
nitpick_ignore_regex = [  # types of other packages, for which there is no reference here, and types that only internals use
    (r"py:.*", r"(?!windowgrad\b).*"),
    *((r"py:.*", rf"windowgrad\.{name}") for name in (*UNSHOWN.split(), "onnx.network.Step")),
]
maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = True

# --- HTML ------------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"windowgrad {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses to do from files
html_show_sphinx = False
html_show_copyright = False
