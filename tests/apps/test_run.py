"""`windowgrad run`: a model on arrays in files. Errors are one line and status 2."""

import os
import pickle
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import parser

from support.command import windowgrad
from support.small_model import X, save_small
from windowgrad.onnx import load

TWO = """
<ir_version: 8, opset_import: ["" : 17]>
two (float[N] a, float[N] b) => (float[N] sum, float[N] difference) { sum = Add(a, b) difference = Sub(a, b) }"""


@pytest.fixture
def folder(tmp_path):
    save_small(tmp_path)
    onnx.save(parser.parse_model(TWO), tmp_path / "two.onnx")
    np.save(tmp_path / "a.npy", np.float32([1, 2]))
    np.save(tmp_path / "b.npy", np.float32([0.5, 4]))
    return tmp_path


def test_the_result_is_printed_with_its_dtype_and_shape(folder):
    found = windowgrad("run", "small.onnx", "--input", "x.npy", cwd=folder)
    assert (found.status, found.err) == (0, "")
    assert found.out == "y: float32(1, 1, 2)\n[[[0. 3.]]]\n"


def test_the_result_is_written_to_a_file(folder):
    found = windowgrad("run", "small.onnx", "--input", "x=x.npy", "--output", "y.npy", cwd=folder)
    assert (found.status, found.out) == (0, "y: float32(1, 1, 2) -> y.npy\n")
    y = np.load(folder / "y.npy")
    assert y.dtype == np.float32
    assert np.array_equal(y, load(folder / "small.onnx")(X))


def test_exact_results_are_printed_as_fractions_and_written_as_text(folder):
    np.save(folder / "x.npy", np.array([[["1/3", "1", "0", "1/7"]]]))
    found = windowgrad("run", "small.onnx", "--input", "x.npy", "--exact", cwd=folder)
    assert (found.status, found.out) == (0, "y: exact(1, 1, 2)\n[[[7/3 8/7]]]\n")
    found = windowgrad("run", "small.onnx", "--input", "x.npy", "--exact", "--output", "y.npy", cwd=folder)
    assert (found.status, found.out) == (0, "y: exact(1, 1, 2) -> y.npy\n")
    assert [Fraction(cell) for cell in np.load(folder / "y.npy", allow_pickle=False).flat] == [Fraction(7, 3), Fraction(8, 7)]


def test_exact_takes_floats_as_the_numbers_they_are(folder):
    np.save(folder / "x.npy", np.float32([[[0.1, 0, 0, 0]]]))
    found = windowgrad("run", "small.onnx", "--input", "x.npy", "--exact", cwd=folder)
    assert found.out == f"y: exact(1, 1, 2)\n[[[{2 * Fraction(float(np.float32(0.1)))} 0]]]\n"


def test_several_inputs_and_outputs_go_by_name(folder):
    found = windowgrad("run", "two.onnx", "--input", "b=b.npy", "--input", "a=a.npy", "--output", "sum=s.npy", cwd=folder)
    assert (found.status, found.err) == (0, "")
    assert found.out == "sum: float32(2,) -> s.npy\ndifference: float32(2,)\n[ 0.5 -2. ]\n"
    assert np.load(folder / "s.npy").tolist() == [1.5, 6.0]


def test_an_array_of_the_other_byte_order_is_the_same_array(folder):
    np.save(folder / "x.npy", X.astype(">f4"))
    assert windowgrad("run", "small.onnx", "--input", "x.npy", cwd=folder).out.endswith("[[[0. 3.]]]\n")


WRONG = {
    "no model": (["none.onnx", "--input", "x.npy"], "none.onnx: cannot be read: No such file or directory"),
    "no array": (["small.onnx", "--input", "none.npy"], "input='none.npy': there is no such file"),
    "a folder": (["small.onnx", "--input", "."], "input='.': is not a regular file"),
    "nothing given": (["small.onnx"], "0 arrays given: ['x'] of the inputs ['x'] is missing"),
    "without a name": (
        ["two.onnx", "--input", "a.npy"],
        "input='a.npy': must be name=file, where the name is one of ['a', 'b']",
    ),
    "twice": (["small.onnx", "--input", "x.npy", "--input", "x=x.npy"], "input='x=x.npy': a file for 'x' is given twice"),
    "wrong shape": (["small.onnx", "--input", "a.npy"], 'input "x" of shape (2,): must be (N, 1, 4)'),
    "wrong dtype": (
        ["small.onnx", "--input", "whole.npy"],
        'input "x" of dtype int64: must be float32, or another float',
    ),
    "objects": (["small.onnx", "--input", "objects.npy"], "input='objects.npy': must be an .npy file of numbers"),
    "pickle": (["small.onnx", "--input", "pickled.npy"], "input='pickled.npy': must be an .npy file of numbers"),
    "archive": (["small.onnx", "--input", "many.npz"], "input='many.npz': must be an .npy file of numbers"),
    "truncated": (["small.onnx", "--input", "short.npy"], "input='short.npy': must be an .npy file of numbers"),
    "empty": (["small.onnx", "--input", "empty.npy"], "input='empty.npy': must be an .npy file of numbers"),
    "damaged model": (["damaged.onnx", "--input", "x.npy"], "damaged.onnx: is not an ONNX file, or is truncated or damaged"),
    "not a number": (
        ["small.onnx", "--input", "words.npy", "--exact"],
        "input 'x': its text must be numbers such as 0.5 or 1/3",
    ),
    "text": (["small.onnx", "--input", "words.npy"], 'input "x" of dtype <U3: must be float32, or another float'),
    "no folder": (["small.onnx", "--input", "x.npy", "--output", "none/y.npy"], "output=none/y.npy: the folder"),
    "same file": (
        ["two.onnx", "--input", "a=a.npy", "--input", "b=b.npy", "--output", "sum=y.npy", "--output", "difference=./y.npy"],
        "output=['y.npy', './y.npy']: two outputs have the same file",
    ),
}


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_line_and_status_2(folder, kind):
    arguments, message = WRONG[kind]
    np.save(folder / "whole.npy", X.astype(np.int64))
    np.save(folder / "words.npy", np.array([[["one", "1", "0", "2"]]]))
    np.savez(folder / "many.npz", x=X)
    np.save(folder / "objects.npy", np.array([[[Evil()]]], dtype=object), allow_pickle=True)
    (folder / "pickled.npy").write_bytes(pickle.dumps(Evil()))
    (folder / "short.npy").write_bytes((folder / "x.npy").read_bytes()[:-4])
    (folder / "empty.npy").write_bytes(b"")
    (folder / "damaged.onnx").write_bytes((folder / "small.onnx").read_bytes()[:-40])
    found = windowgrad("run", *arguments, cwd=folder)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"windowgrad: {message}"), found.err
    assert found.err.count("\n") == 1
    assert not (folder / "executed").exists()
    assert not (folder / "y.npy").exists()
