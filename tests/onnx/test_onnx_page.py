"""docs/onnx.md lists every supported operator, and no other."""

import re
from collections import Counter

from support.paths import DOCS
from windowgrad.onnx.operators import FAMILIES, TABLE


def test_the_tables_of_the_page_have_every_operator_once():
    page = (DOCS / "onnx.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]\w+(?:, \w+)*) \|", page, re.MULTILINE)
    assert Counter(name for row in rows for name in row.split(", ")) == Counter(list(TABLE))


def test_no_operator_is_in_two_families():
    assert sum(len(family.TABLE) for family in FAMILIES) == len(TABLE)
