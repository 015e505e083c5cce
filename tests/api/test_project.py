"""What is promised of the project itself: what an import loads, where a fact stands, how large the meaning is."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import windowgrad as wg
from support.paths import ROOT

HEAVY = ("numba", "llvmlite", "torch", "jax", "onnx", "onnxruntime", "dask", "typer", "rich", "matplotlib", "sklearn", "mpmath")


def loaded_after(code):
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout))


def test_the_heavy_libraries_are_installed_so_that_not_loading_them_means_something():
    for name in HEAVY:
        __import__(name)


@pytest.mark.parametrize(
    "code",
    [
        "import windowgrad",
        "import windowgrad, fractions, numpy; windowgrad.avg_pool1d(numpy.array([fractions.Fraction(1)] * 4), 2)",
    ],
)
def test_importing_and_pooling_fractions_loads_no_framework_and_no_compiler(code):
    assert not loaded_after(code) & set(HEAVY)


def test_pooling_numbers_loads_the_compiler_and_no_framework():
    loaded = loaded_after("import numpy, windowgrad; windowgrad.max_pool1d(numpy.arange(4.0), 2)")
    assert loaded & set(HEAVY) == {"numba", "llvmlite"}


def test_import_adds_few_modules_to_those_of_numpy():
    """Import time is measured by `python -X importtime`; what makes it is the modules beyond NumPy's, and they are few."""
    added = loaded_after("import windowgrad") - loaded_after("import numpy")
    foreign = {name for name in added if name.split(".")[0] != "windowgrad"}
    assert not {name for name in foreign if name.split(".")[0] not in sys.stdlib_module_names}
    assert "importlib.metadata" not in foreign


def test_the_version_stands_in_one_place():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wg.__version__ == version("windowgrad") == declared
    assert not [path for path in (ROOT / "src").rglob("*.py") if declared in path.read_text()]
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text()


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'windowgrad' has no attribute 'median_pool'"):
        _ = wg.median_pool


def test_every_public_name_exists_and_functions_say_what_they_do():
    for name in wg.__all__:
        assert getattr(wg, name).__doc__, name


def test_a_file_of_the_specification_is_short():
    for path in (ROOT / "src" / "windowgrad" / "spec").glob("*.py"):
        assert len(path.read_text().splitlines()) < 150, path


def test_the_package_says_that_it_is_typed():
    assert (Path(wg.__file__).parent / "py.typed").exists()


def test_the_makefile_has_the_two_commands_and_ci_runs_the_second():
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for command in ("demo", "test"):
        assert f"\n{command}: " in makefile
        assert f"make {command}" in readme
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-2:] == ["make browser", "make test"]


def pages(path, **environment):
    """A test that opens a page, run with the programs in the folder `path`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/conform/test_conform_html.py",
        "-k",
        "copied",
    ]
    environment = os.environ | {"PATH": str(path), "CI": ""} | environment
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_without_a_browser_its_tests_are_left_out_and_the_last_lines_say_so_but_in_ci_they_fail(tmp_path):
    found = pages(tmp_path)
    assert found.returncode == 0, found.stdout
    *_, title, reason, result = found.stdout.splitlines()
    assert " left out " in title
    assert reason.startswith("1 browser tests were left out: no Chromium")
    assert reason.endswith("`make browser` installs one")
    assert result.startswith("1 skipped")
    found = pages(tmp_path, CI="true")
    assert found.returncode == 1
    assert "1 error" in found.stdout.splitlines()[-1]


def test_make_browser_is_content_with_a_browser_that_is_there_and_says_what_to_install_where_it_cannot(tmp_path):
    make = ["make", "-s", "-C", str(ROOT), "browser", f"PYTHON={sys.executable}"]
    tools = {name: shutil.which(name) for name in ("make", "sh", "id")}
    if not all(tools.values()):
        pytest.skip("no make here")
    for name, program in tools.items():
        (tmp_path / name).symlink_to(program)
    found = subprocess.run(make, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert found.returncode != 0
    assert "install Chromium or Chrome and its chromedriver, so that both are on the PATH\n" in found.stdout
    for name in ("chromium", "chromedriver"):
        (tmp_path / name).touch(0o755)
    found = subprocess.run(make, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, f"browser: {tmp_path / 'chromium'} and {tmp_path / 'chromedriver'}\n")


def test_the_kernels_in_the_table_of_operators_are_those_of_the_rules_that_the_specification_has():
    for op in wg.ops.MEANINGS:
        kernels = op.facts.kernels()
        for rule in ("forward", "jvp", "vjp", "with_indices"):
            assert (getattr(kernels, rule) is None) == (getattr(op, rule) is None), (op.name, rule)


def test_an_operator_without_kernels_is_refused_with_machine_numbers_and_computes_with_objects():
    op = dataclasses.replace(wg.spec.mean.OP, name="own")
    params, x = wg.params.MeanParams(wg.geometry.Sliding((2,))), np.arange(4.0)
    with pytest.raises(wg.KindError, match=r"own: has no kernels and .*; use x.astype\(object\)"):
        wg.dispatch.run(op, "forward", params, x)
    assert wg.dispatch.run(op, "forward", params, x.astype(object)).tolist() == [0.5, 2.5]
