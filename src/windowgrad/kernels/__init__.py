"""The kernels: the operators on NumPy numbers, compiled by Numba.

runtime/      how kernels are compiled and kept, threads, output buffers
vector/       vectors of numbers for Numba kernels: loads, stores, arithmetic, shuffles, loops, exp and log
arrays.py     arrays of any layout and dtype as the flat arrays that kernels read and write
pool/         plans and passes that all pooling shares; max/, min/, mean/, smooth/ and lp/ hold the kernels
conv/         convolution: entry, choice of a kernel; gemm/, pointwise/ and depthwise/ hold the kernels
elementwise/  relu, padding and batch normalisation

`entry.py` of a folder has the functions that `ops` names: `<operator>_<rule>(params, *arrays)`.
"""
