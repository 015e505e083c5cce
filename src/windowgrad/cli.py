"""The `windowgrad` command."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from windowgrad.arguments import ints
from windowgrad.drawing import question, text
from windowgrad.errors import KindError, OptionError, WindowgradError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        import windowgrad

        typer.echo(f"windowgrad {windowgrad.__version__}")
        raise typer.Exit


@app.callback()
def windowgrad(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Pooling and convolution in any dimension, with an executable specification."""


def sizes(name: str, text: str | None) -> Any:
    """`3` is the same on every axis, `3x5` one per axis, `1:2x0:0` a (before, after) pair per axis, `-` keeps an axis."""
    if text is None or text in ("same", "valid"):
        return text
    entries = [_entry(name, text, part) for part in text.lower().replace(",", "x").split("x")]
    return entries[0] if len(entries) == 1 and not isinstance(entries[0], tuple) else tuple(entries)


def _entry(name: str, text: str, part: str) -> Any:
    try:
        if part == "-" and name == "output-size":
            return None
        return tuple(map(int, part.split(":"))) if ":" in part else int(part)
    except ValueError:
        raise KindError(f"{name}={text!r}: must be a number such as 3, or one per axis such as 3x5") from None


@app.command()
def explain(
    operator: Annotated[str, typer.Argument(help="For example max_pool2d, adaptive_avg_pool2d, conv_transpose1d.")],
    input: Annotated[str, typer.Option(help="The spatial size, such as 5x5.")],  # noqa: A002  # the name of the option
    kernel: Annotated[str | None, typer.Option(help="Size of the window: 3, or 3x5.")] = None,
    stride: Annotated[str | None, typer.Option(help="Step between windows; by default the kernel for pooling, else 1.")] = None,
    padding: Annotated[str, typer.Option(help="1, or 1x2, or pairs 1:2x0:0; conv also takes same and valid.")] = "0",
    dilation: Annotated[str, typer.Option(help="Distance between the cells of a window.")] = "1",
    ceil_mode: Annotated[bool, typer.Option("--ceil-mode", help="Add a last window that overhangs the end.")] = False,
    output_size: Annotated[str | None, typer.Option(help="Adaptive pooling: bins per axis; - keeps an axis.")] = None,
    output_padding: Annotated[str, typer.Option(help="Transposed convolution: cells added at the end.")] = "0",
    limit: Annotated[int, typer.Option(min=1, help="How many outputs to draw.")] = 36,
) -> None:
    """Print the output shape, and draw for each output which cells it sees."""
    spatial = ints("input", _shape("input", input))
    asked = question.Question(
        operator,
        spatial,
        kernel=sizes("kernel", kernel),
        stride=sizes("stride", stride),
        padding=sizes("padding", padding),
        dilation=sizes("dilation", dilation),
        ceil_mode=ceil_mode,
        output_size=sizes("output-size", output_size),
        output_padding=sizes("output-padding", output_padding),
    )
    answer = question.answer(asked)
    console = Console(highlight=False)
    written = text.written_in(console.encoding)
    console.print(f"{operator}: input {_by(spatial)} -> output {_by(answer.out)}", markup=False)
    console.print(f"{answer.geometry}\n", markup=False, soft_wrap=True)
    for line in text.lines(answer, limit, console.width):
        console.print(written(line), markup=False, soft_wrap=True)


def _shape(name: str, text: str) -> tuple[int, ...]:
    found = sizes(name, text)
    return found if isinstance(found, tuple) else (found,)


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


@app.command()
def explore(
    output: Annotated[Path | None, typer.Option(help="Where to write the page; default: this user's cache folder.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is not such a page.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only write the page.")] = False,
) -> None:
    """Open the window explorer: a page on which you see what each output sees, computes and gives back."""
    from windowgrad.explore import command

    command.explore(output, overwrite, not no_open, Console(highlight=False))


@app.command()
def demo(
    pool: Annotated[str | None, typer.Option(help="Pooling: max, smooth or avg; default max.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images; default 12.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers; default 0.")] = None,
    picture: Annotated[Path, typer.Option(help="Where to write the picture, a .png or a .pdf.")] = Path("demo.png"),
    checkpoint: Annotated[Path, typer.Option(help="Where to write the checkpoint.")] = Path("demo.safetensors"),
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint.")] = False,
) -> None:
    """Train a small network on images of digits, and check its gradient against exact fractions."""
    from windowgrad import demo as show

    show.run(show.Options(picture, checkpoint, pool, seed, epochs, resume), Console())


@app.command()
def warmup(
    dtype: Annotated[
        list[str] | None, typer.Option(help="May be repeated; default float32, float64, float16, uint8 and int64.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes that compile; default one per CPU.")] = None,
) -> None:
    """Compile all kernels now, so that first calls are fast."""
    from windowgrad import warmup as work

    work.run(dtype or work.DTYPES, Console(highlight=False), jobs)


@app.command()
def conform(
    implementations: Annotated[
        list[str] | None, typer.Argument(help="Names such as torch or onnxruntime; default: all installed.")
    ] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="An implementation of your own, as module:Class.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="An operator, a check (such as gradient) or a rule (such as NaN).")
    ] = None,
    cases: Annotated[
        int | None, typer.Option(min=1, help="How many cases; enough for every pair of options if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random cases, sizes and values.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write the results to this file as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file, for continuous integration.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report to this file, one HTML page.")] = None,
    most: Annotated[
        int | None,
        typer.Option(
            min=0, help="Most checks per implementation, 0 for all; default: a limit for those that compile each case."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of one case.")] = 30,
    memory: Annotated[float, typer.Option(help="Memory limit of one case in GiB, all its processes together.")] = 6,
    model: Annotated[
        Path | None, typer.Option(metavar="NET.onnx", help="Compare runtimes of ONNX on this model instead, layer by layer.")
    ] = None,
) -> None:
    """Check implementations of pooling and convolution against the specification; status 1 if something new differs."""
    from windowgrad.conform import command
    from windowgrad.conform.process import Limits

    if model is not None:
        from windowgrad.conform.model import conform_model

        others = {"adapter": adapter, "only": only, "cases": cases, "json": json, "junit": junit, "html": html, "most": most}
        if wrong := [name for name, value in others.items() if value is not None]:
            raise OptionError(f"{wrong[0]}: is not an option together with --model")
        raise typer.Exit(conform_model(model, implementations or (), seed, Console()))
    limits = Limits.of(seconds, memory)
    cases = command.CASES if cases is None else cases
    wanted = command.Request(implementations or (), adapter or (), only or (), cases, seed, json, junit, html, limits, most)
    raise typer.Exit(command.conform(wanted, Console()))


@app.command()
def certify(
    net: Annotated[Path, typer.Argument(metavar="NET.onnx", help="A network with one input and one output.")],
    property: Annotated[  # noqa: A002  # what it is called
        Path | None, typer.Argument(metavar="[PROPERTY.vnnlib]", help="What must not happen, and on which inputs.")
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Instead: an input as a .npy file, whose label must stay.")] = None,
    label: Annotated[int | None, typer.Option(help="The label of the image.")] = None,
    radius: Annotated[float | None, typer.Option(help="How far every number of the image may move.")] = None,
    find_radius: Annotated[bool, typer.Option("--find-radius", help="Find the largest radius that can be proved.")] = False,
    method: Annotated[str, typer.Option(help="linear (fastest) or optimised (tightest).")] = "optimised",
    arithmetic: Annotated[str, typer.Option(help="real, or float32: every evaluation in float32.")] = "real",
    seconds: Annotated[float, typer.Option(help="Time limit.")] = 300,
    memory: Annotated[float, typer.Option(help="Memory of a block of bounds, in GiB.")] = 1,
    certificate: Annotated[Path | None, typer.Option(help="Write the proof to this file, for `windowgrad check`.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the answer to this file as JSON.")] = None,
) -> None:
    """Prove a property of a network on a box of inputs; status 0 if it holds, 1 if it is violated, 3 if it is unknown."""
    from windowgrad.certify import command

    files = command.Files(certificate, json)
    asked = command.Request(net, property, image, label, radius, find_radius, method, arithmetic, seconds, memory, files)
    raise typer.Exit(command.certify(asked, Console()))


@app.command()
def check(
    certificate: Annotated[Path, typer.Argument(help="A file that `windowgrad certify --certificate` has written.")],
    net: Annotated[Path, typer.Argument(metavar="NET.onnx", help="The network that it is about.")],
) -> None:
    """Check a proof in exact integers; status 0 if it is accepted, 1 if it is rejected."""
    from windowgrad.certify import check_command

    raise typer.Exit(check_command.command(certificate, net, Console(highlight=False)))


@app.command()
def run(
    model: Annotated[Path, typer.Argument(metavar="NET.onnx", help="An ONNX model.")],
    input: Annotated[  # noqa: A002  # the name of the option
        list[str] | None, typer.Option(help="An .npy file; name=file, once for each, if the model has several inputs.")
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option(help="Write the result to this .npy file; name=file if there are several.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute over exact fractions; a file gets them as text such as 1/3.")
    ] = False,
) -> None:
    """Compute an ONNX model on arrays in .npy files; what is not written to a file is printed."""
    from windowgrad.models import run as work

    work.run(model, input or (), output or (), exact, Console(highlight=False))


@app.command()
def model(
    model: Annotated[Path, typer.Argument(metavar="NET.onnx", help="An ONNX model.")],
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input, such as 1x3x224x224, once for each; default: the model's.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the graph and its windows to this file, one HTML page.")] = None,
) -> None:
    """Print the layers of an ONNX model: output shapes, parameters and multiply-adds."""
    from windowgrad.models import show as work

    work.show(model, [_shape("shape", text) for text in shape or ()], html, Console(highlight=False))


@app.command()
def pyramid(
    source: Annotated[str, typer.Argument(metavar="IN.zarr", help="A Zarr array, or an OME-Zarr image.")],
    target: Annotated[str, typer.Argument(metavar="OUT.zarr", help="Where to build the pyramid, or resume it.")],
    levels: Annotated[int, typer.Option(help="Number of levels, the full array included.")] = 5,
    op: Annotated[
        str, typer.Option(help="mean, max, or mode (the most frequent label, the smallest of equally frequent).")
    ] = "mean",
    memory: Annotated[str, typer.Option(help="Memory limit.")] = "1GiB",
    axes: Annotated[str | None, typer.Option(help="The names of the axes, such as tczyx; z, y, x are halved.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Replace an existing pyramid, whatever its source.")] = False,
) -> None:
    """Build an image pyramid (OME-Zarr) of an array that may be larger than memory; run it again to resume."""
    try:
        from windowgrad import pyramid as work
    except ModuleNotFoundError as error:
        raise KindError(f"pyramid needs {error.name}: pip install 'dask[array]' zarr") from error
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of chunks that fail at once, the first says why in one sentence
    console = Console(highlight=False)
    columns = TextColumn("level {task.fields[level]}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", level=0, total=None, visible=False)  # till all is checked
        new = work.build(
            source,
            target,
            levels,
            op,
            memory,
            axes,
            lambda level, done, all_: bar.update(task, visible=True, level=level, completed=done, total=all_),
            rebuild,
        )
    console.print(f"{target}: {'made' if new else 'already complete'}", markup=False, soft_wrap=True)


def main() -> None:
    """Run the command; a wrong argument is one line on standard error and exit status 2, Ctrl-C is 130."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows ? where it has no sign
    try:
        app()
    except WindowgradError as error:
        print(f"windowgrad: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except SystemExit as stop:
        if stop.code == 130:
            print("windowgrad: interrupted", file=sys.stderr)
        raise
