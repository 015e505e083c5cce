"""The tape: what is recorded, what comes back, and what is refused."""

from __future__ import annotations

import threading
import tracemalloc
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest

import windowgrad as wg
from support.exact import fractions_of


def small_network(tape, kind=float):
    rng = np.random.default_rng(0)

    def whole(*shape):
        numbers = rng.integers(-4, 5, shape)
        return numbers.astype(kind) if kind is float else fractions_of(numbers)

    x = tape.leaf(whole(2, 1, 6, 6), name="x")
    w, b = tape.leaf(whole(3, 1, 3, 3), name="w"), tape.leaf(whole(3), name="b")
    return wg.sum(wg.max_pool2d(wg.conv2d(x, w, b, padding=1), 2))


def test_the_example_of_the_design():
    tape = wg.Tape()
    x0, w0, b0 = np.ones((1, 1, 4, 4)), np.ones((2, 1, 3, 3)), np.zeros(2)
    x, w, b = tape.leaf(x0, name="x"), tape.leaf(w0, name="w"), tape.leaf(b0, name="b")
    loss = wg.sum(wg.max_pool2d(wg.conv2d(x, w, b, padding=1), 2))
    grads = tape.backward(loss)
    assert grads[x] is grads["x"]
    assert grads[b].tolist() == [4, 4]
    assert {var.node.name: g.shape for var, g in grads.items()} == {"x": x0.shape, "w": w0.shape, "b": b0.shape}
    node = tape.nodes[3]
    assert (node.name, node.value.shape, node.parents, node.requires_grad) == ("conv2d", (1, 2, 4, 4), (0, 1, 2), True)


def test_each_operator_appends_one_node_under_the_name_it_is_called_by():
    tape = wg.Tape()
    x = tape.leaf(np.ones((1, 1, 4, 4)))
    y = wg.conv(x, np.ones((1, 1, 2, 2)))
    z = wg.global_avg_pool2d(wg.relu(y), keepdims=False)
    assert [(i, node.name, node.parents) for i, node in enumerate(tape.nodes)] == [
        (0, "leaf", ()),
        (1, "conv", (0,)),
        (2, "relu", (1,)),
        (3, "global_avg_pool2d", (2,)),
    ]
    assert (y.id, z.id) == (1, 3)


def test_shared_nodes_accumulate():
    tape = wg.Tape()
    x = tape.leaf(np.array([3.0]))
    y = x * x
    assert tape.backward(y * y + x + y)[x].tolist() == [4 * 27 + 1 + 6]


def test_fractions_go_through_the_same_tape_and_floats_agree_with_them():
    ours, exactly = wg.Tape(), wg.Tape()
    floats, fractions = small_network(ours), small_network(exactly, Fraction)
    assert float(floats.value) == fractions.value[()]
    g, h = ours.backward(floats), exactly.backward(fractions)
    for name in ("x", "w", "b"):
        assert all(isinstance(cell, (int, Fraction)) for cell in h[name].flat)
        assert (g[name] == h[name]).all()


def test_an_output_of_many_elements_needs_a_gradient():
    tape = wg.Tape()
    x = tape.leaf(np.arange(6.0).reshape(2, 3))
    with pytest.raises(wg.WindowError, match=r"grad: must be given, with shape \(2, 3\)"):
        tape.backward(x * 2)
    with pytest.raises(wg.WindowError, match=r"grad of shape \(3,\): must be \(2, 3\), the shape of the output"):
        tape.backward(x * 2, np.ones(3))
    assert tape.backward(x * 2, np.full((2, 3), 5.0))[x].tolist() == [[10] * 3] * 2


def test_a_gradient_that_stands_on_the_tape_itself_is_refused():
    """It would be walked as if all else were constant, and give a wrong second derivative."""
    tape = wg.Tape()
    x = tape.leaf(np.array(3.0))
    y = x * x * x
    with pytest.raises(wg.KindError, match=r"grad: Var\(0 leaf: float64\(\)\) belongs to this tape"):
        tape.backward(y, x)
    other = wg.Tape()
    slope = tape.backward(y, other.leaf(np.array(1.0), name="g"))[x]
    assert float(other.backward(slope)["g"]) == 27


def test_a_second_backward_gives_the_same():
    tape = wg.Tape()
    loss = small_network(tape)
    first, second = tape.backward(loss), tape.backward(loss)
    assert all((first[name] == second[name]).all() for name in "xwb")


def test_an_error_leaves_the_tape_as_it_was_and_names_operator_nodes_and_shapes():
    tape = wg.Tape()
    x, w = tape.leaf(np.ones((1, 3, 8, 8)), name="x"), tape.leaf(np.ones((4, 2, 3, 3)), name="w")
    before = list(tape.nodes)
    with pytest.raises(wg.WindowError) as caught:
        wg.conv2d(x, w)
    assert tape.nodes == before
    for part in (
        "weight of shape (4, 2, 3, 3)",
        "conv2d of nodes 0 x: float64(1, 3, 8, 8), 1 w: float64(4, 2, 3, 3)",
        "[conv2d(x:",
    ):
        assert part in str(caught.value)
    with pytest.raises(wg.WindowError, match=r"stride=0 .* \(in max_pool2d of nodes 0 x: float64\(1, 3, 8, 8\)\) \[max_pool2d"):
        wg.max_pool2d(x, 2, stride=0)
    assert tape.nodes == before
    with pytest.raises(ZeroDivisionError):
        wg.Tape().leaf(fractions_of(np.array([[1]]))) / fractions_of(np.array([[0]]))


def test_variables_of_two_tapes_do_not_mix():
    one, other = wg.Tape(), wg.Tape()
    x, y = one.leaf(np.ones(3)), other.leaf(np.ones(3))
    for call in (lambda: x + y, lambda: y + x, lambda: one.backward(wg.sum(y)), lambda: one.backward(wg.sum(x))[y]):
        with pytest.raises(wg.KindError, match="belongs to another tape"):
            call()


def test_what_needs_no_gradient_is_not_walked():
    tape = wg.Tape()
    x, w = tape.leaf(np.ones((1, 1, 4, 4)), requires_grad=False), tape.leaf(np.ones((1, 1, 2, 2)))
    pooled = wg.max_pool2d(x, 2)
    y = wg.conv2d(pooled, w)
    assert tape.nodes[pooled.id].backward is None
    assert not pooled.requires_grad
    assert y.requires_grad
    assert tape.nodes[y.id].backward(np.ones(y.shape), [False, True])[0] is None
    assert list(tape.backward(wg.sum(y))) != []
    with pytest.raises(KeyError, match="no such node"):
        tape.backward(wg.sum(y))[x]


def test_gradients_nobody_asked_for_are_freed_on_the_way():
    tape = wg.Tape()
    y = x = tape.leaf(np.ones(1 << 17))
    for _ in range(30):
        y = -y
    tracemalloc.start()
    g = tape.backward(y, np.ones(1 << 17))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert g[x].shape == x.shape
    assert peak < 5 * x.value.nbytes


def test_gradients_can_be_asked_for_inside_and_are_zero_where_nothing_depends():
    tape = wg.Tape()
    x, unused = tape.leaf(np.array([2.0])), tape.leaf(np.ones((2, 2)), name="unused")
    y = x * x
    grads = tape.backward(y * 3, of=[y, "unused"])
    assert grads[y].tolist() == [3]
    assert grads[unused].tolist() == [[0, 0], [0, 0]]
    assert len(grads) == 2


def test_indices_of_a_recorded_maximum_are_plain():
    tape = wg.Tape()
    x = tape.leaf(np.arange(16.0).reshape(1, 4, 4))
    y, index = wg.max_pool2d(x, 2, return_indices=True)
    assert index.tolist() == [[[5, 7], [13, 15]]]
    assert len(tape.nodes) == 2
    assert tape.backward(wg.sum(y))[x].sum() == 4


def test_names_are_unique_and_values_are_numbers():
    tape = wg.Tape()
    tape.leaf(1.0, name="x")
    with pytest.raises(wg.OptionError, match="name='x': must be a string, different from the other names"):
        tape.leaf(2.0, name="x")
    with pytest.raises(wg.KindError, match="value: must be a NumPy array, not str"):
        tape.leaf("x")
    assert len(tape.nodes) == 1


def test_a_variable_stands_beside_numpy_arrays_but_is_none():
    x = wg.Tape().leaf(np.ones(2))
    with pytest.raises(wg.KindError, match=r"or numpy\.asarray\(x\.value\)"):
        np.asarray(x)
    assert (np.ones(2) + x).value.tolist() == [2, 2]
    assert (np.ones(2) <= x).tolist() == [True, True]
    assert float(wg.sum(x).value) == 2


def test_the_table_has_a_line_for_each_node():
    tape = wg.Tape(timed=True)
    small_network(tape)
    lines = str(tape).splitlines()
    assert lines[0].split() == ["id", "op", "shape", "dtype", "parents", "bytes", "saved", "time"]
    assert [line.split()[:2] for line in lines[1:4]] == [["0", "x"], ["1", "w"], ["2", "b"]]
    assert "max_pool2d(kernel=(2, 2), stride=(2, 2))" in lines[5]
    assert "(2, 3, 6, 6)  float64  0 1 2" in lines[4]
    assert all("µs" in line for line in lines[4:])


def test_the_drawings_show_every_node_and_edge():
    tape = wg.Tape()
    small_network(tape)
    edges = [(parent, i) for i, node in enumerate(tape.nodes) for parent in node.parents]
    assert [line.strip() for line in tape.to_dot().splitlines() if "->" in line] == [f"{a} -> {b};" for a, b in edges]
    root = ElementTree.fromstring(tape.to_svg())
    tag = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{tag}rect")) == len(tape.nodes)
    assert len(root.findall(f"{tag}path")) == len(edges)
    assert ElementTree.fromstring(wg.Tape().to_svg()).tag == f"{tag}svg"


def test_threads_record_on_their_own_tapes():
    found = {}

    def work(n):
        for _ in range(20):
            tape = wg.Tape()
            x = tape.leaf(np.full((1, 4, 4), float(n)))
            found[n] = tape.backward(wg.sum(wg.avg_pool2d(x * x, 2)))[x]

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((found[n] == n / 2).all() for n in range(8))
