"""A training in a file: parameters and the optimiser's state as arrays, and the rest as notes beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import optree

from windowgrad import nn
from windowgrad.demo.training import Recipe, State, begin, generator
from windowgrad.errors import OptionError, WindowgradError
from windowgrad.interrupts import put_off

KIND = "windowgrad demo"


def save(path: Path, recipe: Recipe, state: State) -> None:
    """Replace the file as a whole. Ctrl-C waits until that is done."""
    notes = {"losses": state.losses, "accuracies": state.accuracies, "rng": state.rng}
    with put_off(), usable(path):
        nn.save(path, (state.params, state.moments), extra={"kind": KIND, "recipe": asdict(recipe), **notes})


def load(path: Path) -> tuple[Recipe, State]:
    """What was saved; the error for any other file says in one line what is wrong."""
    if not path.exists():
        raise OptionError(f"{path}: does not exist; a run without --resume creates it")
    with usable(path):
        content, notes = nn.load(path), nn.load_extra(path)
    if notes.get("kind") != KIND:
        raise OptionError(f"{path}: contains parameters, but is not a checkpoint of `windowgrad demo`")
    try:
        recipe = Recipe(**notes["recipe"])
        params, moments = content
        state = State(params, moments, notes["rng"], tuple(notes["losses"]), tuple(notes["accuracies"]))
        generator(state.rng)
        if shapes(state) != shapes(begin(recipe)):
            raise ValueError("its parameters are not those of this network")
    except (KeyError, TypeError, ValueError, WindowgradError) as error:
        raise OptionError(f"{path}: is a checkpoint that this version cannot resume ({error})") from None
    return recipe, state


def check_replaced(path: Path, steps: int) -> None:
    """A training of `steps` may replace one of its own that is not longer, and no other file."""
    if not path.exists():
        return
    try:
        _, state = load(path)
    except WindowgradError as error:
        raise OptionError(f"{error}; move it away, or name another file with --checkpoint") from None
    if len(state.losses) > steps:
        longer = f"contains a training of {len(state.losses)} steps, which one of {steps} would replace"
        raise OptionError(f"{path}: {longer}; resume it with --resume, or name another file with --checkpoint")


def shapes(state: State) -> Any:
    """How parameters and moments are nested, and the shape of each array."""
    tree: Any = (state.params, state.moments)
    return optree.tree_map(np.shape, tree)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """What the system says of a file as an error of ours."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from None
