"""Proofs are written, and accepted by the checker: all geometries, both arithmetics, split boxes, planes of each row."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import windowgrad as wg
from support.small_onnx import NETWORKS, arrays_of, below, box_of, split, stored, written
from windowgrad import certify
from windowgrad.certify import certificate
from windowgrad.certify.check import check
from windowgrad.certify.check_command import command
from windowgrad.errors import KindError, OptionError
from windowgrad.onnx import load


@pytest.mark.parametrize("arithmetic", ["real", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_proof_is_accepted(name, arithmetic, tmp_path):
    for seed in range(3):
        model = NETWORKS[name](seed)
        lo, hi = box_of(model, seed)
        goal = below(model, lo, hi, arithmetic, slack=1e-6)
        verdict = check(*written(tmp_path, model, lo, hi, goal, arithmetic=arithmetic))
        assert verdict.accepted, verdict.reason
        assert (verdict.arithmetic, verdict.leaves) == (arithmetic, 1)
        np.testing.assert_array_equal([verdict.lo, verdict.hi], [lo, hi])


@pytest.mark.parametrize("name", ["two maxima", "overlap", "clipped"])
@pytest.mark.parametrize("arithmetic", ["real", "float32"])
def test_planes_chosen_for_each_row_are_accepted(name, arithmetic, tmp_path):
    model = NETWORKS[name](0)
    lo, hi = box_of(model, radius=0.3)
    goal = below(model, lo, hi, arithmetic, slack=-1e-4)  # more than the closed forms prove
    path, network = written(tmp_path, model, lo, hi, goal, arithmetic=arithmetic)
    assert any(name.endswith("rows_t") for name in arrays_of(path)[0])
    assert check(path, network)


def test_the_parts_of_a_split_box_are_accepted(tmp_path):
    verdict = check(*split(tmp_path))
    assert verdict.accepted, verdict.reason
    assert verdict.leaves > 3


def test_the_same_proof_gives_the_same_bytes(tmp_path):
    model = NETWORKS["two maxima"](0)
    lo, hi = box_of(model)
    goal = below(model, lo, hi)
    first = written(tmp_path, model, lo, hi, goal)[0].read_bytes()
    assert written(tmp_path, model, lo, hi, goal)[0].read_bytes() == first


def test_only_proofs_have_certificates(tmp_path):
    model = NETWORKS["dense"](0)
    lo, hi = box_of(model)
    result = certify.prove(load(model), lo, hi, below(model, lo, hi, slack=-2.0))
    with pytest.raises(OptionError, match="only a proof that a property holds has a certificate"):
        certificate.write(result, b"", tmp_path / "proof")
    above = certify.Property(((certify.Inequality.of({0: 1}, -2),),))
    result = certify.prove(wg.tanh, np.zeros((1, 1)), np.ones((1, 1)), above)
    with pytest.raises(KindError, match="no certificate for tanh"):
        certificate.write(result, b"", tmp_path / "proof")
    assert not (tmp_path / "proof").exists()


def test_the_command_says_what_is_proved_and_what_is_wrong(tmp_path):
    path, network = split(tmp_path)
    console = Console(file=StringIO(), width=200)
    assert command(path, network, console) == 0
    assert "accepted" in console.file.getvalue()
    arrays, about = arrays_of(path)
    stored(path, arrays, about | {"network": "0" * 64})
    assert command(path, network, console) == 1
    assert "rejected: was made for another network: the hashes differ" in console.file.getvalue()
    assert command(path, tmp_path / "none.onnx", console) == 2
    assert command(tmp_path / "none", network, console) == 2
    assert command(path, path, console) == 2
    assert "is not an ONNX file" in console.file.getvalue()
