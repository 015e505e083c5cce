"""PyTorch as a peer, and its compositions of what it has not, which also say whether a result is right where no peer can."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from cases import BETA, Array, Case
from timing import Call

from windowgrad.geometry import Global, Sliding

Pool = Callable[[Any], Any]

MOST_UNFOLDED = 4 << 30  # bytes


def by_torch(case: Case, x: Array, g: Array) -> Call | None:
    """In the layout of the case: a tensor of a transposed view is PyTorch's channels_last."""
    pool = COMPOSITIONS.get(case.op, torch_pool)(case)
    if pool is not None and case.dtype == "uint8":
        try:
            pool(torch.from_numpy(x))
        except RuntimeError:  # with channels last its indices are bytes too, and planes have more cells
            return None
    return None if pool is None else differentiated(case, pool, x, g)


def differentiated(case: Case, pool: Pool, x: Array, g: Array) -> Call:
    """The rule of the case, of a function of a tensor; what a backward pass needs, its forward has kept."""
    cells, gradient = torch.from_numpy(x), torch.from_numpy(g)
    if case.last:
        assert cells.is_contiguous(memory_format=torch.channels_last)
    if case.rule == "forward":
        return lambda: pool(cells)
    cells = cells.requires_grad_()
    if case.rule == "backward":
        y = pool(cells)
        return lambda: torch.autograd.grad(y, cells, gradient, retain_graph=True)[0]

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        y = pool(cells)
        return y, torch.autograd.grad(y, cells, gradient)[0]

    return both


def torch_pool(case: Case) -> Pool | None:
    rank, geometry = case.geometry.rank, case.geometry
    if isinstance(geometry, Global) and (case.op, case.rule) == ("max", "forward"):
        axes = tuple(range(2, 2 + rank))
        return lambda x: x.amax(axes, keepdim=True)  # its vectorised form; the adaptive one has the faster backward
    if isinstance(geometry, Sliding):
        function = getattr(F, f"{case.op}_pool{rank}d", None)
        padding, ceil_mode = tuple(before for before, _ in geometry.padding), geometry.ceil_mode[0]
        return function and (lambda x: function(x, geometry.kernel, geometry.stride, padding, ceil_mode=ceil_mode))
    bins = geometry.grid(case.spatial)
    function = getattr(F, f"adaptive_{case.op}_pool{rank}d")
    return lambda x: function(x, bins)


def torch_lp(case: Case) -> Pool | None:
    """By a sum of squares: `F.lp_pool2d` takes no padding, and its powers take longer."""
    geometry = case.geometry
    function = getattr(F, f"avg_pool{geometry.rank}d") if isinstance(geometry, Sliding) and geometry.rank in (2, 3) else None
    if function is None:
        return None
    padding, ceil_mode = tuple(before for before, _ in geometry.padding), geometry.ceil_mode[0]
    options = {"padding": padding, "ceil_mode": ceil_mode, "divisor_override": 1}
    return lambda x: function(x.square(), geometry.kernel, geometry.stride, **options).sqrt()


def torch_min(case: Case) -> Pool | None:
    pool = torch_pool(replace(case, op="max"))
    return pool and (lambda x: -pool(-x))


def torch_masked_max(case: Case) -> Pool | None:
    pool, left_out = torch_pool(replace(case, op="max")), left_out_of(case)
    return pool and (lambda x: pool(x.masked_fill(left_out, -math.inf)))


def torch_masked_avg(case: Case) -> Pool | None:
    """Sums of what is left, divided by how many that are: a mask is new in every call, so its count is too."""
    geometry, left_out = case.geometry, left_out_of(case)
    if not isinstance(geometry, Sliding) or geometry.rank not in (2, 3) or case.hangs_over:
        return None
    function, padding = getattr(F, f"avg_pool{geometry.rank}d"), tuple(before for before, _ in geometry.padding)

    def pool(x: Any) -> Any:
        total = function(x.masked_fill(left_out, 0), geometry.kernel, geometry.stride, padding, divisor_override=1)
        missing = function(left_out.to(x.dtype), geometry.kernel, geometry.stride, padding, divisor_override=1)
        return total / (math.prod(geometry.kernel) - missing)

    return pool


def left_out_of(case: Case) -> torch.Tensor:
    mask = case.mask()
    assert mask is not None
    return torch.from_numpy(~mask)


# --- smooth max, of which PyTorch has none -----------------------------------------------------------------------------


def torch_smooth(case: Case) -> Pool | None:
    """The best composition: over everything there is nothing to cut; `F.unfold` copies windows faster than a view of them."""
    windows = case.as_windows()
    if isinstance(case.geometry, Global):
        axes = tuple(range(2, 2 + case.geometry.rank))
        return lambda x: x.logsumexp(axes, keepdim=True)
    if windows is None:
        return lambda x: smooth_bins(case, x)
    kernel, stride, padding = windows
    out, cells = case.out_shape, math.prod(kernel)
    if math.prod(out) * cells * 4 > MOST_UNFOLDED:
        return None
    if case.geometry.rank != 2 or case.hangs_over:
        return lambda x: smooth_windows(case, x)
    split, before = (*out[:2], cells, math.prod(out[2:])), tuple(p for p, _ in padding)
    return lambda x: F.unfold(x, kernel, padding=before, stride=stride).reshape(split).logsumexp(2).reshape(out)


def smooth_windows(case: Case, cells: torch.Tensor) -> torch.Tensor:
    """Any rank: every window cut out. Padded cells are zeros, those past the padding do not count; bins have none."""
    windows = case.as_windows()
    assert windows is not None
    pads = case.geometry.padding if isinstance(case.geometry, Sliding) else windows[2]
    padding = [p for pad in reversed(pads) for p in pad]
    over = [q - pad[1] for (_, q), pad in zip(windows[2], pads, strict=True)]
    cut = F.pad(cells, padding) if any(padding) else cells
    if any(over):
        cut = F.pad(cut, [p for more in reversed(over) for p in (0, more)], value=-math.inf)
    for axis, (size, step) in enumerate(zip(*windows[:2], strict=True)):
        cut = cut.unfold(2 + axis, size, step)
    return (BETA * cut.flatten(2 + case.geometry.rank)).logsumexp(-1) / BETA


def smooth_bins(case: Case, cells: torch.Tensor) -> torch.Tensor:
    """Any rank: one bin after the other."""
    sides = [[slice(s, s + n) for s, n in zip(t.start, t.count, strict=True)] for t in case.geometry.tables(case.spatial)]
    axes = tuple(range(2, 2 + case.geometry.rank))
    bins = [(BETA * cells[:, :, *cut]).logsumexp(axes) / BETA for cut in itertools.product(*sides)]
    return torch.stack(bins, -1).reshape(*cells.shape[:2], *case.out_shape[2:])


COMPOSITIONS = {
    "smooth": torch_smooth,
    "lp": torch_lp,
    "min": torch_min,
    "masked max": torch_masked_max,
    "masked avg": torch_masked_avg,
}


def composed(case: Case, x: Array, g: Array) -> list[Array]:
    """The parts of a result, slowly."""
    cells = torch.tensor(x.copy(), requires_grad=True)
    y = smooth_windows(case, cells) if isinstance(case.geometry, Sliding) else smooth_bins(case, cells)
    found = {"forward": [y], "backward": []}.get(case.rule, [y])
    if case.rule != "forward":
        found = [*found, *torch.autograd.grad(y, cells, torch.tensor(g.copy()))]
    return [part.detach().numpy() for part in found]
