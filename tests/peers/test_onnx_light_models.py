"""The well-known networks that come with the onnx package, whose weights are one number per layer, load and run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from windowgrad.onnx import load

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def test_these_are_all():
    assert tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("*.onnx"))) == NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_onnx_expects(name):
    """The input is that of ONNX's own runner of these tests: cells from 0 to 1 in row-major order."""
    net = load(FOLDER / f"light_{name}.onnx")
    (given,) = net.inputs
    count = np.prod(given.shape)
    x = (np.arange(count).reshape(given.shape) / count).astype(np.float32)
    wanted = numpy_helper.to_array(onnx.load_tensor(FOLDER / f"light_{name}_output_0.pb"))
    np.testing.assert_allclose(net(x), wanted, rtol=1e-3, atol=1e-7)
