"""Whole networks beside PyTorch, ONNX Runtime and OpenVINO: ResNet-18 and MobileNet-V2, inference and a step of training.

Images of 224×224, float32, two threads, the same random weights for everybody, and a warm allocator (`allocators.py`).
Inference: `nn.compile` ("windowgrad") and the model as it is ("layers") beside PyTorch in eager mode with its batch
normalisation, `torch.compile`, ONNX Runtime and OpenVINO. A step of training is loss, gradients, new statistics and plain
gradient descent. Before anything is timed, results are compared with PyTorch's.

    python benchmarks/networks.py
    python benchmarks/networks.py --only "ResNet-18 inference, batch 1" --peers PyTorch "ONNX Runtime" --json out.json
"""

from __future__ import annotations

import argparse
import json
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import openvino
import torch
from allocators import WARM, Worker
from network_models import MODELS, as_onnx, as_torch, drawn
from timing import THREADS, Call, best
from torch.nn.functional import cross_entropy

import windowgrad as wg
from windowgrad import nn

SIDE = 224
RATE = 0.01
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    network: str
    task: str
    batch: int

    @property
    def name(self) -> str:
        return f"{self.network} {self.task}, batch {self.batch}"


CASES = [Case(network, "inference", batch) for network in MODELS for batch in (1, 16)]
CASES += [Case(network, "training", 16) for network in MODELS]


# --- inference ---------------------------------------------------------------------------------------------------


def by_onnx(model: nn.Sequential, params: Any, x: Array, y: Array) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    made = as_onnx(model, params, x.shape).SerializeToString()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return y

    return call


def by_openvino(model: nn.Sequential, params: Any, x: Array, y: Array) -> Call:
    core = openvino.Core()
    threads = torch.get_num_threads()
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    made = core.read_model(as_onnx(model, params, x.shape).SerializeToString())
    request = core.compile_model(made, "CPU", options).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(y, shared_memory=True))

    def call() -> Array:
        request.infer()
        return y

    return call


def inference(case: Case, peers: list[str]) -> dict[str, Call]:
    model = MODELS[case.network]()
    params = drawn(model, 64)
    x = np.random.default_rng(1).standard_normal((case.batch, 3, SIDE, SIDE), dtype=np.float32)
    theirs, there = as_torch(model, params).eval(), torch.from_numpy(x)
    wanted = theirs(there).detach().numpy()
    compiled = nn.compile(model, params)
    calls: dict[str, Call] = {"windowgrad": lambda: compiled(x), "layers": lambda: model(params, x)}
    calls["PyTorch"] = torch.inference_mode()(lambda: theirs(there))
    if "torch.compile" in peers:
        faster = torch.compile(theirs)
        calls["torch.compile"] = torch.inference_mode()(lambda: faster(there))
    if "ONNX Runtime" in peers:
        calls["ONNX Runtime"] = by_onnx(model, params, x, np.zeros_like(wanted))
    if "OpenVINO" in peers:
        calls["OpenVINO"] = by_openvino(model, params, x, np.zeros_like(wanted))
    for who, call in calls.items():
        found = np.asarray(call())
        assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max(), (case.name, who, np.abs(found - wanted).max())
    return calls


# --- training ----------------------------------------------------------------------------------------------------


def training(case: Case) -> dict[str, Call]:
    model = MODELS[case.network]()
    params = drawn(model, 64)
    rng = np.random.default_rng(1)
    x, labels = rng.standard_normal((case.batch, 3, SIDE, SIDE), dtype=np.float32), rng.integers(0, 1000, case.batch)
    descend = nn.sgd(RATE)
    state = descend.init(params)

    def loss(p: Any) -> tuple[Any, Any]:
        y, new = model.train(p, x)
        return wg.cross_entropy(y, labels), new

    gradients = wg.value_and_grad(loss, has_aux=True)

    def ours() -> Any:
        (value, new), grads = gradients(params)
        descend.update(new, grads, state)
        return value, grads

    theirs, there, there_labels = as_torch(model, params).train(), torch.from_numpy(x), torch.from_numpy(labels)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.0)  # the weights stay where they are: every step is the same work

    def step() -> Any:
        optimiser.zero_grad()
        loss = cross_entropy(theirs(there), there_labels)
        loss.backward()
        optimiser.step()
        return loss

    value, grads = ours()
    wanted = float(step().detach())
    assert abs(float(value) - wanted) <= 1e-4 * wanted, (float(value), wanted)
    first, right = grads[0]["weight"], next(theirs.parameters()).grad.numpy()  # it has come through all layers
    assert np.linalg.norm(first - right) <= 2e-2 * np.linalg.norm(right), np.linalg.norm(first - right) / np.linalg.norm(right)
    return {"windowgrad": ours, "PyTorch": step}


PEERS = ("PyTorch", "torch.compile", "ONNX Runtime", "OpenVINO")


def measured(case: Case, peers: list[str], rounds: int, seconds: float) -> dict[str, float]:
    calls = inference(case, peers) if case.task == "inference" else training(case)
    return best(calls, rounds, seconds)


def begin(threads: int) -> None:
    torch.set_num_threads(threads)
    wg.set_num_threads(threads)


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole networks beside PyTorch, ONNX Runtime and OpenVINO.")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help='rows with this in their name, such as "ResNet-18 inf"')
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS, help="PyTorch is always among them")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"of everybody (default {THREADS})")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="per row, for all calls together")
    parser.add_argument("--json", metavar="FILE", help="write the times, in seconds")
    options = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    for case in CASES:
        if options.only not in case.name:
            continue
        worker = Worker(WARM, begin, options.threads)
        try:
            times = worker.call(measured, case, options.peers, options.rounds, options.seconds)
        finally:
            worker.stop()
        rows[case.name] = times
        beside = ", ".join(f"{who} {1e3 * t:.1f} ms ({t / times['windowgrad']:.2f}×)" for who, t in times.items())
        print(f"{case.name}: {beside}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
