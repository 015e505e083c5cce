"""`windowgrad certify` on files: what it prints and writes, and its status."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from windowgrad import nn
from windowgrad.cli import app
from windowgrad.errors import WindowgradError
from windowgrad.onnx import export

SHAPE = (1, 1, 5, 5)
X = np.random.default_rng(1).uniform(0, 1, SHAPE).astype(np.float32)


@pytest.fixture
def files(tmp_path):
    """A network with a padded, overlapping maximum in ceil mode, an image, and the label that it has there."""
    layers = nn.Conv(3, (2, 2)), nn.ReLU(), nn.MaxPool((3, 3), 2, padding=1, ceil_mode=True), nn.Flatten(), nn.Linear(3)
    model = nn.Sequential(*layers)
    params = model.init(np.random.default_rng(0), SHAPE)
    export(model, params, SHAPE, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", X)
    return tmp_path, int(model(params, X).argmax())


def run(*words):
    result = CliRunner().invoke(app, ["certify", *map(str, words)])
    if isinstance(result.exception, WindowgradError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def vnnlib(label, radius):
    """That another label does not win within the radius."""
    lines = [f"(declare-const X_{i} Real)" for i in range(25)] + [f"(declare-const Y_{i} Real)" for i in range(3)]
    for i, value in enumerate(X.reshape(-1).tolist()):
        lines += [f"(assert (<= X_{i} {value + radius:.9f}))", f"(assert (>= X_{i} {value - radius:.9f}))"]
    others = " ".join(f"(and (>= Y_{other} Y_{label}))" for other in range(3) if other != label)
    return "\n".join([*lines, f"(assert (or {others}))"])


def test_a_property_that_holds_has_status_0_and_one_that_does_not_has_1(files):
    folder, label = files
    (folder / "near.vnnlib").write_text(vnnlib(label, 0.001))
    (folder / "far.vnnlib").write_text(vnnlib(label, 9.0))
    status, printed = run(folder / "net.onnx", folder / "near.vnnlib", "--json", folder / "answer.json")
    assert status == 0
    assert printed.startswith("holds in ")
    assert printed.endswith("holds\n")
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["verdict"] == "holds"
    assert min(answer["answers"][0]["margins"]) > 0
    for arithmetic in ("real", "float32"):
        status, printed = run(
            folder / "net.onnx", folder / "far.vnnlib", "--arithmetic", arithmetic, "--json", folder / "answer.json"
        )
        assert (status, printed.splitlines()[-1]) == (1, "violated")
        assert len(json.loads((folder / "answer.json").read_text())["answers"][0]["counterexample"]["x"]) == 25


def test_a_proof_is_written_and_checked(files):
    folder, label = files
    proof, words = folder / "proof.safetensors", ("--image", folder / "x.npy", "--label", label, "--radius", 0.001)
    for arithmetic in ("real", "float32"):
        assert run(folder / "net.onnx", *words, "--arithmetic", arithmetic, "--certificate", proof)[0] == 0
        checked = CliRunner().invoke(app, ["check", str(proof), str(folder / "net.onnx")])
        assert (checked.exit_code, checked.output.split(":")[0]) == (0, "accepted")
    export(
        nn.Sequential(nn.Flatten(), nn.Linear(3)),
        nn.Sequential(nn.Flatten(), nn.Linear(3)).init(np.random.default_rng(0), SHAPE),
        SHAPE,
        folder / "other.onnx",
    )
    assert CliRunner().invoke(app, ["check", str(proof), str(folder / "other.onnx")]).exit_code == 1
    assert CliRunner().invoke(app, ["check", str(folder / "x.npy"), str(folder / "net.onnx")]).exit_code == 1
    assert CliRunner().invoke(app, ["check", str(folder / "none"), str(folder / "net.onnx")]).exit_code == 2


def test_what_cannot_be_decided_in_time_has_status_3(files):
    folder, label = files
    (folder / "edge.vnnlib").write_text(vnnlib(label, 0.001).replace(f" Y_{label})", f" (- Y_{label} 1000))"))
    weak = (folder / "edge.vnnlib").read_text()
    assert run(folder / "net.onnx", folder / "edge.vnnlib")[0] == 1, weak  # no margin of 1000 anywhere
    status, printed = run(
        folder / "net.onnx", "--image", folder / "x.npy", "--label", label, "--radius", 0.15, "--seconds", 1e-9
    )
    assert (status, printed.splitlines()[-1]) in ((3, "unknown"), (0, "holds"))


def test_the_largest_radius_is_found(files):
    folder, label = files
    status, printed = run(folder / "net.onnx", "--image", folder / "x.npy", "--label", label, "--find-radius")
    assert status == 0
    radius = float(printed.split("largest certified radius: ")[1].splitlines()[0])
    assert run(folder / "net.onnx", "--image", folder / "x.npy", "--label", label, "--radius", 0.9 * radius)[0] == 0
    wider = run(
        folder / "net.onnx",
        "--image",
        folder / "x.npy",
        "--label",
        label,
        "--radius",
        1.2 * radius,
        "--method",
        "linear",
        "--seconds",
        1e-9,
    )
    assert wider[0] != 0


def test_wrong_use_is_one_sentence(files):
    folder, label = files
    net, image = folder / "net.onnx", folder / "x.npy"
    (folder / "short.vnnlib").write_text(
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (>= X_0 0))(assert (<= Y_0 0))"
    )
    np.save(folder / "odd.npy", np.zeros(3))
    np.save(folder / "objects.npy", np.array([{}]), allow_pickle=True)
    (folder / "two.npy").write_bytes(b"no array")
    for words, said in [
        ((folder / "none.onnx", "--image", image, "--label", 0, "--radius", 1), "cannot be read: No such file"),
        ((net,), "give either a VNN-LIB file, or --image, --label and --radius"),
        ((net, folder / "short.vnnlib", "--image", image), "give either a VNN-LIB file"),
        ((net, folder / "short.vnnlib"), "has 1 inputs, the network 25"),
        ((net, folder / "missing.vnnlib"), "cannot be read"),
        ((net, "--image", image, "--radius", 1), "--image needs --label"),
        ((net, "--image", image, "--label", 7, "--radius", 1), "label=7: must be below 3"),
        ((net, "--image", image, "--label", label, "--radius", -1), "radius=-1.0: must be a number that is not negative"),
        ((net, "--image", image, "--label", label), "radius=None: must be a number"),
        ((net, "--image", folder / "odd.npy", "--label", label, "--radius", 1), "must be numbers of shape (1, 1, 5, 5)"),
        ((net, "--image", folder / "objects.npy", "--label", label, "--radius", 1), "cannot be read as a .npy file"),
        ((net, "--image", folder / "two.npy", "--label", label, "--radius", 1), "cannot be read as a .npy file"),
        ((net, "--image", image, "--label", label, "--radius", 1, "--method", "box"), "method='box': must be one of"),
        ((net, "--image", image, "--label", label, "--radius", 1, "--memory", 0), "memory=0.0: must be a positive number"),
        ((net, "--image", image, "--label", label, "--radius", 1, "--json", folder / "no" / "a.json"), "does not exist"),
    ]:  # fmt: skip
        status, printed = run(*words)
        assert status == 2, words
        assert said in printed, printed
