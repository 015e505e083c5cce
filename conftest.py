"""Every Python block of README.md and docs/ is a test: `>>>` examples must print what the page says."""

from doctest import ELLIPSIS

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS)],
    patterns=["README.md", "docs/*.md", "docs/howto/*.md"],
).pytest()
