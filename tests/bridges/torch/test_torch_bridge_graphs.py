"""The PyTorch bridge for whoever sees a program without its data: torch.compile, torch.export, tracing, fake tensors."""

import importlib
import io
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
import torch._dynamo
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, jvp, vmap

import windowgrad as wg
from support.torch_bridge_cases import PLANES, as_tuple, name, values
from windowgrad import functional
from windowgrad.bridges import torch_import_hook
from windowgrad.bridges.torch.graph import read, spelled
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.params import ConvParams, MaxParams, MeanParams, PadParams, SmoothParams, TransposeParams, UnpadParams

pytestmark = [  # warnings of PyTorch about PyTorch
    pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*is deprecated:FutureWarning"),
]


def compiled(function, backend="aot_eager"):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_network_gives_the_same_bits_and_gradients(backend):
    w, b = torch.randn(3, 2, 3, 3, requires_grad=True), torch.randn(3, requires_grad=True)

    def network(x):
        y, found = wg.max_pool2d(torch.relu(wg.conv2d(x, w, b, padding=1)), 2, return_indices=True)
        y = wg.smooth_max_pool2d(wg.pad(y, (1, 1)), 2, beta=2.0)
        return wg.global_avg_pool2d(wg.conv_transpose2d(y, w, stride=2)).sum() + found.sum()

    step = compiled(network, backend)
    for size in (12, 14):  # another shape is another graph
        x = torch.randn(2, 2, size, size)
        ours, plain = step(x), network(x)
        assert torch.equal(ours, plain)
        for got, wanted in zip(torch.autograd.grad(ours, (w, b)), torch.autograd.grad(plain, (w, b)), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("case", PLANES, ids=name)
def test_every_function_is_one_step_of_a_graph(case):
    """Its fake rule foretells shape, dtype and strides, and its values are those of the call."""
    tensors = case.tensors(torch.float32, requires_grad=False)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    results = torch.compile(case.call, fullgraph=True, backend=backend)(*tensors)
    calls = [node for node in graphs[0].graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)]
    assert len(calls) == 1
    wanted = as_tuple(case.call(*tensors))
    assert all(map(torch.equal, as_tuple(results), wanted))
    with FakeTensorMode() as mode:
        fakes = as_tuple(case.call(*map(mode.from_tensor, tensors)))
    for fake, real in zip(fakes, wanted, strict=True):
        assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


TRANSFORMED = {
    "grad": lambda x: grad(lambda x: wg.smooth_max_pool2d(x, 2, beta=1.5).pow(2).sum())(x),
    "jvp": lambda x: jvp(lambda x: wg.smooth_max_pool2d(x, 2, beta=1.5).pow(2), (x,), (x.cos(),))[1],
    "vmap": lambda x: vmap(lambda x: wg.max_pool2d(x, 2))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMED)
def test_transforms_compile(transform):
    x = torch.randn(3, 4, 4)
    assert torch.equal(compiled(TRANSFORMED[transform])(x), TRANSFORMED[transform](x))


def test_dynamic_shapes_and_channels_last_compile():
    pool = compiled(lambda x: wg.max_pool2d(x, 2) + 1)
    last = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last)
    assert torch.equal(pool(last), wg.max_pool2d(last, 2) + 1)
    torch._dynamo.reset()
    pool = torch.compile(lambda x: wg.max_pool2d(x, 2) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (4, 7, 8):
        assert torch.equal(pool(torch.ones(size, size)), torch.full((size // 2, size // 2), 2.0))


def test_one_graph_serves_every_batch_size():
    """Two for 13 sizes: a batch of one is always a graph of its own. Values and gradients are those of the network."""
    network, graphs = Network(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    torch._dynamo.reset()
    step = torch.compile(network, fullgraph=True, dynamic=True, backend=backend)
    for size in range(1, 14):
        x = torch.randn(size, 2, 10, 10)
        assert torch.equal(step(x), network(x))
        got, wanted = (torch.autograd.grad(f(x).sum(), network.weight)[0] for f in (step, network))
        assert torch.equal(got, wanted)
    assert len(graphs) == 2


def test_autocast_is_seen_by_the_compiler():
    x, w = torch.randn(1, 2, 6), torch.randn(3, 2, 2, requires_grad=True)

    def convolve(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return wg.conv1d(x, w)

    y = compiled(convolve)(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, convolve(x))
    assert torch.autograd.grad(y.sum(), w)[0].dtype == torch.float32


def test_the_first_call_may_be_a_compiled_one():
    """Nobody has loaded the bridge, and nobody has loaded the compiler before us."""
    run_alone("""
        import sys
        import windowgrad as wg
        assert "torch" not in sys.modules
        import torch
        assert "torch._dynamo" not in sys.modules
        f = torch.compile(lambda x: wg.max_pool2d(x, 2) + 1, fullgraph=True, backend="eager")
        assert torch.equal(f(torch.ones(4, 4)), torch.full((2, 2), 2.0))
        assert not any(type(finder).__module__.startswith("windowgrad") for finder in sys.meta_path)
    """)


def test_functions_are_steps_at_once_where_the_compiler_is_loaded_already():
    def double(x):
        return x * 2

    steps = []

    def backend(graph, inputs):
        steps.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    assert torch_import_hook.COMPILER in sys.modules
    torch_import_hook.mark_when_imported([double])
    torch._dynamo.reset()
    torch.compile(lambda x: double(x), fullgraph=True, backend=backend)(torch.ones(2))
    assert steps == [double]


SLOW = """
from pathlib import Path
if not (tried := Path({!r})).exists():
    tried.touch()
    raise KeyboardInterrupt
allow_in_graph = [].append
"""


def test_functions_are_marked_also_if_the_first_import_of_the_compiler_was_interrupted(tmp_path, monkeypatch):
    """A module stands for the compiler, whose import takes seconds: Ctrl-C comes in the middle, and it is imported again."""
    (tmp_path / "slow_compiler.py").write_text(SLOW.format(str(tmp_path / "tried")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch_import_hook, "COMPILER", "slow_compiler")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    torch_import_hook.mark_when_imported([wg.max_pool2d])
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("slow_compiler")
    compiler = importlib.import_module("slow_compiler")
    assert compiler.allow_in_graph.__self__ == [wg.max_pool2d]
    assert not any(type(finder).__module__.startswith("windowgrad") for finder in sys.meta_path)


def test_who_does_not_compile_does_not_load_the_compiler():
    run_alone("""
        import sys, torch, windowgrad as wg
        x = torch.ones(4, 4, requires_grad=True)
        wg.max_pool2d(x, 2).sum().backward()
        assert x.grad.sum() == 4
        assert "torch._dynamo" not in sys.modules
    """)


def run_alone(program):
    command = [sys.executable, "-W", "error::UserWarning", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- programs that are stored ------------------------------------------------------------------------------------


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 2, 2, 2))

    def forward(self, x):
        return wg.smooth_max_pool2d(wg.conv2d(wg.max_pool2d(x, 2), self.weight), 2, beta=2.0)


def check_trains(stored, network, x):
    """The stored program gives the values of the network and the gradients of its weight."""
    assert torch.equal(stored(x), network(x))
    (wanted,) = torch.autograd.grad(network(x).sum(), network.weight)
    ((_, weight),) = stored.named_parameters()
    (got,) = torch.autograd.grad(stored(x).sum(), weight)
    assert torch.equal(got, wanted)


def test_an_exported_program_is_stored_read_and_trained():
    network, x = Network(), torch.randn(2, 2, 10, 10)
    file = io.BytesIO()
    torch.export.save(torch.export.export(network, (x,)), file)
    file.seek(0)
    stored = torch.export.load(file)
    assert sum("windowgrad.compute" in str(node.target) for node in stored.graph.nodes) == 3
    check_trains(stored.module(), network, torch.randn_like(x))


def test_an_exported_program_takes_any_batch_size():
    network = Network()
    batch = {"x": {0: torch.export.Dim("batch")}}
    stored = torch.export.export(network, (torch.randn(4, 2, 10, 10),), dynamic_shapes=batch).module()
    for size in (1, 3, 9):
        x = torch.randn(size, 2, 10, 10)
        assert torch.equal(stored(x), network(x))


class Named(Network):
    def forward(self, x):
        return functional.avg_pool2d(wg.conv2d(x, self.weight, padding=1), kernel_size=2)


@pytest.mark.parametrize("network", [Network(), Named()], ids=lambda network: type(network).__name__)
def test_a_symbolic_trace_has_a_node_for_each_function(network):
    traced, x = torch.fx.symbolic_trace(network), torch.randn(2, 2, 10, 10)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert called[-2:] in ([wg.conv2d, wg.smooth_max_pool2d], [wg.conv2d, wg.avg_pool2d])
    check_trains(traced, network, x)
    check_trains(pickle.loads(pickle.dumps(traced)), network, x)


def test_the_first_trace_may_come_before_everything_else():
    run_alone("""
        import windowgrad as wg
        import torch
        traced = torch.fx.symbolic_trace(lambda x: wg.max_pool2d(x, 2) + 1)
        assert torch.equal(traced(torch.ones(4, 4)), torch.full((2, 2), 2.0))
    """)


def test_a_traced_program_keeps_the_operators_and_trains():
    network, x = Network(), torch.randn(2, 2, 10, 10)
    check_trains(torch.jit.trace(network, x), network, torch.randn_like(x))


RECORDS = [
    MaxParams(Sliding((2, 3), 1, ((0, 1), 2), 2, True), ties="split", empty="raise"),
    MeanParams(Adaptive((None, 3)), False, 7),
    MeanParams(Global(2, keepdims=False)),
    SmoothParams(Sliding((2**70,)), -0.1, False),
    SmoothParams(Global(1), 3),
    ConvParams(Sliding((3,), 2), 4),
    TransposeParams(Sliding((3,), 2), 4, 1),
    PadParams(((1, 2), (3, 4))),
    UnpadParams(((1, 2),)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_spelled(record):
    again = read(spelled(record))
    assert (type(again), again) == (type(record), record)


def test_what_is_no_record_is_not_made():
    with pytest.raises(KeyError):
        read('{"Popen": ["true"]}')


# --- the operator itself -----------------------------------------------------------------------------------------

SMOOTH, CONV = spelled(SmoothParams(Sliding((2, 2)), 1.5)), spelled(ConvParams(Sliding((2, 2), 1)))
OPERANDS = {
    "forward": ("smooth_max_pool", "forward", SMOOTH, "", [(2, 4, 4)]),
    "with_indices": ("max_pool", "with_indices", spelled(MaxParams(Sliding((2, 2)))), "", [(2, 4, 4)]),
    "jvp": ("smooth_max_pool", "jvp", SMOOTH, "", [(2, 4, 4), (2, 4, 4)]),
    "vjp": ("smooth_max_pool", "vjp", SMOOTH, "1", [(2, 4, 4), (2, 2, 2)]),
    "vjp of two of three": ("conv", "vjp", CONV, "101", [(1, 2, 4, 4), (3, 2, 2, 2), (3,), (1, 3, 3, 3)]),
}


@pytest.mark.parametrize("what", OPERANDS)
def test_the_operator_keeps_what_it_promises_to_pytorch(what):
    *told, shapes = OPERANDS[what]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    torch.library.opcheck(torch.ops.windowgrad.compute.default, (*told, tensors))


def test_a_shape_that_does_not_fit_is_an_error_while_compiling():
    with pytest.raises(Exception, match="kernel_size=9 on axis 0: the window covers 9 cells, the padded input has 4"):
        compiled(lambda x: wg.max_pool2d(x, 9))(torch.ones(4, 4))


def test_fake_tensors_have_no_cells_and_need_none():
    with FakeTensorMode():
        x = torch.empty(2**20, 2**10, 64, 64)  # a terabyte
        y = values(wg.max_pool2d(x, 2, return_indices=True))
    assert y.shape == (2**20, 2**10, 32, 32)


def test_meta_tensors_have_a_shape_and_need_no_data():
    x = torch.empty(2**20, 2, 64, 64, device="meta", requires_grad=True)
    w = torch.empty(3, 2, 3, 3, device="meta", dtype=torch.float64)
    y, found = wg.max_pool2d(x, 2, return_indices=True)
    z = wg.conv2d(wg.avg_pool2d(x, 2), w, padding=1)
    for tensor, shape, dtype in ((y, (2**20, 2, 32, 32), torch.float32), (z, (2**20, 3, 32, 32), torch.float64)):
        assert (tensor.shape, tensor.dtype, tensor.device.type) == (shape, dtype, "meta")
    assert (found.shape, found.dtype) == (y.shape, torch.int64)
    (y.sum() + z.sum()).backward()
    assert (x.grad.shape, x.grad.device.type) == (x.shape, "meta")
    with pytest.raises(wg.WindowError, match="kernel_size=65 on axis 0: the window covers 65 cells"):
        wg.max_pool2d(x, 65)
    with pytest.raises(wg.KindError, match="x on the meta device: has no data to compute with"):
        wg.conv2d(x, torch.ones(3, 2, 3, 3))
