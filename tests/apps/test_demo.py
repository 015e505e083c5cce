"""`windowgrad demo`: it learns, says the same on every run, and goes on from where it was stopped, to the same bits."""

import io
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import optree
import pytest
from rich.console import Console

import windowgrad as wg
from windowgrad import demo
from windowgrad.demo import checkpoint
from windowgrad.demo.certified import certified
from windowgrad.demo.digits import Digits, digits
from windowgrad.demo.exact import check
from windowgrad.demo.network import accuracy, network
from windowgrad.demo.show import last_epoch
from windowgrad.demo.training import Recipe, begin, states

ctrl_c = pytest.mark.usefixtures("ctrl_c")
DEMO = "import sys; sys.argv = ['windowgrad', 'demo']; from windowgrad.cli import main; main()"


def command(script, cwd):
    start = [sys.executable, "-c", script]
    return subprocess.run(start, capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "80"})


def printed(tmp_path, **options):
    """What a run in `tmp_path` prints."""
    where = {"picture": tmp_path / "demo.png", "checkpoint": tmp_path / "demo.safetensors"}
    console = Console(file=io.StringIO(), width=100)
    demo.run(demo.Options(**{**where, **options}), console)
    return console.file.getvalue()


def some(count=100):
    """A few images: an epoch has four steps, the last of them smaller."""
    learned, tested = digits()
    return Digits(*(part[:count] for part in learned)), Digits(*(part[:count] for part in tested))


@pytest.fixture
def few(monkeypatch):
    """Runs of the command learn from few images, and check the gradient of one."""
    monkeypatch.setattr("windowgrad.demo.show.digits", some)
    monkeypatch.setattr("windowgrad.demo.show.check", partial(check, images=1))
    monkeypatch.setattr("windowgrad.demo.show.certified", partial(certified, images=1))


def same(a, b):
    """Whether two states are equal to the last bit."""
    arrays = zip(*(optree.tree_leaves((state.params, state.moments)) for state in (a, b)), strict=True)
    rest = [(state.rng, state.losses, state.accuracies) for state in (a, b)]
    return rest[0] == rest[1] and all(np.array_equal(x, y) for x, y in arrays)


def test_the_command_reads_97_percent_of_the_test_images_and_leaves_a_picture_and_a_checkpoint(tmp_path):
    result = command(DEMO, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.png", "demo.safetensors"]
    recipe, state = checkpoint.load(tmp_path / "demo.safetensors")
    model = network(recipe.pool)
    assert accuracy(model, state.params, *digits()[1]) == state.accuracies[-1] >= 0.97
    assert f"\n{100 * state.accuracies[-1]:.1f} % of the test images are right\n" in result.stdout
    assert "gradient in float32 and in exact fractions, on the same tape: 3818 numbers" in result.stdout
    radii = re.findall(r"(0\.\d{3}) \(\d\)", result.stdout)
    assert len(radii) == 6
    assert all(0.001 < float(radius) < 0.25 for radius in radii)
    from matplotlib.image import imread

    picture = imread(tmp_path / "demo.png")
    assert picture.shape[:2] == (756, 774)
    assert np.ptp(picture) > 0.9


def test_two_runs_print_the_same_and_leave_the_same_files(tmp_path, few):
    seen = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        lines = printed(folder, epochs=2, seed=3).replace(str(folder), "").splitlines()
        seen.append([line for line in lines if not line.startswith("trained 8 steps in")])
        assert len(seen[-1]) == len(lines) - 1
    assert seen[0] == seen[1]
    assert (tmp_path / "one" / "demo.png").read_bytes() == (tmp_path / "two" / "demo.png").read_bytes()
    saved = [checkpoint.load(tmp_path / folder / "demo.safetensors") for folder in ("one", "two")]
    assert saved[0][0] == saved[1][0] == Recipe(seed=3)
    assert same(saved[0][1], saved[1][1])


def test_another_seed_is_another_run():
    learned, tested = some()
    ends = [list(states(Recipe(seed=seed), learned, tested, begin(Recipe(seed=seed)), 1))[-1] for seed in (0, 1)]
    assert ends[0].losses != ends[1].losses


@pytest.mark.parametrize("pool", ["max", "smooth", "avg"])
def test_every_pooling_learns_and_its_gradient_is_the_exact_one(pool):
    learned, tested = digits()
    recipe = Recipe(pool)
    *_, state = states(recipe, learned, tested, begin(recipe), 2)
    assert state.accuracies[-1] > 0.9
    assert len(state.losses) == 90
    found = check(pool, state.params, learned, images=1)
    assert found.count == 3818
    assert 0 < found.apart < 1e-6 * found.largest


def test_the_check_sees_a_gradient_that_is_wrong(monkeypatch):
    """Float maxima go to another rule here; fractions do not."""
    learned, _ = digits()

    def pooled(layer, params, x):
        return (wg.max_pool if x.dtype == object else wg.avg_pool)(x, layer.kernel_size)

    monkeypatch.setattr(wg.nn.MaxPool, "apply", pooled)
    found = check("max", begin(Recipe()).params, learned, images=1)
    assert found.apart > 1e-3 * found.largest


# --- stopping and going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("done", [0, 1, 3, 4, 5, 8])
def test_a_training_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, done):
    learned, tested = some()
    recipe = Recipe("avg", seed=1)
    whole = [begin(recipe), *states(recipe, learned, tested, begin(recipe), 3)]
    assert len(whole) == 13
    checkpoint.save(tmp_path / "c", recipe, whole[done])
    assert checkpoint.load(tmp_path / "c")[0] == recipe
    again = checkpoint.load(tmp_path / "c")[1]
    assert same(again, whole[done])
    *_, end = states(recipe, learned, tested, again, 3)
    assert same(end, whole[-1])


STOPPED = """
import os, signal, sys
import windowgrad as wg
from windowgrad import cli
true, calls = wg.cross_entropy, []
def cross_entropy(logits, labels):
    calls.append(1)
    if len(calls) == 60:
        os.kill(os.getpid(), signal.SIGINT)
    return true(logits, labels)
wg.cross_entropy = cross_entropy
sys.argv = ["windowgrad", "demo", "--epochs", "2"]
cli.main()
"""


@ctrl_c
def test_ctrl_c_within_a_step_saves_the_step_before_and_resuming_gives_the_uninterrupted_run(tmp_path):
    result = command(STOPPED, tmp_path)
    assert result.returncode == 130
    assert "stopped in epoch 2 after 14 of 45 steps, saved in demo.safetensors;" in result.stdout
    assert "\nto resume: windowgrad demo --resume --epochs 2\n" in result.stdout
    assert result.stderr == "windowgrad: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["demo.safetensors"]
    resumed = printed(tmp_path, epochs=2, resume=True)
    *_, whole = states(Recipe(), *digits(), begin(Recipe()), 2)
    assert same(checkpoint.load(tmp_path / "demo.safetensors")[1], whole)
    lines = [line for line in resumed.splitlines() if line.startswith("epoch")]
    assert lines == [f"epoch  2: loss {np.mean(whole.losses[45:]):.4f}, test accuracy {100 * whole.accuracies[-1]:.1f} %"]


@ctrl_c
def test_ctrl_c_while_the_checkpoint_is_written_waits_for_it(tmp_path, monkeypatch):
    replace, path = os.replace, tmp_path / "c"

    def interrupted(*names):
        os.kill(os.getpid(), signal.SIGINT)
        replace(*names)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(path, Recipe(), begin(Recipe()))
    assert same(checkpoint.load(path)[1], begin(Recipe()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [each.name for each in tmp_path.iterdir()] == ["c"]


def test_a_finished_training_is_shown_again_and_goes_on_when_asked(tmp_path, few):
    first = printed(tmp_path, epochs=1, pool="avg")
    again = printed(tmp_path, epochs=1, resume=True)
    assert "epoch  1:" not in again
    assert "trained 0 steps in" in again
    assert again.split("% of the test")[1:] == first.split("% of the test")[1:]
    assert "epoch  2:" in printed(tmp_path, epochs=2, resume=True)


def test_an_epoch_that_has_begun_is_finished(tmp_path, few):
    recipe = Recipe()
    reached = list(states(recipe, *some(), begin(recipe), 2))[4]
    checkpoint.save(tmp_path / "demo.safetensors", recipe, reached)
    with pytest.raises(wg.OptionError, match=r"^--epochs=1: must be at least 2, 2 have started in the checkpoint$"):
        printed(tmp_path, epochs=1, resume=True)
    assert last_epoch(None, 13) == 13


# --- what can be wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "median"}, "--pool='median': must be max, smooth or avg"),
        ({"epochs": 0}, "--epochs=0: must be at least 1, there is nothing to show without training"),
        ({"seed": -1}, "--seed=-1: must not be negative"),
        ({"picture": Path("/no/x.png")}, "--picture=/no/x.png: the folder /no does not exist"),
        ({"checkpoint": Path("/no/c")}, "--checkpoint=/no/c: the folder /no does not exist"),
        ({"checkpoint": Path("/")}, "--checkpoint=/: is a folder; only a regular file can be replaced"),
        ({"picture": Path("x"), "checkpoint": Path("x")}, "--picture=x: must not be the file of the checkpoint"),
        ({"picture": Path("x.gif")}, "--picture=x.gif: must end in .png or .pdf"),
        ({"resume": True}, "{}/demo.safetensors: does not exist; a run without --resume creates it"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_trained(tmp_path, options, message):
    with pytest.raises(wg.OptionError) as caught:
        printed(tmp_path, **options)
    assert str(caught.value) == message.format(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_wrong_option_is_one_line_on_stderr(tmp_path):
    result = command(DEMO.replace("'demo'", "'demo', '--pool', 'median'"), tmp_path)
    assert (result.returncode, result.stderr) == (2, "windowgrad: --pool='median': must be max, smooth or avg\n")


def a_run(path):
    checkpoint.save(path, Recipe(), begin(Recipe()))


def foreign(path):
    wg.nn.save(path, begin(Recipe()).params)


def damaged(path):
    a_run(path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def cut(path):
    a_run(path)
    path.write_bytes(path.read_bytes()[:-100])


def of_another_network(path):
    a_run(path)
    (params, moments), notes = wg.nn.load(path), wg.nn.load_extra(path)
    wg.nn.save(path, (params[:-1], moments), extra=notes)


def of_another_time(path):
    a_run(path)
    content, notes = wg.nn.load(path), wg.nn.load_extra(path)
    wg.nn.save(path, content, extra={**notes, "recipe": {"pool": "max", "speed": 3}})


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (foreign, {}, "contains parameters, but is not a checkpoint of `windowgrad demo`"),
        (damaged, {}, "is damaged (ValueError: checksum mismatch)"),
        (cut, {}, "is not a safetensors file, or is truncated or damaged"),
        (of_another_network, {}, "cannot resume (its parameters are not those of this network)"),
        (of_another_time, {}, "cannot resume (Recipe.__init__() got an unexpected keyword argument 'speed')"),
        (a_run, {"pool": "avg"}, "--pool='avg': must be max, as in {}, to resume it"),
        (a_run, {"seed": 5}, "--seed=5: must be 0, as in {}, to resume it"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_left_as_it_is(tmp_path, made, options, message):
    path = tmp_path / "demo.safetensors"
    made(path)
    content = path.read_bytes()
    with pytest.raises(wg.OptionError) as caught:
        printed(tmp_path, resume=True, **options)
    assert message.format(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("made", [foreign, damaged, lambda path: path.write_text("mine")])
def test_a_new_training_replaces_no_file_that_is_not_its_own(tmp_path, few, made):
    for name, option in (("demo.safetensors", "--checkpoint"), ("demo.png", "--picture")):
        path = tmp_path / name
        made(path)
        content = path.read_bytes()
        with pytest.raises(wg.OptionError, match=f"{name}: .*; move it away, or name another file with {option}$"):
            printed(tmp_path, epochs=1)
        assert path.read_bytes() == content
        assert [file.name for file in tmp_path.iterdir()] == [name]
        path.unlink()


def test_a_new_training_replaces_its_own_files_but_no_longer_training(tmp_path, few):
    for pool, name in (("max", "demo.png"), ("avg", "demo.png"), ("max", "demo.pdf"), ("avg", "demo.pdf")):
        printed(tmp_path, pool=pool, epochs=2, picture=tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(wg.OptionError) as caught:
        printed(tmp_path, epochs=1)
    longer = "contains a training of 8 steps, which one of 4 would replace"
    what_to_do = "resume it with --resume, or name another file with --checkpoint"
    assert str(caught.value) == f"{tmp_path}/demo.safetensors: {longer}; {what_to_do}"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_picture_is_in_the_format_of_its_name(tmp_path, few):
    for name, start in (("a.PDF", b"%PDF-"), ("b.pdf", b"%PDF-"), ("c.png", b"\x89PNG"), ("d", b"\x89PNG")):
        printed(tmp_path, picture=tmp_path / name, epochs=1)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert (tmp_path / "a.PDF").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_an_interrupted_picture_leaves_no_half_of_it(tmp_path, monkeypatch, few):
    import matplotlib.figure

    def savefig(_, file, **options):
        file.write(b"half a picture")
        raise KeyboardInterrupt

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", savefig)
    with pytest.raises(KeyboardInterrupt):
        printed(tmp_path, epochs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["demo.safetensors"]


@pytest.mark.parametrize("missing", ["sklearn.datasets", "matplotlib"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(wg.KindError, match=r"needs more packages: pip install scikit-learn matplotlib pillow$"):
        printed(tmp_path)
