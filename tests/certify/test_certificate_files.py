"""Files that are damaged, dishonest or of another kind: a clear reason, nothing executed, and bounded memory."""

import hashlib
import json
import os
import pickle
import re
import struct

import numpy as np
import onnx
import pytest

from support.small_onnx import NETWORKS, Maker, arrays_of, below, box_of, split, stored, written
from windowgrad.certify.check import check
from windowgrad.errors import WindowgradError


@pytest.fixture
def proof(tmp_path):
    model = NETWORKS["dense"](0)
    lo, hi = box_of(model)
    return written(tmp_path, model, lo, hi, below(model, lo, hi))


class Trap:
    def __reduce__(self):
        return os.system, ("touch trapped",)


CONTENTS = {
    "nothing": b"",
    "a pickle": pickle.dumps(Trap()),
    "a header longer than the file": struct.pack("<Q", 1 << 40) + b"{}",
    "no JSON": struct.pack("<Q", 4) + b"nope",
    "other arrays": struct.pack("<Q", 2) + b"{}",
    "a huge array": struct.pack("<Q", 66) + b'{"lo":{"dtype":"F64","shape":[1,999999999999],"data_offsets":[0,8]}}'[:66],
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_what_is_no_certificate_is_rejected(content, proof, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path, network = proof
    path.write_bytes(content)
    verdict = check(path, network)
    assert not verdict
    assert re.search("is not a safetensors file, or is damaged|has format None", verdict.reason)
    assert not (tmp_path / "trapped").exists()


def test_a_truncated_file_is_rejected(proof):
    path, network = proof
    whole = path.read_bytes()
    for length in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        assert not check(path, network)


def test_a_file_with_other_bytes_is_rejected_or_read(proof):
    path, network = proof
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(1200)] = rng.integers(256)
        path.write_bytes(damaged)
        check(path, network)


def with_array(name, change):
    def make(arrays, about):
        arrays[name] = change(arrays[name])

    return make


def with_text(**texts):
    return lambda arrays, about: about.update(texts)


def put(array, value):
    array = array.copy()
    array.reshape(-1)[0] = value
    return array


def row(terms="[[0, 1]]", bound='"0"'):
    return with_text(property=f'[[{{"terms": {terms}, "bound": {bound}}}]]')


PROPERTY = "property must be a list of lists of"
WRONG = [
    (with_text(format="windowgrad certificate 2"), "has format 'windowgrad certificate 2': must be 'windowgrad certificate 1'"),
    (with_text(arithmetic="float16"), "has arithmetic 'float16': must be 'real' or 'float32'"),
    (with_text(network="00"), "was made for another network: the hashes differ"),
    (with_text(property="{"), PROPERTY),
    (with_text(property="[" * 100_000), PROPERTY),
    (with_text(property="[[[]]]"), PROPERTY),
    (row(bound='"1e999999999"'), PROPERTY),
    (row(bound='"1/0"'), PROPERTY),
    (row(bound="0"), PROPERTY),
    (row(terms="[[0, 1.5]]"), PROPERTY),
    (row(terms="[[0, true]]"), PROPERTY),
    (row(terms="[[-1, 1]]"), PROPERTY),
    (row(terms="[[2, 1]]"), "speaks of a cell that the output, of 2 cells, does not have"),
    (with_text(property="[[]]"), "leaf 0: an empty clause does not follow"),
    (with_array("lo", lambda a: a[0]), "lo and hi must have the same shape"),
    (with_array("lo", lambda a: a + 1), "lo must not be above hi"),
    (with_array("hi", lambda a: put(a, np.nan)), "'hi' has a number that is not finite"),
    (with_array("0/0/w", lambda a: put(a, np.inf)), "'0/0/w' has a number that is not finite"),
    (with_array("0/0/w", lambda a: a[1:]), "0/w has shape (4, 1), must be (5, 1)"),
    (with_array("0/0/lo", lambda a: a.astype(np.int64)), "0/0/lo must be there, and be float64"),
    (lambda arrays, about: arrays.pop("0/0/t"), "0/t is missing"),
    (lambda arrays, about: arrays.pop("cuts"), "cuts must be there, and be float64"),
    (with_array("cut_axes", lambda a: a * 0), "the cut at 0.0 on axis 0 is not in its box"),
    (with_text(leaves="2"), "says that it has '2' leaves, but has 1"),
    (with_array("cut_axes", lambda a: a + 10), "the cut at 0.0 on axis 9 is not in its box"),
    (with_array("0/0/lo", lambda a: put(a, 1e9)), "a claimed box is empty"),
]


@pytest.mark.parametrize(("change", "reason"), WRONG)
def test_what_is_wrong_is_said(change, reason, proof):
    path, network = proof
    arrays, about = arrays_of(path)
    change(arrays, about)
    stored(path, arrays, about)
    verdict = check(path, network)
    assert not verdict
    assert reason in verdict.reason


def test_a_leaf_that_is_missing_is_rejected(tmp_path):
    path, network = split(tmp_path)
    arrays, about = arrays_of(path)
    for axes in (arrays["cut_axes"][:-1], np.append(arrays["cut_axes"], -1)):
        cuts = np.resize(arrays["cuts"], len(axes))
        stored(path, arrays | {"cut_axes": axes, "cuts": cuts}, about)
        assert re.search("a part has no leaf|more cuts than boxes", check(path, network).reason)


def test_a_network_that_cannot_be_read_is_an_error(proof):
    path, network = proof
    network.write_bytes(b"PK\x03\x04 and more")
    with pytest.raises(WindowgradError, match=r"net\.onnx: is not an ONNX file but a zip archive"):
        check(path, network)
    with pytest.raises(FileNotFoundError):
        check(path, network.with_name("none.onnx"))


UNSUPPORTED = [
    (lambda make: make.add("Tanh", "x"), '"Tanh_0" (Tanh): not covered; operators are Add, AveragePool'),
    (lambda make: make.add("Mul", "x", "x"), "a factor must be constant"),
    (lambda make: make.add("Add", make.weights(4), make.weights(4)), "computes with constants alone: fold them first"),
    (lambda make: make.add("Mul", "x", make.constant(np.float32([np.nan]))), "its constants must be finite numbers"),
    (lambda make: make.add("MaxPool", "x", kernel_shape=[2], pads=[2, 2]), "a window has no cell"),
    (lambda make: make.add("MaxPool", "x", kernel_shape=[2**60], pads=[2**60, 2**60]), "the checker takes at most"),
    (lambda make: make.add("Pad", "x", make.constant(np.array([0, 0, 2**40, 0, 0, 0]))), "the checker takes at most"),
    (lambda make: make.add("Mul", "x", make.constant(np.float32([3e38]))), "may overflow float32 on the box"),
]


@pytest.mark.parametrize(("node", "reason"), UNSUPPORTED)
def test_networks_that_the_checker_does_not_cover_are_rejected_by_name(node, reason, proof, tmp_path):
    """The same certificate, which says that it belongs to this network."""
    make = Maker((1, 1, 4))
    model = make.model(node(make))
    path, network = proof
    onnx.save(model, network)
    arrays, about = arrays_of(path)
    about |= {"network": hashlib.sha256(network.read_bytes()).hexdigest(), "arithmetic": "float32"}
    box = {"lo": np.zeros((1, 1, 4)), "hi": np.full((1, 1, 4), 2.0)}
    stored(path, arrays | box, about | {"property": json.dumps([[{"terms": [[0, 1]], "bound": "-1"}]])})
    verdict = check(path, network)
    assert not verdict
    assert reason in verdict.reason
