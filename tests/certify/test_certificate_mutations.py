"""A certificate with any one number changed is rejected, or what it says is still true; mistakes in its maker are caught."""

import json
from fractions import Fraction

import numpy as np
import onnx
import pytest

from support.small_networks import exactly, points
from support.small_onnx import NETWORKS, arrays_of, below, box_of, bump, split, stored, written
from windowgrad import certify
from windowgrad.certify import boxes, certificate, linear, planes, rules
from windowgrad.certify.check import check
from windowgrad.onnx import load

CHANGES = (
    lambda x, rng: np.nextafter(x, np.inf),
    lambda x, rng: np.nextafter(x, -np.inf),
    lambda x, rng: x + rng.choice([-1e-3, 1e-3]) * max(1.0, abs(x)),
    lambda x, rng: x + rng.choice([-0.3, 0.3]),
    lambda x, rng: -x,
    lambda x, rng: x + rng.choice([-10.0, 10.0]),
)


def mutated(arrays, about, rng):
    """One number of the arrays or of the metadata changed."""
    arrays, about = {name: array.copy() for name, array in arrays.items()}, dict(about)
    kind = rng.integers(10)
    if kind == 0:
        goal = json.loads(about["property"])
        row = goal[rng.integers(len(goal))][0]
        what = rng.integers(3)
        if what == 0:
            row["bound"] = str(Fraction(row["bound"]) + Fraction(int(rng.integers(-3, 4)), 4))
        else:
            row["terms"][0][what - 1] += int(rng.integers(-2, 3))
        about["property"] = json.dumps(goal)
    elif kind == 1:
        place = int(rng.integers(64))
        about["network"] = about["network"][:place] + "g" + about["network"][place + 1 :]
    elif kind == 2:
        about["arithmetic"] = {"real": "float32", "float32": "real"}[about["arithmetic"]]
    else:
        name = sorted(arrays)[rng.integers(len(arrays))] if kind > 4 else str(rng.choice(["lo", "hi", "cuts", "cut_axes"]))
        flat = arrays[name].reshape(-1)
        place = rng.integers(flat.size)
        flat[place] = CHANGES[rng.integers(len(CHANGES))](flat[place], rng)
        return arrays, about, name
    return arrays, about, ("property", "network", "arithmetic")[kind]


def is_true(model, arrays, about, rng):
    """Whether exact outputs of corners and inner points of the box all have the property."""
    net, goal = load(model), json.loads(about["property"])
    for x in points(rng, arrays["lo"], arrays["hi"], 12):
        y = net(exactly(x)).reshape(-1)
        for clause in goal:
            if not any(sum(f * y[place] for place, f in row["terms"]) > Fraction(row["bound"]) for row in clause):
                return False
    return True


@pytest.mark.parametrize("name", ["two maxima", "padding beyond half the kernel", "residual", "split"])
def test_a_mutated_certificate_is_rejected_or_still_true(name, tmp_path):
    rng = np.random.default_rng(0)
    if name == "split":
        model, (path, network) = bump(), split(tmp_path)
    else:
        model = NETWORKS[name](1)
        lo, hi = box_of(model, 1)
        path, network = written(tmp_path, model, lo, hi, below(model, lo, hi, slack=1e-3))
    arrays, about = arrays_of(path)
    rejected = 0
    for _ in range(60):
        changed, said, what = mutated(arrays, about, rng)
        stored(path, changed, said)
        verdict = check(path, network)
        rejected += not verdict
        assert not verdict or is_true(model, changed, said, rng), what
        assert not verdict or what != "network"
    assert rejected > 20


@pytest.mark.parametrize("name", ["overlap", "two maxima"])
def test_a_box_that_a_cell_leaves_is_rejected(name, tmp_path):
    """Each claimed end moved to the wrong side of a value that the cell has."""
    model = NETWORKS[name](0)
    lo, hi = box_of(model)
    path, network = written(tmp_path, model, lo, hi, below(model, lo, hi))
    arrays, about = arrays_of(path)
    first = next(each.removesuffix("/lo") for each in sorted(arrays) if each.endswith("/lo"))
    middle = load(small(network))(exactly((lo + hi) / 2)).reshape(-1)
    for cell in range(0, len(middle), 5):
        for end, step in (("lo", 1e-9), ("hi", -1e-9)):
            changed = {each: array.copy() for each, array in arrays.items()}
            changed[f"{first}/{end}"][cell] = float(middle[cell]) + step
            stored(path, changed, about)
            assert not check(path, network)


def small(path):
    """A network up to its first node."""
    model = onnx.load(path)
    name = model.graph.node[0].output[0]
    del model.graph.node[1:]
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return model


def refused(tmp_path, names=NETWORKS, arithmetic="real", radius=0.1):
    """How many certificates of a wrong maker are rejected."""
    count = 0
    for name in names:
        model = NETWORKS[name](0)
        lo, hi = box_of(model, radius=radius)
        goal = below(model, lo, hi, arithmetic, slack=1e-6)
        result = certify.prove(load(model), lo, hi, goal, arithmetic=arithmetic, attack=False)
        if result.verdict == "holds":
            (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
            certificate.write(result, tmp_path / "net.onnx", tmp_path / "proof")
            count += not check(tmp_path / "proof", tmp_path / "net.onnx")
    return count


PADDED = ("padding beyond half the kernel", "asymmetric padding", "dilation")


def test_padding_counted_as_a_cell_is_caught(monkeypatch, tmp_path):
    right = rules.windows
    monkeypatch.setattr(rules, "windows", lambda *given: np.maximum(right(*given), 0))
    assert refused(tmp_path, PADDED) == len(PADDED)


def test_a_shifted_index_is_caught(monkeypatch, tmp_path):
    right = rules.windows
    monkeypatch.setattr(rules, "windows", lambda *given: np.where((taps := right(*given)) > 0, taps - 1, taps))
    assert refused(tmp_path, PADDED) == len(PADDED)


def test_a_plane_below_the_least_maximum_is_caught(monkeypatch, tmp_path):
    wrong = lambda cells: planes.planes(cells, planes.second(cells) - 2**-20, planes.likely(cells))  # noqa: E731  # one line
    monkeypatch.setattr(linear, "closed_form", wrong)
    assert refused(tmp_path, PADDED) == len(PADDED)


def test_weights_above_one_are_caught(monkeypatch, tmp_path):
    wrong = lambda cells: planes.planes(cells, planes.second(cells), planes.likely(cells) * (1 + 2**-52))  # noqa: E731
    monkeypatch.setattr(linear, "closed_form", wrong)
    assert refused(tmp_path, PADDED) == len(PADDED)


def test_a_missing_rounding_of_float32_is_caught(monkeypatch, tmp_path):
    monkeypatch.setattr(boxes, "UNIT_32", 0.0)
    assert refused(tmp_path, ("overlap", "dense", "mean of real cells"), "float32", radius=1e-7) == 3


def test_a_negative_with_its_ends_unswapped_is_caught(monkeypatch, tmp_path):
    right = boxes.State.affine

    def wrong(self, node):
        found = right(self, node)
        return boxes.Box(found.hi, found.lo) if node.name == "negative" else found

    monkeypatch.setattr(boxes.State, "affine", wrong)
    assert refused(tmp_path, ("dense",))
