"""Loaded ONNX models beside ONNX Runtime: ResNet-18, MobileNet-V2 and a U-Net, which this script exports itself.

Images of 224×224 (U-Net: 128×128), float32, two threads, one file for both, batch normalisation folded before it is written,
and a warm allocator (`allocators.py`). "nodes" is the evaluation node by node, "windowgrad" the fused steps of later calls.
Before anything is timed, these two are compared bit for bit, and with ONNX Runtime.

    python benchmarks/onnx_networks.py
    python benchmarks/onnx_networks.py --only "U-Net, batch 1" --seconds 5
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
from allocators import WARM, Worker
from network_models import MODELS, drawn
from timing import THREADS, best

import windowgrad as wg
from windowgrad import nn
from windowgrad.onnx import export, load

BATCHES = (1, 16)
SIDES = {"ResNet-18": 224, "MobileNet-V2": 224, "U-Net": 128}
WIDTHS = (32, 64, 128, 256)
Array = np.ndarray[Any, Any]


def unet(params: dict[str, Array], x: Any) -> Any:
    """Two convolutions per level: halved by max pooling on the way down, doubled and joined with the level on the way up."""

    def double(x: Any, name: str) -> Any:
        for part in "ab":
            x = wg.relu(wg.conv2d(x, params[f"{name}{part}"], params[f"{name}{part} bias"], padding=1))
        return x

    levels = []
    for level in range(len(WIDTHS)):
        x = double(wg.max_pool2d(x, 2) if level else x, f"down{level}")
        levels.append(x)
    for level in reversed(range(len(WIDTHS) - 1)):
        wide = wg.conv_transpose2d(x, params[f"up{level}"], params[f"up{level} bias"], stride=2)
        x = double(wg.concatenate([levels[level], wide], 1), f"join{level}")
    return wg.conv2d(x, params["last"], params["last bias"])


def unet_params() -> dict[str, Array]:
    shapes: dict[str, tuple[int, ...]] = {"last": (2, WIDTHS[0], 1, 1)}
    before = 3
    for level, width in enumerate(WIDTHS):
        shapes |= {f"down{level}a": (width, before, 3, 3), f"down{level}b": (width, width, 3, 3)}
        before = width
    for level, (width, wider) in enumerate(pairwise(WIDTHS)):
        shapes |= {
            f"up{level}": (wider, width, 2, 2),
            f"join{level}a": (width, 2 * width, 3, 3),
            f"join{level}b": (width, width, 3, 3),
        }
    rng = np.random.default_rng(0)
    params = {}
    for name, shape in shapes.items():
        ins = shape[0] if name.startswith("up") else int(np.prod(shape[1:]))
        params[name] = (rng.standard_normal(shape) * np.sqrt(2 / ins)).astype(np.float32)
        params[f"{name} bias"] = rng.standard_normal(shape[1] if name.startswith("up") else shape[0]).astype(np.float32) / 10
    return params


def measured(network: str, batch: int, threads: int, rounds: int, seconds: float) -> dict[str, float]:
    shape = (batch, 3, SIDES[network], SIDES[network])
    if network in MODELS:
        model = MODELS[network]()
        proto = export(*nn.fold(model, drawn(model, 64)), shape)
    else:
        proto = export(unet, unet_params(), shape)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    net, fast = load(proto), load(proto)
    node_by_node = net(x)
    fast(x)
    assert fast(x).tobytes() == node_by_node.tobytes(), network
    theirs = session.run(None, {net.inputs[0].name: x})[0]
    assert np.abs(theirs - node_by_node).max() <= 1e-4 * np.abs(theirs).max(), network
    calls = {
        "windowgrad": lambda: fast(x),
        "nodes": lambda: [step for step in net.steps(x) if False],
        "ONNX Runtime": lambda: session.run(None, {net.inputs[0].name: x}),
    }
    return best(calls, rounds, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Loaded ONNX models beside ONNX Runtime.")
    parser.add_argument(
        "--only", default="", metavar="SUBSTRING", help='rows with this in their name, such as "U-Net, batch 1"'
    )
    parser.add_argument("--threads", type=int, default=THREADS, help=f"of everybody (default {THREADS})")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="per row, for all calls together")
    options = parser.parse_args()
    for network in SIDES:
        for batch in BATCHES:
            name = f"{network}, batch {batch}"
            if options.only not in name:
                continue
            worker = Worker(WARM, wg.set_num_threads, options.threads)
            try:
                times = worker.call(measured, network, batch, options.threads, options.rounds, options.seconds)
            finally:
                worker.stop()
            beside = ", ".join(f"{who} {1e3 * t:.1f} ms ({t / times['windowgrad']:.2f}×)" for who, t in times.items())
            print(f"{name}: {beside}", flush=True)


if __name__ == "__main__":
    main()
