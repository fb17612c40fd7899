"""Fourier transforms in terms of three primitives, and transforms of short pieces of a signal."""
