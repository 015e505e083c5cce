"""Training as a function from state to state: a step that is interrupted has never begun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import windowgrad as wg
from windowgrad import nn
from windowgrad.demo.digits import Digits
from windowgrad.demo.network import IMAGE, accuracy, loss, network


@dataclass(frozen=True)
class Recipe:
    """All that decides how a training goes, beside its length."""

    pool: str = "max"
    seed: int = 0
    batch: int = 32
    rate: float = 0.006
    fading: float = 0.85
    """What is left of the learning rate after each epoch."""


@dataclass(frozen=True)
class State:
    """All that the next step needs. Nothing in it is ever written to."""

    params: Any
    moments: Any
    """The state of the optimiser."""
    rng: Mapping[str, Any]
    """The state of the generator that shuffles, as it was when the present epoch began."""
    losses: tuple[float, ...] = ()
    """After each step."""
    accuracies: tuple[float, ...] = ()
    """On the images for testing, after each epoch."""


def begin(recipe: Recipe) -> State:
    """The state before the first step."""
    rng = np.random.default_rng(recipe.seed)
    params = network(recipe.pool).init(rng, (recipe.batch, *IMAGE))
    return State(params, nn.adam(recipe.rate).init(params), rng.bit_generator.state)


def steps_per_epoch(recipe: Recipe, learned: Digits) -> int:
    return -(-len(learned) // recipe.batch)


def states(recipe: Recipe, learned: Digits, tested: Digits, state: State, epochs: int) -> Iterator[State]:
    """The states after each of the steps that are left until `epochs` epochs are done."""
    model, count = network(recipe.pool), steps_per_epoch(recipe, learned)
    gradient = wg.value_and_grad(partial(loss, model))
    while len(state.losses) < count * epochs:
        epoch, done = divmod(len(state.losses), count)
        rng = generator(state.rng)
        order = rng.permutation(len(learned))
        optimiser = nn.adam(recipe.rate * recipe.fading**epoch)
        for start in range(done * recipe.batch, len(learned), recipe.batch):
            chosen = order[start : start + recipe.batch]
            value, grads = gradient(state.params, learned.images[chosen], learned.labels[chosen])
            params, moments = optimiser.update(state.params, grads, state.moments)
            ended, accuracies = start + recipe.batch >= len(learned), state.accuracies
            if ended:
                accuracies = (*accuracies, accuracy(model, params, *tested))
            state = State(
                params,
                moments,
                rng.bit_generator.state if ended else state.rng,
                (*state.losses, float(value)),
                accuracies,
            )
            yield state


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """The generator that has this state."""
    bits: Any = np.random.PCG64()
    bits.state = state
    return np.random.Generator(bits)
