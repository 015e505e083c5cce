"""The table of operators, and what is made from it: the generated functions, their docstrings, the layers."""

import ast
import doctest
import importlib.util
import inspect
import re

import numpy as np
import pytest

import windowgrad as wg
from support.paths import ROOT
from windowgrad.facts import Facts
from windowgrad.ops import FAMILIES, MEANINGS, meaning

SRC = ROOT / "src" / "windowgrad"
FUNCTIONS = [f"{name}{rank}" for name in FAMILIES for rank in ("", "1d", "2d", "3d")]


def generator():
    """tools/generate_functional.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("generate_functional", ROOT / "tools" / "generate_functional.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_functions_are_what_the_table_says():
    """`python tools/generate_functional.py` writes them."""
    for path, text in generator().modules().items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_is_found_by_its_def_and_describes_each_argument(name):
    function = getattr(wg, name)
    assert f"\ndef {name}(" in inspect.getsource(inspect.getmodule(function))
    assert function.__code__.co_name == name
    for argument in inspect.signature(function).parameters:
        assert f"\n        {argument}: " in function.__doc__


OTHERS = ("pad", "unpad", "reduce_windows", "max_unpool1d", "max_unpool2d", "max_unpool3d", *wg.functional.shapes.__all__)


@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
def test_the_example_in_a_docstring_prints_what_it_says(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    found = finder.find(getattr(wg, name), name, globs={"wg": wg, "np": np})
    assert [len(test.examples) for test in found] == [1]
    assert runner.run(found[0]).failed == 0


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_layer_has_the_arguments_of_its_function_with_their_defaults(family):
    """But for `keepdims`: a layer of global pooling removes the axes. Weights are made by the layer."""
    layer, function = (inspect.signature(f).parameters for f in (getattr(wg.nn, family.layer), getattr(wg, family.name)))
    apart = ("x", "weight", "bias", "return_indices", "where", "out")
    expected = {name: p.default for name, p in function.items() if name not in apart}
    expected |= {"keepdims": False} if "keepdims" in expected else {}
    given = {name: p.default for name, p in layer.items() if name not in ("out_channels", "bias", "learn_beta", "padding_mode")}
    if "weight" in function:
        given.pop("kernel_size")
    assert given == expected


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_the_facts_of_a_family_name_what_exists(family):
    op = meaning(family.operator)
    assert family in op.facts.families
    assert set(family.options) <= set(inspect.signature(op.params).parameters)
    assert set(family.options) <= set(family.arguments)
    assert family.arguments == tuple(family_arguments(family.name))
    assert set(op.facts.derivative_reads) <= set(op.inputs)
    assert bool(op.with_indices) == any("return_indices" in each.arguments for each in op.facts.families)


def family_arguments(name):
    """The arguments of a function as the table writes them."""
    starred = False
    for parameter in inspect.signature(getattr(wg, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield parameter.name


def test_every_operator_of_the_table_has_facts_and_no_other_has():
    assert all(isinstance(op.facts, Facts) for op in MEANINGS)
    assert wg.spec.maximum.OP.facts is None


NAMES = {op.name for op in MEANINGS} | set(FAMILIES)


def literals(node):
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & NAMES


def test_no_code_but_the_table_compares_the_name_of_an_operator():
    """What differs between operators is a fact in the table."""
    for file in set(SRC.rglob("*.py")) - {SRC / "ops.py"}:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                assert not literals(node), f"{file}:{node.lineno}"


# --- pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_the_page_of_layers_lists_each_with_its_function(family):
    lines = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8").splitlines()
    assert any(f"`{family.layer}(" in line and f"`{family.name}`" in line for line in lines)


def test_the_page_about_adding_an_operator_names_the_files_that_know_of_its_example():
    """Five that were there before, new ones, and tables of exports and bounds: no other file of the package knows `min_pool`.

    An adapter of `conform` may know what another package calls it; without that it says that the package has no such operator.
    """
    text = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")
    parts = re.split(r"Existing files of `src`|An operator that is to be exported", text)
    new, changed, more = (re.findall(r"^\| `(\S+)` ", part, re.MULTILINE) for part in parts)
    assert all((ROOT / path).exists() for path in (*new, *changed, *more))
    assert len(changed) == 5
    words = re.compile(r"min_pool|MinPool|MinParams|(?:spec|functional) import (?:\([^)]*|.*)\bminimum\b")
    files = set(SRC.rglob("*.py")) - set((SRC / "conform" / "adapters").glob("*.py"))
    knowing = {str(path.relative_to(ROOT)) for path in files if words.search(path.read_text(encoding="utf-8"))}
    assert knowing <= {*new, *changed, *more}
    assert {*changed, *more} <= knowing
