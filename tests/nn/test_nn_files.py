"""Parameters in files: the same nesting comes back, an interrupted save leaves the old file, and no other file is believed."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad import nn
from windowgrad.nn import files

MODEL = nn.Sequential(nn.Conv(2, (2, 2)), nn.Sequential(nn.ReLU(), nn.Linear(3, bias=False)), nn.Flatten(), nn.Linear(2))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def params(seed=0):
    return MODEL.init(np.random.default_rng(seed), (1, 1, 3, 3))


def same(a, b):
    """The same nesting of the same types, arrays equal in dtype, shape and bits."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            same(left, right)
    else:
        assert repr(a) == repr(b)


# --- what is stored comes back -----------------------------------------------------------------------------------


def test_the_parameters_of_a_network_come_back_and_compute_the_same(path):
    nn.save(path, params())
    loaded = nn.load(str(path))
    same(loaded, params())
    x = np.random.default_rng(1).random((2, 1, 3, 3), np.float32)
    assert MODEL(loaded, x).tobytes() == MODEL(params(), x).tobytes()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("dtype", files.KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_every_dtype_and_shape_is_kept_and_can_be_written_to(path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    nn.save(path, [array])
    (loaded,) = nn.load(path)
    same(loaded, array)
    assert loaded.flags.writeable


@pytest.mark.parametrize(
    "array",
    [np.arange(12.0).reshape(3, 4).T, np.arange(12.0)[::-2], np.arange(3, dtype=">f8"), np.broadcast_to(np.float64(2), (2, 3))],
    ids=["transposed", "reversed", "byte-swapped", "broadcast"],
)
def test_every_layout_is_stored_by_its_values(path, array):
    nn.save(path, (array,))
    (loaded,) = nn.load(path)
    assert loaded.dtype == np.float64
    assert np.array_equal(loaded, array)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
arrays = st.builds(np.full, st.lists(st.integers(0, 2), max_size=2), st.integers(0, 9), st.sampled_from(files.KINDS))
nested = st.recursive(
    values | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=nested)
def test_any_nesting_comes_back_as_it_was(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "nested"
    nn.save(path, value)
    same(nn.load(path), value)


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": np.zeros(1)}, "a.b": np.ones(1)},
        {"__metadata__": np.ones(1), "__metadata__~": np.zeros(1)},
        {"\ud800": np.ones(1), "\\ud800": np.zeros(1)},
        {"": np.ones(1), "x": ([], (), {}, None)},
        np.ones(2),
        {"0": np.ones(1), "1": (np.zeros(1),)},
    ],
)
def test_names_that_would_meet_are_told_apart(path, value):
    nn.save(path, value)
    same(nn.load(path), value)


def test_the_extra_comes_back(path):
    rng = np.random.default_rng(3)
    extra = {"epoch": 7, "rng": rng.bit_generator.state, "history": [0.5, float("inf"), 1e-300], "note": "α", "none": None}
    nn.save(path, params(), extra=extra)
    loaded = nn.load_extra(path)
    assert loaded == extra
    other = np.random.default_rng(4)
    other.bit_generator.state = loaded["rng"]
    assert other.random() == rng.random()
    nn.save(path, params())
    assert nn.load_extra(path) == {}


def test_the_state_of_an_optimiser_is_stored_as_parameters_are(path):
    adam = nn.adam(0.1)
    new, state = adam.update(params(), params(1), adam.init(params()))
    nn.save(path, {"params": new, "state": state})
    loaded = nn.load(path)
    same(loaded, {"params": new, "state": state})
    same(adam.update(loaded["params"], params(2), loaded["state"]), adam.update(new, params(2), state))


def test_pytorch_reads_the_file_under_its_own_names(path):
    nn.save(path, params())
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 2),
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 3, bias=False)),
        torch.nn.Flatten(),
        torch.nn.Linear(12, 2),
    )
    model.load_state_dict(safetensors.torch.load_file(path))
    x = np.random.default_rng(1).random((2, 1, 3, 3), np.float32)
    assert np.allclose(model(torch.from_numpy(x)).detach().numpy(), MODEL(params(), x), rtol=1e-5, atol=1e-6)


# --- what cannot be stored ---------------------------------------------------------------------------------------

REFUSED = [
    ((1, {"a": [np.array(["x"])]}), "params[1]['a'][0]: unsupported dtype <U1; must be one of float16, float32"),
    ([np.array([object()])], "params[0]: unsupported dtype object"),
    (np.ones(2, complex), "params: unsupported dtype complex128"),
    (({"w": torch.ones(2)},), "params[0]['w']: must be a NumPy array, a tuple"),
    (
        [np.float32(1)],
        "params[0]: must be a NumPy array, a tuple, a list, a dict, a number, a string or None, not numpy.float32",
    ),
    ([np.ma.masked_array([1.0])], "params[0]: must be a NumPy array"),
    ({1: np.ones(2)}, "params: keys must be strings, not 1"),
    ({"a": {2, 3}}, "params['a']: must be a NumPy array"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED)
def test_what_cannot_be_stored_is_named_and_nothing_is_written(path, value, message):
    with pytest.raises(wg.KindError) as caught:
        nn.save(path, value)
    assert str(caught.value).startswith(message)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"loss": np.float64(1)}, "extra['loss']="),
        ({"a": [1, {2: 3}]}, "extra['a'][1]={2: 3}: must be"),
        ({1: 2}, "extra={1: 2}: must be a dict with strings as keys"),
        ([1], "extra=[1]: must be a dict with strings as keys (JSON), not list"),
        (3, "extra=3: must be a dict"),
    ],
)
def test_an_extra_that_json_cannot_say_is_named(path, extra, message):
    with pytest.raises(wg.KindError) as caught:
        nn.save(path, params(), extra=extra)
    assert str(caught.value).startswith(message)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("wrong", [3, None, ["a"]])
def test_a_path_is_a_string_or_a_path(wrong):
    for call in (lambda: nn.save(wrong, ()), lambda: nn.load(wrong), lambda: nn.load_extra(wrong)):
        with pytest.raises(wg.KindError, match=r"path=.*: must be a string or a path, not"):
            call()


def test_a_missing_file_or_folder_is_the_systems_error(path):
    with pytest.raises(FileNotFoundError):
        nn.load(path)
    with pytest.raises(FileNotFoundError):
        nn.save(path / "deeper", ())


# --- interruptions -----------------------------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    """At any other moment: `test_saving`."""
    nn.save(path, params(0))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nn.save(path, params(1))
    monkeypatch.undo()
    assert os.listdir(path.parent) == [path.name]
    same(nn.load(path), params(0))


# --- files that are not ours, or not whole -----------------------------------------------------------------------


def refused(path, message):
    for read in (nn.load, nn.load_extra):
        with pytest.raises(wg.OptionError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)


def test_a_file_cut_off_anywhere_is_refused(path):
    nn.save(path, params(), extra={"epoch": 1})
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for length in (0, 1, 7, 8, 9, 100, header - 1, header, header + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, "is empty" if length == 0 else "is truncated or damaged")
    path.write_bytes(whole + b"x")
    refused(path, "is truncated or damaged")


def test_a_file_with_a_changed_byte_is_refused_or_the_same(path):
    nn.save(path, params(), extra={"epoch": 1})
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refusals = 0
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            same(nn.load(path), params())
            assert nn.load_extra(path) == {"epoch": 1}
        except wg.OptionError:
            refusals += 1
    assert refusals > 0.99 * len(whole)


class Trap:
    """Whoever unpickles it is caught."""

    def __reduce__(self):
        return (os.mkdir, ("sprung",))


def test_a_pickle_is_refused_and_not_run(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps([Trap(), list(range(100))], protocol))
        refused(path, "is not a safetensors file but probably a pickle")
    torch.save(Trap(), path)
    refused(path, "is not a safetensors file but a zip archive, such as torch.save and numpy.savez write")
    assert not (path.parent / "sprung").exists()


def test_files_of_other_kinds_are_refused_by_name(path):
    torch.save({"weight": torch.ones(2)}, path)
    refused(path, "a zip archive, such as torch.save")
    with path.open("wb") as file:
        np.save(file, np.ones(2))
    refused(path, "a file of numpy.save")
    path.write_text("a text of more than eight letters")
    refused(path, "is not a safetensors file")
    safetensors.numpy.save_file({"weight": np.ones(2)}, path)
    refused(path, "is a safetensors file, but not written by windowgrad: its metadata has no format")
    safetensors.numpy.save_file({"weight": np.ones(2)}, path, {"format": "pt"})
    refused(path, "is a safetensors file, but not written by windowgrad: its metadata has format 'pt'")


def forged(path, arrays=None, **about):
    """A file as `save` writes it, but for some of its metadata; the checksum fits."""
    arrays = arrays or {}
    about = {"format": "windowgrad", "version": "1", "structure": '{"tuple": []}', "extra": "{}"} | about
    about.setdefault("checksum", files._checksum(arrays, about["structure"], about["extra"]))
    safetensors.numpy.save_file(arrays, path, about)


def test_a_newer_version_of_the_format_says_so(path):
    forged(path)
    same(nn.load(path), ())
    forged(path, version="2", structure="?", checksum="")
    refused(path, "has version 2 of the file format, this windowgrad reads version 1; install a newer windowgrad")
    forged(path, version="soon")
    refused(path, "is damaged")


@pytest.mark.parametrize(
    "structure",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"set": []}',
        '{"array": "missing"}',
        '{"array": []}',
        '{"tuple": 3}',
        '{"tuple": [3]}',
        '{"dict": []}',
        '{"tuple": [], "list": []}',
        '{"tuple": [' * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_structure_that_cannot_be_is_refused(path, structure):
    forged(path, structure=structure)
    with pytest.raises(wg.OptionError, match="is damaged"):
        nn.load(path)


def test_metadata_that_is_missing_or_of_another_kind_is_refused(path):
    forged(path, extra="[1]")
    with pytest.raises(wg.OptionError, match="is damaged"):
        nn.load_extra(path)
    safetensors.numpy.save_file({}, path, {"format": "windowgrad", "version": "1", "structure": json.dumps({"tuple": []})})
    refused(path, "is damaged")
