"""What is wrong with the arguments of the array operators, and what a user is told."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

import windowgrad as wg
from support.bad_inputs import Bad, X, cells

M = np.zeros((2, 3), np.float32)
LABELS = np.array([0, 1])
FLAGS = np.array([True])

CALLS = [
    (
        "shapes that do not broadcast",
        lambda: wg.add(M, np.zeros((4, 2))),
        wg.WindowError,
        "a of shape (2, 3) and b of shape (4, 2): cannot be broadcast together,"
        " sizes 2 and 4 on axis -2 must be equal, or one of them 1"
        " [add(a: float32(2, 3), b: float64(4, 2))]",
    ),
    (
        "a list is no array",
        lambda: wg.multiply(M, [1, 2, 3]),
        wg.KindError,
        "b: must be a NumPy array, not list; try numpy.asarray(b) [multiply(a: float32(2, 3), b=[1, 2, 3])]",
    ),
    (
        "None is no number",
        lambda: wg.exp(None),
        wg.KindError,
        "x: must be a NumPy array, not NoneType; try numpy.asarray(x) [exp(x=None)]",
    ),
    (
        "a complex number",
        lambda: wg.add(M, 1j),
        wg.KindError,
        "b: must be a NumPy array, not complex; try numpy.asarray(b) [add(a: float32(2, 3), b=1j)]",
    ),
    (
        "an array of strings",
        lambda: wg.relu(np.array(["a"])),
        wg.KindError,
        "x: unsupported dtype <U1; must be bool, int8 to int64, uint8 to uint64, float16, float32,"
        " float64, or object [relu(x: <U1(1,))]",
    ),
    (
        "an integer beyond the other's dtype",
        lambda: wg.add(np.zeros(2, np.int8), 300),
        wg.OptionError,
        "b=300: does not fit into int8, the dtype it takes from the other operand [add(a: int8(2,), b=300)]",
    ),
    (
        "a number beyond every float",
        lambda: wg.multiply(10**400, M),
        wg.OptionError,
        "a=2**1328…: does not fit into float32, the dtype it takes from the other operand"
        " [multiply(a=2**1328…, b: float32(2, 3))]",
    ),
    (
        "minus of bool",
        lambda: wg.negative(FLAGS),
        wg.KindError,
        "negative: unsupported dtype bool; convert it first, for example with astype(int) [negative(x: bool(1,))]",
    ),
    (
        "difference of bools",
        lambda: wg.subtract(FLAGS, FLAGS),
        wg.KindError,
        "subtract: unsupported dtypes bool and bool; convert it first, for example with astype(int)"
        " [subtract(a: bool(1,), b: bool(1,))]",
    ),
    (
        "a fraction beside a decimal",
        lambda: wg.add(cells(Fraction(1)), cells(Decimal(1))),
        wg.KindError,
        "add: cannot compute with elements of type Decimal, Fraction: unsupported operand type(s) for +: 'Fraction' and"
        " 'decimal.Decimal' [add(a: object(1, 1), b: object(1, 1))]",
    ),
    (
        "exp of a fraction",
        lambda: wg.exp(cells(Fraction(1))),
        wg.KindError,
        "Fraction has no exp: elements must be float, Decimal, mpmath.mpf or Dual; convert each Fraction"
        " [exp(x: object(1, 1))]",
    ),
    (
        "matrices that do not meet",
        lambda: wg.matmul(M, M),
        wg.WindowError,
        "b of shape (2, 3): must have size 3 on axis -2, the size of the last axis of a of shape (2, 3)"
        " [matmul(a: float32(2, 3), b: float32(2, 3))]",
    ),
    (
        "a vector that does not meet",
        lambda: wg.matmul(M, np.zeros(2)),
        wg.WindowError,
        "b of shape (2,): must have size 3 on axis -1, the size of the last axis of a of shape (2, 3)"
        " [matmul(a: float32(2, 3), b: float64(2,))]",
    ),
    (
        "a number in a matrix product",
        lambda: wg.matmul(M, 2),
        wg.WindowError,
        "b of shape (): must have at least one axis; use multiply to scale by a number [matmul(a: float32(2, 3), b=2)]",
    ),
    (
        "batches of matrices that do not broadcast",
        lambda: wg.matmul(np.zeros((2, 3, 3)), np.zeros((4, 3, 3))),
        wg.WindowError,
        "the leading axes (2,) of a and (4,) of b: cannot be broadcast together,"
        " sizes 2 and 4 on axis -1 must be equal, or one of them 1"
        " [matmul(a: float64(2, 3, 3), b: float64(4, 3, 3))]",
    ),
    (
        "an axis that is not there",
        lambda: wg.sum(M, 2),
        wg.WindowError,
        "axis=2: must be from -2 to 1 for x of shape (2, 3) [sum(x: float32(2, 3), axis=2)]",
    ),
    (
        "an axis of a number",
        lambda: wg.sum(1.5, 0),
        wg.WindowError,
        "axis=0: x of shape () has no axes [sum(x=1.5, axis=0)]",
    ),
    (
        "an axis twice",
        lambda: wg.mean(M, (0, -2)),
        wg.WindowError,
        "axis=(0, -2): must not name an axis of x of shape (2, 3) twice [mean(x: float32(2, 3), axis=(0, -2))]",
    ),
    (
        "an axis that is no integer",
        lambda: wg.sum(M, 1.0),
        wg.KindError,
        "axis=1.0: must be an integer, not float [sum(x: float32(2, 3), axis=1.0)]",
    ),
    (
        "an axis in a string",
        lambda: wg.sum(M, "0"),
        wg.KindError,
        "axis='0': must be an integer or a tuple of integers, not str [sum(x: float32(2, 3), axis='0')]",
    ),
    (
        "keepdims that is no bool",
        lambda: wg.mean(M, 0, 1),
        wg.KindError,
        "keepdims=1: must be True or False [mean(x: float32(2, 3), axis=0, keepdims=1)]",
    ),
    (
        "the mean of no objects",
        lambda: wg.mean(np.zeros((0, 2), object), 0),
        wg.WindowError,
        "x of shape (0, 2): mean of an empty array of objects [mean(x: object(0, 2), axis=0)]",
    ),
    (
        "a shape of another size",
        lambda: wg.reshape(M, (4, 2)),
        wg.WindowError,
        "shape=(4, 2): has 8 elements, x of shape (2, 3) has 6 [reshape(x: float32(2, 3), shape=(4, 2))]",
    ),
    (
        "a shape that does not divide",
        lambda: wg.reshape(M, (4, -1)),
        wg.WindowError,
        "shape=(4, -1): x of shape (2, 3) has 6 elements, not a multiple of 4 [reshape(x: float32(2, 3), shape=(4, -1))]",
    ),
    (
        "a shape left open twice",
        lambda: wg.reshape(M, (-1, -1)),
        wg.WindowError,
        "shape=(-1, -1): must not have more than one −1 [reshape(x: float32(2, 3), shape=(-1, -1))]",
    ),
    (
        "a negative size",
        lambda: wg.reshape(M, (-2, 3)),
        wg.WindowError,
        "shape=-2 at 0: must be at least -1 [reshape(x: float32(2, 3), shape=(-2, 3))]",
    ),
    (
        "no shape",
        lambda: wg.reshape(M, None),
        wg.KindError,
        "shape=None: must be an integer or a tuple of integers, not NoneType [reshape(x: float32(2, 3), shape=None)]",
    ),
    (
        "flattening from an axis that is not there",
        lambda: wg.flatten(np.zeros(3)),
        wg.WindowError,
        "start_axis=1: must be from -1 to 0 for x of shape (3,) [flatten(x: float64(3,))]",
    ),
    (
        "too few axes to transpose",
        lambda: wg.transpose(X, (1, 0)),
        wg.WindowError,
        "axes=(1, 0): has 2 entries, x of shape (3, 8, 8) has 3 axes [transpose(x: float32(3, 8, 8), axes=(1, 0))]",
    ),
    (
        "an axis transposed twice",
        lambda: wg.transpose(M, (0, 0)),
        wg.WindowError,
        "axes=(0, 0): must not name an axis of x of shape (2, 3) twice [transpose(x: float32(2, 3), axes=(0, 0))]",
    ),
    (
        "log_softmax of a number",
        lambda: wg.log_softmax(1.0),
        wg.WindowError,
        "axis=-1: x of shape () has no axes [log_softmax(x=1.0)]",
    ),
    (
        "a condition that is not bool",
        lambda: wg.where(M, M, 0),
        wg.KindError,
        "condition: must be an array of bools, not of float32; write a comparison, such as x > 0"
        " [where(condition: float32(2, 3), a: float32(2, 3), b=0)]",
    ),
    (
        "a condition of objects",
        lambda: wg.where(cells(Fraction(1)), M, 0),
        wg.KindError,
        "condition: must be an array of bools, not of objects; write a comparison, such as x > 0"
        " [where(condition: object(1, 1), a: float32(2, 3), b=0)]",
    ),
    (
        "a condition that does not broadcast",
        lambda: wg.where(FLAGS.repeat(4), M, 0),
        wg.WindowError,
        "condition of shape (4,) and a and b, together of shape (2, 3): cannot be broadcast together,"
        " sizes 4 and 3 on axis -1 must be equal, or one of them 1"
        " [where(condition: bool(4,), a: float32(2, 3), b=0)]",
    ),
    (
        "no bounds",
        lambda: wg.clip(M),
        wg.OptionError,
        "low=None, high=None: at least one bound must be given [clip(x: float32(2, 3))]",
    ),
    (
        "a bound in a string",
        lambda: wg.clip(M, "0"),
        wg.KindError,
        "b: must be a NumPy array, not str; try numpy.asarray(b) [clip(x: float32(2, 3), low='0')]",
    ),
    (
        "a root that is not exact",
        lambda: wg.sqrt(cells(Fraction(2))),
        wg.OptionError,
        "sqrt: '2' has no exact square root; convert each Fraction to float or Decimal [sqrt(x: object(1, 1))]",
    ),
    (
        "a power of a fraction that is not exact",
        lambda: wg.power(cells(Fraction(2)), Fraction(1, 2)),
        wg.KindError,
        "Fraction has no power with exponent Fraction(1, 2): exponents must be whole; convert each Fraction"
        " [power(a: object(1, 1), b=Fraction(1, 2))]",
    ),
    (
        "a power of more digits than there is memory",
        lambda: wg.power(cells(Fraction(2, 3)), 2**63),
        wg.OptionError,
        "the exact power 9223372036854775808 of 2 bits would have more than 16777216 bits; use floats"
        " [power(a: object(1, 1), b=9223372036854775808)]",
    ),
    (
        "an integer to a negative power",
        lambda: wg.power(LABELS, -1),
        wg.OptionError,
        "b: an integer must not have a negative exponent; convert a to float [power(a: int64(2,), b=-1)]",
    ),
    (
        "an array to concatenate",
        lambda: wg.concatenate(M),
        wg.KindError,
        "arrays: must be a tuple or list of arrays, not ndarray [concatenate(arrays: float32(2, 3))]",
    ),
    (
        "nothing to stack",
        lambda: wg.stack([]),
        wg.WindowError,
        "arrays=[]: must have at least one array [stack(arrays=[])]",
    ),
    (
        "sizes that do not fit together",
        lambda: wg.concatenate([M, np.zeros((2, 4)), X], axis=1),
        wg.WindowError,
        "arrays[2] of shape (3, 8, 8): must have the sizes of arrays[0] of shape (2, 3) on every axis but axis 1"
        " [concatenate(arrays: [float32(2, 3), float64(2, 4), float32(3, 8, 8)], axis=1)]",
    ),
    (
        "an axis to concatenate along that is not there",
        lambda: wg.concatenate([M, M], axis=2),
        wg.WindowError,
        "axis=2: must be from -2 to 1 for arrays[0] of shape (2, 3)"
        " [concatenate(arrays: [float32(2, 3), float32(2, 3)], axis=2)]",
    ),
    (
        "shapes that do not stack",
        lambda: wg.stack((M, M[:1])),
        wg.WindowError,
        "arrays[1] of shape (1, 3): must be (2, 3), the shape of arrays[0] [stack(arrays: (float32(2, 3), float32(1, 3)))]",
    ),
    (
        "a new axis too far",
        lambda: wg.stack([M], 3),
        wg.WindowError,
        "axis=3: must be from -3 to 2, the new axis of arrays of rank 2 [stack(arrays: [float32(2, 3)], axis=3)]",
    ),
    (
        "something else among the arrays",
        lambda: wg.stack([M, None]),
        wg.KindError,
        "arrays[1]: must be a NumPy array, not NoneType; try numpy.asarray(arrays[1]) [stack(arrays: [float32(2, 3), None])]",
    ),
    (
        "softmax of a number",
        lambda: wg.softmax(1.0),
        wg.WindowError,
        "axis=-1: x of shape () has no axes [softmax(x=1.0)]",
    ),
    (
        "labels of another shape",
        lambda: wg.cross_entropy(M, np.array([0, 1, 2])),
        wg.WindowError,
        "labels of shape (3,): must be (2,), the shape of logits without its last axis"
        " [cross_entropy(logits: float32(2, 3), labels: int64(3,))]",
    ),
    (
        "a label that is no class",
        lambda: wg.cross_entropy(M, np.array([1, 3])),
        wg.OptionError,
        "labels: 3 at (1,), must be from 0 to 2 [cross_entropy(logits: float32(2, 3), labels: int64(2,))]",
    ),
    (
        "a negative label",
        lambda: wg.cross_entropy(M, np.array([-1, 0])),
        wg.OptionError,
        "labels: -1 at (0,), must be from 0 to 2 [cross_entropy(logits: float32(2, 3), labels: int64(2,))]",
    ),
    (
        "labels that are floats",
        lambda: wg.cross_entropy(M, LABELS.astype(float)),
        wg.KindError,
        "labels: must be integers, not float64 [cross_entropy(logits: float32(2, 3), labels: float64(2,))]",
    ),
    (
        "labels that are fractions",
        lambda: wg.cross_entropy(M, LABELS * Fraction(1, 2)),
        wg.KindError,
        "labels: must be integers, not object [cross_entropy(logits: float32(2, 3), labels: object(2,))]",
    ),
    (
        "no classes",
        lambda: wg.cross_entropy(np.zeros((2, 0)), LABELS),
        wg.WindowError,
        "logits of shape (2, 0): must have at least one class on its last axis"
        " [cross_entropy(logits: float64(2, 0), labels: int64(2,))]",
    ),
    (
        "a target of another shape",
        lambda: wg.mse(np.zeros((3, 1)), np.zeros(3)),
        wg.WindowError,
        "target of shape (3,): must be (3, 1), the shape of x, or a scalar [mse(x: float64(3, 1), target: float64(3,))]",
    ),
]
TRACED = wg.Tape().leaf(M, name="x")
CALLS += [
    (
        "the greatest of nothing",
        lambda: wg.max(np.zeros((0, 2)), 0),
        wg.WindowError,
        "x of shape (0, 2): an empty array has no greatest or least element [max(x: float64(0, 2), axis=0)]",
    ),
    (
        "an index that is not there",
        lambda: TRACED[0, 3],
        wg.errors.IndexingError,
        "index 3 on axis 1 of x of shape (2, 3): must be from -3 to 2 (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=(0, 3))]",
    ),
    (
        "an array with an index that is not there",
        lambda: TRACED[np.array([0, -5])],
        wg.errors.IndexingError,
        "index -5 on axis 0 of x of shape (2, 3): must be from -2 to 1 (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key: int64(2,))]",
    ),
    (
        "too many indices",
        lambda: TRACED[0, 0, 0],
        wg.errors.IndexingError,
        "index 0, 0, 0: has entries for 3 axes, x of shape (2, 3) has 2 (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=(0, 0, 0))]",
    ),
    (
        "… twice",
        lambda: TRACED[..., ...],
        wg.errors.IndexingError,
        "index …, …: must not have more than one … (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=(Ellipsis, Ellipsis))]",
    ),
    (
        "a mask of another shape",
        lambda: TRACED[np.array([True, False, True])],
        wg.errors.IndexingError,
        "index with bools of shape (3,) on axis 0: must be (2,), the sizes of x there"
        " (in index of nodes 0 x: float32(2, 3)) [index(x: float32(2, 3), key: bool(3,))]",
    ),
    (
        "arrays of indices that do not broadcast",
        lambda: TRACED[[0, 1], [0, 1, 2]],
        wg.WindowError,
        "index with arrays of shapes (2,), (3,): cannot be broadcast together, sizes 2 and 3 on axis -1 must be equal, or"
        " one of them 1 (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=([0, 1], [0, 1, 2]))]",
    ),
    (
        "a float as an index",
        lambda: TRACED[1.0],
        wg.KindError,
        "index 1.0 of type float: must be an integer, a slice, None, …, or a NumPy array of integers or bools"
        " (in index of nodes 0 x: float32(2, 3)) [index(x: float32(2, 3), key=1.0)]",
    ),
    (
        "a bool as an index",
        lambda: TRACED[True],
        wg.KindError,
        "index True of type bool: must be an integer, a slice, None, …, or a NumPy array of integers or bools"
        " (in index of nodes 0 x: float32(2, 3)) [index(x: float32(2, 3), key=True)]",
    ),
    (
        "floats as indices",
        lambda: TRACED[np.zeros(2)],
        wg.KindError,
        "index float64(2,): must be an integer, a slice, None, …, or a NumPy array of integers or bools"
        " (in index of nodes 0 x: float32(2, 3)) [index(x: float32(2, 3), key: float64(2,))]",
    ),
    (
        "a traced index",
        lambda: TRACED[TRACED],
        wg.KindError,
        "index Var(0 x: float32(2, 3)): must not be a traced value; use its .value"
        " (in index of nodes 0 x: float32(2, 3), 0 x: float32(2, 3)) [index(x: float32(2, 3), key: float32(2, 3))]",
    ),
    (
        "a slice with no step",
        lambda: TRACED[::0],
        wg.errors.IndexingError,
        "index slice(None, None, 0): step must not be 0 (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=slice(None, None, 0))]",
    ),
    (
        "a slice of floats",
        lambda: TRACED[:1.5],
        wg.KindError,
        "index slice(None, 1.5, None): stop must be an integer or None, not float (in index of nodes 0 x: float32(2, 3))"
        " [index(x: float32(2, 3), key=slice(None, 1.5, None))]",
    ),
    (
        "writing to a traced value",
        lambda: TRACED.__setitem__(0, 1.0),
        wg.KindError,
        "a traced value cannot be written to; make a new one, with wg.where or wg.concatenate",
    ),
    (
        "the length of a number",
        lambda: len(TRACED[0, 0]),
        wg.KindError,
        "len(x): a traced value without axes has no length",
    ),
    (
        "iterating over a number",
        lambda: iter(TRACED[0, 0]),
        wg.KindError,
        "cannot iterate over a traced value without axes",
    ),
    (
        "a traced value as integers",
        lambda: TRACED.astype(int),
        wg.KindError,
        "astype(dtype='int64'): must be a float dtype: the gradient would be lost; x.value.astype('int64') is a constant",
    ),
    (
        "a traced value as nothing known",
        lambda: TRACED.astype("floaty"),
        wg.KindError,
        "astype(dtype='floaty'): must be a dtype",
    ),
    (
        "a power that is no number",
        lambda: TRACED ** "2",
        wg.KindError,
        "b: must be a NumPy array, not str; try numpy.asarray(b) (in power of nodes 0 x: float32(2, 3))"
        " [power(a: float32(2, 3), b='2')]",
    ),
]
CASES = [Bad(f"array operators: {name}", call, error, text) for name, call, error, text in CALLS]
