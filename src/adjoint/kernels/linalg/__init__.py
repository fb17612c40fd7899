"""Kernels of the family `linalg`: arrays in, arrays out, on LAPACK through NumPy and SciPy."""
