"""How tests are selected: by markers that follow from what a test does, and by the files that changed."""

import re
import subprocess
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import interpreter
from support.changed import selected
from support.interpreter import fresh
from support.marks import starts
from support.paths import ROOT

MARKERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]


def asks():
    return fresh("print(1)")


def asks_by_module():
    return [interpreter.fresh(code) for code in ()]


@given(st.integers())
def asks_often(n):
    asks()


def asks_nobody():
    return sorted(MARKERS)


@pytest.mark.parametrize("function", [asks, asks_by_module, asks_often, lambda: subprocess.run, interpreter.fresh])
def test_a_function_that_starts_a_process_somehow_is_found(function):
    assert starts(function)


def test_a_function_that_starts_none_is_not():
    assert not starts(asks_nobody)


def test_every_marker_is_explained_to_contributors():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in (marker.partition(":")[0] for marker in MARKERS):
        assert re.search(rf"^\| `{name}` \|", page, re.MULTILINE), name


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/windowgrad/conform/rules.py", ["tests/conform"]),
        ("src/windowgrad/bridges/torch/rules.py", ["tests/bridges/torch"]),
        ("src/windowgrad/pyramid/build.py", ["tests/apps"]),
        ("src/windowgrad/geometry.py", ["tests/api", "tests/semantics", "tests/spec"]),
        ("src/windowgrad/dispatch.py", ["tests/api", "tests/errors", "tests/semantics"]),
        ("tests/spec/test_laws.py", ["tests/spec/test_laws.py"]),
        ("tests/semantics/conftest.py", ["tests/semantics"]),
        ("docs/dask.md", ["docs/dask.md", "tests/docs"]),
        ("docs/howto/own-scalar.md", ["docs/howto/own-scalar.md", "tests/docs"]),
        ("docs/conf.py", ["tests/docs"]),
        ("README.md", ["README.md"]),
        ("Makefile", ["tests/api"]),
        ("benchmarks/windows.py", []),
        ("src/windowgrad/gone/entirely.py", ["tests/api", "tests/errors", "tests/semantics"]),
    ],
)
def test_a_changed_file_asks_for_the_tests_that_mirror_it(path, tests):
    assert selected([path]) == tests


def test_a_kernel_asks_for_its_folder_and_for_the_files_above_it():
    found = selected(["src/windowgrad/kernels/pool/plan.py"])
    assert "tests/kernels/pool" in found
    assert "tests/kernels/test_kernels_equal_spec.py" in found
    assert "tests/kernels/conv" not in found


def test_what_tests_share_asks_for_those_that_import_it():
    assert "tests/conform/test_conform_html.py" in selected(["tests/support/browser.py"])
    assert selected(["tests/support/browser.py", "tests/conform/conftest.py"]).count("tests/conform") <= 1
