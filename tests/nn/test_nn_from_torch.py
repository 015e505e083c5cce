"""Parameters from PyTorch's state dicts and from safetensors files of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from windowgrad import nn
from windowgrad.errors import KindError, OptionError, WindowError

SHAPE = (2, 3, 8, 8)
MODEL = nn.Sequential(
    nn.Conv(4, (3, 3), padding=1, bias=False),
    nn.BatchNorm(),
    nn.Residual(nn.Sequential(nn.ReLU(), nn.Conv(6, (3, 3), 2, 1), nn.BatchNorm()), nn.Conv(6, (1, 1), 2)),
    nn.Flatten(),
    nn.Linear(5),
)


class Block(torch.nn.Module):
    """Its modules are called as torchvision calls them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(4, 6, 3, 2, 1), torch.nn.BatchNorm2d(6)
        self.downsample = torch.nn.Conv2d(4, 6, 1, 2)

    def forward(self, x):
        return self.bn1(self.conv1(torch.relu(x))) + self.downsample(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4)
        self.layer1, self.fc = torch.nn.Sequential(Block()), torch.nn.Linear(96, 5)

    def forward(self, x):
        return self.fc(self.layer1(self.norm(self.stem(x))).flatten(1))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    made = Net()
    made(torch.randn(16, *SHAPE[1:]) * 2 + 1)  # running statistics
    return made.eval()


ORDER = ["stem", "norm", "layer1.0.conv1", "layer1.0.bn1", "layer1.0.downsample", "fc"]


def agrees(params, net):
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_allclose(MODEL(params, x), net(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_state_dict_is_taken_in_its_order(net):
    params = nn.load_torch(MODEL, net.state_dict(), SHAPE)
    agrees(params, net)
    assert params[1]["running_mean"].dtype == np.float32
    before = params[4]["weight"].copy()
    with torch.no_grad():
        net.fc.weight += 1  # the arrays are copies
    assert np.array_equal(params[4]["weight"], before)
    with torch.no_grad():
        net.fc.weight -= 1


def test_a_file_needs_names_unless_they_are_ours(net, tmp_path):
    save_file(net.state_dict(), tmp_path / "net")
    params = nn.load_torch(MODEL, tmp_path / "net", SHAPE, names=ORDER)
    agrees(params, net)
    with pytest.raises(WindowError, match=r"the module 'fc' has .*; layer 0 must have weight; give names="):
        nn.load_torch(MODEL, tmp_path / "net", SHAPE)
    nn.save(tmp_path / "ours", params)  # its names are the places of the layers
    again = nn.load_torch(MODEL, str(tmp_path / "ours"), SHAPE)
    agrees(again, net)


def test_names_of_one_sequential_are_sorted_as_numbers(tmp_path):
    layers = [torch.nn.Linear(3, 3) for _ in range(12)]
    theirs = torch.nn.ModuleDict({"body": torch.nn.Sequential(*layers)})
    save_file(theirs.state_dict(), tmp_path / "net")
    model = nn.Sequential(*(nn.Linear(3) for _ in layers))
    params = nn.load_torch(model, tmp_path / "net", (1, 3))
    for own, layer in zip(params, layers, strict=True):
        assert np.array_equal(own["weight"], layer.weight.detach().numpy())


def test_a_file_is_read_without_torch(net, tmp_path):
    save_file(net.fc.state_dict(), tmp_path / "fc")
    code = f"""
import sys
from windowgrad import nn
params = nn.load_torch(nn.Linear(5), {str(tmp_path / "fc")!r}, (1, 96))
assert params["weight"].shape == (5, 96) and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bfloat16_becomes_float32(net):
    params = nn.load_torch(nn.Linear(5), {k: v.bfloat16() for k, v in net.fc.state_dict().items()}, (1, 96))
    assert params["weight"].dtype == np.float32


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            lambda s: s | {"fc.weight": torch.ones(4, 96)},
            WindowError,
            r"source\['fc.weight'\] of shape \(4, 96\): must be \(5, 96\)",
        ),
        (
            lambda s: s | {"more.weight": torch.ones(4)},
            WindowError,
            "source: has 7 modules with parameters, the model 6 layers; give",
        ),
        (
            lambda s: {k: v for k, v in s.items() if k != "fc.bias"},
            WindowError,
            "the module 'fc' has weight; layer 4 must have",
        ),
        (lambda s: s | {"fc.weight": torch.ones(5, 96, dtype=torch.int64)}, KindError, r"source\['fc.weight'\]: .* not int64"),
        (lambda s: [1], KindError, r"source=\[1\]: must be a state dict, or the path of a safetensors file, not list"),
    ],
)
def test_what_does_not_fit_is_said(net, change, kind, said):
    with pytest.raises(kind, match=said):
        nn.load_torch(MODEL, change(dict(net.state_dict())), SHAPE)


def test_other_mistakes_are_said(net, tmp_path):
    with pytest.raises(OptionError, match="names: 'nobody' is not a module of the source; it has stem, norm"):
        nn.load_torch(MODEL, net.state_dict(), SHAPE, names=["nobody"])
    with pytest.raises(WindowError, match="names: has 1 module with parameters, the model 6 layers"):
        nn.load_torch(MODEL, net.state_dict(), SHAPE, names=["fc"])
    with pytest.raises(KindError, match="model=3: must be a layer"):
        nn.load_torch(3, {}, SHAPE)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    with pytest.raises(OptionError, match=r"net.pt: is not a safetensors file but a zip archive, such as torch.save"):
        nn.load_torch(MODEL, tmp_path / "net.pt", SHAPE)
