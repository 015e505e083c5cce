"""Every script of examples/ runs, in a small size, and prints and draws what it is about."""

import re
import runpy
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from support.paths import EXAMPLES


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a script in an empty folder; give what it prints, once its picture is seen to be one and all it leaves."""

    def running(name, arguments=""):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments.split()])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        (picture,) = tmp_path.iterdir()
        assert picture.name == f"{name}.png"
        assert np.ptp(imread(picture)) > 0.9
        return capsys.readouterr().out

    return running


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def test_the_list_below_is_complete():
    tested = {name.removeprefix("test_the_example_") for name in globals() if name.startswith("test_the_example_")}
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}


def test_the_example_photograph(run):
    printed = run("photograph")
    assert "max_pool2d(x, 3, 2, 1)" in printed
    assert "149/255" in printed


def test_the_example_autoencoder(run):
    """Sixteen numbers per image tell more than the mean image does."""
    printed = run("autoencoder", "--epochs 3 --images 1000")
    (mean,) = numbers(r"([\d.]+) by the mean image", printed)
    errors = numbers(r"epoch +\d+: ([\d.]+)", printed)
    assert len(errors) == 3
    assert errors[-1] < 0.8 * mean


def test_the_example_unet(run):
    """After a few steps it finds more than nothing at all."""
    printed = run("unet", "--steps 20")
    (empty,), (found,) = numbers(r"no disc: ([\d.]+)%", printed), numbers(r"right ([\d.]+)%", printed)
    assert found > empty


def test_the_example_pooling_compared(run):
    """The smooth maximum begins as the mean and ends as the maximum."""
    printed = run("pooling_compared", "--epochs 1 --seeds 1 --images 900 --betas 0.01 1000")
    mean, low, high, maximum = numbers(r"loss ([\d.]+)", printed)
    assert abs(low - mean) < 0.1 * abs(maximum - mean)
    assert abs(high - maximum) < 0.1 * abs(maximum - mean)


def test_the_example_hessian(run):
    printed = run("hessian", "--images 8 --channels 2 --steps 10 --rounds 40")
    assert numbers(r"apart by ([\d.e-]+)", printed)[0] < 1e-9
    there, back = numbers(r"= ([+-][\d.]+)", printed)
    assert there != 0
    assert abs(there - back) <= 1e-11
    ((rest, bend),) = re.findall(r"within ([\d.e-]+) of ([\d.]+)", printed)
    assert float(rest) < 0.05 * float(bend)


def test_the_example_certified(run, tmp_path):
    """What is proved for every float32 evaluation is not more than what is proved in real arithmetic."""
    printed = run("certified", "--epochs 2 --digits 2")
    real, floats = numbers(r"radius ([\d.]+) in real", printed), numbers(r"arithmetic, ([\d.]+) for every", printed)
    assert len(real) == len(floats) == 2
    assert all(0 < b <= a < 0.5 for a, b in zip(real, floats, strict=True))


def test_the_picture_of_planes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["certified", "--planes", str(tmp_path / "planes.png")])
    runpy.run_path(str(EXAMPLES / "certified.py"), run_name="__main__")
    assert np.ptp(imread(tmp_path / "planes.png")) > 0.9
