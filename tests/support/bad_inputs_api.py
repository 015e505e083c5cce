"""What is wrong beyond windows: lists that hold themselves, classes, nodes, seeds, steps, files, and what a user is told."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import windowgrad as wg
from support.bad_inputs import Bad, X
from windowgrad import nn
from windowgrad.errors import DivisionError, MissingError

RECURSIVE: list[Any] = []
RECURSIVE.append(RECURSIVE)
MANY = np.zeros((1,) * 33)
VOID = np.zeros(3, "V4")


class Silent:
    """Its repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError


class Shaped:
    """It has a shape and a dtype, and they are none."""

    shape = dtype = None

    def __repr__(self) -> str:
        return "Shaped()"


def tape() -> wg.Tape:
    made = wg.Tape()
    made.leaf(1.0, name="x")
    return made


def adam(step: Any) -> Any:
    w = {"w": np.ones(2)}
    return nn.adam(0.1).update(w, w, {"step": step, "mean": w, "square": w})


ARRAYS = [
    Bad(
        "a list that holds itself as an option",
        lambda: wg.max_pool2d(X, RECURSIVE),
        wg.WindowError,
        "kernel_size=([[[[…]]]],): has 1 entry for 2 axes [max_pool2d(x: float32(3, 8, 8), kernel_size=[[[[[…]]]]])]",
    ),
    Bad(
        "a list that holds itself as an array",
        lambda: wg.relu(RECURSIVE),
        wg.KindError,
        "x: must be a NumPy array, not list; try numpy.asarray(x) [relu(x=[[[[[…]]]]])]",
    ),
    Bad(
        "a list that holds itself as an argument of a gradient",
        lambda: wg.grad(lambda x: x)(RECURSIVE),
        wg.KindError,
        "([[[[…]]]],): is nested too deeply, or contains itself",
    ),
    Bad(
        "a list that holds itself as parameters",
        lambda: nn.sgd(0.1).update(RECURSIVE, RECURSIVE, {}),
        wg.KindError,
        "params=[[[[[…]]]]]: is nested too deeply, or contains itself",
    ),
    Bad(
        "a list that holds itself in a file",
        lambda: nn.save("never-made", RECURSIVE),
        wg.KindError,
        "params or extra: is nested too deeply, or contains itself",
    ),
    Bad(
        "a class as an array",
        lambda: wg.max_pool2d(np.ndarray, 2),
        wg.KindError,
        "x: must be a NumPy array, not the class ndarray; pass an instance"
        " [max_pool2d(x=<class 'numpy.ndarray'>, kernel_size=2)]",
    ),
    Bad(
        "a class as a weight",
        lambda: wg.conv2d(X, np.ndarray),
        wg.KindError,
        "weight: must be an array, not the class ndarray; write numpy.asarray(...)"
        " [conv2d(x: float32(3, 8, 8), weight=<class 'numpy.ndarray'>)]",
    ),
    Bad(
        "a class into a layer",
        lambda: nn.ReLU()({}, np.ndarray),
        wg.KindError,
        "ReLU(): x: must be an array, not the class ndarray; write numpy.asarray(...)",
    ),
    Bad(
        "a class as a number",
        lambda: wg.add(int, 1.0),
        wg.KindError,
        "a: must be a NumPy array, not the class int; pass an instance [add(a=<class 'int'>, b=1.0)]",
    ),
    Bad(
        "a shape that is none",
        lambda: wg.max_pool2d(Shaped(), 2),
        wg.KindError,
        f"x: must be a NumPy array, not {__name__}.Shaped; try numpy.asarray(x) [max_pool2d(x=Shaped(), kernel_size=2)]",
    ),
    Bad(
        "an argument whose repr fails",
        lambda: wg.max_pool2d(X, Silent()),
        wg.KindError,
        "kernel_size=<Silent> on axis 0: must be an integer, not Silent"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=<Silent>)]",
    ),
    Bad(
        "void arrays in a loss",
        lambda: wg.mse(VOID, VOID),
        wg.KindError,
        "x: unsupported dtype |V4; must be bool, int8 to int64, uint8 to uint64, float16, float32, "
        "float64, or object [mse(x: |V4(3,), target: |V4(3,))]",
    ),
    Bad(
        "a number beside a void array",
        lambda: wg.add(VOID, 1),
        wg.KindError,
        "a: unsupported dtype |V4; must be bool, int8 to int64, uint8 to uint64, float16, float32, "
        "float64, or object [add(a: |V4(3,), b=1)]",
    ),
    Bad(
        "padding of an empty array to a size that no array has",
        lambda: wg.pad(np.ones((0, 2)), (10**30,)),
        wg.WindowError,
        "output of shape (0, 2000000000000000000000000000002): too large for an array"
        " [pad(x: float64(0, 2), padding=(1000000000000000000000000000000,))]",
    ),
    Bad(
        "labels beyond 64 bits",
        lambda: wg.cross_entropy(np.ones((2, 3)), np.array([10**30, 1], dtype=object)),
        wg.OptionError,
        "labels: must be from 0 to 2, one does not fit into 64 bits [cross_entropy(logits: float64(2, 3), labels: object(2,))]",
    ),
    Bad(
        "a division by an exact zero",
        lambda: wg.divide(np.array([Fraction(1)]), 0),
        DivisionError,
        "divide: cannot compute with elements of type Fraction, int: Fraction(1, 0) [divide(a: object(1,), b=0)]",
    ),
    Bad(
        "a decimal that signals",
        lambda: wg.avg_pool1d(np.array([Decimal("sNaN"), Decimal(1)]), 2),
        wg.OptionError,
        "avg_pool: cannot compute with elements of type Decimal: [<class 'decimal.InvalidOperation'>]"
        " [avg_pool1d(x: object(2,), kernel_size=2)]",
    ),
]

SHAPES = [
    Bad(
        "as many axes as no array has",
        lambda: wg.pool_out_shape(range(10**8), 2),
        wg.WindowError,
        "spatial=range(0, 100000000): has 100000000 entries, an array has at most 64 axes"
        " [pool_out_shape(spatial=range(0, 100000000), kernel_size=2)]",
    ),
    Bad(
        "a lone kernel for a function that has no 1d form",
        lambda: wg.pool_out_shape((5, 5), 2),
        wg.KindError,
        "kernel_size=2: must be a tuple with one entry per axis; write (2, 2) for two axes"
        " [pool_out_shape(spatial=(5, 5), kernel_size=2)]",
    ),
    Bad(
        "a shape that is a number",
        lambda: wg.geometry.Sliding((3,)).out_shape(7),
        wg.KindError,
        "shape=7: must be a tuple of integers, not int",
    ),
    Bad(
        "a place that is no place",
        lambda: wg.geometry.Sliding((3,)).taps(None, (5,)),
        wg.KindError,
        "output=None: must be a tuple of integers, not NoneType",
    ),
    Bad(
        "a shape of more axes than the window",
        lambda: wg.geometry.Sliding((3,)).taps((0,), (5, 5)),
        wg.WindowError,
        "shape=(5, 5): has 2 axes, must have 1, one per axis of the window",
    ),
    Bad(
        "a derivative of more axes than an array has",
        lambda: wg.jacobian(lambda x: x)(MANY),
        wg.WindowError,
        "the Jacobian of shape (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …) has 66 axes (those of the result, then of the "
        "argument): an array has at most 64",
    ),
]

DERIVATIVES = [
    Bad(
        "a node that is not there",
        lambda: tape().var(5),
        MissingError,
        "5: no such node; must be a variable, an id or a name",
    ),
    Bad(
        "a name that is not there",
        lambda: tape().backward("y"),
        MissingError,
        "'y': no such node; must be a variable, an id or a name",
    ),
    Bad(
        "an array as the key of a gradient",
        lambda: tape().backward("x")[np.ones(2)],
        MissingError,
        "array([1., 1.]): no such node; must be a variable, an id or a name",
    ),
    Bad(
        "gradients of a number",
        lambda: tape().backward("x", of=5),
        wg.KindError,
        "of=5: must be a list of variables, ids or names, not int",
    ),
    Bad(
        "an array as the name of a leaf",
        lambda: tape().leaf(1.0, name=np.ones(2)),
        wg.OptionError,
        "name=array([1., 1.]): must be a string, different from the other names on the tape",
    ),
    Bad(
        "an array as requires_grad",
        lambda: tape().leaf(1.0, requires_grad=np.ones(2)),
        wg.KindError,
        "requires_grad=array([1., 1.]): must be True or False",
    ),
    Bad("an array as timed", lambda: wg.Tape(timed=np.ones(2)), wg.KindError, "timed=array([1., 1.]): must be True or False"),
    Bad(
        "argnums None",
        lambda: wg.grad(lambda x: x, None),
        wg.KindError,
        "argnums=None: must be an integer or a tuple of integers",
    ),
    Bad(
        "argnums None of a Jacobian",
        lambda: wg.jacobian(lambda x: x, None),
        wg.KindError,
        "argnums=None: must be an integer or a tuple of integers",
    ),
    Bad(
        "a seed that is a string",
        lambda: wg.check_grads(lambda x: x, 1.0, seed="x"),
        wg.KindError,
        "seed='x': must be an integer, not str",
    ),
    Bad(
        "a negative seed",
        lambda: wg.check_grads(lambda x: x, 1.0, seed=-1),
        wg.WindowError,
        "seed=-1: must not be negative",
    ),
    Bad(
        "a tolerance that is a string",
        lambda: wg.check_grads(lambda x: x, 1.0, tolerance="x"),
        wg.OptionError,
        "tolerance='x': must be None or a finite, non-negative number",
    ),
    Bad(
        "a duration as a node",
        lambda: tape().var(np.timedelta64(0)),
        MissingError,
        "np.timedelta64(0): no such node; must be a variable, an id or a name",
    ),
    Bad(
        "gradients of cells that are no numbers",
        lambda: wg.check_grads(lambda x: x, np.array([None, None])),
        wg.KindError,
        "primals: unsupported elements of type NoneType; must be real numbers",
    ),
    Bad(
        "a key that Python does not print",
        lambda: wg.grad(lambda x: x)({10**5000: "a"}),
        wg.KindError,
        "primals[0][2**16609…]: must be a NumPy array, not str; try numpy.asarray(primals[0][2**16609…]); "
        "every leaf of an argument must be a number or an array",
    ),
    Bad(
        "a structure that Python does not print",
        lambda: wg.jvp(lambda x: x, ({10**5000: 1.0},), (1.0,)),
        wg.WindowError,
        "tangents: must have the same structure as primals: <PyTreeSpec>, not (*,)",
    ),
    Bad(
        "a record that is none",
        lambda: wg.ops.OPS["max_pool"].forward((10**5000,), X),
        wg.KindError,
        "params=(2**16609…,): must be MaxParams for max_pool",
    ),
    Bad(
        "gradients at infinity",
        lambda: wg.check_grads(lambda x: x, np.inf),
        wg.GradientError,
        "f: ⟨g, J·dx⟩ of jvp and of finite differences differ: np.float64(-0.016609573669127884) and np.float64(nan)",
    ),
    Bad(
        "a value under differentiation in an array of objects",
        lambda: wg.jvp(lambda x: wg.sum(np.frompyfunc(lambda n: x * n, 1, 1)(np.arange(2))), (1.0,), (1.0,)),
        wg.KindError,
        "an object array with elements of type Pushed: the gradient would be lost; "
        "apply functions of wg to each Pushed itself [sum(x: object(2,))]",
    ),
    Bad(
        "a result that is an array of values under differentiation",
        lambda: wg.vjp(lambda x: np.frompyfunc(lambda n: x * n, 1, 1)(np.arange(2)), 1.0),
        wg.KindError,
        "an object array with elements of type Var: the gradient would be lost; "
        "apply functions of wg to each Var itself; every leaf of an argument must be a number or an array",
    ),
]

NETWORKS = [
    Bad("a step that is a string", lambda: adam("x"), wg.KindError, "state[\"step\"]='x': must be an integer, not str"),
    Bad("a step before the first", lambda: adam(-1), wg.WindowError, 'state["step"]=-1: must not be negative'),
    Bad(
        "a step beyond counting",
        lambda: adam(2**53),
        wg.OptionError,
        'state["step"]=9007199254740992: must be less than 9007199254740992',
    ),
    Bad(
        "gradients that are strings",
        lambda: nn.sgd(0.1).update({"w": np.ones(2)}, {"w": np.array(["a", "b"])}, {}),
        wg.KindError,
        "grads['w']: must be an array of numbers like params, not of dtype <U1",
    ),
    Bad(
        "gradients in rows of different lengths",
        lambda: nn.sgd(0.1).update(np.ones(2), (2, (1, 1)), {}),
        wg.KindError,
        "grads=(2, (1, 1)): must be an array of numbers, not tuple",
    ),
    Bad(
        "a learning rate beyond floats",
        lambda: nn.sgd(10**400),
        wg.OptionError,
        "learning_rate=2**1328…: must be finite and not negative",
    ),
    Bad(
        "an array as the dtype of parameters",
        lambda: nn.Linear(3).init(np.random.default_rng(0), (5,), np.ones(2)),
        wg.KindError,
        "dtype=array([1., 1.]): must be float16, float32 or float64",
    ),
    Bad(
        "an input that no array is",
        lambda: nn.Flatten().summary((1, 10**5000)),
        wg.WindowError,
        "in_shape=2**16609… on axis 1: too large for an array",
    ),
    Bad(
        "a path with a zero byte",
        lambda: nn.load("\0"),
        wg.OptionError,
        "path='\\x00': must be a file name: embedded null byte",
    ),
    Bad(
        "an integer of too many digits in a file",
        lambda: nn.save("never-made", {"n": 10**5000}),
        wg.OptionError,
        "params or extra: cannot be written as JSON: Exceeds the limit (4300 digits) for integer string conversion; "
        "use sys.set_int_max_str_digits() to increase the limit",
    ),
]


def foreign(package: str) -> Any:
    """An array of a package that need not be installed: known by the name of its module."""
    return type("Array", (), {"__module__": f"{package}.core", "shape": (4, 4), "dtype": np.dtype(float)})()


def hinted(package: str, hint: str) -> Bad:
    text = f"x: must be a NumPy array, not {package}.core.Array; {hint} [max_pool2d(x: float64(4, 4), kernel_size=2)]"
    return Bad(f"an array of {package}", lambda: wg.max_pool2d(foreign(package), 2), wg.KindError, text)


FOREIGN = [
    hinted("xarray", "use x.data, the array inside"),
    hinted("zarr", "use dask.array.from_zarr(x) to compute lazily, or x[...] to read it into memory"),
    hinted("h5py", "use dask.array.from_array(x) to compute lazily, or x[...] to read it into memory"),
    hinted("pandas", "call x.to_numpy()"),
    hinted("cupy", "call cupy.asnumpy(x)"),
    hinted("elsewhere", "try numpy.asarray(x)"),
]

CASES = FOREIGN + ARRAYS + SHAPES + DERIVATIVES + NETWORKS
