"""Layers that stand for those of torch.nn."""

import copy
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.fx

from support import torch_bridge_worker as worker
from windowgrad.bridges.torch import nn

LAYERS = {
    # name of the layer: constructors' arguments
    "MaxPool": [(3, 2, 1), {"kernel_size": 2, "stride": 1, "dilation": 2, "ceil_mode": True, "return_indices": True}],
    "AvgPool": [(3, 2, 1), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}],
    "AdaptiveMaxPool": [(2,), {"output_size": 3, "return_indices": True}],
    "AdaptiveAvgPool": [(2,)],
    "Conv": [
        (4, 6, 3),
        {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "padding": "same", "groups": 2, "bias": False},
        {
            "in_channels": 4,
            "out_channels": 2,
            "kernel_size": 3,
            "stride": 2,
            "padding": 1,
            "padding_mode": "circular",
            "dtype": torch.float64,
        },
    ],
    "ConvTranspose": [
        (4, 6, 3),
        {
            "in_channels": 4,
            "out_channels": 4,
            "kernel_size": 3,
            "stride": 2,
            "padding": 1,
            "output_padding": 1,
            "groups": 2,
            "dilation": 2,
        },
    ],
}
MADE = [(f"{kind}{rank}d", given) for kind, calls in LAYERS.items() for rank in (1, 2, 3) for given in calls]


def made(room, name, given):
    torch.manual_seed(0)
    layer = getattr(room, name)
    return layer(**given) if isinstance(given, dict) else layer(*given)


@pytest.mark.parametrize(("name", "given"), MADE, ids=[f"{name}{i}" for i, (name, _) in enumerate(MADE)])
def test_a_layer_is_made_and_computes_as_that_of_torch_nn(name, given):
    ours, theirs = made(nn, name, given), made(torch.nn, name, given)
    assert isinstance(ours, type(theirs))
    assert repr(ours) == repr(theirs)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 4, *(7, 6, 5)[: int(name[-2])], dtype=next(ours.parameters(), torch.empty(0)).dtype)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x[0]), theirs(x[0]))


@pytest.mark.parametrize(("name", "given"), MADE, ids=[f"{name}{i}" for i, (name, _) in enumerate(MADE)])
def test_a_layer_is_traced_as_a_call_of_its_function(name, given):
    """PyTorch's own layers are nodes of their own; ours are functions whose tensors the graph holds."""
    layer = made(nn, name, given)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(layer))
    x = torch.randn(2, 4, *(7, 6, 5)[: int(name[-2])], dtype=next(layer.parameters(), torch.empty(0)).dtype)
    torch.testing.assert_close(traced(x), layer(x), rtol=0, atol=0)
    ours = [node.target.__name__ for node in traced.graph.nodes if node.op == "call_function"]
    assert layer.function.__name__ in ours
    assert [name for name, _ in traced.named_parameters()] == [f"0.{name}" for name, _ in layer.named_parameters()]


def test_smooth_and_unpooling_layers_are_traced():
    x = torch.randn(2, 4, 6, 6)
    layers = [
        nn.SmoothMaxPool2d(2, beta=2.0, learn_beta=4),
        nn.AdaptiveSmoothMaxPool2d(2, beta=2.0),
        nn.GlobalSmoothMaxPool2d(beta=2.0),
    ]
    for layer in layers:
        assert torch.equal(torch.fx.symbolic_trace(torch.nn.Sequential(layer))(x), layer(x))

    class There(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.back = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

        def forward(self, x):
            y, places = self.pool(x)
            return self.back(y, places)

    assert torch.equal(torch.fx.symbolic_trace(There())(x), There()(x))


def test_signatures_are_those_of_torch_nn():
    for theirs, ours in nn.LAYERS.items():
        assert inspect.signature(ours) == inspect.signature(theirs)
        assert list(inspect.signature(ours.forward).parameters) == list(inspect.signature(theirs.forward).parameters)


def test_a_divisor_is_overridden():
    x = torch.randn(1, 4, 4)
    assert torch.equal(nn.AvgPool2d(2, divisor_override=1)(x), nn.AvgPool2d(2)(x) * 4)


def test_an_output_size_chooses_the_output_padding():
    layer, x = nn.ConvTranspose2d(2, 3, 3, stride=2), torch.randn(1, 2, 4, 4)
    assert layer(x, output_size=(10, 9)).shape == (1, 3, 10, 9)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.AvgPool2d(2)),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )


@pytest.mark.parametrize("convolutions", [False, True])
def test_a_model_with_its_layers_replaced_keeps_its_state_its_outputs_and_its_training(convolutions):
    torch.manual_seed(0)
    theirs = network().double()
    ours = copy.deepcopy(theirs)
    before = list(ours.parameters())
    assert nn.replace_pooling(ours, convolutions=convolutions, everything=True) is ours
    kinds = {type(layer).__module__ for layer in ours.modules() if "Conv" in type(layer).__name__}
    assert kinds == {"windowgrad.bridges.torch.nn" if convolutions else "torch.nn.modules.conv"}
    assert {type(layer) for layer in ours.modules() if "Pool" in type(layer).__name__} == {
        nn.MaxPool2d,
        nn.AvgPool2d,
        nn.AdaptiveAvgPool2d,
    }
    assert all(a is b for a, b in zip(ours.parameters(), before, strict=True))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(4, 3, 12, 12, dtype=torch.float64)
    for model in (ours, theirs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_what_pytorch_computes_faster_is_left_to_it_and_reported():
    t, lines = torch.nn, []

    class Mine(t.MaxPool2d):
        pass

    model = t.Sequential(
        t.Conv2d(3, 8, 3), t.Conv2d(8, 8, 3, groups=8), t.Conv2d(8, 4, 1),
        t.ConvTranspose2d(4, 4, 1), t.Conv2d(4, 4, 1, groups=2),
        t.MaxPool2d(2), t.AdaptiveAvgPool2d((2, 1)), t.AdaptiveAvgPool2d(1), t.AdaptiveAvgPool2d((1, 1)), Mine(2), t.ReLU(),
    )  # fmt: skip
    assert nn.replace_pooling(model, convolutions=True, report=lines.append) is model
    assert [type(layer).__module__ == nn.__name__ for layer in model] == [
        False,
        True,
        True,
        False,
        False,
        True,
        True,
        *[False] * 4,
    ]
    dense, mean = "it convolves windows of several cells and channels faster", "it computes a global mean faster"
    assert lines == [
        f"0 (Conv2d): left to PyTorch: {dense}",
        "1 (Conv2d): replaced",
        "2 (Conv2d): replaced",
        f"3 (ConvTranspose2d): left to PyTorch: {dense}",
        f"4 (Conv2d): left to PyTorch: {dense}",
        "5 (MaxPool2d): replaced",
        "6 (AdaptiveAvgPool2d): replaced",
        f"7 (AdaptiveAvgPool2d): left to PyTorch: {mean}",
        f"8 (AdaptiveAvgPool2d): left to PyTorch: {mean}",
        "9 (Mine): left to PyTorch: a class of its own may compute something else",
    ]
    lines.clear()
    nn.replace_pooling(t.Conv2d(3, 8, 3), report=lines.append)
    assert lines == ["the model (Conv2d): left to PyTorch: convolutions were not asked for"]


def test_subclasses_hooks_and_shared_layers_stay():
    class Mine(torch.nn.MaxPool2d):
        pass

    shared, calls = torch.nn.MaxPool2d(2), []
    shared.register_forward_hook(lambda *_: calls.append(1))
    model = torch.nn.Sequential(shared, Mine(2), shared)
    nn.replace_pooling(model)
    assert type(model[1]) is Mine
    assert model[0] is model[2]
    assert type(shared) is nn.MaxPool2d
    model(torch.randn(1, 8, 8))
    assert len(calls) == 2


def test_a_lone_layer_is_replaced_copied_and_compiled():
    layer = copy.deepcopy(nn.replace_pooling(torch.nn.MaxPool2d(2)))
    assert type(layer) is nn.MaxPool2d
    x = torch.randn(1, 4, 4)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="eager")(x), layer(x))


def test_two_processes_find_the_gradients_of_one(tmp_path):
    """Data parallel training averages over its processes; each number here is exact, so twice that is the whole batch's."""
    alone = worker.gradients(worker.network().double(), worker.batch())
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, Path(worker.__file__)]
    processes = [subprocess.Popen([*command, str(rank), tmp_path], env=environment) for rank in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    for rank in range(2):
        for found, wanted in zip(torch.load(tmp_path / f"{rank}.pt"), alone, strict=True):
            assert torch.equal(2 * found, wanted)
    assert any(gradient.abs().sum() > 0 for gradient in alone)
