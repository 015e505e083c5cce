"""Certified bounds: how many properties are proved, with which margin, in what time, by method and arithmetic.

python benchmarks/certify.py                        on networks that are trained here: max, average, padded, overlapping,
                                                    dilated, 3-D
python benchmarks/certify.py --nets FOLDER          also every NET.onnx of a folder with the .vnnlib files of FOLDER/specs
                                                    whose number of inputs is that of the network, and the same images
                                                    with larger radii (--radius)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import windowgrad as wg
from windowgrad import certify, nn
from windowgrad.certify import vnnlib
from windowgrad.certify.properties import Property

QUOTED = """quoted, not measured: Convnet_maxpool, 20 images, one thread: auto_LiRPA 0.7.1 CROWN / α-CROWN with 40 steps
  radius 0.02: verified 8 / 8, mean worst margin −0.31 / −0.10, median 6.5 / 424 ms
  radius 0.04: verified 0 / 0, mean worst margin −10.07 / −8.64, median 6.4 / 536 ms"""


class Question(NamedTuple):
    net: Any
    lo: np.ndarray[Any, Any]
    hi: np.ndarray[Any, Any]
    goal: Property


POOLS = {
    "max 2×2": nn.MaxPool((2, 2)),
    "average 2×2": nn.AvgPool((2, 2)),
    "max 3×3 s2, padding 1": nn.MaxPool((3, 3), 2, padding=1),
    "max 3×3 s2, ceil mode": nn.MaxPool((3, 3), 2, ceil_mode=True),
    "max 2×2 s2, dilation 2": nn.MaxPool((2, 2), 2, dilation=2),
    "smooth 2×2, β 4": nn.SmoothMaxPool((2, 2), beta=4.0),
}


def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images[:, None] / 16).astype(np.float32), data.target


def trained(layers: list[Any], images: Any, labels: Any, seed: int = 0) -> tuple[Any, Any]:
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(10))
    rng = np.random.default_rng(seed)
    params = model.init(rng, (1, *images.shape[1:]))
    adam = nn.adam(5e-3)
    state = adam.init(params)
    for _ in range(6):
        for batch in np.array_split(rng.permutation(len(images)), 24):
            grads = wg.grad(lambda p, b=batch: wg.cross_entropy(model(p, images[b]), labels[b]))(params)
            params, state = adam.update(params, grads, state)
    return model, params


def own_networks(count: int, radius: float) -> Iterator[tuple[str, list[Question]]]:
    """Networks trained on small images of digits, and one on volumes of two slices each."""
    images, labels = digits()
    cases = [(name, [nn.Conv(8, (3, 3), padding=1), nn.ReLU(), pool], images) for name, pool in POOLS.items()]
    volumes = np.stack([images, images[:, :, ::-1]], axis=2)
    cases.append(("3-D max 2×2×2, padding 1", [nn.Conv(6, (2, 3, 3)), nn.ReLU(), nn.MaxPool((2, 2, 2), padding=1)], volumes))
    for name, layers, data in cases:
        net = trained(layers, data[:1500], labels[:1500])
        model, params = net
        right = 1500 + np.flatnonzero(model(params, data[1500:]).argmax(axis=1) == labels[1500:])[:count]
        yield (
            f"{name}, radius {radius}",
            [
                Question(net, data[i : i + 1] - radius, data[i : i + 1] + radius, certify.label_stays(int(labels[i]), 10))
                for i in right
            ],
        )


def given_networks(folder: Path, radii: list[float]) -> Iterator[tuple[str, list[Question]]]:
    from windowgrad.onnx import load

    asked = [(path, vnnlib.read(path)) for path in sorted((folder / "specs").glob("*.vnnlib"))]
    for path in sorted(folder.glob("*.onnx")):
        net = load(path)
        shape = tuple(n if isinstance(n, int) else 1 for n in net.inputs[0].shape or ())
        found = [question for _, questions in asked for question in questions if len(question.lo) == np.prod(shape)]
        outputs = int(np.prod(net(np.zeros(shape, np.float32)).shape))
        found = [q for q in found if max(place for row in q.property.rows for place, _ in row.terms) < outputs]
        if not found:
            continue
        yield f"{path.name}, as given", [Question(net, q.lo.reshape(shape), q.hi.reshape(shape), q.property) for q in found]
        for radius in radii:
            middles = [0.5 * (q.lo + q.hi).astype(np.float32).astype(float).reshape(shape) for q in found]
            boxes = [(np.clip(m - radius, 0, 1), np.clip(m + radius, 0, 1)) for m in middles]
            yield (
                f"{path.name}, radius {radius}",
                [Question(net, *box, q.property) for box, q in zip(boxes, found, strict=True)],
            )


def measured(questions: list[Question], method: str, arithmetic: str) -> str:
    """Verified, mean worst margin, median time."""
    margins, times = [], []
    for net, lo, hi, goal in questions:
        began = perf_counter()
        result = certify.prove(net, lo, hi, goal, method=method, arithmetic=arithmetic, attack=False)
        times.append(perf_counter() - began)
        margins.append(result.margin)
    verified = sum(margin > 0 for margin in margins)
    return f"{verified:3d}/{len(margins):<3d} mean worst margin {mean(margins):+8.3f}   median {1e3 * median(times):8.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nets", type=Path)
    parser.add_argument("--radius", type=float, action="append", help="radii for --nets; default 0.02 and 0.04")
    parser.add_argument("--own-radius", type=float, default=0.03)
    parser.add_argument("--count", type=int, default=10, help="images per network that is trained here")
    options = parser.parse_args()
    rows = list(own_networks(options.count, options.own_radius)) if options.count else []
    if options.nets:
        rows += given_networks(options.nets, options.radius or [0.02, 0.04])
    for name, questions in rows:
        print(name)
        for arithmetic in certify.ARITHMETICS:
            for method in certify.METHODS[1:]:
                print(f"  {method:10s} {arithmetic:8s} {measured(questions, method, arithmetic)}", flush=True)
    print(QUOTED)


if __name__ == "__main__":
    main()
