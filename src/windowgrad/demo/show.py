"""The command: train, say how it goes, check the gradient, and write what is left of it all."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from windowgrad.demo import checkpoint, picture
from windowgrad.demo.certified import certified
from windowgrad.demo.digits import Digits, digits
from windowgrad.demo.exact import check
from windowgrad.demo.network import IMAGE, network
from windowgrad.demo.training import Recipe, State, begin, states, steps_per_epoch
from windowgrad.errors import OptionError, show
from windowgrad.saving import check_place

EPOCHS = 12
"""How many there are unless told, or unless a checkpoint has more."""


@dataclass(frozen=True)
class Options:
    """The flags of the command. None is a flag that was not given."""

    picture: Path = Path("demo.png")
    checkpoint: Path = Path("demo.safetensors")
    pool: str | None = None
    seed: int | None = None
    epochs: int | None = None
    resume: bool = False


def run(options: Options, console: Console) -> None:
    """The whole demonstration. Ctrl-C while it trains leaves a checkpoint to resume from."""
    for flag, path in (("--picture", options.picture), ("--checkpoint", options.checkpoint)):
        check_place(flag, path)
    if options.picture.suffix.lower() not in picture.FORMATS:
        raise OptionError(f"--picture={options.picture}: must end in .png or .pdf")
    if options.picture.absolute() == options.checkpoint.absolute():
        raise OptionError(f"--picture={options.picture}: must not be the file of the checkpoint")
    recipe, state = started(options)
    learned, tested = digits()
    steps = steps_per_epoch(recipe, learned)
    epochs = last_epoch(options.epochs, -(-len(state.losses) // steps))
    picture.check_replaced(options.picture)
    if not options.resume:
        checkpoint.check_replaced(options.checkpoint, steps * epochs)
    say(console, f"{len(learned)} images of digits to learn from, {len(tested)} others to test with\n")
    say(console, network(recipe.pool).summary((recipe.batch, *IMAGE)) + "\n")
    state = train(options.checkpoint, recipe, state, epochs, (learned, tested), console)
    say(console, f"{100 * state.accuracies[-1]:.1f} % of the test images are right\n")
    found = check(recipe.pool, state.params, learned)
    say(
        console,
        f"gradient in float32 and in {found.numbers}, on the same tape: {found.count} numbers up to {found.largest:.2g},",
    )
    say(console, f"the largest difference is {found.apart:.1e}\n")
    proved = certified(recipe.pool, state.params, tested)
    say(console, "proved for every evaluation in float32: the digit stays while no cell of the image moves by more than")
    say(console, ", ".join(f"{found.radius:.3f} ({found.digit})" for found in proved) + "\n")
    picture.draw(options.picture, recipe, state, tested, proved)
    say(console, f"wrote {options.picture}, the learning curve and feature maps,")
    say(console, f"and {options.checkpoint}, the checkpoint; longer: {resuming(options.checkpoint, 2 * epochs)}")


def started(options: Options) -> tuple[Recipe, State]:
    """The first state of a new training, or the last one of the checkpoint."""
    if options.seed is not None and options.seed < 0:
        raise OptionError(f"--seed={options.seed}: must not be negative")
    asked = {name: value for name in ("pool", "seed") if (value := getattr(options, name)) is not None}
    recipe = replace(Recipe(), **asked)
    network(recipe.pool)
    if not options.resume:
        return recipe, begin(recipe)
    recipe, state = checkpoint.load(options.checkpoint)
    for name, value in asked.items():
        if value != getattr(recipe, name):
            had = f"must be {getattr(recipe, name)}, as in {options.checkpoint}"
            raise OptionError(f"--{name}={show(value)}: {had}, to resume it")
    return recipe, state


def last_epoch(asked: int | None, begun: int) -> int:
    """How many epochs there are to be in the end: those that have begun, and what is asked for."""
    if asked is None:
        return max(EPOCHS, begun)
    if asked < max(1, begun):
        why = f"{begun} have started in the checkpoint" if begun else "there is nothing to show without training"
        raise OptionError(f"--epochs={asked}: must be at least {max(1, begun)}, {why}")
    return asked


def train(path: Path, recipe: Recipe, state: State, epochs: int, data: tuple[Digits, Digits], console: Console) -> State:
    """Train until `epochs` are done, with a bar and a line per epoch. The checkpoint is written after each, and on Ctrl-C."""
    count, before, began = steps_per_epoch(recipe, data[0]), len(state.losses), time.perf_counter()
    try:
        with progress_bar(console) as progress:
            bar = progress.add_task("compiling", total=count * epochs, completed=len(state.losses), told="")
            for reached in states(recipe, *data, state, epochs):
                state = reached
                epoch, step = divmod(len(state.losses), count)
                told = f"loss {state.losses[-1]:.3f}" + "".join(f", test {100 * a:.1f} %" for a in state.accuracies[-1:])
                progress.update(bar, advance=1, description=f"epoch {min(epoch + 1, epochs)}", told=told)
                if step == 0:
                    mean = sum(state.losses[-count:]) / count
                    say(progress.console, f"epoch {epoch:2}: loss {mean:.4f}, test accuracy {100 * state.accuracies[-1]:.1f} %")
                    checkpoint.save(path, recipe, state)
    except KeyboardInterrupt:
        checkpoint.save(path, recipe, state)
        epoch, step = divmod(len(state.losses), count)
        say(console, f"stopped in epoch {epoch + 1} after {step} of {count} steps, saved in {path};")
        say(console, f"to resume: {resuming(path, epochs)}")
        raise
    checkpoint.save(path, recipe, state)
    say(console, f"trained {len(state.losses) - before} steps in {time.perf_counter() - began:.1f} s")
    return state


def resuming(path: Path, epochs: int) -> str:
    """The command that resumes."""
    where = "" if path == Options.checkpoint else f" --checkpoint {shlex.quote(str(path))}"
    return f"windowgrad demo --resume{where}{'' if epochs == EPOCHS else f' --epochs {epochs}'}"


def progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


def say(console: Console, text: str) -> None:
    """A line as it is: no markup, no colours in it, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
