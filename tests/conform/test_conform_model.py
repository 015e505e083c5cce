"""`windowgrad conform --model`: the layers of a network, by others, on the same inputs."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import parser

from support.command import windowgrad
from support.small_model import save_small
from windowgrad import nn
from windowgrad.conform import model as command
from windowgrad.conform.model_bounds import EXACT, ONCE
from windowgrad.conform.model_runtimes import RUNTIMES, Runtime, reference
from windowgrad.onnx import export
from windowgrad.onnx.operators import TABLE

LAYERS = """
<ir_version: 8, opset_import: ["" : 17]>
layers (float[N, 2, 9, 8] x) => (float[N, 3] y)
<float[4, 1, 3, 3] w = {WEIGHTS}, float[3, 3] v = {1, -2, 3, 4, -5, 6, 7, 8, -9}, float[3] b = {0.5, 1, -1},
int64[2] flat = {0, -1}, int64[1] from = {1}, int64[1] to = {4}, int64[1] on = {1}>
{
    a = Conv<pads = [1, 1, 1, 1], group = 2>(x, w)
    p, i = MaxPool<kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1>(a)
    s = Sigmoid(p)
    q = AveragePool<kernel_shape = [2, 2], pads = [1, 1, 0, 0], count_include_pad = 1>(s)
    g = GlobalAveragePool(q)
    f = Reshape(g, flat)
    c = Slice(f, from, to, on)
    y = Gemm<transB = 1>(c, v, b)
}"""


def layers_model():
    weights = np.random.default_rng(0).standard_normal(36).astype(np.float32)
    text = LAYERS.replace("WEIGHTS", ", ".join(f"{w:f}" for w in weights))
    return parser.parse_model(text)


def asked(folder, *arguments):
    return windowgrad("conform", *arguments, cwd=folder)


def test_others_agree_on_every_layer_within_its_rounding(tmp_path):
    onnx.save(layers_model(), tmp_path / "net.onnx")
    command = [sys.executable, "-c", "from windowgrad.cli import main; main()", "conform", "--model", "net.onnx"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)  # OpenVINO forks, which JAX warns of
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    rows = [line.split() for line in found.stdout.splitlines()]
    counts = {" ".join(row[:-6]): row[-5:] for row in rows if row[-1:] == ["·"] and row[0] != "windowgrad"}
    assert counts == {name: ["8", "·", "·", "·", "·"] for name in ("ONNX Runtime", "ONNX reference", "OpenVINO")}
    assert ["windowgrad", "8", "·", "·", "·", "·"] in rows


def test_functions_of_the_domain_windowgrad_are_computed_by_others_from_their_bodies(tmp_path):
    net = nn.Sequential(nn.SmoothMaxPool((2, 2), beta=3.0), nn.ReLU())
    export(net, net.init(np.random.default_rng(0), (1, 1, 6, 6)), (1, 1, 6, 6), tmp_path / "net.onnx")
    found = asked(tmp_path, "onnxruntime", "onnx", "--model", "net.onnx")
    assert found.status == 0, found.out
    assert "every layer agrees" in found.out


def wrong(change):
    """A runtime that gives what the reference gives, with a fault at pooling."""

    def run(model, given):
        answers = reference(model, given)
        return change(answers) if model.graph.node[0].op_type == "MaxPool" else answers

    return Runtime("wrong", "Wrong", "onnx", run)


def failing(_):
    raise ValueError("no such pooling\nat all")


def lacking(_):
    raise NotImplementedError("later")


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        (
            lambda answers: [answers[0] + 1, answers[1]],
            1,
            '"MaxPool_1" (MaxPool) · rule 2. Padding and max\n  p[0, 0, 0, 0] is',
        ),
        (lambda answers: [np.nextafter(answers[0], 9), answers[1]], 1, '"MaxPool_1" (MaxPool) · rule 2. Padding and max'),
        (lambda answers: [answers[0], answers[1] + 1], 1, '"MaxPool_1" (MaxPool) · rule Indices\n  i[0, 0, 0, 0] is'),
        (
            lambda answers: [answers[0][..., :-1], answers[1]],
            1,
            "rule 1. Size\n  p has shape (1, 4, 4, 3), expected (1, 4, 4, 4)",
        ),
        (
            lambda answers: [answers[0].astype(float), answers[1]],
            1,
            "rule 8. Types and error\n  p has dtype float64, expected float32",
        ),
        (lambda answers: answers[:1], 1, "rule ONNX MaxPool\n  1 outputs, expected 2"),
        (failing, 1, "rule ONNX MaxPool\n  ValueError: no such pooling at all"),
        (lacking, 0, "every layer agrees"),
    ],
    ids=["value", "last digit", "indices", "shape", "dtype", "count", "error", "unsupported"],
)
def test_the_first_layer_that_differs_is_named_with_its_rule(tmp_path, monkeypatch, change, status, text):
    onnx.save(layers_model(), tmp_path / "net.onnx")
    monkeypatch.setattr(command, "RUNTIMES", (wrong(change),))
    found = asked(tmp_path, "--model", "net.onnx")
    assert found.status == status, found.out
    assert text in found.out


def test_sums_may_be_off_by_their_rounding_and_no_more(tmp_path, monkeypatch):
    onnx.save(layers_model(), tmp_path / "net.onnx")

    def run(factor):
        def run(model, given):
            (y, *others) = reference(model, given)
            return [np.float32(y * (1 + factor)) if model.graph.node[0].op_type == "Gemm" else y, *others]

        return run

    for factor, status in ((2.0**-23, 0), (2.0**-12, 1)):
        monkeypatch.setattr(command, "RUNTIMES", (Runtime("off", "Off", "onnx", run(factor)),))
        found = asked(tmp_path, "--model", "net.onnx")
        assert found.status == status, found.out
        assert ("parts at" in found.out and "rule 8. Types and error" in found.out) == bool(status)


def test_the_reference_is_not_asked_for_windows_of_very_many_cells(tmp_path, monkeypatch):
    onnx.save(layers_model(), tmp_path / "net.onnx")
    (slow,) = (runtime for runtime in RUNTIMES if runtime.name == "onnx")
    monkeypatch.setattr(command, "RUNTIMES", (slow._replace(most=100),))
    found = asked(tmp_path, "--model", "net.onnx")
    assert found.status == 0
    assert "2 layers left out, their windows have too many cells" in found.out


def test_what_is_not_installed_is_status_1_only_if_it_was_named(tmp_path, monkeypatch):
    save_small(tmp_path)
    monkeypatch.setattr(command, "RUNTIMES", (Runtime("none", "None", "no-such-package", reference),))
    assert asked(tmp_path, "--model", "small.onnx").status == 0
    found = asked(tmp_path, "none", "--model", "small.onnx")
    assert found.status == 1
    assert "not installed" in found.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "none.onnx"], "none.onnx: cannot be read: No such file or directory"),
        (["torch", "--model", "small.onnx"], "implementation='torch': must be one of onnxruntime, onnx, openvino with --model"),
        (["--model", "small.onnx", "--json", "a.json"], "json: is not an option together with --model"),
        (["--model", "damaged.onnx"], "damaged.onnx: is not an ONNX file, or is truncated or damaged"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(tmp_path, arguments, message):
    save_small(tmp_path)
    (tmp_path / "damaged.onnx").write_bytes((tmp_path / "small.onnx").read_bytes()[:-40])
    found = asked(tmp_path, *arguments)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"windowgrad: {message}"), found.err
    assert found.err.count("\n") == 1


def test_the_tables_name_operators_that_exist():
    assert set(TABLE) >= EXACT | ONCE
