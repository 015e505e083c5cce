"""The picture of a training: how it went, and what the layers make of one image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import windowgrad as wg
from windowgrad.demo.certified import Certified
from windowgrad.demo.digits import Digits
from windowgrad.demo.network import network
from windowgrad.demo.training import Recipe, State
from windowgrad.errors import OptionError
from windowgrad.saving import replacing

FORMATS = {".png": "png", ".pdf": "pdf", "": "png"}
MADE_BY = "the picture of windowgrad demo"
NOTES = {"png": {"Software": MADE_BY}, "pdf": {"Creator": MADE_BY, "CreationDate": None}}  # two runs write the same bytes
LOSS, RIGHT, MAPS = "#2f6db3", "#e08a1e", "magma"  # colours


def draw(path: Path, recipe: Recipe, state: State, tested: Digits, proved: Sequence[Certified] = ()) -> None:
    """Write the picture: it is there whole or not at all."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8.6, 8.4), layout="constrained")
    above, below, last = figure.subfigures(3, 1, height_ratios=(4, 6, 2))
    draw_curve(above.subplots(), recipe, state)
    draw_maps(below, recipe, state, tested)
    draw_proved(last, tested, proved)
    settle(figure)
    form = FORMATS[path.suffix.lower()]
    with replacing(path) as file:
        figure.savefig(file, dpi=90, format=form, metadata=NOTES[form])


def check_replaced(path: Path) -> None:
    """A picture may replace one of its own, and no other file."""
    try:
        strange = path.exists() and MADE_BY.encode() not in path.read_bytes()
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from None
    if strange:
        raise OptionError(f"{path}: is not a picture of `windowgrad demo`; move it away, or name another file with --picture")


def settle(figure: Any) -> None:
    """Lay out now and round: the solver leaves noise in the last bits of a place, and two runs write the same bytes."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(place, 6) for place in axes.get_position(original=True).bounds], which="original")


def draw_curve(axes: Any, recipe: Recipe, state: State) -> None:
    """The loss of each step, its mean over each epoch, and how many test images are right after each."""
    epochs = len(state.accuracies)
    losses = np.asarray(state.losses).reshape(epochs, -1)
    count, ends = losses.shape[1], np.arange(1, epochs + 1)
    axes.semilogy(np.arange(1, losses.size + 1) / count, losses.ravel(), color=LOSS, alpha=0.3, linewidth=0.8)
    axes.semilogy(ends, losses.mean(axis=1), color=LOSS, marker="o", markersize=4)
    axes.set_xlabel("epochs")
    axes.set_ylabel("loss: each step, and its mean", color=LOSS)
    axes.set_xlim(0, epochs * 1.01)
    axes.grid(alpha=0.25)
    right = axes.twinx()
    right.plot(ends, 100 * np.asarray(state.accuracies), color=RIGHT, marker="s", markersize=4)
    right.set_ylabel("test images right, %", color=RIGHT)
    right.set_ylim(min(80, 100 * min(state.accuracies) - 2), 100.5)
    title = f"{recipe.pool} pooling, seed {recipe.seed}: {100 * state.accuracies[-1]:.1f} % of the test images are right"
    axes.set_title(title, fontsize=11)


def draw_maps(figure: Any, recipe: Recipe, state: State, tested: Digits) -> None:
    """The test image that the network is least sure of, what it is after the layers, and how it is read."""
    model = network(recipe.pool)
    place = int(likelihoods(model(state.params, tested.images)).max(axis=-1).argmin())
    outputs, x = [], tested.images[place : place + 1]
    for layer, params in zip(model.layers, state.params, strict=True):
        x = layer(params, x)
        outputs.append(x[0])
    first, pooled, second = outputs[1], outputs[2], outputs[4]
    rows = {
        "after conv 3×3 and relu: 8 maps of 8×8": first,
        f"after {recipe.pool} pooling 2×2: 8 maps of 4×4": pooled,
        "after conv 3×3 and relu: 16 maps of 4×4, the first 8": second[: len(pooled)],
        "and the other 8": second[len(pooled) :],
    }
    left, right = figure.subfigures(1, 2, width_ratios=(1, 4))
    image, votes = left.subplots(2, 1, height_ratios=(3, 2))
    show(image, tested.images[place, 0], "gray")
    image.set_title(f"most doubtful: a {tested.labels[place]}", fontsize=10)
    draw_votes(votes, likelihoods(outputs[-1]))
    for axes, (title, maps) in zip(right.subplots(len(rows), 1), rows.items(), strict=True):
        show(axes, side_by_side(maps), MAPS)
        axes.set_title(title, fontsize=9, loc="left")
        axes.axis("off")


def draw_proved(figure: Any, tested: Digits, proved: Sequence[Certified]) -> None:
    """Test images, each between the darkest and the brightest that it may be while its digit provably stays."""
    if not proved:
        return
    figure.suptitle("proved: the digit stays for every image between these two, in every float32 evaluation", fontsize=10)
    for axes, found in zip(figure.subplots(1, len(proved), squeeze=False)[0], proved, strict=True):
        image = tested.images[found.place, 0]
        ends = np.hstack([image - found.radius, np.full((len(image), 1), np.nan, image.dtype), image + found.radius])
        axes.imshow(ends, cmap="gray", vmin=-0.25, vmax=1.25)
        axes.set_title(f"{found.digit} ± {found.radius:.3f}", fontsize=9)
        axes.axis("off")


def side_by_side(maps: Any) -> Any:
    """Maps in one image, with gaps of NaN between them, which stay white."""
    size = maps.shape[-1]
    gaps = np.full((*maps.shape[:-1], size // 4), np.nan, maps.dtype)
    return np.hstack(list(np.concatenate([maps, gaps], axis=-1)))[:, : -(size // 4)]


def likelihoods(logits: Any) -> Any:
    return np.exp(wg.log_softmax(logits))


def draw_votes(axes: Any, likely: Any) -> None:
    """How likely each digit is to the network."""
    said = int(likely.argmax())
    axes.bar(range(len(likely)), 100 * likely, color=[RIGHT if digit == said else LOSS for digit in range(len(likely))])
    axes.set_xticks(range(len(likely)))
    axes.tick_params(labelsize=8)
    axes.set_title(f"read as {said} ({100 * likely[said]:.0f} %)", fontsize=10)
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)


def show(axes: Any, values: Any, colours: str) -> None:
    axes.imshow(values, cmap=colours, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
