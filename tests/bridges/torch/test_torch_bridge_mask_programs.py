"""Masks in programs: compiled, exported, traced and stored ones take a mask as an input, like the other tensors."""

import io

import pytest
import torch
import torch._dynamo
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import windowgrad as wg
from windowgrad.errors import KindError, WindowError

pytestmark = [  # warnings of PyTorch about PyTorch
    pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*is deprecated:FutureWarning"),
]

FUNCTIONS = {
    "max": lambda x, m: wg.max_pool2d(x, 3, 2, 1, where=m),
    "min": lambda x, m: wg.min_pool2d(x, 2, ties="split", where=m),
    "mean": lambda x, m: wg.avg_pool2d(x, 3, 2, 1, where=m),
    "smooth": lambda x, m: wg.smooth_max_pool2d(x, 2, beta=2, where=m),
    "norm": lambda x, m: wg.lp_pool2d(x, 2.5, 2, where=m),
    "bins": lambda x, m: wg.adaptive_avg_pool2d(x, 2, where=m),
    "all": lambda x, m: wg.global_max_pool2d(x, keepdims=False, where=m),
    "learnt beta": lambda x, m: wg.smooth_max_pool2d(x, 2, beta=x.mean(), where=m),
}
functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def drawn(batch=2):
    """(x, a mask), with NaN where a cell is left out."""
    mask = torch.rand(batch, 3, 6, 6) < 0.6
    return torch.where(mask, torch.randn(batch, 3, 6, 6, dtype=torch.float64), torch.nan), mask


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


class Pool(torch.nn.Module):
    def forward(self, x, mask):
        return wg.avg_pool2d(wg.max_pool2d(x, 2, where=mask), 2, where=mask[..., ::2, ::2]) * 2


def check_follows(program, network):
    """The mask of a call is that of the call, and gradients are those of the plain function."""
    for _ in range(2):
        x, mask = drawn()
        assert torch.equal(program(x, mask), network(x, mask))
        grads = [
            torch.autograd.grad((f(y, mask) ** 2).sum(), y)[0] for f in (program, network) for y in [x.clone().requires_grad_()]
        ]
        torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)


@functions
def test_a_compiled_function_takes_a_mask(f):
    if f is FUNCTIONS["learnt beta"]:
        x, mask = drawn()
        x = x.nan_to_num()
        assert torch.equal(compiled(f)(x, mask), f(x, mask))
    else:
        check_follows(compiled(f), f)


@pytest.mark.slow
def test_compiled_to_machine_code():
    check_follows(compiled(Pool(), backend="inductor"), Pool())


def test_a_mask_may_be_computed_inside_or_be_a_constant():
    x, mask = drawn()
    assert torch.equal(compiled(lambda x: wg.avg_pool2d(x, 2, where=~x.isnan()))(x), wg.avg_pool2d(x, 2, where=mask))
    array = mask.numpy()
    for where in (mask, array):
        assert torch.equal(
            compiled(lambda x, where=where: wg.max_pool2d(x, 2, where=where))(x), wg.max_pool2d(x, 2, where=mask)
        )


def test_indices_and_every_batch_size():
    pool = compiled(lambda x, m: wg.max_pool2d(x, 2, return_indices=True, where=m), dynamic=True)
    for batch in (2, 3, 5, 4):
        x, mask = drawn(batch)
        for found, expected in zip(pool(x, mask), wg.max_pool2d(x, 2, return_indices=True, where=mask), strict=True):
            assert torch.equal(found, expected)


def test_an_exported_program_is_stored_read_and_trained():
    batch, memory = torch.export.Dim("batch"), io.BytesIO()
    shapes = {"x": {0: batch}, "mask": {0: batch}}
    torch.export.save(torch.export.export(Pool(), drawn(), dynamic_shapes=shapes), memory)
    memory.seek(0)
    program = torch.export.load(memory).module()
    check_follows(program, Pool())
    x, mask = drawn(5)
    assert torch.equal(program(x, mask), Pool()(x, mask))


def test_a_traced_program_takes_a_mask():
    check_follows(torch.jit.trace(Pool(), drawn()), Pool())
    check_follows(torch.fx.symbolic_trace(Pool()), Pool())
    x, mask = drawn()
    follows = make_fx(Pool())(x, mask)  # which looks at the tensors while they are computed
    assert torch.equal(follows(x, ~mask).nan_to_num(), Pool()(x, ~mask).nan_to_num())


def test_a_mode_that_watches_changes_nothing():
    x, mask = drawn()
    with FlopCounterMode(display=False):
        y = Pool()(x, mask)
    assert torch.equal(y, Pool()(x, mask))


def test_shapes_are_known_without_data():
    x, mask = drawn()
    for where in (mask, mask.to("meta"), mask.numpy()):
        assert wg.max_pool2d(x.to("meta"), 2, where=where).shape == (2, 3, 3, 3)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(each) for each in (x, mask)]
        assert Pool()(*fake).shape == (2, 3, 1, 1)


# --- what is refused ---------------------------------------------------------------------------------------------


def test_a_mask_without_data_is_no_mask_of_data():
    x, mask = drawn()
    with pytest.raises(KindError, match="where on the meta device: has no data to compute with"):
        wg.max_pool2d(x, 2, where=mask.to("meta"))


def test_a_mask_that_does_not_fit_is_an_error_while_compiling():
    x, _ = drawn()
    with pytest.raises(WindowError, match=r"where of shape \(5,\): must broadcast to \(2, 3, 6, 6\), the shape of x"):
        wg.max_pool2d(x.to("meta"), 2, where=torch.ones(5, dtype=torch.bool, device="meta"))
    with pytest.raises(KindError, match="where: must be an array of bool, not an array of float64"):
        wg.max_pool2d(x.to("meta"), 2, where=x.to("meta"))
    with pytest.raises(Exception, match=r"must broadcast to \(2, 3, 6, 6\), the shape of x"):
        compiled(lambda x, m: wg.max_pool2d(x, 2, where=m))(x, torch.ones(5, dtype=torch.bool))


def test_an_empty_window_is_found_when_the_program_runs():
    pool = compiled(lambda x, m: wg.max_pool2d(x, 2, empty="raise", where=m))
    x, mask = drawn()
    assert torch.equal(pool(x.nan_to_num(), torch.ones_like(mask)), wg.max_pool2d(x.nan_to_num(), 2))
    with pytest.raises(WindowError, match="has no cell that `where` leaves"):
        pool(x, torch.zeros_like(mask))
