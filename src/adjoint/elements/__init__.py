"""Kernels for large arrays, made from expressions."""
