"""Kernels of resampling on arrays.

Every result is a sparse matrix times the input: for resizing one small matrix along each dimension,
for a grid one matrix of all places. The derivative is the transposed matrix. An infinite element
reaches only results of which it is a tap: SciPy's sparse products touch nothing else, and dense
blocks are multiplied where all numbers are finite. float16 and bfloat16 are computed in float32.
"""
