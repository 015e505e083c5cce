"""`windowgrad certify`: a network and a property, or an image and its label; the answer as text, as JSON, and as status."""

from __future__ import annotations

import json as jsons
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from windowgrad.certify import Result, label_stays, prove, vnnlib
from windowgrad.certify.certificate import write
from windowgrad.certify.properties import Property
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.onnx import Network, load
from windowgrad.saving import check_place, replacing

Array = np.ndarray[Any, Any]
Question = tuple[Array, Array, Property]

STATUS = {"holds": 0, "violated": 1, "unknown": 3}
TIMES = 12
"""How often the interval of the largest certified radius is halved: to 1/4096 of it."""


@dataclass(frozen=True)
class Files:
    """What is written: the proof, and the answer as JSON."""

    certificate: Path | None
    json: Path | None


@dataclass(frozen=True)
class Request:
    """What was asked on the command line."""

    net: Path
    property: Path | None
    image: Path | None
    label: int | None
    radius: float | None
    finds_radius: bool
    method: str
    arithmetic: str
    seconds: float
    memory: float
    files: Files


def certify(request: Request, console: Console) -> int:
    """The status of the command: 0 holds, 1 violated, 3 unknown."""
    if request.memory <= 0 or not math.isfinite(request.memory):
        raise OptionError(f"memory={show(request.memory)}: must be a positive number of GiB")
    for name, path in vars(request.files).items():
        if path is not None:
            check_place(name, path)
    try:
        net = load(request.net)
    except OSError as error:
        raise OptionError(f"{request.net}: cannot be read: {error.strerror or error}") from None
    shape = in_shape(net)
    if request.finds_radius:
        found = largest(request, net, shape, console)
    else:
        found = [answered(request, net, question, console) for question in questions(request, net, shape)]
    verdict = worst([result.verdict for result in found])
    if request.files.json is not None:
        with replacing(request.files.json) as file:
            file.write((jsons.dumps(as_data(verdict, found), indent=1) + "\n").encode())
    if request.files.certificate is not None and verdict == "holds":
        if len(found) != 1:
            raise OptionError(f"certificate: a file has one proof, but {len(found)} boxes were asked about")
        write(found[0], request.net, request.files.certificate)
    console.print(verdict, markup=False, highlight=False)
    return STATUS[verdict]


def in_shape(net: Network) -> tuple[int, ...]:
    """The shape of the only input, for a batch of one."""
    if len(net.inputs) != 1:
        raise KindError(f"the network has {len(net.inputs)} inputs: bounds need one")
    given = net.inputs[0].shape or ()
    sizes = [n for n in given[1:] if isinstance(n, int)]
    if not given or len(sizes) < len(given) - 1:
        raise KindError(f"the input {net.inputs[0].name} of shape {show(given)}: must have known sizes after its batch axis")
    return (1, *sizes)


def questions(request: Request, net: Network, shape: tuple[int, ...]) -> Iterator[Question]:
    """The boxes and what is to be proved on them."""
    if (request.property is None) == (request.image is None):
        raise OptionError("give either a VNN-LIB file, or --image, --label and --radius")
    if request.property is not None:
        for asked in vnnlib.read(request.property):
            if len(asked.lo) != math.prod(shape):
                raise WindowError(f"{request.property}: has {len(asked.lo)} inputs, the network {math.prod(shape)}")
            yield asked.lo.reshape(shape), asked.hi.reshape(shape), asked.property
        return
    x, goal = pictured(request, net, shape)
    if request.radius is None or not request.radius >= 0 or not math.isfinite(request.radius):
        raise OptionError(f"radius={show(request.radius)}: must be a number that is not negative")
    yield *around(x, request.radius), goal


def pictured(request: Request, net: Network, shape: tuple[int, ...]) -> tuple[Array, Property]:
    """The image, and that its label stays."""
    if request.image is None or request.label is None:
        raise OptionError("--image needs --label")
    try:
        x = np.load(request.image, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise OptionError(f"image={request.image}: cannot be read as a .npy file ({error})") from None
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub" or x.size != math.prod(shape):
        raise WindowError(f"image={request.image}: must be numbers of shape {shape}")
    x = x.astype(np.float64).reshape(shape)
    scores = np.asarray(net(x.astype(net.inputs[0].dtype)))
    return x, label_stays(request.label, scores.size)


def around(x: Array, radius: float) -> tuple[Array, Array]:
    """The box of a radius, rounded outwards."""
    return np.nextafter(x - radius, -np.inf), np.nextafter(x + radius, np.inf)


def answered(request: Request, net: Network, question: Question, console: Console) -> Result:
    """The answer to one question, with a bar while boxes are split."""
    columns = TextColumn("proved {task.percentage:.2f} %, {task.fields[left]} boxes left"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, left=1, visible=False)
        result = prove(
            net,
            *question,
            method=request.method,
            arithmetic=request.arithmetic,
            seconds=request.seconds,
            memory=int(request.memory * 2**30),
            progress=lambda share, left: bar.update(task, completed=share, left=left, visible=True),
        )
    where = "" if result.verdict != "unknown" or not result.proved else f", {100 * result.proved:.2f} % of the box proved"
    least = "" if math.isnan(result.margin) else f", margin at least {result.margin:.6g}"
    console.print(f"{result.verdict} in {result.seconds:.2f} s{least}{where}", markup=False, highlight=False)
    if result.counterexample is not None:
        console.print(
            f"counterexample: {show(result.counterexample.y.reshape(-1).tolist(), 400)}", markup=False, highlight=False
        )
    return result


def largest(request: Request, net: Network, shape: tuple[int, ...], console: Console) -> list[Result]:
    """Bisect for the largest radius that holds; up from the one that is given, or 1/64."""
    x, goal = pictured(request, net, shape)
    low, high, best = 0.0, request.radius or 2.0**-6, None
    for _ in range(60):
        found = prove(net, *around(x, high), goal, method=request.method, arithmetic=request.arithmetic)
        if found.verdict != "holds":
            break
        low, high, best = high, 2 * high, found
    for _ in range(TIMES):
        middle = 0.5 * (low + high)
        found = prove(net, *around(x, middle), goal, method=request.method, arithmetic=request.arithmetic)
        low, high, best = (middle, high, found) if found.verdict == "holds" else (low, middle, best)
    console.print(f"largest certified radius: {low:.6g}", markup=False, highlight=False)
    return [found if best is None else best]


def worst(verdicts: list[str]) -> str:
    """Of several questions: violated if one is, unknown if one is, else it holds; also where nothing is asked."""
    return next((verdict for verdict in ("violated", "unknown") if verdict in verdicts), "holds")


def as_data(verdict: str, results: list[Result]) -> dict[str, Any]:
    """The answers as JSON takes them; a margin that is not known is null."""
    return {
        "verdict": verdict,
        "answers": [
            {
                "verdict": result.verdict,
                "margins": [None if math.isnan(margin) else margin for margin in result.margins],
                "seconds": result.seconds,
                "proved": result.proved,
                "counterexample": None
                if result.counterexample is None
                else {"x": result.counterexample.x.reshape(-1).tolist(), "y": result.counterexample.y.reshape(-1).tolist()},
            }
            for result in results
        ],
    }
