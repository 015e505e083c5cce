"""What the very first call takes: of every operator and rule, with an empty cache of kernels and from a full one.

Each call runs twice, each time in a fresh process: with a cache folder of its own that is empty, then with the same folder.
Python has the bytecode of all modules in both, as it has it of what is installed.
The time of a call is what comes on top of importing windowgrad and Numba, whose times are shown below the table. On a busy
machine its CPU time is the better number. Shares are of that: LLVM optimises and generates code, typing and lowering are
Numba's, the rest is Python and the work itself.

    python benchmarks/cold_start.py
    python benchmarks/cold_start.py --only "max both"
    python benchmarks/cold_start.py --demo      # what `windowgrad demo` compiles, too
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from report import cpu, load
from rich.console import Console
from rich.table import Table

CALL = Path(__file__).with_name("cold_call.py")
COLD, WARM = 2.0, 0.15  # seconds that are asked for
SHAPE = (4, 16, 32, 32)
POOLING = {
    "max": ("", "", ""),
    "min": ("", "", ""),
    "avg": ("", "", ""),
    "smooth_max": ("", "", ", beta=1.0"),
    "lp": ("2, ", "padding=", ""),
}
"""Of each kind of pooling, what stands before the size of its windows and before the padding, and what comes last."""

ARRAY = "{name} = np.random.default_rng(0).standard_normal({shape}).astype({dtype!r})"
BOTH = "y, pull = wg.vjp(lambda {over}: {call}, {over}); pull(np.ones_like(y))"
DEMO = "from windowgrad.cli import main; import sys; sys.argv[1:] = ['demo']\ntry: main()\nexcept SystemExit: pass"


class First(NamedTuple):
    """Python code: what is there before, and the call."""

    name: str
    setup: str
    call: str


def calls(dtype: str) -> Iterator[First]:
    """Every operator and rule. "both" is `wg.vjp` and its pull; a gradient alone is that for one argument."""
    x, mask = ARRAY.format(name="x", shape=SHAPE, dtype=dtype), "mask = np.random.default_rng(0).random(x.shape[-2:]) < 0.8"
    for op, (given, padding, options) in POOLING.items():
        sliding = f"wg.{op}_pool2d(x, {given}3, 2, {padding}1{options}"
        windows = {
            f"{op} 3×3": f"{sliding})",
            f"{op} global": f"wg.global_{op}_pool2d(x{', ' * bool(given)}{given[:-2]}{options})",
            f"{op} adaptive": f"wg.adaptive_{op}_pool2d(x, {given}7{options})",
            f"{op} masked": f"{sliding}, where=mask)",
        }
        for name, call in windows.items():
            yield from differentiated(name, f"{x}; {mask}", call, ("x",))
        if op in ("max", "min"):
            yield First(f"{op} 3×3 indices", x, f"{sliding}, return_indices=True)")
    yield from differentiated("lp 3×3, p = 2.5", x, "wg.lp_pool2d(x, 2.5, 3, 2, padding=1)", ("x",))
    beta = ARRAY.format(name="beta", shape=SHAPE[1:2], dtype=dtype)
    yield from differentiated("learnt beta", f"{x}; {beta}", "wg.smooth_max_pool2d(x, 3, 2, 1, beta=beta)", ("x", "beta"))
    indices = "indices = np.random.default_rng(0).integers(0, 64 * 64, x.shape)"
    yield from differentiated("max_unpool", f"{x}; {indices}", "wg.max_unpool2d(x, indices, 2)", ("x",))
    yield from convolutions(x, dtype)
    yield from differentiated("relu", x, "wg.relu(x)", ("x",))
    yield from differentiated("pad", x, "wg.pad(x, (1, 2))", ("x",))
    yield from differentiated("unpad", x, "wg.unpad(x, (1, 2))", ("x",))
    for mode in ("reflect", "replicate", "circular"):
        yield from differentiated(f"pad {mode}", x, f"wg.pad(x, (1, 2), {mode!r})", ("x",))
    yield from networks(x, dtype)


def convolutions(x: str, dtype: str) -> Iterator[First]:
    kinds = {
        "conv 3×3": ((24, 16, 3, 3), "wg.conv2d(x, w, b, padding=1)"),
        "conv 3×3 s2": ((24, 16, 3, 3), "wg.conv2d(x, w, b, stride=2, padding=1)"),
        "conv 1×1": ((24, 16, 1, 1), "wg.conv2d(x, w, b)"),
        "conv depthwise": ((16, 1, 3, 3), "wg.conv2d(x, w, b, padding=1, groups=16)"),
        "conv groups": ((24, 8, 3, 3), "wg.conv2d(x, w, b, padding=1, groups=2)"),
        "conv_transpose 2×2 s2": ((16, 24, 2, 2), "wg.conv_transpose2d(x, w, b, stride=2)"),
    }
    for name, (shape, call) in kinds.items():
        outs = shape[1] if "transpose" in name else shape[0]
        arrays = [x, ARRAY.format(name="w", shape=shape, dtype=dtype), ARRAY.format(name="b", shape=(outs,), dtype=dtype)]
        yield from differentiated(name, "; ".join(arrays), call, ("x", "w", "b"))


def networks(x: str, dtype: str) -> Iterator[First]:
    """Batch normalisation, and a block of a network compiled for inference."""
    setup = f"{x}; from windowgrad import nn; rng = np.random.default_rng(0)"
    norm = f"layer = nn.BatchNorm(); params = layer.init(rng, x.shape, {dtype!r})"
    yield from differentiated("batch norm", f"{setup}; {norm}", "layer.train(params, x)[0]", ("x", "params"))
    layers = "nn.Conv(16, (3, 3), padding=1), nn.BatchNorm(), nn.ReLU(), nn.MaxPool((2, 2))"
    model = f"model = nn.Sequential({layers}); params = model.init(rng, x.shape, {dtype!r})"
    yield First("nn.compile", f"{setup}; {model}", "nn.compile(model, params)(x)")


def differentiated(name: str, setup: str, call: str, over: tuple[str, ...]) -> Iterator[First]:
    names = ", ".join(over)
    yield First(f"{name} forward", setup, call)
    yield First(f"{name} both", setup, BOTH.format(over=names, call=call))
    yield First(f"{name} jvp", setup, f"wg.jvp(lambda {names}: {call}, ({names},), ({names},))")
    if len(over) > 1:
        for each in over:
            yield First(f"{name} both, for {each} alone", setup, BOTH.format(over=each, call=call))


def fits(first: First, dtype: str) -> bool:
    """Whether there is such a call of arrays of this dtype: integers have no derivatives, and networks no other floats."""
    if first.name.startswith(("batch norm", "nn.")):
        return dtype in ("float32", "float64")
    return dtype.startswith("float") or first.name.endswith(("forward", "indices"))


def measured(first: First, folder: Path) -> dict[str, Any]:
    """In a process of its own, in an empty folder for what it writes; its last line says what was found."""
    places = {"WINDOWGRAD_CACHE_DIR": folder / "cache", "PYTHONPYCACHEPREFIX": folder.parent / "bytecode"}
    environment = os.environ | {name: str(place) for name, place in places.items()}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, str(CALL.resolve()), first.setup, first.call]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(f"{first.name}: {first.call}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def twice(first: First, within: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=within) as name:
        folder = Path(name)
        return {"name": first.name, "cold": measured(first, folder), "cached": measured(first, folder)}


@contextmanager
def prepared(dtype: str) -> Iterator[Path]:
    """A folder for measurements, in which Python has written the bytecode of what a call imports."""
    with tempfile.TemporaryDirectory() as folder:
        for first in calls(dtype):
            if first.name in ("max 3×3 forward", "conv 3×3 forward", "smooth_max 3×3 forward"):
                twice(first, Path(folder))
        yield Path(folder)


# --- what is shown -----------------------------------------------------------------------------------------------------


HEADINGS = ("empty cache", "CPU time", "of it LLVM", "typing", "lowering", "other compiling", "functions", "kernels")
CACHED = ("from the cache", "CPU time")


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="Seconds of the first call, beyond the imports", row_styles=["", "dim"])
    shown.add_column("call", no_wrap=True)
    for heading in HEADINGS + CACHED:
        shown.add_column(heading.replace(" ", "\n", 1), justify="right")
    for row in rows:
        cold, cached = row["cold"], row["cached"]
        shares = [f"{seconds / cold['cpu']:.0%}" for seconds in cold["shares"].values()]
        compiled = limited(cold["call"], COLD, 2), f"{cold['cpu']:.2f}", *shares, str(cold["functions"]), str(cold["kernels"])
        shown.add_row(row["name"], *compiled, limited(cached["call"], WARM, 3), f"{cached['cpu']:.3f}")
    return shown


def limited(seconds: float, most: float, digits: int) -> str:
    return f"[red]{seconds:.{digits}f}[/red]" if seconds > most else f"{seconds:.{digits}f}"


def totals(rows: list[dict[str, Any]]) -> Iterator[str]:
    for kind, title, most in (("cold", "empty cache", COLD), ("cached", "from the cache", WARM)):
        taken = {row["name"]: row[kind]["call"] for row in rows}
        slowest, over = max(taken, key=taken.__getitem__), sum(seconds > most for seconds in taken.values())
        middle = f"median {median(taken.values()):.2f} s, slowest {taken[slowest]:.2f} s ({slowest})"
        total = f"{sum(taken.values()):.1f} s in all (CPU {sum(row[kind]['cpu'] for row in rows):.1f} s)"
        yield f"{title}: {len(rows)} calls, {total}, {middle}, {over} above {most:g} s"
    shares = {share: sum(row["cold"]["shares"][share] for row in rows) for share in rows[0]["cold"]["shares"]}
    yield f"compiling: {', '.join(f'{share} {seconds:.1f} s' for share, seconds in shares.items())} (CPU)"
    for name in ("import windowgrad", "import numba"):
        found = [row[kind][name] for row in rows for kind in ("cold", "cached")]
        yield f"{name}: median {median(found):.2f} s of CPU time, least {min(found):.2f} s"


def compiling(found: dict[str, Any]) -> float:
    return float(sum(found["shares"].values()))


def demo(within: Path) -> str:
    first = First("windowgrad demo", "", DEMO)
    twice(first, within)  # for the bytecode of what it imports
    row = twice(first, within)
    parts = [
        f"{title}: {row[kind]['call']:.1f} s, CPU {row[kind]['cpu']:.1f} s, of which compiling {compiling(row[kind]):.1f} s"
        for kind, title in (("cold", "empty cache"), ("cached", "from the cache"))
    ]
    return f"windowgrad demo, {'; '.join(parts)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="SUBSTRING", help='calls with this in their name, such as "max both"')
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--demo", action="store_true", help="also run `windowgrad demo`")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=150)
    chosen = [first for first in calls(options.dtype) if options.only in first.name and fits(first, options.dtype)]
    if not chosen:
        console.print(f"no call has {options.only!r} in its name", markup=False)
        return 2
    rows = []
    with prepared(options.dtype) as folder:
        for first in chosen:
            rows.append(twice(first, folder))
            cold, cached = (rows[-1][kind]["call"] for kind in ("cold", "cached"))
            console.print(f"{first.name}: {cold:.2f} s with an empty cache, {cached:.3f} s from it", highlight=False)
        console.print(table(rows))
        for line in totals(rows):
            console.print(line, highlight=False)
        if options.demo:
            console.print(demo(folder), highlight=False)
    console.print(f"on {cpu()}, load {load()}", highlight=False)
    if options.json:
        options.json.write_text(json.dumps({"cpu": cpu(), "load": load(), "calls": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
