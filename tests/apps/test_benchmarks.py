"""The benchmarks draw what they say, check what they time, and count what they report. Nothing here looks at a time."""

import json
import platform
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from support.interpreter import fresh
from support.paths import BENCHMARKS

IMPORTED = f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r})\n"

DRAWN = """
from cases import size_of
from random_cases import drawn
cases = {seed: list(drawn(200, seed)) for seed in (1, 2)}
print(json.dumps({
    "again": cases[1] == list(drawn(200, 1)),
    "others": cases[1] != cases[2],
    "begin alike": cases[1][:30] == list(drawn(10, 1)),
    "largest": max(size_of(case.shape, case.geometry) for case in cases[1]),
    "rows": [[case.op, case.rule, case.window, case.shape, case.out_shape] for case in cases[1]],
}))
"""


def test_random_cases_come_from_the_seed_alone_and_have_every_kind():
    found = json.loads(fresh(IMPORTED + DRAWN))
    assert found["again"]
    assert found["others"]
    assert found["begin alike"]
    assert found["largest"] <= 64 << 20
    rows = found["rows"]
    assert len(rows) == 600
    assert {(op, rule) for op, rule, *_ in rows} == {
        (op, rule) for op in ("max", "avg", "smooth") for rule in ("forward", "backward", "both")
    }
    assert {len(shape) for *_, shape, _ in rows} == {3, 4, 5}
    first = {name.split()[0].split("×")[0] for _, _, name, *_ in rows}
    assert first == {"1", "2", "3", "4", "5", "7", "global", "adaptive"}
    assert any("ceil" in name for _, _, name, *_ in rows)
    images = [shape for *_, shape, _ in rows if len(shape) == 4]
    assert any(n % 2 for *_, n in images)
    assert any(n != m for *_, n, m in images)
    assert any(channels % 16 for _, channels, *_ in images)
    assert {shape[0] for shape in images} >= {1, 2, 4, 8, 16, 32}


CONVOLUTIONS = """
from random_convolutions import drawn
cases = list(drawn(300, 1))
print(json.dumps({
    "again": cases == list(drawn(300, 1)),
    "others": cases != list(drawn(300, 2)),
    "rules": [case.rule for case in cases[:4]],
    "flops": max(case.flops for case in cases if case.rule == "forward"),
    "rows": [[case.batch, case.ins, case.outs, case.kernel, case.stride, case.groups, case.size] for case in cases],
}))
"""


def test_random_convolutions_come_from_the_seed_alone_and_have_every_kind():
    found = json.loads(fresh(IMPORTED + CONVOLUTIONS))
    assert found["again"]
    assert found["others"]
    assert found["rules"] == ["forward", "backward"] * 2
    assert found["flops"] <= 4e9
    batch, ins, outs, kernels, strides, groups, sizes = zip(*found["rows"], strict=True)
    assert {len(kernel) for kernel in kernels} == {1, 2, 3}
    assert {kernel[0] for kernel in kernels} == {1, 3, 5, 7}
    assert set(strides) == {1, 2}
    assert {group in (1, channels) for group, channels in zip(groups, ins, strict=True)} == {True}
    assert any(group > 1 for group in groups)
    assert any(channels % 16 for channels in outs)
    assert any(n % 2 for size in sizes for n in size)
    assert {1, 32} <= set(batch)


CONVOLVED = """
from conv_cases import Case
from convolution import PEERS, checked
found = {}
for case in (
    Case("some", 3, 5, (3, 3), 2, (9, 8), 1, batch=2), Case("some", 4, 4, (3,), 1, (9,), 1, groups=4),
    Case("some", 4, 3, (2, 2), 2, (5, 5), transposed=True), Case("filter", 1, 1, (3, 3, 3), 1, (6, 5, 4), 1),
    Case("filter", 1, 1, (5, 5), 1, (9, 9), 2, dtype="float64"),
):
    for rule in ("forward", "backward"):
        found[f"{rule} {case.place}"] = list(checked(case.__class__(**(vars(case) | {"rule": rule})), tuple(PEERS)))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_convolution_is_that_of_its_peers():
    found = json.loads(fresh(IMPORTED + CONVOLVED, seconds=600))
    every = ["windowgrad", "PyTorch", "ONNX Runtime", "OpenVINO"]
    assert found["forward some 3→5 3×3 s2, 9×8"] == every
    assert found["forward filter 1→1 3×3×3 s1, 6×5×4"] == [*every, "SciPy"]
    assert found["forward filter 1→1 5×5 s1, 9×9, float64"] == ["windowgrad", "PyTorch", "SciPy"]
    assert all(who == ["windowgrad", "PyTorch"] for name, who in found.items() if name.startswith("backward"))


CHECKED = """
from cases import Case
from pooling import PEERS, checked
from windowgrad.geometry import Adaptive, Global, Sliding
found = {}
for geometry in (Sliding((3, 2), 2, 1, ceil_mode=True), Sliding((3,), 1), Adaptive((2, 3)), Adaptive((3,)), Global(3)):
    shape = (2, 3, 6, 7, 5)[: 2 + geometry.rank]
    for op in ("max", "avg", "smooth"):
        for rule in ("forward", "backward", "both", "bridge"):
            if (op, rule) != ("smooth", "bridge"):
                case = Case(op, rule, str(geometry), geometry, shape)
                found[case.name] = list(checked(case, *case.arrays(), tuple(PEERS)))
for rule in ("forward", "backward", "both"):
    case = Case("lp", rule, "3×2", Sliding((3, 2), 2, 1), (2, 3, 6, 7))
    found[case.name] = list(checked(case, *case.arrays(), tuple(PEERS)))
for dtype, last in (("float64", False), ("uint8", False), ("uint8", True)):
    case = Case("max", "forward", "2×2", Sliding((2, 2)), (1, 3, 18, 18), last, dtype)
    found[case.name] = list(checked(case, *case.arrays(), tuple(PEERS)))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_rule_of_every_geometry_is_that_of_its_peers():
    found = json.loads(fresh(IMPORTED + CHECKED, seconds=600))
    assert len(found) == 61
    for name, who in found.items():
        assert "PyTorch" in who or "uint8" in name, name
    images = ("max forward 2×2, 1×3×18×18, float64", "max forward 2×2, 1×3×18×18, uint8")
    assert all(found[image] == ["windowgrad", "PyTorch", "JAX", "ONNX Runtime"] for image in images)


WRONG = """
import numpy as np
from cases import Case
from pooling import check
from runner import WrongResultError
from windowgrad.geometry import Sliding
case = Case("max", "both", "2×2", Sliding((2, 2)), (1, 1, 4, 4))
x, g = case.arrays()
y, gradient = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 4, 4), np.float32)
other = gradient.copy()
other[0, 0, 3, 3] = 2
check(case, x, g, {"windowgrad": lambda: (y, gradient), "PyTorch": lambda: (y, gradient)})
try:
    check(case, x, g, {"windowgrad": lambda: (y, gradient), "PyTorch": lambda: (y, other)})
except WrongResultError as error:
    print(error)
"""


def test_one_wrong_cell_of_a_gradient_stops_the_benchmark():
    assert fresh(IMPORTED + WRONG).strip() == "max both 2×2, 1×1×4×4: 1 of 16 cells are not those of PyTorch"


SUMMARY = """
from cases import Case
from distribution import summary
from report import Row
from rich.console import Console
from windowgrad.geometry import Sliding
def row(op, ratio, other):
    case = Case(op, "forward", f"by {ratio}", Sliding((2, 2)), (1, 1, 4, 4))
    warm, default = {"windowgrad": 1.0, "PyTorch": ratio, "JAX": other}, {"windowgrad": 1.0, "PyTorch": 9.0}
    return Row(case, {"warm": warm, "default": default}, 1)
rows = [row("max", ratio, 8.0) for ratio in (0.5, 1.5, 2.0, 4.0, 3.0)] + [row("avg", 6.0, 0.25)]
console = Console(width=150)
for part in summary(rows, ("PyTorch", "JAX")):
    console.print(part)
"""


def test_the_summary_has_the_median_the_slow_end_and_the_name_of_the_worst():
    shown = fresh(IMPORTED + SUMMARY)
    beside_torch, beside_fastest = shown.split("times as fast as the fastest peer")
    cells = [line.replace("│", " ").split() for line in beside_torch.splitlines() if "│" in line]
    assert ["max", "forward", "5", "2.00×", "0.90×", "0.50×", "80%", "9.00×", "9.00×", "9.00×", "100%"] in cells
    assert ["all", "6", "2.50×", "1.00×", "0.50×", "83%", "9.00×", "9.00×", "9.00×", "100%"] in cells
    assert "0.50× warm, 9.00× default: max forward by 0.5, 1×1×4×4" in beside_torch
    assert "0.25× warm, 9.00× default: avg forward by 6.0, 1×1×4×4" in beside_fastest


STORED = """
from dataclasses import replace
from pathlib import Path
from cases import Case
from report import Row
from stored import Run, read, write
from plot import beside_first, brief_lines, ruled_lines, title, write_plot
from windowgrad.geometry import Global, Sliding
def row(op, rule, geometry, ratio):
    case = Case(op, rule, "some", geometry, (1, 1, 4, 4))
    return Row(case, {"warm": {"windowgrad": 0.002, "PyTorch": 0.002 * ratio, "JAX": 1.0, "floor": 0.001}}, 64)
flat, whole = Sliding((2, 2)), Global(2)
rows = [row("max", "forward", flat, 0.5), row("avg", "forward", flat, 4.0), row("max", "backward", flat, 3.0)]
rows.append(row("max", "forward", whole, 600.0))  # the other peer is faster than that
rows.append(Row(replace(rows[0].case, op="smooth"), {"warm": {"windowgrad": 1.0, "floor": 1.0}}, 64))  # no peer
run = Run("Pooling", "python benchmarks/pooling.py --json rows.json", {"threads": 2}, "bytes", rows, {})
path = Path(sys.argv[1])
write(run, path / "rows.json")
again = read(path / "rows.json")
write(again, path / "again.json")
write_plot([again, again], path / "rows.png", brief=True)
print(json.dumps({
    "names": [row.case.name for row in again.rows] == [row.case.name for row in rows],
    "same": (path / "rows.json").read_text() == (path / "again.json").read_text(),
    "times": [row.speedup for row in again.rows],
    "brief": [[line.label, line.ratios] for line in brief_lines(again.rows)],
    "ruled": [[line.label, line.ratios] for line in ruled_lines(again.rows)],
    "first": beside_first(again.rows),
    "alone": beside_first([Row(rows[0].case, {"warm": {"windowgrad": 1.0, "PyTorch": 2.0, "floor": 1.0}}, 64)]),
    "title": title(again),
}))
"""


def test_stored_rows_are_the_rows_and_every_one_that_has_a_peer_is_in_the_picture(tmp_path):
    script = IMPORTED + STORED.replace("sys.argv[1]", repr(str(tmp_path)))
    found = json.loads(fresh(script))
    assert found["names"]
    assert found["same"]
    assert found["times"] == [0.5, 4, 3, 500, None]
    assert found["brief"] == [["max, mean: global, adaptive", [500]], ["max, mean: images", [0.5, 4, 3]]]
    assert found["ruled"] == [
        ["max, mean: global, adaptive", []],
        ["forward", [500]],
        ["max, mean: images", []],
        ["forward", [0.5, 4]],
        ["backward", [3]],
    ]
    assert (found["first"], found["alone"]) == ([0.5, 4, 3, 600], [])
    assert found["title"] == [
        "Pooling beside the fastest of PyTorch and JAX",
        "faster in 3 of 4 rows, 3.50× in the median (PyTorch alone: 3.50×); 2 threads",
    ]
    assert np.ptp(imread(tmp_path / "rows.png")) > 0.9


PAGE = """
from speed_pages import DOCS, page, read, stored
print(page({name: read(stored(name)) for name in ("pooling", "convolution")}) == (DOCS / "speed-rows.md").read_text("utf-8"))
"""


def test_the_page_of_rows_is_that_of_the_stored_rows():
    """Else write it anew: python benchmarks/speed_pages.py."""
    assert fresh(IMPORTED + PAGE).split() == ["True"]


FAULTS = """
from allocators import FEW, Worker, faults
worker = Worker("warm", print)
print(worker.call(faults) <= FEW)
worker.stop()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the variables are those of glibc")
def test_a_warm_allocator_keeps_its_memory():
    assert fresh(IMPORTED + FAULTS).split() == ["True"]


def test_the_cold_start_counts_what_is_compiled_and_nothing_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path))
    setup, call = "x = np.ones((4, 16, 32, 32), np.float32)", "wg.vjp(wg.relu, x)[1](x)"
    command = [sys.executable, str(BENCHMARKS / "cold_call.py"), setup, call]
    cold, cached = (json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2))
    assert cold["functions"] >= cold["kernels"] >= 1
    assert all(seconds > 0 for seconds in cold["shares"].values())
    assert cached["functions"] == cached["kernels"] == 0
