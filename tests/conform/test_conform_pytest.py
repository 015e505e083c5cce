"""`pytest --windowgrad-conform=…`: a difference fails, a known one is an expected failure, what is not offered is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest

from support.paths import ROOT, TESTS

FEW = ["--windowgrad-cases=60", "--windowgrad-only=avg_pool", "--windowgrad-only=forward"]


def ran(folder, *words):
    """A run of pytest in a folder, with no other plugin."""
    path = os.pathsep.join(map(str, (ROOT / "src", TESTS)))
    given = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "windowgrad_pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=given)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    (folder / "test_own.py").write_text("def test_own():\n    assert False\n")
    names = ["onnx", "support.conform_adapters:WrongDivisor"]
    return ran(folder, *(f"--windowgrad-conform={name}" for name in names), *FEW, "-rxs", "--junitxml=found.xml"), folder


def test_a_new_difference_fails_with_a_program_that_shows_it(several, tmp_path):
    done, _ = several
    assert done.returncode == 1, done.stdout + done.stderr
    failure = done.stdout.partition("= FAILURES =")[2]
    assert "wrong-divisor: avg_pool[6. Mean]" in failure
    assert "expected 1 at (0, 0, 0), got 0.5 at (0, 0, 0) (rule 6. Mean)" in failure
    program = re.search(r"This program shows it:\n\n(.*?print\(.got:[^\n]*)", failure, re.DOTALL)[1]
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert shown.stdout.splitlines()[0].startswith("expected: y [[["), shown.stderr


def test_a_known_difference_is_an_expected_failure_in_its_words(several):
    done, _ = several
    assert re.search(r"XFAIL windowgrad-conform/onnx::avg_pool\[\S.*\] - known \(onnx-\S+\): \w+", done.stdout)


def test_without_paths_only_the_checks_run_and_reports_name_them(several):
    done, folder = several
    assert "test_own" not in done.stdout
    assert 'name="avg_pool[6. Mean]"' in (folder / "found.xml").read_text()


def test_with_a_path_both_run_and_k_selects(tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    exact = "--windowgrad-conform=support.conform_adapters:Slow"
    done = ran(tmp_path, exact, *FEW, "-v", "-k", "own or Mean", "test_own.py")
    assert done.returncode == 0, done.stdout
    assert "test_own.py::test_own PASSED" in done.stdout
    assert "windowgrad-conform/slow::avg_pool[6. Mean] PASSED" in done.stdout
    assert "2 passed, 2 deselected" in done.stdout


def test_what_is_not_offered_is_skipped_with_the_reason(tmp_path):
    done = ran(tmp_path, "--windowgrad-conform=scikit-image", "--windowgrad-only=conv", "--windowgrad-cases=5", "-rs")
    assert done.returncode == 0, done.stdout
    assert "it has blocks" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--windowgrad-conform=pytorch"], "implementation='pytorch': must be one of windowgrad, "),
        (["--windowgrad-conform=support.conform_adapters:NotThere", "--windowgrad-cases=1"], "is not installed"),
        (["--windowgrad-conform=onnx", "--windowgrad-only=median"], "only='median': must be an operator"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, words, message):
    done = ran(tmp_path, *words)
    assert done.returncode == 4
    assert message in done.stdout + done.stderr


def test_a_run_of_others_loads_nothing(tmp_path):
    names = ["numpy", "numba", "windowgrad", "windowgrad.conform"]
    (tmp_path / "test_light.py").write_text(
        f"import sys\n\ndef test_light():\n    assert not {{*{names}}} & {{*sys.modules}}\n"
    )
    done = ran(tmp_path, "-q")
    assert done.returncode == 0, done.stdout


def test_the_package_announces_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"windowgrad_pytest": "windowgrad_pytest"}
    assert "src/windowgrad_pytest.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
