"""A file that is not a whole, honest ONNX model is refused with one clear error, and nothing outside its folder is read."""

import os

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper, parser, save_model

from windowgrad.errors import KindError, OptionError, WindowgradError
from windowgrad.onnx import load
from windowgrad.onnx.supported import UnsupportedError

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
W = np.array([[1, 2], [3, 4]], np.float32)


def model(nodes=None, initialisers=None, inputs=(X,), outputs=(Y,), opset=17, **more):
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], name="product")] if nodes is None else nodes
    initialisers = [numpy_helper.from_array(W, "w")] if initialisers is None else initialisers
    graph = helper.make_graph(nodes, "g", inputs, outputs, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def claiming(dims, data_type=TensorProto.FLOAT, raw=None):
    tensor = numpy_helper.from_array(W, "w")
    del tensor.dims[:]
    tensor.dims.extend(dims)
    tensor.data_type, tensor.raw_data = data_type, W.tobytes() if raw is None else raw
    return tensor


def refused(source, *words, kind=WindowgradError):
    with pytest.raises(kind) as caught:
        load(source)
    for word in words:
        assert word in str(caught.value)
    return caught.value


def test_the_model_of_these_tests_is_right():
    assert load(model())(np.ones((1, 2), np.float32)).tolist() == [[4, 6]]


# --- what a graph must not say -----------------------------------------------------------------------------------------

CYCLE = [node("Add", "x b", "a"), node("Add", "a x", "b"), node("Gemm", "b w", "y")]
GRAPH = helper.make_graph([], "inner", [], [X])
BRANCHES = [node("If", "x", "y", then_branch=GRAPH, else_branch=GRAPH)]
WRONG = {
    "a cycle": (model(CYCLE), "topologically sorted, however input 'b'"),
    "nodes out of order": (
        model([node("Relu", "a", "y"), node("Gemm", "x w", "a")]),
        "however input 'a' of node",
    ),
    "an initialiser that is missing": (model(initialisers=[]), "however input 'w' of node"),
    "two values of a name": (model([node("Relu", "x", "y"), node("Relu", "x", "y")]), "'y' has been used"),
    "a value with the name of an input": (model([node("Relu", "x", "x"), node("Relu", "x", "y")]), "'x' has been used"),
    "two initialisers of a name": (model(initialisers=[numpy_helper.from_array(W, "w")] * 2), "'w' has been used"),
    "an output that nobody computes": (model([node("Relu", "x", "z")]), "'y' is not an output of any node"),
    "no outputs": (model(outputs=[]), "no outputs"),
    "an attribute of the wrong type": (model([node("LeakyRelu", "x", "y", alpha="much")]), "alpha"),
    "an attribute that is unknown": (model([node("Relu", "x", "y", beta=1.0)]), "beta"),
    "an attribute that is missing": (model([node("MaxPool", "x", "y")]), "kernel_shape"),
    "too many inputs": (model([node("Relu", "x w", "y")]), "Relu"),
    "an input that must be there": (model([helper.make_node("Conv", ["x", ""], ["y"])]), "Conv"),
    "an opset that is too old": (model(opset=6), "opset 6: must be 7 to"),
    "an opset that is too new": (model(opset=999), "opset 999: must be 7 to"),
    "a graph within a node": (model(BRANCHES), "unsupported operators: If (node 'If_0')"),
    "a dtype that is not computed with": (model(initialisers=[claiming([2, 2], TensorProto.COMPLEX64)]), "COMPLEX64"),
    "a dtype that there is not": (model(initialisers=[claiming([2, 2], 777)]), "777"),
    "an array of more than it has": (
        model(initialisers=[claiming([3, 2])]),
        "has 16 bytes, but shape (3, 2) of float32 needs 24",
    ),
    "an array of 2 GiB that is not there": (model(initialisers=[claiming([2**29])]), "needs 2147483648"),
    "an array of more than there is": (model(initialisers=[claiming([2**62, 2**62])]), "has 16 bytes"),
    "a negative size": (model(initialisers=[claiming([-2, -2])]), "none negative"),
    "an empty array of absurd sizes": (model(initialisers=[claiming([2**62, 2**62, 0], raw=b"")]), "(4611686018427387904"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_graph_that_is_wrong_is_refused(what, tmp_path):
    wrong, words = WRONG[what]
    refused(wrong, "model: ", words)
    path = tmp_path / "wrong.onnx"
    path.write_bytes(wrong.SerializeToString())
    refused(path, f"{path}: ", words)


def test_an_input_that_is_no_tensor_is_refused():
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    refused(model([node("Identity", "x", "y")], inputs=[sequence]), 'input "x": must be a tensor, not sequence', kind=KindError)


def test_one_error_lists_all_operators_that_are_missing_with_their_nodes():
    nodes = [
        node("LSTM", "x w", "a", name="memory"),
        node("Loop", "a", "b"),
        node("Odd", "b", "y", domain="own"),
    ]
    nodes += [node("LSTM", "x w", f"c{i}") for i in range(7)]
    error = refused(model(nodes), "Loop (node 'Loop_1')")
    assert "LSTM (nodes 'memory', 'LSTM_3', 'LSTM_4', 'LSTM_5', 'LSTM_6' and 3 more)" in str(error)
    assert "own.Odd (node 'Odd_2')" in str(error)
    assert isinstance(error, UnsupportedError)
    assert list(error.missing) == ["LSTM", "Loop", "own.Odd"]
    assert len(error.missing["LSTM"]) == 8


# --- functions -----------------------------------------------------------------------------------------------------------


def function(name, *nodes):
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], list(nodes), imports)


def call(name, given="a", result="b"):
    return helper.make_node(name, [given], [result], domain="own")


def with_functions(*functions):
    made = model([call("f", "x", "y")], [], functions=list(functions))
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made


def test_functions_of_a_model_are_inlined():
    net = load(with_functions(function("f", call("g", "a", "c"), call("g", "c", "b")), function("g", node("Add", "a a", "b"))))
    assert [node.op_type for node in net.graph.nodes] == ["Add", "Add"]
    assert net(np.ones((1, 2), np.float32)).tolist() == [[4, 4]]


def test_functions_that_call_themselves_or_grow_without_end_are_refused():
    refused(with_functions(function("f", call("f"))), "function 'f': calls itself")
    refused(with_functions(function("f", call("g")), function("g", call("f"))), "calls itself")
    chain = [function("f", call("f0")), *(function(f"f{i}", call(f"f{i + 1}")) for i in range(300))]
    refused(with_functions(*chain, function("f300", node("Relu", "a", "b"))), "nested more than 100 deep")
    twice = [function(f"f{i}", call(f"f{i + 1}", "a", "c"), call(f"f{i + 1}", "c", "b")) for i in range(60)]
    refused(
        with_functions(function("f", call("f0")), *twice, function("f60", node("Relu", "a", "b"))), "inlined: must be at most"
    )
    refused(with_functions(function("f", node("Relu", "a", "b")), function("f", node("Relu", "a", "b"))), "is defined twice")
    refused(with_functions(function("f", node("LSTM", "a a", "b"))), "unsupported operators: LSTM")


# --- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04" + b"x" * 40, "a zip archive"),
        (b"\x80\x04cposix\nsystem\n", "pickle, which can execute code"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\x08\x08", "has no graph"),
        (bytes(range(255, 0, -1)), "is not an ONNX file"),
    ],
)
def test_a_file_of_another_kind_is_refused(data, words, tmp_path):
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    refused(path, words, kind=OptionError)


def test_every_truncated_file_is_refused(tmp_path):
    path, data = tmp_path / "short.onnx", model().SerializeToString()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        refused(path)


def test_a_deeply_nested_file_is_refused(tmp_path):
    """A type within a type within a type: protobuf has a limit."""
    inner = b""
    for _ in range(5000):
        inner = nested(4, nested(1, inner))  # sequence_type.elem_type
    data = nested(7, nested(11, nested(2, inner)))  # graph.input.type
    path = tmp_path / "deep.onnx"
    path.write_bytes(data)
    refused(path, "is not an ONNX file")


def nested(field, content):
    size, length = b"", len(content)
    while length >= 128:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([field << 3 | 2]) + size + bytes([length]) + content


def test_a_file_over_2_gib_is_refused_unread(tmp_path):
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    refused(path, "an ONNX file has at most 2 GiB")


def test_what_is_no_regular_file_is_refused_and_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "must be a regular file")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.onnx")
    refused("a\0b", "embedded null byte")
    refused(3, "must be a path or an onnx.ModelProto, not int", kind=KindError)


# --- external data -------------------------------------------------------------------------------------------------------


def stored_outside(location, folder, offset=0, length=16, dims=(2, 2)):
    made = model(initialisers=[claiming(dims)])
    (tensor,) = made.graph.initializer
    external_data_helper.set_external_data(tensor, location, offset, length)
    tensor.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_in_the_folder_is_read(tmp_path):
    save_model(model(), tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert load(tmp_path / "m.onnx").params["w"].tolist() == W.tolist()
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "w.bin").write_bytes(b"1234" + W.tobytes())
    assert load(stored_outside("data/w.bin", folder, offset=4)).params["w"].tolist() == W.tolist()


def test_external_data_outside_the_folder_is_not_read(tmp_path):
    secret, folder = tmp_path / "secret.bin", tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    secret.write_bytes(W.tobytes())
    (folder / "link.bin").symlink_to(secret)
    (folder / "way").symlink_to(tmp_path)
    for location in ("../secret.bin", str(secret), "sub/../../secret.bin", "..\\secret.bin", "C:secret.bin", "", "sub//x", "/"):
        refused(stored_outside(location, folder), "must be a file in the folder of the model")
    for location in ("link.bin", "way/secret.bin"):
        refused(stored_outside(location, folder), "must not be reached by a symbolic link")
    refused(stored_outside("none.bin", folder), "cannot open its external data 'none.bin'")
    refused(stored_outside("sub", folder), "sub")
    os.mkfifo(folder / "pipe.bin")
    refused(stored_outside("pipe.bin", folder), "pipe.bin")


def test_claims_about_external_data_are_compared_with_the_file(tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    for offset, length, dims in ((1, 16, (2, 2)), (2**60, 16, (2, 2)), (0, 2**31, (2**29,)), (0, 2**62, (2**60,))):
        refused(stored_outside("w.bin", tmp_path, offset, length, dims), "which has 16 bytes in all")
    refused(stored_outside("w.bin", tmp_path, 0, 15), "length=15 of external data, but its shape and dtype need 16 bytes")
    refused(stored_outside("w.bin", tmp_path, -1), "must be a number of bytes")


def test_many_tensors_that_share_one_file_take_no_more_than_it_has(tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    path = stored_outside("w.bin", tmp_path)
    made = model(initialisers=[])
    made.ParseFromString(path.read_bytes())
    made.graph.initializer.append(made.graph.initializer[0])
    made.graph.initializer[1].name = "again"
    path.write_bytes(made.SerializeToString())
    refused(path, "or not as many for all tensors")


def test_a_model_in_memory_has_no_folder(tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    made = model()
    made.ParseFromString(stored_outside("w.bin", tmp_path).read_bytes())
    refused(made, "tensor 'w' is in another file: load the model by its path")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_initialisers_of_every_float_are_parameters_raw_or_not(dtype):
    w = W.astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for raw in (True, False):
        tensor = helper.make_tensor("w", kind, (2, 2), w.tobytes() if raw else w.astype(float).reshape(-1).tolist(), raw)
        found = load(model(initialisers=[tensor], inputs=[helper.make_tensor_value_info("x", kind, ["N", 2])])).params["w"]
        assert (found.dtype, found.tolist()) == (dtype, w.tolist())
        short = helper.make_tensor("w", kind, (2, 2), w.tobytes() if raw else w.astype(float).reshape(-1).tolist(), raw)
        short.dims[0] = 3
        refused(model(initialisers=[short]), "(3, 2)")


def test_the_model_that_is_given_is_not_changed():
    made = model()
    before = made.SerializeToString()
    load(made)
    assert made.SerializeToString() == before
    assert not load(made).params["w"].flags.writeable


def test_old_files_name_their_initialisers_among_the_inputs():
    value = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 2])
    net = load(model(inputs=[X, value]))
    assert [given.name for given in net.inputs] == ["x"]
    assert list(net.params) == ["w"]


def test_the_parser_of_onnx_and_its_text_form_are_models_too():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    assert load(parser.parse_model(text))(np.array([-1, 2], np.float32)).tolist() == [0, 2]
